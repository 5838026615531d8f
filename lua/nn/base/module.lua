-- module.lua - the base class of layers and networks.
--
--   local Net = nn.Module:extend("Net")          a class
--   function Net:init(d) self.fc = nn.Linear(d, d) end
--   function Net:forward(x) return self.fc(x):relu() end
--   local net = Net(64)                          an instance
--   local y = net(x)                             calls forward
--
-- An instance is a plain table that records the order in which its fields were first set. Traversals in that order
-- visit the parts of the instance: tensors that were parameters or frozen when they were set, buffers, modules, and
-- tables of these. In names, list members count from 0, as in checkpoints of other frameworks.

local rille = require "rille"
local check = require "rille.base.check"
local files = require "rille.nn.base.files"
local hooks = require "rille.base.hooks"
local layout = require "rille.base.layout"
local pin = require "rille.nn.base.pin"
local recompute = require "rille.step.recomputed"
local settings = require "rille.nn.base.settings"
local trace = require "rille.step.trace"

local Module = {__name = "nn.Module", training = true}
Module.__index = Module

local order_of = setmetatable({}, {__mode = "k"}) -- instance -> names of its fields, in the order first set
local kind_of = setmetatable({}, {__mode = "k"}) -- instance -> name -> "parameter" or "buffer"

-- Returns true if v is a tensor that requires a gradient, or a tensor that was frozen (requires_grad was set to
-- false).
local function is_parameter(v)
  return layout.is_tensor(v) and (v.requires_grad or rille._frozen(v))
end

-- Appends a name to a list of names. A field that was set to nil keeps its place.
local function add_once(order, name)
  for i = 1, #order do
    if order[i] == name then return end
  end
  order[#order + 1] = name
end

function Module.__newindex(self, name, value)
  add_once(order_of[self], name)
  kind_of[self][name] = is_parameter(value) and "parameter" or nil
  rawset(self, name, value)
  if settings.grows(self, value) then rille._generation() end
end

local function is_module(v)
  return type(v) == "table" and order_of[v] ~= nil
end

-- set of the modules whose activations are recomputed in the backward pass
local recomputed = setmetatable({}, {__mode = "k"})

local function plainly(fn, ...) return fn(...) end
local function unchanged(...) return ... end

-- Checks the first argument of one of Rille's layers if it is not a tensor. Otherwise the layer's operators would
-- report a nil argument at a line of Rille. Inside rille.per_rank the argument is an object that stands for a tensor.
local function check_input(self, x)
  local locals = package.loaded["rille.per_rank.local"]
  if self.__any_input or locals and locals.is(x) then return end
  check.fail("%s: input must be a tensor, found %s%s", self.__name, check.shown(x),
    x == nil and "; did the forward before it return a value?" or "")
end

-- Returns the forward of one of Rille's classes, with a check of its arguments.
local function checked_forward(class, forward)
  return function(self, ...)
    check.that(is_module(self), "%s: forward is a method: write net(x), or net:forward(x) with a colon (found self = %s)", class.__name,
      check.shown(self))
    if check.arguments(self.__name, forward, ...) and not layout.is_tensor(...) then check_input(self, ...) end
    return forward(self, ...)
  end
end

-- Sets a field of a class.
local function set_member(class, name, value)
  if name == "forward" and type(value) == "function" and check.is_own(value) then value = checked_forward(class, value) end
  rawset(class, name, value)
end

local function call(self, ...)
  local forward = self.forward
  if type(forward) ~= "function" then check.fn(self.__name, "forward", forward) end
  local p, around = pin.of[self], recomputed[self] and recompute or plainly
  if p then return pin.call(self, p, around, ...) end
  return unchanged(around(forward, self, ...)) -- no tail call, so that self stays on the stack for check.where
end
Module.__run = call

function Module.__call(self, ...)
  if rille._tracing() then settings.follow(self) end
  if hooks.has(self) then return hooks.call(self, function(...) return call(self, ...) end, ...) end
  return call(self, ...)
end

-- Returns true if a call of self only runs the forward of one of Rille's classes: self has no pin and no hooks
-- (recomputation is allowed). Only such modules may be computed together (__at_once). In a trace, the call of this
-- function counts as a call of self, so the step is traced again if a field of self changes.
function Module:__is_plain()
  if rille._tracing() then settings.follow(self) end
  return not pin.of[self] and not hooks.has(self) and rawget(self, "forward") == nil and check.is_own(self.forward)
end

-- Calls fn, which computes all these modules at once. If one of the modules is recomputed in the backward pass, all
-- that fn computes is recomputed.
function Module.__at_once(modules, fn, ...)
  for _, m in ipairs(modules) do
    if recomputed[m] then return recompute(fn, ...) end
  end
  return fn(...)
end

-- Recomputes the module's activations in the backward pass instead of keeping them (Chen et al. 2016). This saves
-- memory and costs time; results are bit-identical. net.blocks[1]:recompute() turns recomputation on,
-- recompute(false) off.
function Module:recompute(on)
  if on ~= nil then check.flag(self.__name .. ":recompute", "the argument", on) end
  recomputed[self] = on == nil or on or nil
  rille._generation()
  return self
end

-- Registers hooks of calls of the module; each returns a handle with :remove().
--   fn(module, args)                   before forward; returned values replace the arguments
--   fn(module, args, result...)        after forward; returned values replace the results
--   fn(module, dinput, doutput)        in backward; a returned list replaces the gradients of the arguments
function Module:register_forward_pre_hook(fn) return hooks.add(self, "pre", self.__name .. ":register_forward_pre_hook", fn) end
function Module:register_forward_hook(fn) return hooks.add(self, "forward", self.__name .. ":register_forward_hook", fn) end
function Module:register_full_backward_hook(fn) return hooks.add(self, "backward", self.__name .. ":register_full_backward_hook", fn) end

local function no_init(_) end

local function construct(class, ...)
  local self = setmetatable({training = class.training}, class)
  order_of[self], kind_of[self] = {}, {}
  local init = class.init or no_init
  check.fn(class.__name, "init", init)
  check.arguments(class.__name, init, ...)
  init(self, ...)
  settings.made(self, order_of[self])
  return self
end

-- Creates a subclass. Metamethods are copied because Lua does not inherit them.
function Module:extend(name)
  check.that(type(name) == "string", "%s:extend: expected the name of the class, found %s", self.__name, check.shown(name))
  local class = {}
  for key, value in pairs(self) do
    if type(key) == "string" and key:sub(1, 2) == "__" then class[key] = value end
  end
  class.__name, class.__index = name, class
  local meta = {__index = self, __newindex = set_member, __call = construct}
  return setmetatable(class, rille._refuse(meta, ("make a module first, as in %s(...)"):format(name)))
end

function Module:forward(...)
  check.fail("%s has no forward; write function %s:forward(x) return ... end", self.__name, self.__name:match("[%a_][%w_]*$") or "Net")
end

-- ---- visiting the parts of a module ----

-- Returns a key as it appears in a path; list members count from 0.
local function name_in_path(key)
  return math.type(key) == "integer" and tostring(key - 1) or key
end

-- Returns the integer keys of a plain table in order, also if some are missing, and then its string keys, sorted.
local function keys_of(t)
  local places, names = {}, {}
  for key in pairs(t) do
    local list = math.type(key) == "integer" and places or type(key) == "string" and names or nil
    if list then list[#list + 1] = key end
  end
  table.sort(places)
  table.sort(names)
  return table.move(names, 1, #names, #places + 1, places)
end

-- Calls visit(name, part, kind, key) for the parts of a module or plain table, in order of definition. kind:
-- "parameter" or "buffer", as recorded when the tensor was set; since then, a parameter may have been frozen.
local function each_part(v, visit)
  if is_module(v) then
    for _, key in ipairs(order_of[v]) do visit(name_in_path(key), rawget(v, key), kind_of[v][key], key) end
  elseif getmetatable(v) == nil then
    for _, key in ipairs(keys_of(v)) do visit(name_in_path(key), v[key], nil, key) end
  end
end

-- Calls visit(name, module) for the modules that v contains directly or in its tables.
local function each_member(v, path, visit, seen)
  seen = seen or {}
  if seen[v] then return end
  seen[v] = true
  each_part(v, function(name, part)
    if is_module(part) then visit(path .. name, part)
    elseif type(part) == "table" then each_member(part, path .. name .. ".", visit, seen) end
  end)
end

-- Returns the path of a module within the model that holds it, "Net.blocks.3.fc1", for error messages; nil if no
-- module holds it. Searches all existing modules, so that a module needs no reference to the module that holds it. If
-- two or more modules hold it, the first by name counts.
function Module.__path(module)
  local holder, name_in = {}, {}
  for m in pairs(order_of) do
    each_member(m, "", function(name, part)
      if not holder[part] or m.__name .. name < holder[part].__name .. name_in[part] then holder[part], name_in[part] = m, name end
    end)
  end
  local path, met = "", {}
  while holder[module] and not met[module] do
    met[module] = true
    path, module = "." .. name_in[module] .. path, holder[module]
  end
  return path ~= "" and module.__name .. path or nil
end

-- Returns a table whose keys are all modules, for error messages (shell/bind/base/lua_error.c). The table is not a
-- field of the class, because a trace would compare it.
function Module.__all() return order_of end

Module.__is = is_module

-- Returns the name of a parameter or buffer whose field no longer has a tensor, for error messages; nil: there is
-- none.
function Module.__spoilt(self)
  for name in pairs(kind_of[self]) do
    if not layout.is_tensor(rawget(self, name)) then return name end
  end
  return nil
end

-- Calls on_module(m, path) for all modules in v, and on_tensor(path, t, kind, holder, key) for all tensors. Each
-- module and table is visited once, even if two paths lead to it. The path of v itself is "".
local function walk(v, path, seen, on_module, on_tensor)
  if seen[v] then return end
  seen[v] = true
  if is_module(v) then on_module(v, path) end
  local within = path == "" and "" or path .. "."
  each_part(v, function(name, part, kind, key)
    if layout.is_tensor(part) then
      kind = kind or is_parameter(part) and "parameter"
      if kind then on_tensor(within .. name, part, kind, v, key) end
    elseif type(part) == "table" then
      walk(part, within .. name, seen, on_module, on_tensor)
    end
  end)
end

local function nothing() end

-- Returns a list with an entry for each name of each parameter and buffer: {name =, tensor =, kind =, holder =, key
-- =}. A tensor with two names has two entries; one name for two tensors is an error.
local function named(module)
  local list, called = {}, {}
  walk(module, "", {}, nothing, function(name, t, kind, holder, key)
    check.that(not called[name] or rawequal(called[name], t), "%s: two of its tensors are called '%s'", module.__name, name)
    called[name] = t
    list[#list + 1] = {name = name, tensor = t, kind = kind, holder = holder, key = key}
  end)
  return list
end

-- Returns the parameters or buffers, or both if `wanted` is nil, as a list of {name, tensor, holder, key}. wanted:
-- "parameter" or "buffer".
local function entries(module, wanted)
  local list = {}
  for _, found in ipairs(named(module)) do
    if not wanted or found.kind == wanted then list[#list + 1] = {found.name, found.tensor, found.holder, found.key} end
  end
  return list
end

-- Returns the list of the module and all modules inside it.
function Module:modules()
  local list = {}
  walk(self, "", {}, function(m) list[#list + 1] = m end, nothing)
  return list
end

-- Iterates over the modules by their first path; the module's own path is "": for path, m in net:named_modules() do
function Module:named_modules()
  local list, i = {}, 0
  walk(self, "", {}, function(m, path) list[#list + 1] = {path, m} end, nothing)
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end

-- Returns an iterator over a list of {name, tensor, ...}. The iterator returns each tensor once, with the first of
-- its names.
local function once(list)
  local seen, i = {}, 0
  return function()
    repeat i = i + 1 until not list[i] or not seen[list[i][2]]
    if not list[i] then return nil end
    seen[list[i][2]] = true
    return list[i][1], list[i][2]
  end
end

-- Returns every name of a parameter or buffer: {name =, tensor =, kind = "parameter" or "buffer", holder = the module
-- or table that has the tensor, key = its field there}.
function Module:named_tensors() return named(self) end

-- Iterates over the parameters, each under its first name: for name, p in net:named_parameters() do
function Module:named_parameters() return once(entries(self, "parameter")) end

function Module:parameters()
  local list = {}
  for _, p in self:named_parameters() do list[#list + 1] = p end
  return list
end

-- Registers a tensor t without gradient as part of the state: the tensor is saved, loaded and laid out with the
-- parameters.
function Module:buffer(name, t)
  local who = self.__name .. ":buffer"
  check.that(type(name) == "string" and layout.is_tensor(t), "%s: expected a name and a tensor, found %s and %s", who,
    check.shown(name), check.shown(t))
  check.that(not t.requires_grad, "%s: '%s' requires a gradient, so it is a parameter; write net.%s = t, or pass t:detach()", who,
    name, name)
  local old = check.field(self, name)
  check.that(old == nil or kind_of[self][name] == "buffer" or layout.is_tensor(old) and not kind_of[self][name],
    "%s: '%s' is %s of the module; choose another name, or set net.%s = nil before", who, name,
    kind_of[self][name] and "a parameter" or is_module(old) and "a part" or "a field or method", name)
  if not t.is_leaf then t = t:detach() end -- loads and layout changes need a variable, not the result of an operator
  self[name] = t
  kind_of[self][name] = "buffer"
  return t
end

-- Removes a parameter or buffer from the state. For internal use.
function Module:__drop(name)
  kind_of[self][name] = nil
  rawset(self, name, nil)
end

function Module:named_buffers() return once(entries(self, "buffer")) end

-- Calls fn on every module, children before parents.
function Module:apply(fn)
  check.fn(self.__name .. ":apply", "the argument", fn)
  local list = self:modules()
  for i = #list, 1, -1 do fn(list[i]) end
  return self
end

-- ---- reading and replacing parameters and buffers ----

-- Returns a table from name to value of each parameter and buffer; later updates do not change the values.
function Module:state_dict()
  local state = {}
  for _, entry in ipairs(entries(self)) do state[entry[1]] = entry[2]:detach() end
  return state
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local function shape_text(shape) return "{" .. table.concat(shape, ", ") .. "}" end

-- Groups a list of {name, tensor, ...} by tensor, in order: {{tensor, {name, ...}}, ...}.
local function by_tensor(list)
  local groups, group_of = {}, {}
  for _, entry in ipairs(list) do
    local name, t = entry[1], entry[2]
    if not group_of[t] then
      group_of[t] = {t, {}}
      groups[#groups + 1] = group_of[t]
    end
    table.insert(group_of[t][2], name)
  end
  return groups
end

-- Returns true if the values are equal; NaN equals NaN.
local function same_values(a, b)
  if rawequal(a, b) then return true end
  local there = b:to_global(layout.of(a))
  return not a:ne(there):logical_and(a:eq(a):logical_or(there:eq(there))):any():item()
end

-- Returns the value in `state` for a tensor, found under any of the tensor's names; nil: missing. Appends problems to
-- wrong.
local function value_for(t, names, state, wrong)
  local value, from
  for _, name in ipairs(names) do
    local v = state[name]
    if layout.is_tensor(v) then
      if not same_shape(t.shape, v.shape) then
        wrong[#wrong + 1] = ("'%s' is %s here, %s in the loaded state"):format(name, shape_text(t.shape), shape_text(v.shape))
      elseif value and not same_values(value, v) then
        wrong[#wrong + 1] = ("'%s' and '%s' are one tensor here but differ in the loaded state"):format(from, name)
      end
      value, from = value or v, from or name
    elseif v ~= nil then
      wrong[#wrong + 1] = ("'%s' must be a tensor in the loaded state, found %s"):format(name, check.shown(v))
      return
    end
  end
  return value
end

-- Copies values from state into parameters and buffers, which keep their layout, dtype and identity. Fails before any
-- tensor changes if shapes differ; unless options.strict is false, also if names differ. Returns the module and, if
-- strict is false, {missing =, unexpected =}, lists of names. who: the called method and its file, for messages.
function Module:__take(who, state, options)
  local strict = check.options(self.__name .. ":" .. who, options, {strict = true}).strict
  local wrong, known, values, missing, unexpected = {}, {}, {}, {}, {}
  for _, group in ipairs(by_tensor(entries(self))) do
    local t, names, before = group[1], group[2], #wrong
    for _, name in ipairs(names) do known[name] = true end
    local value = value_for(t, names, state, wrong)
    if value then values[#values + 1] = {names[1], t, value}
    elseif #wrong == before then missing[#missing + 1] = names[1] end
  end
  for _, name in ipairs(check.sorted_keys(state)) do
    if not known[name] then unexpected[#unexpected + 1] = name end
  end
  for _, name in ipairs(strict and missing or {}) do wrong[#wrong + 1] = ("'%s' is missing"):format(name) end
  for _, name in ipairs(strict and unexpected or {}) do wrong[#wrong + 1] = ("'%s' is not a parameter of this module"):format(name) end
  check.that(#wrong == 0, "%s:%s: %s", self.__name, who, check.problems(wrong))
  rille._take(self.__name .. ":" .. who, values)
  if strict then return self end
  return self, {missing = missing, unexpected = unexpected}
end

function Module:load_state_dict(state, options)
  check.that(type(state) == "table", "%s:load_state_dict: expected a table of tensors, found %s", self.__name, check.shown(state))
  return self:__take("load_state_dict", state, options)
end

Module.load, Module.__saved = files.load, files.saved

-- ---- setting training modes, layouts and dtypes ----

function Module:train(on)
  on = check.flag(self.__name .. ":train", "the argument", on == nil or on)
  for _, m in ipairs(self:modules()) do trace.turn(m, on) end
  return self
end

function Module:eval() return self:train(false) end

-- Redistributes every parameter and buffer in place: net:to_global{placement = P, sbp = "B"}. If one of the layouts
-- is impossible, changes nothing.
function Module:to_global(options)
  local list = {}
  for name, t in once(entries(self)) do list[#list + 1] = {name, t, options} end
  rille._lay(self.__name .. ":to_global", list)
  return self
end

-- Casts every parameter and buffer of a float dtype in place; if one of them cannot be cast, nothing changes. A
-- non-leaf tensor is replaced by a new leaf.
function Module:to(dtype)
  check.that(layout.is_float{dtype = dtype}, "%s:to: expected a float dtype, f32, f64, bf16 or f16, found %s%s", self.__name, check.shown(dtype),
    (dtype == "cuda" or dtype == "cpu" or layout.is_placement(dtype)) and "; net:to_global{placement =, sbp =} moves the module" or "")
  local cast, list, rows = {}, entries(self), {}
  for name, t in once(list) do
    if layout.is_float(t) and t.is_leaf then
      rows[#rows + 1] = {name, t}
    elseif layout.is_float(t) and t.dtype ~= dtype then
      cast[t] = rille.no_grad(function() return t:to(dtype) end):detach()
      cast[t].requires_grad = t.requires_grad
    end
  end
  rille._retype(self.__name .. ":to", rows, dtype)
  for _, entry in ipairs(list) do
    local _, t, holder, key = table.unpack(entry)
    if cast[t] then holder[key] = cast[t] end
  end
  rille._generation()
  return self
end

-- Ties two parameters: nn.tie(a, "weight", b, "weight") makes b use a's tensor.
function Module.tie(a, name, b, other)
  check.that(is_module(a) and type(name) == "string" and is_module(b) and type(other) == "string",
    "nn.tie: expected a module, a name, a module and a name, found %s",
    table.concat({check.shown(a), check.shown(name), check.shown(b), check.shown(other)}, ", "))
  local t, old = rawget(a, name), rawget(b, other)
  check.that(layout.is_tensor(t), "nn.tie: %s has no tensor '%s'", a.__name, name)
  check.that(old == nil or layout.is_tensor(old) and same_shape(t.shape, old.shape), "nn.tie: '%s' of %s is %s, '%s' of %s is %s",
    name, a.__name, shape_text(t.shape), other, b.__name, layout.is_tensor(old) and shape_text(old.shape) or check.shown(old))
  b[other] = t
  kind_of[b][other] = kind_of[a][name]
end

-- ---- showing a module's parts and statistics ----

-- Shows the module's parts, with the shapes, layouts and bytes per device of their parameters: net:show(["net.svg"]).
function Module:show(path) return require("rille.show.net")(self, path) end

-- Returns norms of parameters and gradients, shares of zeros, and the name of the first tensor with a nan. If
-- arguments of the module are given, also returns the norms of each module's results.
function Module:stats(...)
  check.that(is_module(self), "nn.Module.stats is a method: write x:stats(...), with a colon")
  return require("rille.base.look").module(self, ...)
end

-- Returns the text in parentheses when a layer is printed. Layers override this method and return their sizes.
function Module:describe() return "" end

-- Returns the values besides tensors that a class computes with, such as {window = self.window}. Classes override
-- this method; checkpoints save and compare the values.
function Module:settings() end

local printing = {} -- set of the modules being printed, to stop at a module that contains itself

function Module.__tostring(self)
  if printing[self] then return self.__name .. "(...)" end
  printing[self] = true
  local done <close> = setmetatable({}, {__close = function() printing[self] = nil end})
  local lines = {}
  each_member(self, "", function(name, member)
    lines[#lines + 1] = ("  (%s): %s"):format(name, (tostring(member):gsub("\n", "\n  ")))
  end)
  if #lines == 0 then return ("%s(%s)"):format(self.__name, self:describe()) end
  return ("%s(\n%s\n)"):format(self.__name, table.concat(lines, "\n"))
end

local tie = check.limited("nn.tie", Module.tie)
check.strict("nn.Module", Module, true)
Module.tie = tie

rille._refuse(Module, "call the module first, as in net(x)")
return setmetatable(Module, rille._refuse({__call = construct, __index = check.foreign_name}, "make a class with nn.Module:extend(name)"))
