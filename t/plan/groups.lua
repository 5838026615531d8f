-- groups.lua - tests that updates of the same kind on different variables are grouped into one task, and give the
-- bits of separate updates.
--
-- An update must stay a separate task if it is large, or reads the variable of another update.
local tap = dofile("t/lib/tap.lua")
local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local STEPS <const> = 3

-- Shapes of many kinds, more than fit into one group. LARGE alone exceeds the byte limit of a group.
local SHAPES = {{1}, {0}, {7}, {3, 5}, {2, 3, 4}, {64, 33}, {}, {0, 4}, {257}, {1, 1, 1}}
for n = 1, 22 do SHAPES[#SHAPES + 1] = {n} end
local LARGE = {640, 512}

-- Columns: operator, number of state tensors (-1: one state tensor, which the call leaves out), attributes, and a
-- function that returns the number operands.
local KINDS = {
  {"adamw", 2, {beta1 = 0.9, weight_decay = 0.1}, function(lr, t) return lr, t end},
  {"adamw", 2, {decoupled = false, eps = 1e-3}, function(lr, t) return lr, t end},
  {"sgd", 1, {momentum = 0.9, weight_decay = 0.01}, function(lr) return lr end},
  {"sgd", -1, {weight_decay = 0.01}, function(lr) return lr end},
}

-- Returns variables of these shapes with state and gradients; every call returns equal values.
local function variables(shapes, dtype, slots, how)
  local all = {}
  rille.manual_seed(7)
  for i, shape in ipairs(shapes) do
    local own, into = {}, {dtype = dtype, placement = how.placement, sbp = #shape > 0 and how.sbp(i) or "B"}
    for k = 1, math.abs(slots) + 2 do own[k] = rille.rand(shape, into) end
    all[i] = own
  end
  return all
end

-- Trains the variables and returns all values, and the plan of the first step. together: lists of variables; one
-- compiled step updates the variables of one list. An element of the list of a variable's tensors may be a function;
-- the step then uses its result.
local function train(kind, all, together, scale)
  local name, slots, attrs, numbers = table.unpack(kind)
  local steps = {}
  for i, list in ipairs(together) do
    steps[i] = rille.graph(function(lr, t)
      for _, k in ipairs(list) do
        local v, args, n = all[k], {}, math.abs(slots) + 2
        for s = 1, n do args[s] = type(v[s]) == "function" and v[s]() or v[s] end
        if slots < 0 then args[2] = nil end
        for _, number in ipairs{numbers(lr, t)} do n = n + 1; args[n] = number end
        if scale then args[n + 1] = scale end
        rille._update(name, args, attrs)
      end
    end)
  end
  for t = 1, STEPS do
    for _, step in ipairs(steps) do step(0.1 / t, t) end
  end
  local values = {}
  for i, v in ipairs(all) do
    values[i] = {}
    for k, x in ipairs(v) do
      if type(x) ~= "function" then values[i][k] = #x.shape > 0 and x:totable() or x:item() end
    end
  end
  return values, tostring(steps[1]:plan())
end

local function by_itself(n) return tap.list(n, function(i) return {i} end) end
local function at_once(n)
  local list = tap.list(n, function(i) return i end)
  return {list}
end

-- Returns two numbers for the first device: the number of updates in groups, and the number of groups.
local function groups(plan, name)
  local members, n = 0, 0
  for size in plan:gmatch(name .. " x (%d+) +cpu%[0") do members, n = members + math.tointeger(size), n + 1 end
  return members, n
end

local HOW = {
  {"one device", {placement = ONE, sbp = function() return "B" end}},
  {"two devices", {placement = TWO, sbp = function(i) return i % 3 == 0 and "S(0)" or "B" end}},
}
for _, kind in ipairs(KINDS) do
  for _, dtype in ipairs{"f32", "bf16", "f64"} do
    for _, how in ipairs(HOW) do
      for _, scaled in ipairs{false, true} do
        if not tap.share() then goto next end
        local what = ("%s, %s, %s%s"):format(kind[1], dtype, how[1], scaled and ", scaled" or "")
        local scale = scaled and rille.tensor(0.5, {dtype = "f32"}):to_global{placement = how[2].placement, sbp = "B"} or nil
        local n = #SHAPES
        local want = train(kind, variables(SHAPES, dtype, kind[2], how[2]), by_itself(n), scale)
        local got, plan = train(kind, variables(SHAPES, dtype, kind[2], how[2]), at_once(n), scale)
        local members, count = groups(plan, kind[1])
        tap.is(got, want, what .. ": grouped updates give the bits of separate updates")
        tap.ok(members == n and count == 2, what .. ": two tasks update all variables", plan)
        ::next::
      end
    end
  end
end

-- An optimiser counts the updates of each parameter, so updates fused into one task may have different step counts.
tap.group("optimisers", function()
  for _, name in ipairs{"Adam", "AdamW", "SGD"} do
    local function trained(wrap)
      local params = tap.list(6, function(i) return rille.ones({i}, {requires_grad = true}) end)
      local opt = rille.optim[name](params, {lr = 0.1})
      local function step(first)
        local loss = 0
        for i = first, 6 do loss = loss + (params[i] - i):square():sum() end
        return tap_update(opt, loss)
      end
      step(4)
      local run, values = wrap(function() return step(1) end), {}
      for _ = 1, STEPS do run():item() end
      for i, x in ipairs(params) do values[i] = x:totable() end
      return values, run
    end
    local want = trained(function(f) return f end)
    local got, run = trained(rille.graph)
    tap.is(got, want, name .. ": a compiled step gives the bits of separate updates, also if counts of updates differ")
    tap.is({groups(tostring(run:plan()), name == "SGD" and "sgd" or "adamw")}, {6, 1}, name .. ": one task updates all parameters")
  end
end)

tap.group("updates that are not grouped", function()
  local kind = KINDS[3]
  local how = HOW[1][2]
  local function compare(shapes, change, name, ngrouped)
    local function made()
      local all = variables(shapes, "f32", kind[2], how)
      change(all)
      return all
    end
    local want = train(kind, made(), by_itself(#shapes))
    local got, plan = train(kind, made(), at_once(#shapes))
    tap.is(got, want, name .. ": gives the same bits")
    tap.is((groups(plan, kind[1])), ngrouped, name)
  end
  compare({{5}, LARGE, {6}}, function() end, "a large variable has its own task, the small variables around it are grouped", 2)
  compare({{400, 400}, {400, 400}}, function() end, "two variables that are too large together are not grouped", 0)
  compare({{6}, {6}}, function(all) all[1][3] = all[2][1] end, "a gradient that is the variable of a later update: no group", 0)
  compare({{6}, {6}}, function(all) all[2][3] = all[1][1] end, "a gradient that is the variable of an earlier update: no group", 0)
  compare({{6}, {2, 3}}, function(all)
    all[1][3] = function() return all[2][1]:reshape{6} end
  end, "a gradient that is a view of a variable: no group", 0)
  compare({{6}, {6}, {6}}, function(all) all[3][3] = all[1][2] end, "a gradient that is the state of another update: two of three are grouped", 2)
  compare({{6}, {6}}, function(all) all[2][3] = all[1][3] end, "two updates that share a gradient are grouped", 2)
end)
tap.done()
