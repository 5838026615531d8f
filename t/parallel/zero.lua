-- zero.lua - tests zero and schedules as options of a graph (actors/plan/rewrite/zero.c). Updates and optimiser state
-- that are split into slices must give the same bits.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local function train(mesh, sbp, batch, options, make)
  rille.manual_seed(4)
  local P = rille.placement("cpu", mesh)
  local net = nn.Sequential(nn.Linear(10, 18), nn.GELU(), nn.Linear(18, 6))
  net:to_global{placement = P, sbp = sbp}
  if type(sbp) == "table" then net:parameters()[1]:to_global_{placement = P, sbp = {"B", "S(0)"}} end
  local opt = make(net)
  local step = tap.training(opt, function(x, y) return net(x):cross_entropy(y) end, options)
  local x = rille.randn({24, 10}, {placement = P, sbp = batch})
  local y = rille.randint(0, 6, {24}, {placement = P, sbp = batch})
  local losses = tap.list(3, function() return step(x, y):item() end)
  return {losses, net:parameters()[1]:totable()}, step, net, opt
end

local makers = {
  AdamW = function(net) return optim.AdamW(net:parameters(), {lr = 0.01}) end,
  SGD = function(net) return optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9}) end,
}
local cases = {
  {"4 ranks", {0, 1, 2, 3}, "B", "S(0)"},
  {"2 x 2, a weight split", {{0, 1}, {2, 3}}, {"B", "B"}, {"S(0)", "B"}},
}
for _, case in ipairs(cases) do
  for name, make in pairs(makers) do
    for _, pieces in ipairs{1, 2} do
      local want, plain = train(case[2], case[3], case[4], {micro_batches = pieces}, make)
      for zero = 1, 3 do
        local what = ("%s, %s, micro-batches %d, zero %d"):format(case[1], name, pieces, zero)
        local got, step, net = train(case[2], case[3], case[4], {micro_batches = pieces, zero = zero}, make)
        tap.is(got, want, what .. ": the same bits")
        local split, gathered = 0, 0
        for _, op in ipairs(step:explain().ops) do
          if op.name == "adamw" or op.name == "sgd" then
            split = split + (op.outputs[1]:find("S%(0%)") and 1 or 0)
          end
        end
        for _, move in ipairs(step:explain().boxing) do gathered = gathered + (move.to == move.from and 0 or 1) end
        tap.is(split, 4, what .. ": every update computes on slices")
        tap.ok(gathered > 0 and net:parameters()[2].sbp == net:parameters()[4].sbp and not net:parameters()[4].sbp:find("S"),
          what .. ": parameters keep their layouts")
        tap.ok(step:explain().bytes <= plain:explain().bytes, what .. ": no more bytes than all-reduce")
      end
    end
  end
end

-- Checks slices of a weight that the other mesh axis splits by units: 3 blocks of 6 rows on 2 ranks.
for _, entries in ipairs{{"B", "S(0, unit 6)"}, {"S(0, unit 6)", "B"}, {"B", "S(1, unit 5)"}} do
  local P = rille.placement("cpu", {{0, 1}, {2, 3}})
  local function result(zero, pieces)
    rille.manual_seed(4)
    local w = rille.randn({18, 10}):to_global{placement = P, sbp = entries}:detach():requires_grad_(true)
    local x = rille.randn({8, 10}):to_global{placement = P, sbp = {"B", "B"}}
    local opt = optim.AdamW({w}, {lr = 0.01})
    local step = tap.training(opt, function(a) return a:matmul(w:transpose(0, 1)):square():mean() end, {micro_batches = pieces, zero = zero})
    return {tap.list(3, function() return step(x):item() end), w:totable()}
  end
  for pieces = 1, 2 do
    local want = result(nil, pieces)
    for zero = 1, 3 do
      tap.near(result(zero, pieces), want, ("weight (%s), micro-batches %d, zero %d: values without zero"):format(table.concat(entries, ", "),
        pieces, zero), 1e-5, 1e-6)
    end
  end
end
for _, mode in ipairs{true, "propagate", "recursive", "greedy"} do
  for name, value in pairs{zero = 1, offload = rille.placement("cpu", {1}), recompute = "auto"} do
    tap.fails(function() rille.graph(function(x) return x end, {[name] = value, auto_parallel = mode}) end,
      {name, "auto_parallel", "use one"}, ("%s with auto_parallel = %s"):format(name, mode))
  end
end

-- Checks that separate weight gradients and recompute do not change bits.
do
  local want = train({0, 1}, "B", "S(0)", {micro_batches = 4}, makers.AdamW)
  for _, schedule in ipairs{"gpipe", "zb-h1", "zb-h2", {lag = 3, split_backward = true}} do
    for _, recompute in ipairs{false, true} do
      tap.is(train({0, 1}, "B", "S(0)", {micro_batches = 4, schedule = schedule, recompute = recompute}, makers.AdamW), want,
        ("%s%s: the same bits"):format(tostring(schedule):sub(1, 5) == "table" and "lag 3 split" or schedule, recompute and ", recomputed" or ""))
    end
  end
end

-- Checks zero as an option of a recipe and of a graph. If both have the option with different numbers, the error must
-- name both lines.
do
  local P = rille.placement("cpu", {0, 1})
  local function here() return debug.getinfo(2, "l").currentline end
  local recipe_line, graph_line
  -- Makes a training. Returns the model, a function step() that returns the loss, and the recipe's table.
  local function make(recipe, graph)
    rille.manual_seed(5)
    local net = nn.Sequential(nn.TransformerBlock(8, 2), nn.Linear(8, 8))
    net:to_global{placement = P, sbp = "B"}
    recipe_line = here() + 1
    local table_of = rille.parallel(net, {data = 0, zero = recipe})
    local opt = optim.AdamW(net:parameters(), {lr = 0.01})
    graph_line = here() + 1
    local step = rille.graph(function(x) return tap_update(opt, net(x):square():mean()) end, {zero = graph})
    local x = rille.randn({4, 3, 8}, {placement = P}):to_global(rille.parallel.input(net))
    return net, function() return step(x):item() end, table_of
  end
  local function losses(recipe, graph)
    local net, step = make(recipe, graph)
    local out = tap.list(3, function() return step() end)
    return {out, net:parameters()[3]:totable()}
  end
  local want = losses()
  local agree, differ = 0, 0
  for recipe = 0, 3 do
    for graph = 0, 3 do
      local what = ("zero = %d of a recipe, %d of a graph"):format(recipe, graph)
      if recipe == graph or recipe == 0 or graph == 0 then
        agree = agree + 1
        tap.is(losses(recipe, graph), want, what .. ": the same bits")
      else
        differ = differ + 1
        tap.fails(function() losses(recipe, graph) end, {("/zero.lua:%d) sets zero = %d"):format(recipe_line, recipe),
          ("/zero.lua:%d) sets zero = %d"):format(graph_line, graph)}, what .. ": the error names both lines")
      end
    end
  end
  tap.is({agree, differ}, {10, 6}, "all pairs of numbers were tried")

  local net, step, table_of = make(2, 2)
  step()
  rille.parallel(net, {data = 0, zero = 3})
  tap.fails(step, {"zero = 3", "zero = 2"}, "a later recipe is used in the next step")
  rille.parallel(net, table_of)
  tap.ok(step() > 0, "a recipe's table is used in the next step")
  rille.parallel(net, {})
  tap.ok(step() > 0, "an empty recipe has no zero")
end

-- Tries experts. In their backward, a view of a gathered weight is taken before the operator that reads the view.
do
  local P = rille.placement("cpu", {0, 1})
  local function losses(zero, pieces, offload)
    rille.manual_seed(2)
    local net = rille.models.moe.new{vocab = 16, length = 4, layers = 1, heads = 2, width = 8, experts = 2}
    net:to_global{placement = P, sbp = "B"}
    rille.parallel(net, {data = 0, zero = zero})
    local opt = optim.SGD(net:parameters(), {lr = 0.1})
    local step = tap.training(opt, function(x) return net(x):square():mean() end, {micro_batches = pieces, offload = offload})
    local x, out = rille.randint(0, 16, {8, 4}, {placement = P}):to_global(rille.parallel.input(net)), {}
    for i = 1, 3 do out[i] = step(x):item() end
    return out
  end
  for pieces = 1, 2 do
    local want = losses(0, pieces)
    tap.is(losses(3, pieces), want, ("experts, %d micro-batches, zero 3: the same bits"):format(pieces))
    tap.is(losses(0, pieces, rille.placement("cpu", {2, 3})), want, ("experts, %d micro-batches, offload: the same bits"):format(pieces))
  end
end
tap.done()
