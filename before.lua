local P = rille.placement("cpu", {0, 1})
local x = rille.full({2, 1 << 12}, 0, {placement = P, sbp = "S(0)"})
local opt = rille.optim.SGD(rille.nn.Linear(2, 2):parameters(), {lr = 1})
local function damage(value) -- in the memory of each host
  for rank = 0, arg[1] - 1 do
    assert(io.popen(("perl damage.pl %d %s"):format(rille.workers()[rank + 1].pid, value)):read("l") == "damaged")
  end
end
for k = 1, 3 do
  x:copy_(rille.full({2, 1 << 12}, 1234.5678 * k, {placement = P, sbp = "S(0)"}))
  opt.lr = k
  rille.snapshot({k}, {keep = 2})
end
rille.recover() -- its digests are there
x:copy_(rille.zeros({2, 1 << 12}, {placement = P, sbp = "S(0)"}))
damage(1234.5678 * 3)
local note, why = rille.recover()
local want = rille.tensor(1234.5678 * 2):item()
print(note[1], opt.lr, x:min():item() == want and x:max():item() == want, why:match("the snapshot is damaged") or why)
print(rille.recover()[1], select("#", rille.recover()))
damage(1234.5678 * 2)
print(pcall(rille.recover))
for _, keep in ipairs{3, 0, "2"} do print(pcall(rille.snapshot, {}, {keep = keep})) end
print(pcall(rille.recover, {workers = "2"}))
print(pcall(rille.snapshot, {print}))
