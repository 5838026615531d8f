local x = rille.ones({2})
rille.snapshot{"note", {1}}
local before = x * 2
x:copy_(rille.zeros({2}))
local seed = rille.rand({1}):item()
local note = rille.recover()
print(x:sum():item(), before:sum():item(), note[1], note[2][1], rille.rand({1}):item() == seed, #rille.workers())
