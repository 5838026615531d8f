local P = rille.placement("cpu", {0, 1})
local w = rille.ones({8, 8}, {placement = P, sbp = "S(1)"})
local step = rille.graph(function(x) return x:matmul(w):to_global{placement = P, sbp = "B"} end)
local x = rille.ones({4, 8}, {placement = P, sbp = "B"})
for _ = 1, 3 do step(x) end
local s = step:stats()
step:trace("trace.json")
step(x)
print(s.devices[1].bytes_in, s.devices[1].busy > 0, s.step_time > 0, io.open("trace.json"):read("a"):find("matmul") ~= nil)
