local P = rille.placement("cpu", {0, 1})
local x = rille.ones({4, 8}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(a) return (a * 2):to_global{placement = P, sbp = "B"}:sum() end)
for _ = 1, 3 do assert(step(x):item() == 64) end
step:trace("trace.json")
step(x)
local n = {0, 0}
for _, e in ipairs(require"rille.json".decode(io.open("trace.json"):read("a")).traceEvents) do
  if e.ph == "X" then
    n[e.tid + 1] = n[e.tid + 1] + 1
    assert(e.ts > -60e6 and e.ts < 60e6, "a clock of another host")
  end
end
rille.snapshot{1}
x:copy_(x * 2)
rille.snapshot{2}
print(rille.recover()[1], n[1] > 0 and n[2] > 0, rille.workers()[2].heartbeat < 5)
