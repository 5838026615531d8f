-- optimizer.lua - common parts of all optimisers: parameters, state, learning rate, step counts.
--
-- A kind of optimiser is a table:
--   name, options   default options; each becomes a field, and opt.lr = 0.01 takes effect at the next step. In compiled
--                   steps lr is a live number; a change of another option causes a retrace
--   check(o)        fails if options are invalid
--   slots(o)        names of the state tensors per parameter, shaped like the parameter, initially zero
--   every           names of all state tensors that any options can require
--   update(o, p, g, slot, lr, step, counter)   records the update of one parameter; step: the number of this update, from
--                   1. While a compiled step runs, counter.steps includes all updates of the compiled step
--   begin(opt)      optional; called at each step before the updates. Returns true if the updates need lr and step as plain
--                   numbers, which cost a trace at each change
--
-- Parameters are a list, or a list of groups {params =, lr =, weight_decay = ...}. Options that a group lacks are taken
-- from the optimiser; opt.groups[1].lr = 0.01 is set like opt.lr. `o` above is a group. opt:add_param_group{params =, ...}
-- adds a group at the end, because state and checkpoints number the parameters.
--
-- Updates are counted per parameter, as in PyTorch: a step in which the parameter has no gradient does not count.
-- opt.steps counts calls of step(); setting opt.steps sets the counts of all parameters, too.
--
-- State has the layout of its parameter, or the layout that rille.parallel set (layout.of_state). In a trace, lr and
-- counts are live numbers that are read before each call of the compiled step, so a learning rate schedule causes no
-- recompilation.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local reach = require "rille.step.reach"
local snapshot = require "rille.snapshot"
local trace = require "rille.step.trace"

local methods = {}

local function check_parameters(name, params, seen)
  check.parameters(name, params)
  check.that(#params > 0, "%s: the list of parameters is empty; net:parameters() lists the fields of modules that are tensors with requires_grad", name)
  for i, p in ipairs(params) do
    check.that(layout.is_tensor(p), "%s: parameter %d must be a tensor, found %s", name, i, check.shown(p))
    check.that(p.is_leaf, "%s: parameter %d is the result of an operator; parameters must be leaf tensors", name, i)
    check.that(not seen[p], "%s: parameter %d occurs twice in the list", name, i)
    seen[p] = true
  end
end

local complete_all -- defined below: creates missing state tensors

-- Returns an option's value in a form that is safe to keep: a list is copied, because the caller may edit it later.
local function own_value(v)
  if type(v) ~= "table" or getmetatable(v) ~= nil then return v end
  local copy = {}
  for key, part in pairs(v) do copy[key] = part end
  return copy
end

-- Returns a read-only list of an optimiser's parameters or groups. what: "parameters" or "groups", for messages.
local function settled(kind, what, values)
  return setmetatable({}, {__index = values, __len = function() return #values end,
    __pairs = function() return function(_, k) return next(values, k) end end,
    __tostring = function() return ("a list of %d %s"):format(#values, what) end,
    __newindex = function() check.fail("%s: the list of %s cannot be changed; opt:add_param_group{params = ...} adds to it", kind.name, what) end})
end

-- Returns an optimiser or a group as text.
local function text_of(opt)
  local text = {}
  for _, name in ipairs(check.sorted_keys(opt.kind.options)) do
    local value, parts = opt[name], {}
    for i = 1, type(value) == "table" and #value or 0 do parts[i] = check.named(value[i]) end
    text[#text + 1] = ("%s = %s"):format(name, type(value) == "table" and "{" .. table.concat(parts, ", ") .. "}" or check.named(value))
  end
  return ("%s(%d parameters, %s)"):format(opt.kind.name, #opt.params, table.concat(text, ", "))
end

-- Checks a learning rate: a number, or a function of the number of earlier steps, such as optim.cosine{...}.
local function check_rate(kind, lr)
  if type(lr) ~= "function" then check.number(kind.name, "lr", lr, 0) end
end

-- Checks the options of an optimiser and of its groups.
local function check_all(opt)
  for g = 0, #opt.groups do
    local holder = opt.groups[g] or opt
    check_rate(opt.kind, holder.lr)
    opt.kind.check(holder)
  end
end

-- Sets an option of the optimiser opt or of one of its groups. own: the table of its own options. If an option is
-- invalid then, raises an error and keeps the earlier value. The option may require new state tensors.
local function set(opt, own, name, value)
  local before = rawget(own, name)
  rawset(own, name, own_value(value))
  local good, why = check.try(check_all, opt)
  if not good then
    rawset(own, name, before)
    error(why, 0)
  end
  if name ~= "lr" then complete_all(opt) end
end

-- Creates a group of opt from {params =, ...}: a table of the group's options. An option that the group lacks is read
-- from opt.
local function group_of(opt, given)
  local kind, own = opt.kind, setmetatable({}, {__index = opt.own})
  for name, value in pairs(given) do
    if name ~= "params" then
      check.that(kind.options[name] ~= nil, "%s: unknown option '%s' of a group; expected one of: params, %s", kind.name,
        check.named(name), table.concat(check.sorted_keys(kind.options), ", "))
      own[name] = own_value(value)
    end
  end
  local params = settled(kind, "parameters", table.move(given.params, 1, #given.params, 1, {}))
  local group = setmetatable({}, {
    __index = setmetatable({params = params, own = own, kind = kind}, {__index = own}),
    __tostring = text_of,
    __newindex = function(_, name, value)
      check.that(kind.options[name] ~= nil, "%s: unknown option '%s' of a group; expected one of: %s", kind.name,
        check.named(name), table.concat(check.sorted_keys(kind.options), ", "))
      set(opt, own, name, value)
    end})
  check_rate(kind, group.lr)
  kind.check(group)
  return group
end

-- Checks the table of a group, and returns the group. i: number of the group, for messages; nil: the only group.
-- seen: set of the parameters in earlier groups.
local function checked_group(opt, g, i, seen)
  local name = opt.kind.name
  check.that(type(g) == "table" and g.params ~= nil, "%s: group %d must be {params = list, ...}, found %s", name, i or 1,
    type(g) == "table" and "a table without params" or check.shown(g))
  check_parameters(i and ("%s: group %d"):format(name, i) or name, g.params, seen)
  return group_of(opt, g)
end

-- Converts a list of parameters (one group), or a list of group tables, to groups.
local function groups_of(opt, given)
  local groups, seen = {}, {}
  check.parameters(opt.kind.name, given)
  if type(given[1]) ~= "table" then return {checked_group(opt, {params = given}, nil, seen)} end
  for i, g in ipairs(given) do groups[i] = checked_group(opt, g, i, seen) end
  return groups
end

-- Returns the dtype of the state for p. State has at least 32 bits, because small updates would be lost in 16 bits.
local function slot_dtype(p)
  return (p.dtype == "bf16" or p.dtype == "f16") and "f32" or p.dtype
end

-- Calls visit(i, group, p) for every parameter; i counts the parameters of all groups.
local function each(opt, visit)
  local n = 0
  for _, group in ipairs(opt.groups) do
    for _, p in ipairs(group.params) do
      n = n + 1
      visit(n, group, p)
    end
  end
end

local function new_state(p)
  local how = layout.of_state(p)
  return trace.outside(rille.zeros, p.shape, {placement = how.placement, sbp = how.sbp, dtype = slot_dtype(p)})
end

-- Creates the missing state tensors of a parameter: all of them at first, and later those that a changed option
-- needs.
local function complete(slot, group, p)
  for _, name in ipairs(group.kind.slots(group)) do slot[name] = slot[name] or new_state(p) end
end

function complete_all(opt)
  each(opt, function(i, group, p)
    opt.slots[i] = opt.slots[i] or {}
    complete(opt.slots[i], group, p)
  end)
end

-- Adapts the state to its parameter, whose layout or dtype may have changed.
local function follow(slot, p)
  local how, dtype = layout.of_state(p), slot_dtype(p)
  for name, t in pairs(slot) do
    if not layout.equal(t, how) then
      trace.outside(function() t:to_global_{placement = how.placement, sbp = how.sbp} end)
    end
    if t.dtype ~= dtype then trace.outside(rille._retype, "state", {{name, t}}, dtype) end
  end
end

-- Returns the learning rate of a group after `steps` steps; the user may set lr between steps.
local function rate(group, steps)
  local lr = group.lr
  if type(lr) == "function" then lr = lr(steps) end
  return check.number(group.kind.name, "lr", lr, 0)
end

-- Returns the learning rate of each group as an operand of the update. In a trace, this is a live number, which the
-- compiled step reads before each run; plain = true: a plain number.
local function rates_of(opt, plain)
  local rates, tracing = {}, rille._tracing() and not plain
  local steps, steps_in_run = trace.steps(opt.inside)
  for _, group in ipairs(opt.groups) do
    opt.kind.check(group)
    trace.follow(group, opt.kind.constant)
    rates[group] = tracing and rille.live(function() return rate(group, steps_in_run()) end) or rate(group, steps)
  end
  return rates
end

-- Returns the number of the step being recorded (from 1) as an operand of the update. counter: {steps = number of
-- earlier steps}.
local function next_step(counter)
  return rille._tracing() and rille._counter(counter, "steps") or counter.steps + 1
end

-- Checks that the ZeRO level of a compiled step does not contradict the recipe of a parameter.
local function check_zero(opt)
  local zero, line = rille._graph_zero()
  if zero == 0 then return end
  check.that(not opt.kind.begin, "%s:step: zero = %d of rille.graph (%s) shards the updates of Rille's own optimizers; for other classes set zero in rille.parallel",
    opt.kind.name, zero, line)
  for _, p in ipairs(opt.params) do
    local said = layout.zero_of(p)
    check.that(not said or said.level == zero,
      "%s:step: rille.parallel (%s) sets zero = %d, but rille.graph (%s) sets zero = %d; set one of them, or both to the same value",
      opt.kind.name, said and said.line, said and said.level, line, zero)
  end
end

-- Adds a group {params =, lr =, ...} of further parameters, with state zero.
function methods:add_param_group(given)
  local seen = {}
  for _, p in ipairs(self.params) do seen[p] = true end
  check.that(not rille._tracing(), "%s:add_param_group: a group cannot be added while a compiled step is traced", self.kind.name)
  local group = checked_group(self, given, #self.groups + 1, seen)
  local inside = self.inside
  table.insert(inside.all_groups, group)
  for _, p in ipairs(group.params) do
    table.insert(inside.all_params, p)
    table.insert(inside.counts, {steps = 0})
  end
  complete_all(self)
  rille._generation()
end

-- Makes the step that is being traced depend on learning rates and step counts, as on constants: a change of one of
-- them causes a retrace.
local function follow_numbers(opt)
  for _, group in ipairs(opt.groups) do trace.follow(group, {"lr"}) end
  for _, counter in ipairs(opt.counts) do trace.follow(counter, {"steps"}) end
end

-- Updates every parameter that has a gradient.
function methods:step()
  check_zero(self)
  local plain = self.kind.begin and self.kind.begin(self)
  rille._step("steps", function()
    local rate_of, counted = rates_of(self, plain), {self.inside}
    next_step(self.inside)
    if plain then follow_numbers(self) end
    rille.no_grad(each, self, function(i, group, p)
      local g = p.grad
      if g then
        follow(self.slots[i], p)
        self.kind.update(group, p, g, self.slots[i], rate_of[group], next_step(self.counts[i]), self.counts[i])
        counted[#counted + 1] = self.counts[i]
      end
    end)
    return counted
  end)
end

-- Adapts all state to its parameters immediately, without waiting for the next step.
function methods:__follow()
  each(self, function(i, _, p) follow(self.slots[i], p) end)
end

-- For rille.checkpoint: gives each parameter exactly the state tensors for whose names wanted(i, p, name) is true;
-- missing ones are created as zeros. i counts the parameters of all groups. Returns a function that restores the
-- former state.
function methods:__reslot(wanted)
  local was = {}
  each(self, function(i, group, p)
    local slot = self.slots[i]
    was[i] = {}
    for k, name in ipairs(group.kind.every) do
      was[i][k] = slot[name] or false
      slot[name] = wanted(i, p, name) and (slot[name] or new_state(p)) or nil
    end
  end)
  return function()
    each(self, function(i, group)
      for k, name in ipairs(group.kind.every) do self.slots[i][name] = was[i][k] or nil end
    end)
  end
end

function methods:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end

-- Sets the number of calls of step() to `steps`, and the number of updates of each parameter to the number in
-- `counts`; counts nil: to `steps`.
function methods:__count(steps, counts)
  self.inside.steps = steps
  for i, counter in ipairs(self.counts) do counter.steps = counts and counts[i] or steps end
end

-- Returns the state as named tensors: "0.m" is the state tensor m of the first parameter, "0.steps" is its number of
-- updates, "steps" the number of calls of step().
function methods:state_dict()
  local state = {steps = rille.tensor(self.steps, {dtype = "i64"})}
  for i, slot in ipairs(self.slots) do
    for name, t in pairs(slot) do state[("%d.%s"):format(i - 1, name)] = t:detach() end
    state[("%d.steps"):format(i - 1)] = rille.tensor(self.counts[i].steps, {dtype = "i64"})
  end
  return state
end

-- Loads a state that state_dict() returned for parameters of the same shapes. If a name or shape does not match,
-- changes nothing. In older states without counts per parameter, `steps` is the count of all.
function methods:load_state_dict(state)
  local who, list = self.kind.name .. ":load_state_dict", {}
  check.that(type(state) == "table", "%s: expected a table of tensors, found %s", who, check.shown(state))
  local function find(name, shape)
    local value = state[name]
    check.that(layout.is_tensor(value), "%s: '%s' is missing", who, name)
    local has, wanted = table.concat(value.shape, ", "), table.concat(shape, ", ")
    check.that(has == wanted, "%s: '%s' is {%s} here, {%s} in the loaded state", who, name, wanted, has)
    return value
  end
  local function count(name) return math.tointeger(check.whole(who, ("'%s'"):format(name), find(name, {}):item(), 0)) end
  local steps, known, counts = count("steps"), {steps = true}, {}
  for i, slot in ipairs(self.slots) do
    local own = ("%d.steps"):format(i - 1)
    counts[i], known[own] = state[own] and count(own) or steps, true
    for name, t in pairs(slot) do
      local path = ("%d.%s"):format(i - 1, name)
      list[#list + 1], known[path] = {path, t, find(path, t.shape)}, true
    end
  end
  for _, name in ipairs(check.sorted_keys(state)) do
    check.that(known[name], "%s: '%s' is not state of the %d parameters here", who, name, #self.params)
  end
  rille._take(who, list)
  self:__count(steps, counts)
end

-- Sets all options without a check, because only all values together are valid. all[0]: the options of the optimiser;
-- all[i]: those of group i.
function methods:__set_options(all)
  for g = 0, #all do
    local own = (self.groups[g] or self).own
    for name in pairs(self.kind.options) do rawset(own, name, own_value(all[g][name])) end
  end
  complete_all(self)
end

local function set_option(opt, name, value)
  local kind = opt.kind
  if name == "steps" then
    opt:__count(math.tointeger(check.whole(kind.name, "steps", value, 0)))
  elseif kind.options[name] ~= nil then
    set(opt, opt.own, name, value)
  else
    check.that(opt.inside[name] == nil, "%s: '%s' cannot be changed after creation", kind.name, check.named(name))
    check.fail("%s: unknown option '%s'%s; expected one of: %s", kind.name, check.named(name), check.option_hint(kind.name, name, kind.options), table.concat(check.sorted_keys(kind.options), ", "))
  end
end

-- For rille.snapshot: returns a function that restores the present options and step counts. The core restores
-- tensors.
local function keep(opt)
  local was, steps, counts, had = {}, opt.steps, {}, {}
  for i, slot in ipairs(opt.slots) do
    had[i], counts[i] = {}, opt.counts[i].steps
    for name in pairs(slot) do had[i][name] = true end
  end
  for g = 0, #opt.groups do
    local group = opt.groups[g] or opt
    was[g] = {}
    for name in pairs(opt.kind.options) do was[g][name] = own_value(rawget(group.own, name)) end
  end
  return function()
    for i = #counts + 1, #opt.counts do counts[i] = 0 end -- parameters of groups that were added after the snapshot
    opt:__count(steps, counts)
    opt:__set_options(was)
    -- removes state tensors that were added for an option set after the snapshot
    for i, slot in ipairs(opt.slots) do
      for name in pairs(slot) do slot[name] = (not had[i] or had[i][name]) and slot[name] or nil end
    end
  end
end

-- Returns the names of options whose change causes a retrace: all options except the learning rate.
local function constant_of(options)
  local names = {}
  for name in pairs(options) do
    if name ~= "lr" then names[#names + 1] = name end
  end
  return names
end

check.strict("optimizer", methods, true)

-- Reports to lua/step/reach.lua the options that compiled steps follow. The update reads all options except lr; user code
-- may read any option.
local function list_options(opt, note, _, offer)
  offer(opt, opt.kind.options)
  offer(opt, {steps = true})
  for _, group in ipairs(opt.groups) do
    offer(group, opt.kind.options)
    for _, name in ipairs(opt.kind.constant) do note(group, name) end
  end
end

-- Returns the constructor of a kind: optim.SGD(params, options).
return function(kind)
  kind.constant = constant_of(kind.options)
  return function(params, given)
    local own = setmetatable(check.options(kind.name, given, kind.options), {__index = methods})
    for name, value in pairs(own) do own[name] = own_value(value) end
    local inside = setmetatable({own = own, kind = kind, steps = 0, counts = {}, slots = {}, all_params = {}}, {__index = own})
    inside.inside = inside
    local opt = setmetatable({}, rille._refuse({__index = inside, __methods = methods, __newindex = set_option, __tostring = text_of,
      __class = kind.name}, nil, "write opt:step() after loss:backward()"))
    inside.all_groups = groups_of(opt, params)
    inside.groups = settled(kind, "groups", inside.all_groups)
    check_rate(kind, opt.lr)
    kind.check(opt)
    local all = inside.all_params -- includes frozen parameters, which may be unfrozen later
    each(opt, function(i, _, p) all[i], inside.counts[i] = p, {steps = 0} end)
    inside.params = settled(kind, "parameters", all)
    complete_all(opt)
    snapshot.watch(opt, keep)
    reach.object(opt, list_options)
    return opt
  end
end
