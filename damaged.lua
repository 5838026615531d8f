local P = rille.placement("cpu", {0, 1})
local x = rille.full({2, 1 << 12}, 1234.5678, {placement = P, sbp = "S(0)"})
local y = rille.full({1 << 12}, 8765.4321, {placement = P, sbp = "B"})
local want, both = x:sum():item(), y:sum():item()
local function damage(value, rank)
  return io.popen(("perl damage.pl %d %s"):format(rille.workers()[rank + 1].pid, value)):read("l")
end
for k, ranks in ipairs{{}, {0}, {0, 1}} do
  rille.snapshot{k}
  rille.recover() -- its digests are there
  x:copy_(rille.zeros({2, 1 << 12}, {placement = P, sbp = "S(0)"}))
  for _, rank in ipairs(ranks) do assert(damage(1234.5678, rank) == "damaged" and damage(8765.4321, rank) == "damaged") end
  local good, err = pcall(rille.recover)
  print(#ranks, good and err[1] == k or err, x:sum():item() == want, y:sum():item() == both)
  if not good then break end
end
