-- pipeline.lua - tests that placements form a pipeline whose stages work at the same time, and that credits limit how
-- far ahead a stage may run.
--
-- Kernels are slowed by sleeps, so every act of an operator takes equally long on any machine.

local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local first, second = rille.placement("cpu", {0}), rille.placement("cpu", {1})
local PIECES <const>, SLEEP <const> = 8, 0.01

-- ---- forward alone: stage 2 works on micro-batch k while stage 1 works on micro-batch k + 1 ----

local w1 = rille.eye(8, {placement = first})
local w2 = rille.eye(8, {placement = second})
local x = rille.randn({4 * PIECES, 8}, {placement = first})

local function forward(pieces)
  return rille.graph(function(a)
    return a:matmul(w1):to_global{placement = second, sbp = "B"}:matmul(w2)
  end, {micro_batches = pieces})
end

local acts_of = dofile("t/lib/steps/acts.lua")

-- Returns, by device, the acts of an operator as {begin, end} in seconds, in order of time.
local function events_of(step, name)
  local by_device = {[0] = {}, [1] = {}}
  for _, a in ipairs(acts_of(step)) do
    if a.name == name then table.insert(by_device[a.device], {a.from * 1e-6, a.to * 1e-6}) end
  end
  return by_device
end

-- Returns the seconds during which both an event of a and an event of b run.
local function overlap(a, b)
  local sum = 0
  for _, i in ipairs(a) do
    for _, j in ipairs(b) do sum = sum + math.max(0, math.min(i[2], j[2]) - math.max(i[1], j[1])) end
  end
  return sum
end

local threads = {}
for _, d in ipairs((x:matmul(w1):to_global{placement = second, sbp = "B"}:totable() and rille.devices())) do
  threads[d.thread] = true
end
local two_threads = threads[0] and threads[1]

tap.group("stages overlap", function()
  if not two_threads then return tap.ok(true, "two stages # SKIP there is one device thread") end
  local step = forward(PIECES)
  tap.near(step(x):totable(), x:totable(), "a pipeline of two unit matrices returns its input")
  rille._slow_op("matmul", SLEEP)
  local best, both, whole = math.huge, 0, true
  for _ = 1, 8 do
    step(x)
    local stats = step:stats()
    best = math.min(best, stats.step_time / stats.ideal)
    local acts = events_of(step, "matmul")
    whole = whole and #acts[0] == PIECES and #acts[1] == PIECES
    both = math.max(both, overlap(acts[0], acts[1]) / (PIECES * SLEEP))
    if best <= 1.05 * (PIECES + 1) / PIECES then break end
  end
  rille._slow_op("matmul", 0)
  tap.ok(best <= 1.05 * (PIECES + 1) / PIECES, "m micro-batches take (m + 1) / m of the ideal time, within 5 %",
    ("%.3f of it, (m + 1) / m is %.3f"):format(best, (PIECES + 1) / PIECES))
  tap.ok(whole, "a trace has every micro-batch on both devices")
  tap.ok(both >= 0.8 * (PIECES - 1) / PIECES, "the trace shows both devices busy at the same time",
    ("%.0f %% of the time"):format(100 * both))
end)

-- ---- training: schedules ----

local function train(schedule)
  rille.manual_seed(2)
  local a, b = nn.Linear(8, 8), nn.Linear(8, 4)
  a:to_global{placement = first, sbp = "B"}
  b:to_global{placement = second, sbp = "B"}
  local parameters = {a.weight, a.bias, b.weight, b.bias}
  local opt = optim.AdamW(parameters, {lr = 1e-2})
  local data = rille.randn({2 * PIECES, 8}, {placement = first})
  local target = rille.randn({2 * PIECES, 4}, {placement = second})
  local step = tap.training(opt, function(i, o)
    return b(a(i):gelu():to_global{placement = second, sbp = "B"}):mse_loss(o)
  end, {micro_batches = PIECES, schedule = schedule})
  local losses = tap.list(4, function() return step(data, target):item() end)
  local weights = tap.list(parameters, function(p) return p:totable() end)
  return {losses, weights}
end

tap.group("schedules", function()
  local piped = train("1f1b")
  local waits = train("gpipe")
  tap.is(piped, waits, "1f1b and gpipe give the same bits")
end)

-- ---- credits: the number of micro-batches between forward and backward on a stage ----

local STAGES <const> = 4

local function four_stages(schedule)
  local layer, on = {}, {}
  for s = 1, STAGES do
    on[s] = rille.placement("cpu", {s - 1})
    layer[s] = nn.Linear(8, 8)
    layer[s]:to_global{placement = on[s], sbp = "B"}
  end
  local step = rille.graph(function(x, y)
    for s = 1, STAGES do x = layer[s](x:to_global{placement = on[s], sbp = "B"}):gelu() end
    return tap_backward(x:mse_loss(y))
  end, {micro_batches = PIECES, schedule = schedule})
  return step, rille.randn({2 * PIECES, 8}, {placement = on[1]}), rille.randn({2 * PIECES, 8}, {placement = on[STAGES]})
end

-- Returns, by stage, the largest number of registers of a forward result, read from the plan's text ("f32{2, 8} x4"
-- has 4 registers).
local function registers(step)
  local most = tap.list(STAGES, function() return 1 end)
  for line in tostring(step:plan()):gmatch("[^\n]+") do
    local device = line:match("cpu%[(%d)%]")
    if device and line:find("; forward") and not line:find("^ *%d+ +box") then
      local s = device + 1
      for n in line:gmatch("} x(%d+)") do most[s] = math.max(most[s], math.tointeger(n)) end
    end
  end
  return most
end

-- Returns, by stage, the largest number of micro-batches that are in flight at one time: forward has begun, and
-- backward has not ended. The numbers are read from a trace.
local function ahead(step)
  local events = tap.list(STAGES, function() return {} end)
  for _, a in ipairs(acts_of(step)) do
    local forward = a.name:find("gelu") ~= nil
    -- true: acts of forward, or of the product with gelu's derivative, which is in backward
    if forward or (a.phase ~= "forward" and a.name:find("%f[%a]mul$")) then
      table.insert(events[a.device + 1], {forward and a.from or a.to, forward and 1 or -1})
    end
  end
  local most = {}
  for s, list in ipairs(events) do
    table.sort(list, function(p, q) return p[1] < q[1] or (p[1] == q[1] and p[2] < q[2]) end)
    local n = 0
    most[s] = 0
    for _, e in ipairs(list) do
      n = n + e[2]
      most[s] = math.max(most[s], n)
    end
    assert(#list == 2 * PIECES and n == 0, "one forward and one backward act per micro-batch")
  end
  return most
end

tap.group("credits", function()
  local losses = {}
  for _, case in ipairs{{"1f1b", 1}, {{lag = 2}, 2}, {"gpipe", nil}} do
    local schedule, lag = case[1], case[2]
    local name = type(schedule) == "table" and "lag 2" or schedule
    rille.manual_seed(4)
    local step, x, y = four_stages(schedule)
    local want = tap.list(STAGES, function(s) return lag and math.min(PIECES, lag * (STAGES - s) + 1) or PIECES end)
    losses[#losses + 1] = step(x, y):item()
    tap.is(registers(step), want, name .. ": a stage has L (p - 1 - s) + 1 registers for values that backward reads")
    local within, most = true, {0, 0, 0, 0}
    for _ = 1, 10 do
      step(x, y)
      for s, n in ipairs(ahead(step)) do
        within = within and n <= want[s]
        most[s] = math.max(most[s], n)
      end
    end
    tap.ok(within, name .. ": no stage is further ahead than its registers allow", table.concat(most, " "))
  end
  tap.is({losses[2], losses[3]}, {losses[1], losses[1]}, "all schedules give the same loss")
end)

tap.done()
