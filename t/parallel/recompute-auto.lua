-- recompute-auto.lua - tests recompute = "auto" (actors/session/planner/fit.c, actors/plan/rewrite/recompute.c).
--
-- The search keeps all values if they fit in memory and keeping them is fastest. Otherwise it recomputes parts of
-- stages. Recomputation must not change bits, and no device may exceed the memory limit.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local WIDTH <const>, LAYERS <const>, PIECES <const>, STAGES <const> = 16, 4, 8, 4

-- Trains stages of LAYERS layers each. dropout: probability, nil: none; rows: number of rows per micro-batch. Returns
-- {loss, gradient} and the compiled step.
local function trained(kind, options, dropout, rows)
  rille.manual_seed(3)
  local on, layers = {}, {}
  for s = 1, STAGES do
    on[s] = rille.placement(kind, {s - 1})
    for i = 1, LAYERS do
      layers[#layers + 1] = nn.Linear(WIDTH, WIDTH)
      layers[#layers]:to_global{placement = on[s], sbp = "B"}
    end
  end
  options.micro_batches = PIECES
  local step = rille.graph(function(x)
    for i, layer in ipairs(layers) do
      if i > 1 and (i - 1) % LAYERS == 0 then x = x:to_global{placement = on[(i - 1) // LAYERS + 1], sbp = "B"} end
      x = layer(x):gelu()
      if dropout then x = x:dropout(dropout) end
    end
    return tap_backward(x:square():mean())
  end, options)
  local loss = step(rille.randn({(rows or 2) * PIECES, WIDTH}, {placement = on[1]}))
  return kind == "cpu" and {loss:item(), layers[1].weight.grad:totable()}, step
end

local charts = {}
local function meta(memory, recompute)
  local key = memory .. tostring(recompute)
  if not charts[key] then
    local _, step = trained("meta", {schedule = {memory = memory}, recompute = recompute})
    charts[key] = step:chart()
  end
  return charts[key]
end

tap.group("memory", function()
  local kept = meta(1, false)
  local tried = {0.3, 0.35, 0.5, 0.75, 1, 2, 4}
  for i, memory in ipairs(tried) do
    if not tap.share() then goto next end
    local name = ("%g of 1F1B's memory: "):format(memory)
    local chart, last = meta(memory, "auto"), i > 1 and meta(tried[i - 1], "auto").planned.time or math.huge
    tap.ok(chart.activations <= memory * kept.activations_1f1b + 1, name .. "activations fit",
      ("%d of %d"):format(chart.activations, kept.activations_1f1b))
    tap.ok(chart.planned.time <= last, name .. "no slower than with less memory", ("%g after %g"):format(chart.planned.time, last))
    local good, alone = pcall(meta, memory, false)
    if good then tap.ok(chart.planned.time <= alone.planned.time, name .. "no slower than without recompute", ("%g, %g"):format(chart.planned.time, alone.planned.time))
    else tap.ok(tostring(alone):find("the least is", 1, true), name .. "no plan without recompute meets the limit", alone) end
    ::next::
  end
  if not tap.share() then return end
  tap.ok(meta(0.5, "auto").planned.time < 0.6 * meta(0.5, false).planned.time, "with half the memory, recomputing is faster than waiting")
  local both = math.min(meta(0.75, false).planned.time, meta(0.75 * kept.activations_1f1b, true).planned.time)
  tap.ok(meta(0.75, "auto").planned.time < 0.95 * both, "partial recompute is faster than none or full", both)
  tap.ok(meta(0.3, "auto").again > 0.8 and meta(0.75, "auto").again < 0.6 and meta(4, "auto").again == 0, "a chart reports the recomputed share")
  tap.is(meta(4, "auto").planned.time, meta(4, false).planned.time, "with much memory nothing is recomputed")
  tap.fails(function() meta(0.001, "auto") end, {"memory = 0.001", "the least is", "recompute-auto.lua:"}, "memory that no plan meets")
end)

-- Checks devices with several stages: the share of recomputed values may differ between the stages of a device.
tap.group("the least memory of several stages per device", function()
  local dealt = dofile("t/lib/steps/dealt.lua")
  local function place(d) return rille.placement("meta", {d}) end
  local function chart(devices, memory, recompute)
    local weight = tap.list(devices, function(d) return rille.ones({WIDTH, WIDTH}, {placement = place(d), requires_grad = true}) end)
    local step = rille.graph(function(x)
      for i, d in ipairs(devices) do x = x:to_global{placement = place(d), sbp = "B"}:matmul(weight[i]):relu():matmul(weight[i]):tanh() end
      x:mean():backward()
    end, {micro_batches = PIECES, schedule = {memory = memory}, recompute = recompute})
    step(rille.ones({2 * PIECES, WIDTH}, {placement = place(devices[1])}))
    return step:chart()
  end
  for _, devices in ipairs{dealt(2, 2), dealt(3, 2), dealt(2, 2, true), dealt(4, 2, true), dealt(4, 1)} do
    if not tap.share() then goto next end
    local name = table.concat(devices, " ") .. ": "
    local function least(recompute)
      return tonumber(tostring(select(2, pcall(chart, devices, 0.001, recompute))):match("the least is (%d+) bytes"))
    end
    local some = least("auto")
    tap.ok(some <= math.min(least(false), least(true)), name .. "the least with auto is at most that of none or full recompute", some)
    tap.is(chart(devices, some, "auto").activations, some, name .. "the least has a plan")
    tap.fails(function() chart(devices, some - 1, "auto") end, {"the least is " .. some}, name .. "a byte less is refused")
    ::next::
  end
end)

-- Largest accepted ratio of a plan's time to the time of a plan with a smaller memory limit. A larger limit also
-- tries the budgets of smaller limits. But its search for the nodes to recompute may start from another choice, and
-- may therefore end with a slower plan.
local NEARLY <const> = 1.005

tap.group("more memory makes no step slower", function()
  for _, rows in ipairs{2, 64} do
    if not tap.share() then goto next end
    local last, most = math.huge, 1
    for k = 0, 9 do
      local _, step = trained("meta", {schedule = {memory = 0.3 + 0.1 * k}, recompute = "auto"}, nil, rows)
      local time = step:chart().planned.time
      most, last = math.max(most, time / last), math.min(last, time)
    end
    tap.ok(most <= NEARLY, ("shares of 1F1B's memory, %d rows"):format(rows), most)
    ::next::
  end
  for _, recompute in ipairs{false, true, "auto"} do
    if not tap.share() then goto next end
    local function limited(limit) return select(2, trained("meta", {schedule = "auto", memory_limit = limit, recompute = recompute}, nil, 64)) end
    local least = math.tointeger(tostring(select(2, pcall(limited, 1))):match("the least is (%d+) bytes"))
    local last, most = math.huge, 1
    for k = 0, 8 do
      local time = limited(least + k * least // 3):chart().planned.time
      most, last = math.max(most, time / last), math.min(last, time)
    end
    tap.ok(most <= NEARLY, ("limits, recompute = %s"):format(recompute), most)
    ::next::
  end
end)

local pipeline = dofile("t/lib/steps/stages.lua")

tap.group("recomputed acts belong to their own stage", function()
  for _, again in ipairs{true, "auto"} do
    local good = true
    for _, s in ipairs(pipeline({0, 1, 2, 3}, 8, {memory = 0.5}, {recompute = again}):chart().planned.spans) do
      good = good and (not s.stage or not s.micro_batch or s.stage == s.device - 1)
    end
    tap.ok(good, ("recompute = %s: every act is on the device of its stage"):format(again))
  end
end)

tap.case("values that only backward needs", function()
  local on, weight = {}, {}
  for d = 1, 3 do
    on[d] = rille.placement("meta", {d - 1})
    weight[d] = rille.empty({WIDTH, WIDTH}, {placement = on[d], requires_grad = true})
  end
  local function within(memory)
    local step = rille.graph(function(x)
      for d = 1, 3 do x = x:to_global{placement = on[d], sbp = "B"}:matmul(weight[d]:transpose(0, 1)):gelu():matmul(weight[d]):gelu() end
      x:square():sum():backward()
    end, {micro_batches = PIECES, schedule = {memory = memory}, recompute = "auto"})
    step(rille.empty({PIECES, WIDTH}, {placement = on[1]}))
    return step
  end
  local _, why = pcall(within, 1e-6)
  local step = within(tonumber(tostring(why):match("the least is (%d+) bytes")))
  local forward, good = 0, true
  for _, s in ipairs(step:chart().planned.spans) do
    if s.device == 3 and s.what == "forward" then forward = forward + 1 end
    good = good and (not s.stage or not s.micro_batch or s.stage == s.device - 1)
  end
  tap.is(forward, 0, "the last stage has no forward acts: nothing reads the loss")
  tap.ok(good, "every act is on the device of its stage")
end)

-- Returns three things: the most bytes that a device holds, the bits, and the estimated time.
local function limited(limit, recompute)
  local function options() return {memory_limit = limit, schedule = "auto", recompute = recompute} end
  local bits, step = trained("cpu", options())
  local _, reckoned = trained("meta", options())
  local most = tap.most(step:stats().devices, function(d) return d.peak_memory end)
  return most, bits, reckoned:chart().planned.time
end

tap.group("memory_limit bounds all memory of a device", function()
  local want = trained("cpu", {})
  for _, recompute in ipairs{false, "auto"} do
    if not tap.share() then goto next end
    local _, why = pcall(limited, 1, recompute)
    local least = tonumber(tostring(why):match("limit 1; the least is (%d+) bytes, on cpu:%d, with %d+ %% idle"))
    tap.ok(least and tostring(why):find("largest tensors: .*recompute%-auto.lua:%d+"), "if no plan meets a limit, the error names the least limit, its bubble and lines", why)
    local last, much = math.huge, (limited(1 << 30, recompute))
    for k = 0, 4 do
      local limit = least + (much - least) * k // 4
      local held, bits, time = limited(limit, recompute)
      local name = ("recompute %s, %d bytes: "):format(recompute, limit)
      tap.ok(held <= limit, name .. "no device holds more than the limit", held)
      tap.is(bits, want, name .. "the same bits")
      tap.ok(time <= NEARLY * last, name .. "no slower than with less memory", ("%g after %g"):format(time, last))
      last = math.min(last, time)
    end
    ::next::
  end
end)

tap.group("bits", function()
  local want = trained("cpu", {})
  for _, memory in ipairs{0.3, 0.5, 1, 2} do
    if tap.share() then tap.is((trained("cpu", {schedule = {memory = memory}, recompute = "auto"})), want, ("%g of 1F1B's memory"):format(memory)) end
  end
  tap.is((trained("cpu", {recompute = "auto"})), want, "with no limit")
  for name, options in tap.sorted{["with a fixed schedule"] = {memory_limit = 1 << 20}, ["with offload"] = {offload = rille.placement("cpu", {4, 5, 6, 7})},
    ["with zero"] = {zero = 3}} do
    options.recompute = "auto"
    options.schedule = options.memory_limit and "gpipe" or {memory = 0.5}
    if tap.share() then tap.is((trained("cpu", options)), want, name) end
  end
  tap.is((trained("cpu", {schedule = {memory = 0.35}, recompute = "auto"}, 0.5)), (trained("cpu", {}, 0.5)), "with dropout: the same elements")
  tap.fails(function() trained("cpu", {recompute = "often"}) end, {"recompute", "auto", "often"}, "an unknown word for recompute")
  tap.fails(function() trained("cpu", {recompute = 1}) end, {"graph: recompute", "auto", "1"}, "a number for recompute")
  tap.fails(function() trained("cpu", {recompute = "auto", auto_parallel = true}) end, {"recompute", "auto_parallel"}, "with a planner")
end)

tap.done()
