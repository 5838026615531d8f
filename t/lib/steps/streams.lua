-- streams.lua - checks the trace of a step that offloads. Each stream of device async:0 must have its own track in
-- the trace, and the acts on one track must not overlap.

local on, path = rille.placement("async", {0}), os.tmpname()
local weight = {}
for i = 1, 4 do weight[i] = rille.randn({8, 8}, {placement = on}):requires_grad_(true) end
local step = rille.graph(function(x)
  for _, w in ipairs(weight) do x = x:matmul(w):relu() end
  x:sum():backward()
  return x
end, {offload = rille.placement("cpu", {0})})
step(rille.randn({8, 8}, {placement = on}))
step:trace(path)
local track, acts, ends = {}, {}, {}
for _, e in ipairs(rille.json.load(path).traceEvents) do
  local key = e.pid .. ":" .. (e.tid or "")
  if e.name == "thread_name" then track[e.args.name] = key end
  if e.ph == "X" then
    assert(e.ts >= (ends[key] or 0) - 0.002, e.name .. " begins before the previous act has ended")
    acts[key], ends[key] = (acts[key] or 0) + 1, e.ts + e.dur
  end
end
os.remove(path)
for _, name in ipairs {"cpu:0", "async:0", "async:0 in", "async:0 out"} do assert(acts[track[name]], "no acts of " .. name) end
assert(track["async:0"] ~= track["async:0 in"] and not track["async:0 move"], "other tracks")
