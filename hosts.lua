local P = rille.placement("cpu", {0, 1, 2, 3})
local w = rille.ones({8, 8}, {placement = P, sbp = "S(1)"})
local step = rille.graph(function(x) return x:matmul(w):to_global{placement = P, sbp = "B"} end)
local x = rille.ones({4, 8}, {placement = P, sbp = "S(0)"})
for _ = 1, 3 do step(x) end
step:trace("trace.json")
step(x)
local s, acts, count = step:stats(), {0, 0, 0, 0}, 0
for _, d in ipairs(s.devices) do io.write(d.device, " ", d.bytes_in, " ", tostring(d.busy > 0), "; ") end
local trace = require"rille.json".decode(io.open("trace.json"):read("a"))
for _, e in ipairs(trace.traceEvents) do
  if e.ph == "X" then
    acts[e.tid + 1] = acts[e.tid + 1] + 1
    assert(e.ts >= -1e6 and e.ts + e.dur < 60e6, "a time that is none of the run's")
  end
end
for _, a in ipairs(step:actors()) do
  assert(a.state == "done" and a.begun == a.acts and a.line == "hosts.lua:3", a.name)
  acts[tonumber(a.device:match("%d"))+ 1] = acts[tonumber(a.device:match("%d")) + 1] - 1
end
for i = 1, 4 do count = count + math.abs(acts[i]) end
local chart = step:chart()
for _, run in ipairs{chart.planned, chart.measured} do
  local seen = {}
  for _, span in ipairs(run.spans) do seen[span.device] = true end
  assert(#run.devices == 4 and #seen == 4, "a chart of other devices")
end
local _, parts = tostring(step:plan()):gsub("plan: ", "")
print(count, s.hosts, parts, trace.otherData.hosts, require"rille.show.actors"(step:actors(), 100):match("actors(.*)\n"))
