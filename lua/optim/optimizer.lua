-- optimizer.lua - what all optimisers share: parameters, their state, the learning rate, the count of steps.
--
-- A kind of optimiser is a table:
--   name, options   its defaults; each becomes a field, so opt.lr = 0.01 is what the next step uses
--   check(o)        complains about options that make no sense
--   slots(o)        names of the tensors it keeps for each parameter, like the parameter, zero at the start
--   update(o, p, g, slot, lr, step)   records the update of one parameter
--
-- Parameters are a list, or a list of groups {params =, lr =, weight_decay = ...}: what a group does not say, the
-- optimiser says; opt.groups[1].lr = 0.01 is set like opt.lr. o is a group.
--
-- State lies as the parameter does, or as rille.parallel said (layout.of_state). Inside a trace nothing runs; there lr
-- and the step count are live numbers, asked before each call of the compiled step, so a schedule does not recompile.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local snapshot = require "rille.snapshot"
local trace = require "rille.trace"

local methods = {}

local function check_parameters(name, params, seen)
  check.parameters(name, params)
  check.that(#params > 0, "%s: the list of parameters is empty", name)
  for i, p in ipairs(params) do
    check.that(layout.is_tensor(p), "%s: parameter %d is a %s, not a tensor", name, i, type(p))
    check.that(p.requires_grad, "%s: parameter %d does not require a gradient", name, i)
    check.that(p.is_leaf, "%s: parameter %d is a result, which backward gives no gradient: only leaf tensors are updated", name, i)
    check.that(not seen[p], "%s: parameter %d is in the list twice", name, i)
    seen[p] = true
  end
end

-- {params =, ...} as a group of opt: a table that has its own options and opt's for the rest.
local function group_of(opt, given)
  local kind, own = opt.kind, {params = table.move(given.params, 1, #given.params, 1, {})}
  for name, value in pairs(given) do
    if name ~= "params" then
      check.that(kind.options[name] ~= nil, "%s: no option of a group is called '%s'; there are: params, %s", kind.name,
        tostring(name), table.concat(check.sorted_keys(kind.options), ", "))
      own[name] = value
    end
  end
  local group = setmetatable(own, {__index = opt, __newindex = function(g, name, value)
    check.that(kind.options[name] ~= nil, "%s: no option of a group is called '%s'", kind.name, tostring(name))
    rawset(g, name, value)
  end})
  check.number(kind.name, "lr", group.lr, 0)
  kind.check(group)
  return group
end

-- A list of parameters is one group; a list of tables is a list of groups.
local function groups_of(opt, given)
  local name, groups, seen = opt.kind.name, {}, {}
  check.parameters(name, given)
  if type(given[1]) ~= "table" then given = {{params = given}} end
  for i, g in ipairs(given) do
    check.that(type(g) == "table" and g.params ~= nil, "%s: group %d is {params = list, ...}, not %s", name, i, check.shown(g))
    check_parameters(name, g.params, seen)
    groups[i] = group_of(opt, g)
  end
  return groups
end

-- Small steps are lost in 16 bits: state is kept in 32 at least.
local function slot_dtype(p)
  return (p.dtype == "bf16" or p.dtype == "f16") and "f32" or p.dtype
end

-- Calls visit(i, group, p) for every parameter, counted through all groups.
local function each(opt, visit)
  local n = 0
  for _, group in ipairs(opt.groups) do
    for _, p in ipairs(group.params) do
      n = n + 1
      visit(n, group, p)
    end
  end
end

local function make_slots(opt)
  local slots = {}
  trace.outside(each, opt, function(i, group, p)
    local how = layout.of_state(p)
    slots[i] = {}
    for _, name in ipairs(opt.kind.slots(group)) do
      slots[i][name] = rille.zeros(p.shape, {placement = how.placement, sbp = how.sbp, dtype = slot_dtype(p)})
    end
  end)
  return slots
end

-- A parameter may have been laid out anew since: its state follows.
local function follow(slot, p)
  local how = layout.of_state(p)
  for _, t in pairs(slot) do
    if not layout.equal(t, how) then
      trace.outside(function() t:to_global_{placement = how.placement, sbp = how.sbp} end)
    end
  end
end

-- The user sets opt.lr, or a group's, between steps.
local function rate(group)
  return check.number(group.kind.name, "lr", group.lr, 0)
end

-- The number of this step (from 1), and each group's learning rate, as operands.
local function numbers(opt)
  local rates, tracing = {}, rille._tracing()
  for _, group in ipairs(opt.groups) do
    rates[group] = tracing and rille.live(function() return rate(group) end) or rate(group)
  end
  return tracing and rille._counter(opt, "steps") or opt.steps + 1, rates
end

-- A step that is compiled with a zero of its own has parameters of no recipe that says another.
local function check_zero(opt)
  local zero, line = rille._graph_zero()
  if zero == 0 then return end
  for _, p in ipairs(opt.params) do
    local said = layout.zero_of(p)
    check.that(not said or said.level == zero,
      "%s:step: rille.parallel (%s) says zero = %d, and rille.graph (%s) says zero = %d; one says it, or both the same",
      opt.kind.name, said and said.line, said and said.level, line, zero)
  end
end

-- Updates every parameter that has a gradient.
function methods:step()
  check_zero(self)
  rille._step(self, "steps", function()
    local step, rate_of = numbers(self)
    rille.no_grad(each, self, function(i, group, p)
      local g = p.grad
      if g then
        follow(self.slots[i], p)
        self.kind.update(group, p, g, self.slots[i], rate_of[group], step)
      end
    end)
  end)
end

function methods:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end

-- The state as named tensors: "0.m" is slot m of the first parameter; "steps" their count.
function methods:state_dict()
  local state = {steps = rille.tensor(self.steps, {dtype = "i64"})}
  for i, slot in ipairs(self.slots) do
    for name, t in pairs(slot) do state[("%d.%s"):format(i - 1, name)] = t:detach() end
  end
  return state
end

-- Of the same parameters. All or nothing.
function methods:load_state_dict(state)
  local who, values = self.kind.name .. ":load_state_dict", {}
  check.that(type(state) == "table", "%s takes a table of tensors, not %s", who, check.shown(state))
  local function find(name, shape)
    local value = state[name]
    check.that(layout.is_tensor(value), "%s: '%s' is missing", who, name)
    local has, wanted = table.concat(value.shape, ", "), table.concat(shape, ", ")
    check.that(has == wanted, "%s: '%s' is {%s} here, {%s} in what is loaded", who, name, wanted, has)
    return value
  end
  local steps = check.whole(who, "'steps'", find("steps", {}):item(), 0)
  for i, slot in ipairs(self.slots) do
    for name, t in pairs(slot) do values[t] = find(("%d.%s"):format(i - 1, name), t.shape) end
  end
  rille.no_grad(function()
    for t, value in pairs(values) do t:copy_(value) end
  end)
  self.steps = math.tointeger(steps)
end

local meta = {__index = methods}

function meta.__newindex(opt, name)
  check.fail("%s has no option '%s'; there are: %s", opt.kind.name, tostring(name),
    table.concat(check.sorted_keys(opt.kind.options), ", "))
end

function meta.__tostring(opt)
  local text = {}
  for _, name in ipairs(check.sorted_keys(opt.kind.options)) do
    local value = opt[name]
    if type(value) == "table" then value = "{" .. table.concat(value, ", ") .. "}" end
    text[#text + 1] = ("%s = %s"):format(name, tostring(value))
  end
  return ("%s(%d parameters, %s)"):format(opt.kind.name, #opt.params, table.concat(text, ", "))
end

-- For rille.snapshot: what puts the options and the count of steps back; tensors are the core's to keep.
local function keep(opt)
  local was, steps = {}, opt.steps
  for g = 0, #opt.groups do
    local group = opt.groups[g] or opt
    was[g] = {}
    for name in pairs(opt.kind.options) do was[g][name] = rawget(group, name) end
  end
  return function()
    opt.steps = steps
    for g = 0, #opt.groups do
      for name in pairs(opt.kind.options) do rawset(opt.groups[g] or opt, name, was[g][name]) end
    end
  end
end

-- The constructor of a kind: optim.SGD(params, options).
return function(kind)
  return function(params, given)
    local opt = check.options(kind.name, given, kind.options)
    opt.kind, opt.steps = kind, 0
    opt.groups = groups_of(opt, params)
    check.number(kind.name, "lr", opt.lr, 0)
    kind.check(opt)
    opt.params = {}
    each(opt, function(i, _, p) opt.params[i] = p end)
    opt.slots = make_slots(opt)
    snapshot.watch(setmetatable(opt, meta), keep)
    return opt
  end
end
