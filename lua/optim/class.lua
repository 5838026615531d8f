-- class.lua - optim.class{...}: defines an optimiser whose update the user writes in tensor operations.
--
--   local Lion = optim.class{name = "Lion", options = {lr = 1e-4, beta1 = 0.9, beta2 = 0.99}, state = {"m"},
--     update = function(o, p, g, state)
--       local step = (state.m * o.beta1 + g * (1 - o.beta1)):sign()
--       return p - step * o.lr, {m = state.m * o.beta2 + g * (1 - o.beta2)}
--     end}
--   local opt = Lion(net:parameters(), {lr = 1e-3})
--
-- The base class (optimizer.lua) handles groups, step counts, checkpoints and snapshots. update receives the
-- parameter and its gradient in the dtype and layout of the state. So ZeRO of rille.parallel shards the update as it
-- does for AdamW, and only the new parameter is gathered.

local rille = require "rille"
local bytecode = require "rille.step.bytecode"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local optimizer = require "rille.optim.optimizer"
local reach = require "rille.step.reach"
local trace = require "rille.step.trace"

-- Converts t to the dtype and layout of a state tensor.
local function laid(t, dtype, how)
  if t.dtype ~= dtype then t = t:to(dtype) end
  return layout.equal(t, how) and t or t:to_global(how)
end

local function dtype_of(p) return (p.dtype == "bf16" or p.dtype == "f16") and "f32" or p.dtype end

local function check_value(name, what, value, p)
  check.that(layout.is_tensor(value), "%s: update must return the new %s as a tensor, found %s", name, what, check.shown(value))
  local has, wants = tostring(value.shape), tostring(p.shape)
  check.that(has == wants, "%s: the new %s must have the shape of the parameter, %s, found %s", name, what, wants, has)
end

-- Returns the function that records the update of one parameter.
local function updater(name, names, update)
  return function(group, p, g, slot, lr, step, counter)
    local steps, steps_in_run = trace.steps(counter)
    if type(lr) == "number" then
      step = steps + 1
    elseif rille._tracing() then
      step = rille._live_whole(rille.live(function() return steps_in_run() + 1 end))
    end
    local how, dtype, given = layout.of_state(p), dtype_of(p), {}
    for _, key in ipairs(names) do given[key] = slot[key] end
    local o = setmetatable({lr = lr, step = step}, {__index = group})
    local new, state = update(o, laid(p, dtype, how), laid(g, dtype, how), given)
    check_value(name, "parameter", new, p)
    check.that(type(state) == "table" or #names == 0, "%s: update must return the new parameter and a table of the new state {%s}, found %s",
      name, table.concat(names, ", "), check.shown(state))
    for _, key in ipairs(names) do check_value(name, "state '" .. key .. "'", state[key], p) end
    for key in pairs(state or {}) do
      check.that(slot[key] ~= nil, "%s: update returned unknown state '%s'; expected: %s", name, check.named(key), table.concat(names, ", "))
    end
    for _, key in ipairs(names) do rille._update_to(slot[key], laid(state[key], slot[key].dtype, how)) end
    rille._update_to(p, new:to(p.dtype))
  end
end

-- Adds to `found` how fn, and the user's functions that fn may call, may use a number without an error if it is a
-- live number (a number that a compiled step reads before each run). found.hides: they catch errors, or call another
-- function that hides such a use. found.compares, found.computed: they compare numbers for equality, or compute names
-- of fields (lua/step/bytecode.lua).
local function note_uses(fn, found)
  found.hides = found.hides or reach.is_hiding(fn)
  if type(fn) ~= "function" or found[fn] or check.is_own(fn) or debug.getinfo(fn, "S").what == "C" then return end
  found[fn] = true
  local reads = bytecode.reads(fn)
  found.compares, found.computed = found.compares or reads.compares, found.computed or reads.computed
  for i = 1, debug.getinfo(fn, "u").nups do
    local _, value = debug.getupvalue(fn, i)
    note_uses(value, found)
  end
  for _, read in ipairs(reads.within) do
    local name, t = debug.getupvalue(fn, read[1])
    if name == "_ENV" and type(t) == "table" then note_uses(rawget(t, read[2]), found) end
  end
end

-- Returns true if update needs lr and step as plain numbers, because it makes decisions by their values. Calls update
-- on meta devices, where tensors have no values, with live numbers: numbers that a compiled step reads before each
-- run, and that cannot be compared.
local function needs_numbers(update, names, group, p)
  local how, given = {dtype = dtype_of(p), placement = rille.placement("meta", {0})}, {}
  for _, key in ipairs(names) do given[key] = rille.zeros(p.shape, how) end
  local function one() return 1 end
  local o = setmetatable({lr = rille.live(one), step = rille._live_whole(rille.live(one))}, {__index = group})
  local p0, g0, set, was = rille.zeros(p.shape, how), rille.zeros(p.shape, how), rille._watch()
  local good, why = pcall(update, o, p0, g0, given)
  local found = {hides = rille._watched(set, was)}
  note_uses(update, found)
  return found.hides or not good and (found.compares or found.computed or tostring(why):find("live number", 1, true) ~= nil)
end

-- Returns true if update needs plain numbers for some parameter of the optimiser.
local function any_needs_numbers(update, names, opt)
  for _, group in ipairs(opt.groups) do
    for _, p in ipairs(group.params) do
      if needs_numbers(update, names, group, p) then return true end
    end
  end
  return false
end

local function no_check() end

-- Returns the check of options: an option whose default is a number must be a number; then calls the user's check.
local function checker(name, defaults, check_more)
  return function(o)
    for _, key in ipairs(check.sorted_keys(defaults)) do
      check.that(key == "lr" or type(defaults[key]) ~= "number" or type(o[key]) == "number",
        "%s: %s must be a number, found %s", name, key, check.quoted(o[key]))
    end
    check_more(o)
  end
end

-- Checks the names of the state tensors, and returns the list.
local function state_names(given)
  check.that(type(given) == "table", "optim.class: state must be a list of names, found %s", check.shown(given))
  local names, seen = {}, {steps = true}
  for i, name in ipairs(given) do
    check.that(type(name) == "string" and name:find("^[%a_][%w_]*$"), "optim.class: name %d of state must be a word, found %s", i, check.shown(name))
    check.that(not seen[name], name == "steps" and "optim.class: the state name 'steps' is taken" or "optim.class: the state name '%s' occurs twice", name)
    names[i], seen[name] = name, true
  end
  return names
end

return function(given)
  local c = check.options("optim.class", given,
    {name = check.none, options = {lr = 1e-3}, state = {}, update = check.none, check = no_check})
  check.name("optim.class", c.name)
  check.that(type(c.options) == "table", "%s: options must be a table of defaults with lr, found %s", c.name, check.shown(c.options))
  check.number(c.name, "options.lr", c.options.lr, 0)
  check.fn(c.name, "update", c.update)
  check.fn(c.name, "check", c.check)
  local names = state_names(c.state)
  local kind = {name = c.name, options = c.options, check = checker(c.name, c.options, c.check), every = names, slots = function() return names end,
    update = updater(c.name, names, c.update), begin = function(opt)
      if not rille._tracing() then return false end
      trace.follow_all(c.update, c.name)
      local seed, count = rille._random() -- restored, because the attempt must not change the numbers that the program draws
      local plain = trace.outside(rille.no_grad, any_needs_numbers, c.update, names, opt)
      rille._random(seed, count)
      return plain
    end}
  return optimizer(kind)
end
