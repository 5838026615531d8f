-- casts.lua - checks that casts of variables run in groups before the operators that read them, on GPUs that compile
-- kernels (actors/plan/rewrite/hoist.c). Checks that results equal those of a step without a plan, and that an
-- updated value is cast after its update. For t/cuda/cuda.sh.

local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

-- Returns the plan and, as text, the number of casts in each task that consists of casts. A task with one cast may
-- cast a gradient.
local function casts(step, device)
  local list, text = {}, tostring(step:plan{physical = true})
  for name in text:gmatch("\n *%d+ +(cast[ x%d]*)  +cuda:" .. (device or 0) .. " ") do
    list[#list + 1] = tonumber(name:match("^cast x (%d+)") or 1)
  end
  return table.concat(list, " "), text
end

-- ---- tests of casts that the planner moves into groups ----

-- Draws small integers. Their sums have the same bits in any order, and halves represent them exactly.
local function whole(shape, how) return rille.randint(-1, 2, shape, how):to("f32") end

-- Trains one layer per placement for two steps. options: options of rille.graph; nil: trains without a plan. Returns
-- losses and parameters as text, and the step.
local function train(places, options)
  rille.manual_seed(3)
  local layers, parameters = {}, {}
  for i, place in ipairs(places) do
    local how = {placement = place, sbp = "B"}
    layers[i] = {place = place, w = whole({6, 6}):to_global(how):detach():requires_grad_()}
    layers[i].b = whole({6}):to_global(how):detach():requires_grad_()
    table.move({layers[i].w, layers[i].b}, 1, 2, #parameters + 1, parameters)
  end
  local opt = optim.SGD(parameters, {lr = 1})
  local function forward(x)
    for _, l in ipairs(layers) do
      local y = x:to_global{placement = l.place, sbp = "S(0)"}:matmul(l.w)
      x = (y + l.b:to(y.dtype)):clamp(-1, 1)
    end
    return x
  end
  local function run(x)
    local y = rille.autocast("bf16", forward, x)
    return tap_update(opt, y:to("f32"):sum())
  end
  local step = options and rille.graph(run, options) or run
  local losses = {}
  for i = 1, 2 do
    local x = whole({4, 6}):to("bf16"):to_global{placement = places[1], sbp = "S(0)"}
    losses[i] = ("%a"):format(step(x):item())
  end
  for _, p in ipairs(parameters) do losses[#losses + 1] = ("%a"):format(p:to("f64"):abs():sum():item()) end
  return table.concat(losses, " "), step
end

local function places(n, ...)
  local list, of = {}, {}
  for i, ranks in ipairs{...} do of[i] = rille.placement("cuda", ranks) end
  for i = 1, n do list[i] = of[(i - 1) * #of // n + 1] end
  return list
end

local cases = {
  {"twelve casts form one task", {6, {0}}, {}, "12"},
  {"26 casts form groups of 24 and 2", {13, {0}}, {}, "24 2"},
  {"each of two devices casts its own copies", {5, {0, 1}}, {}, "10"},
  {"sliced updates (ZeRO 2) leave the group of casts as it is", {5, {0, 1}}, {zero = 2}, "10"},
  {"each stage casts its own variables", {6, {0}, {1}}, {}, "6"},
  {"variables are cast once for all micro-batches", {5, {0}}, {micro_batches = 2}, "10 1"},
  {"in a pipeline, variables are cast once for all micro-batches", {6, {0}, {1}}, {micro_batches = 2}, "6"},
}
for _, case in ipairs(cases) do
  local name, where, options, want = table.unpack(case)
  tap.group(name, function()
    local plain = train(places(table.unpack(where)))
    local planned, step = train(places(table.unpack(where)), options)
    local list, plan = casts(step)
    tap.is(planned, plain, name .. ": losses and variables equal those of the unplanned step, bit by bit")
    tap.ok(list == want, name .. ": each task has the expected number of casts", plan)
  end)
end

-- ---- tests of casts that the planner must not move ----

tap.group("casts of updated variables", function()
  local at = {placement = rille.placement("cuda", {0}), sbp = "B"}
  local function run(planned)
    rille.manual_seed(4)
    local v, x = {}, whole({5, 7}):to_global(at)
    for i = 1, 4 do v[i] = whole({5, 7}):to_global(at):detach():requires_grad_() end
    local opt = optim.SGD({v[2], v[3]}, {lr = 1})
    local function halves(i) return v[i]:to("bf16"):cumsum(0) end
    local function body(a)
      local before = halves(1) + halves(2)
      local loss = (a * v[2] * v[3]):sum()
      loss:backward(); opt:step(); opt:zero_grad()
      return before:to("f32"):sum(), (halves(2) + halves(3) * halves(4)):to("f32"):sum()
    end
    local step, seen = planned and rille.graph(body) or body, {}
    for i = 1, 3 do
      for _, y in ipairs{step(x + i)} do seen[#seen + 1] = ("%a"):format(y:item()) end
    end
    return table.concat(seen, " "), step
  end
  local planned, step = run(true)
  local list, plan = casts(step)
  tap.is(planned, (run(false)), "a cast after an update reads the updated value")
  tap.ok(list == "3 1 1", "three casts run before the updates, and two after their updates", plan)
end)

tap.group("the size limit of a group", function()
  local at, v = {placement = rille.placement("cuda", {0}), sbp = "B", dtype = "bf16"}, {}
  for i = 1, 3 do v[i] = rille.ones({3 << 20}, at) end
  local step = rille.graph(function()
    local sum = 0
    for _, x in ipairs(v) do sum = sum + x:to("f32"):sum() end
    return sum
  end)
  tap.is(step():item(), 3.0 * 3 * (1 << 20), "casts of large variables have the right values")
  local list, plan = casts(step)
  tap.ok(list == "2 1", "two casts fit a group's size limit, and three do not", plan)
end)
tap.done()
