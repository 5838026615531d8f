local P = rille.placement("cpu", {0, 1, 2})
local x = rille.rand({3 * 1031, 771}, {placement = P, sbp = "S(0)"})
local function all() return x:sum():item() .. x[{{1000, 1100}}]:sum():item() .. x[{{2500, 2600}}]:sum():item() end
local want = all()
rille.snapshot{1}
for _, k in ipairs{2, 3, 1} do
  for _ = 1, 20 do (x[{{0, 1}}] * 2):sum():item() end -- the copy is on its way meanwhile
  os.execute(("sleep 1; kill -9 %d"):format(rille.workers()[k].pid))
  local good, err = pcall(function() while true do x:sum():item() end end)
  assert(not good and rille.is_lost(err), err)
  rille.recover()
  io.write(tostring(all() == want), " ")
  rille.snapshot{1}
end
print(#rille.workers())
