local P = rille.placement("cpu", {0, 1})
local x = rille.ones({4}, {placement = P, sbp = "S(0)"})
print(pcall(function() return rille.zeros({1 << 40}, {placement = P, sbp = "S(0)"}):sum():item() end))
print(x:sum():item(), #rille.workers())
