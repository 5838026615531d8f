-- acts.lua - returns a function that lists the acts of a step's last run, read from the step's trace. An act is a
-- table of name, phase, device, and the times at which it begins (`from`) and ends (`to`), microseconds.
local EVENT <const> = '"name":"([^"]+)","cat":"(%w+)","ph":"X","ts":([%d.]+),"dur":([%d.]+),"pid":%d+,"tid":(%d+)'
return function(step)
  local path, acts = os.tmpname(), {}
  step:trace(path)
  for line in io.lines(path) do
    local name, phase, ts, dur, device = line:match(EVENT)
    if name then
      acts[#acts + 1] = {name = name, phase = phase, device = math.tointeger(device), from = ts + 0, to = ts + dur}
    end
  end
  os.remove(path)
  return acts
end
