-- early-updates.lua - tests the positions of updates in a compiled step. An update must come right behind its gradient,
-- but behind all readers of the old values, and behind all tasks that check data. If the step finds NaN, has
-- micro-batches or uses two devices, all updates must come last. Weights must have the bits of a step that has all updates
-- last.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local WIDTH <const>, ROWS <const>, LAYERS <const> = 320, 8, 4

-- Returns a chain of layers whose weights are too large to be updated in groups. tied: the first and the last layer
-- share their weight.
local function chain(tied)
  rille.manual_seed(1)
  local layers = tap.list(LAYERS, function() return nn.Linear(WIDTH, WIDTH, {bias = false}) end)
  if tied then layers[LAYERS].weight = layers[1].weight end
  return nn.Sequential(table.unpack(layers))
end

-- Runs steps of the optimiser, each with a check of the labels. Returns the tasks of the last step by name, in order,
-- and the sums of the weights.
local function run(optimizer, options, tied)
  local model = chain(tied)
  local opt = rille.optim[optimizer](model:parameters(), {lr = 0.1})
  local x, labels = rille.ones{ROWS, WIDTH}, rille.arange(ROWS)
  local step = rille.graph(function(a, y)
    local loss = model(a):cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, options)
  for _ = 1, 3 do step(x, labels):item() end
  local path = os.tmpname()
  step:trace(path)
  local events, tasks = rille.json.decode(tap.read(path)).traceEvents, {}
  os.remove(path)
  table.sort(events, function(p, q) return (p.ts or 0) < (q.ts or 0) end)
  for _, e in ipairs(events) do
    if e.ph == "X" then tasks[#tasks + 1] = e.name end
  end
  local function broken() return step(x, labels + WIDTH):item() end
  return tasks, tap.list(model:parameters(), function(p) return p:totable() end), broken, model
end

local function first(tasks, pattern)
  for i, name in ipairs(tasks) do
    if name:find(pattern) then return i end
  end
end

local function last(tasks, pattern)
  for i = #tasks, 1, -1 do
    if tasks[i]:find(pattern) then return i end
  end
end

for _, case in ipairs{{"SGD", "^sgd"}, {"AdamW", "^adamw"}} do
  local optimizer, update = table.unpack(case)
  tap.group(optimizer, function()
    local early, weights, broken, model = run(optimizer)
    local late, same = run(optimizer, {check = "nan"})
    local pieces = run(optimizer, {micro_batches = 2})
    tap.ok(first(early, update) < last(early, "^contract"), "the first update comes before the last gradient", table.concat(early, " "))
    tap.ok(first(early, update) > last(early, "^cross_entropy_rows"), "it comes behind the check of the labels")
    tap.ok(first(late, update) > last(late, "^contract"), "with check = \"nan\", updates come last")
    tap.ok(first(pieces, update) > last(pieces, "^contract"), "with micro-batches, updates come last")
    tap.is(weights, same, "the order does not change a bit of the weights")
    tap.fails(broken, {"cross_entropy: "}, "an invalid label is found")
    tap.is(tap.list(model:parameters(), function(p) return p:totable() end), weights, "and leaves all weights as they were")
  end)
end

tap.group("a weight with two readers", function()
  local early, weights = run("SGD", nil, true)
  local _, same = run("SGD", {check = "nan"}, true)
  tap.ok(first(early, "^sgd") < last(early, "^contract"), "updates of other weights come early")
  tap.is(weights, same, "its update waits for both readers")
end)

tap.group("two devices", function()
  local place = rille.placement("cpu", {0, 1})
  local model = chain()
  model:to_global{placement = place, sbp = "B"}
  local opt = rille.optim.SGD(model:parameters(), {lr = 0.1})
  local step = tap.training(opt, function(a) return model(a):sum() end)
  step(rille.ones({ROWS, WIDTH}, {placement = place, sbp = "S(0)"}))
  local plan = tostring(step:plan())
  local update, last_gradient = plan:find(" sgd "), nil
  for at in plan:gmatch("() contract ") do last_gradient = at end
  tap.ok(update and last_gradient and update > last_gradient, "updates come last", plan)
end)

-- Trains two models in one step: the update of the first model precedes the checks of the second model's labels, which
-- its result may shift. Returns a function that calls the step, and the tensors that the step changes.
local function two_models(place, options, value_checked)
  rille.manual_seed(3)
  local a, b = nn.Linear(8, 8), nn.Linear(8, 8)
  a:to_global{placement = place, sbp = "B"}
  b:to_global{placement = place, sbp = "B"}
  local opt_a, opt_b = rille.optim.AdamW(a:parameters(), {lr = 0.1}), rille.optim.SGD(b:parameters(), {lr = 0.1, momentum = 0.9})
  local step = rille.graph(function(x, labels, scale)
    opt_a:zero_grad(); opt_b:zero_grad()
    a(x):square():sum():backward()
    opt_a:step()
    if value_checked then labels = labels + (a.weight:detach():abs():sum() * 0):to("i64") end
    local loss = b(a(x):detach() * scale):cross_entropy(labels)
    loss:backward()
    opt_b:step()
    return loss
  end, options)
  local x = rille.randn({8, 8}, {placement = place, sbp = place.size > 1 and "S(0)" or "B"})
  local labels = rille.arange(8, {placement = place})
  local function state()
    return {a:state_dict(), b:state_dict(), opt_a:state_dict(), opt_b:state_dict()}
  end
  return function(shift, scale) return step(x, labels + shift, rille.tensor({scale or 1}, {placement = place})):item() end, state
end

-- Returns the tables of numbers of all tensors in t.
local function numbers(t)
  if type(t) ~= "table" then return type(t) == "userdata" and t:totable() or t end
  local copy = {}
  for key, v in pairs(t) do copy[key] = numbers(v) end
  return copy
end

tap.group("invalid data behind an update", function()
  local one, two = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
  for name, case in tap.sorted{["one device"] = {one}, ["two devices"] = {two}, ["zero = 1"] = {two, {zero = 1}}, ["zero = 3"] = {two, {zero = 3}},
      ["labels computed from the new weights"] = {one, nil, true}, ["NaN"] = {two, {check = "nan"}}} do
    local call, state = two_models(table.unpack(case, 1, 3))
    local expected, expected_state = two_models(table.unpack(case, 1, 3))
    call(0)
    local before = numbers(state())
    if name == "NaN" then
      tap.fails(function() call(0, 0 / 0) end, {"NaN"}, name .. ": is found")
    else
      tap.fails(function() call(100) end, {"cross_entropy: "}, name .. ": an invalid label is found")
    end
    tap.is(numbers(state()), before, name .. ": and leaves weights and the state of both optimisers as they were")
    expected(0)
    tap.is({call(0), numbers(state())}, {expected(0), numbers(expected_state())}, name .. ": the next step is that of a run without invalid data")
  end
end)

-- A cache is not copied: after a failed check behind its update it must be set again.
tap.group("invalid data behind an update of a cache", function()
  local cache, weight = rille.zeros{2, 1, 4, 3}, rille.ones{2, 3}
  local step = rille.graph(function(at, src, which)
    rille._update("put", {cache, at, src}, {axis = 2})
    weight:mul_(2)
    return cache:sum{axis = 2}:reshape{2, 3}:gather(1, which) + weight:sum()
  end)
  local function call(value, which)
    return step(rille.tensor({{0}, {1}}, {dtype = "i64"}), rille.full({2, 1, 1, 3}, value), rille.tensor({{0}, {which}}, {dtype = "i64"})):totable()
  end
  tap.is(call(5, 1), {{17}, {17}}, "the entries are added")
  tap.fails(function() call(7, 9) end, {"gather"}, "an invalid index is found")
  tap.is(weight:sum():item(), 12, "other variables are as they were")
  tap.fails(function() return cache:sum():item() end, {"partly written"}, "the cache was updated in place")
end)

tap.done()
