-- inserted.lua - tests explain() of programs into which zero, offload, recompute and micro-batches insert nodes
-- (actors/session/view/explain.c, hint_conflict.c; actors/plan/rewrite/offload.c, recompute.c).
--
-- Tries all combinations, with and without a planner. Reported bytes must equal the bytes that actors count. The
-- chosen candidate must be the one that runs. Reported lines must be the lines of the calls. A regret must be the
-- extra cost of a plan that is forced to use a candidate.
local tap = dofile("t/lib/tap.lua")
local _, _, _, _, near = dofile("t/lib/steps/planned.lua")
local nn, optim = rille.nn, rille.optim
local line, storage = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})
local D <const>, ROWS <const> = 16, 32
local file = debug.getinfo(1, "S").short_src

-- Trains with the options c: {zero of a recipe, zero of a graph, recompute, offload, micro-batches, planner mode}.
-- Returns two losses, the step, and the number of a source line just before the step's function.
local function train(c)
  rille.manual_seed(3)
  local net = nn.Sequential(nn.SwiGLU(D, 2 * D), nn.LayerNorm(D), nn.Linear(D, D))
  net:to_global{placement = line, sbp = "B"}
  rille.parallel(net, {data = 0, zero = c.recipe})
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local first = debug.getinfo(1, "l").currentline
  local step = tap.training(opt, function(x)
    return net(x):square():mean()
  end, {zero = c.zero, recompute = c.recompute, offload = c.offload, micro_batches = c.pieces, auto_parallel = c.mode,
    time_limit = c.mode and 600, memory_limit = c.recompute == "auto" and 1e9 or nil})
  local x = rille.randn({ROWS, D}, {placement = line, sbp = "S(0)"})
  local losses = tap.list(2, function() return step(x):item() end)
  return losses, step, first
end

local function same_list(a, b)
  for i = 1, math.max(#a, #b) do if a[i] ~= b[i] then return false end end
  return true
end

-- Returns true if, for each operator, the first reported candidate is the one that runs.
local function are_chosen(e)
  for _, op in ipairs(e.ops) do
    local c = op.candidates[1]
    if c and not (same_list(c.inputs, op.inputs) and same_list(c.outputs, op.outputs)) then
      return false, ("%s (%s): %s, not %s"):format(op.name, op.line, table.concat(c.inputs, ", "), table.concat(op.inputs, ", "))
    end
    if c and e.gap and (c.regret ~= 0 or c.regret_high ~= 0) then return false, op.name .. " is chosen but has a regret" end
  end
  return true
end

-- Checks the reported source lines of calls. For a call inside a module, the line must be that of the user's call, or
-- a line of the module.
local function are_lines(e, first)
  for _, op in ipairs(e.ops) do
    local at, number = op.line:match("^(.*):(%d+)$")
    number = tonumber(number)
    if not at then return false, op.name .. " has no line: " .. op.line end
    if at == file and not (number > first and number < first + 6) then return false, op.name .. " is at line " .. number end
    if op.name:find("adamw") and at == file and number ~= first + 4 then return false, "the update is at line " .. number end
  end
  return true
end

-- Checks that each reported conflict of hints is a move of the plan.
local function are_moves(e)
  for _, m in ipairs(e.meetings or {}) do
    local found
    for _, b in ipairs(e.boxing) do found = found or b.from == m.from and b.to == m.to and b.bytes * b.times == m.bytes end
    if not found or m.line == "?" or m.hints[1].line == "?" or m.hints[2].line == "?" then return false, m.op .. " at " .. m.line end
  end
  return true
end

local tried = 0
local function try(c, want)
  local name = ("recipe zero %d, graph zero %d, recompute %s, %s, %d micro-batches, %s: "):format(c.recipe or 0, c.zero or 0, c.recompute,
    c.offload and "offload" or "no offload", c.pieces, c.mode or "no planner")
  local losses, step, first = train(c)
  local e, sum = step:explain(), 0
  for _, b in ipairs(e.boxing) do sum = sum + b.bytes * b.times end
  tap.ok(near(losses, want), name .. "losses are those of a plain step")
  tap.is({e.bytes, sum}, {tap.received(step), e.bytes}, name .. "reported bytes are those that actors count")
  local good, why = are_chosen(e)
  tap.ok(good, name .. "the first candidate is the one that runs", why)
  good, why = are_lines(e, first)
  tap.ok(good, name .. "lines are those of the calls", why)
  good, why = are_moves(e)
  tap.ok(good, name .. "meetings are moves of the plan", why)
  tap.ok(not c.mode or e.bound <= e.cost and (c.mode ~= true or e.gap == 0), name .. "the bound is at most the cost")
  tried = tried + 1
  return e
end

for _, pieces in ipairs{1, 2} do
  local want = train{pieces = pieces}
  for zero = 0, 3 do
    for _, recompute in ipairs{false, true, "auto"} do
      for _, offload in ipairs{false, storage} do
        for _, recipe in ipairs(zero == 0 and {0, 3} or {0}) do
          try({zero = zero, recipe = recipe, recompute = recompute, offload = offload or nil, pieces = pieces}, want)
        end
      end
    end
    for _, recompute in ipairs{false, true} do
      local cost = {}
      for _, mode in ipairs{"greedy", "propagate", "recursive", true} do
        cost[mode] = try({recipe = zero, recompute = recompute, pieces = pieces, mode = mode}, want).cost
      end
      tap.ok(cost[true] <= math.min(cost.greedy, cost.propagate, cost.recursive), "the optimal mode costs least")
    end
  end
end
tap.is(tried, 2 * (5 * 3 * 2 + 4 * 2 * 4), "all combinations were tried")

-- Checks regrets. The regret of a candidate must equal the extra cost of a step in which a strategy forces this
-- candidate. If a hint's value is gathered twice, explain() reports the hint once, with the cost of both gathers.
do
  local function planned(c, strategy, sbp)
    rille.manual_seed(3)
    local w = nn.Parameter(rille.randn({D, 4 * D}, {placement = line, sbp = "S(0)"}))
    local v = nn.Parameter(rille.randn({4 * D, D}, {placement = line, sbp = "B"}))
    local b = nn.Parameter(rille.zeros({D}, {placement = line, sbp = "B"}))
    local opt = optim.SGD({w, v, b}, {lr = 0.1})
    local step = tap.training(opt, function(x)
      local whole = sbp and w:to_global{placement = line, sbp = sbp} or w
      return (x + b):matmul(whole, {strategy = strategy}):gelu():matmul(v):square():mean()
    end, {auto_parallel = c.mode, micro_batches = c.pieces, recompute = c.recompute, time_limit = 600})
    for _ = 1, 2 do step(rille.randn({ROWS * 8, D}, {placement = line, sbp = "S(0)"})) end
    return step:explain(), step
  end
  -- Returns, for each operand, the number of shards along each axis.
  local function cuts(inputs)
    local list = {}
    for i, sbp in ipairs(inputs) do
      local axis = math.tointeger(sbp:match("^S%((%d)%)$"))
      list[i] = {axis == 0 and 2 or 1, axis == 1 and 2 or 1}
    end
    return list
  end
  local forced = 0
  for _, pieces in ipairs{1, 2} do
    for _, recompute in ipairs{false, true} do
      local c, name = {mode = true, pieces = pieces, recompute = recompute}, ("%d micro-batches, recompute %s: "):format(pieces, recompute)
      local e, step = planned(c, nil, "B")
      local least, op = {}, nil
      for _, one in ipairs(e.ops) do op = op or one.name == "matmul" and one end
      for _, x in ipairs(op.candidates) do
        local key = table.concat(cuts(x.inputs)[1], " ") .. ", " .. table.concat(cuts(x.inputs)[2], " ")
        least[key] = math.min(least[key] or math.huge, x.regret)
        tap.ok(x.regret == x.regret_high, name .. "the regret is one number")
      end
      for key, regret in pairs(least) do
        local a, b, x, y = key:match("(%d) (%d), (%d) (%d)")
        local f = planned(c, {{tonumber(a), tonumber(b)}, {tonumber(x), tonumber(y)}}, "B")
        local more = f.cost - e.cost -- a recomputed call counts twice here, once in its regret
        tap.ok(recompute and more >= regret or more == regret, ("%ssplit into %s: regret %d ns, forced plan costs %d ns more"):format(name, key, regret, more))
        forced = forced + 1
      end
      local hints, gathers, without = step:hints(), 0, planned(c)
      for _, h in ipairs(hints) do
        if h.what == "to_global B" then
          gathers = gathers + 1
          tap.is({h.price, h.price_high}, {e.cost - without.cost, e.cost - without.cost}, name .. "the price of a gather is the cost saved without it")
        end
      end
      tap.is(gathers, 1, name .. "the gather is one hint")
      local twice = 0
      for _, b in ipairs(e.boxing) do
        if b.from == "S(0)" and b.to == "B" and b.shape[2] == 4 * D then twice = twice + b.times end
      end
      tap.is(twice, 2 * pieces, name .. "each micro-batch gathers twice")
      local far, all = rille.whatif(step, {mesh = {2}}), rille.whatif(step, {mesh = {2, 2}})
      tap.ok(far.cost == e.cost and far.bytes == e.bytes and all.cost > 0, name .. "whatif reports the same for an equal mesh")
      local path = os.tmpname()
      step:certify(path)
      tap.ok(tap.has(rille.certificate(path), tostring(e.cost)), name .. "the certificate has the cost of the step")
      os.remove(path)
    end
  end
  tap.ok(forced >= 12, "plans forced by a strategy: " .. forced)
end
tap.done()
