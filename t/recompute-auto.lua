-- Tests of actors/session/twice.c: recompute = "auto" keeps all where that fits and is fastest, and computes again where
-- memory asks for it; the same bits, and the memory that was asked for.
local rille = require "rille"
local tap = dofile("t/tap.lua")
local nn = rille.nn

local WIDTH <const>, LAYERS <const>, PIECES <const>, STAGES <const> = 16, 4, 8, 4

-- Stages of LAYERS layers each: {loss, gradient}, the compiled step.
local function trained(kind, options)
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
    end
    local loss = x:square():mean()
    loss:backward()
    return loss
  end, options)
  local loss = step(rille.randn({2 * PIECES, WIDTH}, {placement = on[1]}))
  return kind == "cpu" and {loss:item(), layers[1].weight.grad:totable()}, step
end

local function meta(memory, recompute)
  local _, step = trained("meta", {schedule = {memory = memory}, recompute = recompute})
  return step:chart()
end

tap.group("memory", function()
  local kept = meta(1, false)
  local last = math.huge
  for _, memory in ipairs{0.3, 0.35, 0.5, 0.75, 1, 2, 4} do
    local name = ("%g of what 1F1B holds: "):format(memory)
    local chart = meta(memory, "auto")
    tap.ok(chart.activations <= memory * kept.activations_1f1b + 1, name .. "it holds no more",
      ("%d of %d"):format(chart.activations, kept.activations_1f1b))
    tap.ok(chart.planned.time <= last, name .. "and is no slower than with less", ("%g after %g"):format(chart.planned.time, last))
    local good, alone = pcall(meta, memory, false)
    if good then tap.ok(chart.planned.time <= alone.planned.time, name .. "nor than where all is kept", ("%g, %g"):format(chart.planned.time, alone.planned.time))
    else tap.ok(tostring(alone):find("the least is", 1, true), name .. "which nothing meets where all is kept", alone) end
    last = chart.planned.time
  end
  tap.ok(meta(0.5, "auto").planned.time < 0.6 * meta(0.5, false).planned.time, "half the memory is better spent on computing again than on waiting")
  tap.is(meta(4, "auto").planned.time, meta(4, false).planned.time, "with much memory nothing is computed again")
  tap.fails(function() meta(0.001, "auto") end, {"memory = 0.001", "the least is", "recompute-auto.lua:"}, "memory that nothing can meet")
end)

tap.group("bits", function()
  local want = trained("cpu", {})
  for _, memory in ipairs{0.3, 0.5, 1, 2} do
    tap.is((trained("cpu", {schedule = {memory = memory}, recompute = "auto"})), want, ("%g of what 1F1B holds"):format(memory))
  end
  tap.is((trained("cpu", {recompute = "auto"})), want, "with no limit")
  tap.fails(function() trained("cpu", {recompute = "often"}) end, {"recompute", "auto", "often"}, "another word")
  tap.fails(function() trained("cpu", {recompute = "auto", auto_parallel = true}) end, {"recompute", "auto_parallel"}, "with a planner")
end)

tap.done()
