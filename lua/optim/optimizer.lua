-- optimizer.lua - what all optimisers share: parameters, their state, the learning rate, the count of steps.
--
-- A kind of optimiser is a table:
--   name, options   its defaults; each becomes a field, so opt.lr = 0.01 is what the next step uses
--   check(opt)      complains about options that make no sense
--   slots(opt)      names of the tensors it keeps for each parameter, like the parameter, zero at the start
--   update(opt, p, g, slot, lr, step)   records the update of one parameter
--
-- Inside a trace nothing runs; there lr and the step count are live numbers,
-- asked before each call of the compiled step, so a schedule does not recompile.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local methods = {}

local function check_parameters(name, params)
  check.that(type(params) == "table", "%s takes a list of parameters, not a %s", name, type(params))
  check.that(#params > 0, "%s: the list of parameters is empty", name)
  local seen = {}
  for i, p in ipairs(params) do
    check.that(layout.is_tensor(p), "%s: parameter %d is a %s, not a tensor", name, i, type(p))
    check.that(p.requires_grad, "%s: parameter %d does not require a gradient", name, i)
    check.that(not seen[p], "%s: parameter %d is in the list twice", name, i)
    seen[p] = true
  end
end

-- Calls fn as outside a trace: what it makes is there before the compiled step runs.
local function outside_trace(fn)
  local before = rille._trace_pause(true)
  local good, err = pcall(fn)
  rille._trace_pause(before)
  if not good then error(err, 0) end
end

-- Small steps are lost in 16 bits: state is kept in 32 at least.
local function slot_dtype(p)
  return (p.dtype == "bf16" or p.dtype == "f16") and "f32" or p.dtype
end

local function make_slots(opt)
  local names, slots = opt.kind.slots(opt), {}
  outside_trace(function()
    for i, p in ipairs(opt.params) do
      local how = layout.of(p)
      how.dtype = slot_dtype(p)
      slots[i] = {}
      for _, name in ipairs(names) do slots[i][name] = rille.zeros(p.shape, how) end
    end
  end)
  return slots
end

-- A parameter may have been laid out anew since: its state follows.
local function follow(slot, p)
  for _, t in pairs(slot) do
    if not layout.equal(t, p) then
      outside_trace(function() t:to_global_(layout.of(p)) end)
    end
  end
end

-- The user sets opt.lr between steps.
local function rate(opt)
  return check.number(opt.kind.name, "lr", opt.lr, 0)
end

-- The learning rate and the number of this step (from 1), as operands.
local function numbers(opt)
  if rille._tracing() then
    return rille.live(function() return rate(opt) end), rille.live(function()
      opt.steps = opt.steps + 1
      return opt.steps
    end)
  end
  local lr = rate(opt)
  opt.steps = opt.steps + 1
  return lr, opt.steps
end

-- Updates every parameter that has a gradient.
function methods:step()
  local lr, step = numbers(self)
  rille.no_grad(function()
    for i, p in ipairs(self.params) do
      local g = p.grad
      if g then
        follow(self.slots[i], p)
        self.kind.update(self, p, g, self.slots[i], lr, step)
      end
    end
  end)
  rille._step()
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

-- The constructor of a kind: optim.SGD(params, options).
return function(kind)
  return function(params, given)
    check_parameters(kind.name, params)
    local opt = check.options(kind.name, given, kind.options)
    opt.kind, opt.params, opt.steps = kind, table.move(params, 1, #params, 1, {}), 0
    check.number(kind.name, "lr", opt.lr, 0)
    kind.check(opt)
    opt.slots = make_slots(opt)
    return setmetatable(opt, meta)
  end
end
