-- hooks.lua - functions that run during forward or backward: x:register_hook(fn) in the backward pass through a
-- tensor, and hooks of modules (lua/nn/base/module.lua). Each registration returns a handle; handle:remove() removes the
-- hook.
--
-- A compiled step records the operators that hooks call. So a step is traced again if a hook of a parameter or module
-- is registered or removed, or if a value that a hook reads changes.

local rille = require "rille"
local check = require "rille.base.check"
local func = require "rille.func"
local layout = require "rille.base.layout"
local trace = require "rille.step.trace"

local hooks = {}

-- ---- handles that remove a hook ----

local handle = {__name = "hook handle"}
handle.__index = check.strict("handle", {remove = function(self)
  local remove = self.__remove
  self.__remove = nil
  if remove then remove() end
end}, true)

local function new_handle(remove) return setmetatable({__remove = remove}, handle) end

-- Returns the line where a hook is defined, "a.lua:3".
local function line_of(fn)
  local info = debug.getinfo(fn, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- ---- hooks of tensors ----

-- Calls fn with the gradient of x in each backward pass; a tensor that fn returns replaces the gradient.
function hooks.register_hook(x, fn)
  check.fn("register_hook", "the hook", fn)
  local id = rille._hook(x, function(gradient)
    if not fn then return end
    trace.follow_all(fn, "hook")
    local at, new = line_of(fn), fn(gradient) -- the hook may remove itself
    check.that(new == nil or layout.is_tensor(new), "hook at %s: expected a tensor or nothing as the new gradient, found %s", at, check.shown(new))
    return new
  end)
  local weak = setmetatable({x}, {__mode = "v"}) -- a weak reference, so that the handle does not keep the memory of x
  return new_handle(function()
    fn = nil
    if weak[1] then rille._unhook(weak[1], id) end
  end)
end

-- ---- hooks of modules ----

local lists = setmetatable({}, {__mode = "k"}) -- module -> {pre = {...}, forward = {...}, backward = {...}}

-- Registers fn as a hook of the module. kind: "pre", "forward" or "backward".
function hooks.add(module, kind, who, fn)
  check.fn(who, "the hook", fn)
  lists[module] = lists[module] or {pre = {}, forward = {}, backward = {}}
  local list, entry = lists[module][kind], {fn = fn}
  list[#list + 1] = entry
  rille._generation()
  return new_handle(function()
    for i, e in ipairs(list) do
      if e == entry then table.remove(list, i) break end
    end
    rille._generation()
  end)
end

-- Returns true if a module has hooks.
function hooks.has(module)
  local all = lists[module]
  return all ~= nil and (#all.pre > 0 or #all.forward > 0 or #all.backward > 0)
end

-- Calls the hooks of a list in turn: call(fn, values) returns the new values as a packed table, or nil for no change.
local function run(list, name, values, call)
  for _, entry in ipairs{table.unpack(list)} do -- iterates over a copy, because a hook may remove itself
    trace.follow_all(entry.fn, name)
    values = call(entry.fn, values) or values
  end
  return values
end

-- Checks the values that a hook returned: a tensor must be replaced by a tensor. what: "argument", "result" or
-- "gradient". now, new: packed values before and after.
local function checked(module, kind, fn, what, now, new)
  for i = 1, now.n do
    if layout.is_tensor(now[i]) and not layout.is_tensor(new[i]) then
      check.fail("%s: the %s at %s must return all %ss or nothing; %s %d must be a tensor, found %s", module.__name, kind,
        line_of(fn), what, what, i, check.shown(new[i]))
    end
  end
  return new
end

-- Calls a forward hook with the module and further values. Returns the packed results; nil: the hook returned nothing.
local function called(module, kind, fn, what, now, ...)
  local new = table.pack(fn(module, ...))
  if new[1] == nil then return end
  return checked(module, kind, fn, what, now, new)
end

-- Applies f, a function with its own gradient (rille.func), to the tensors among the values. Returns the values, with
-- the results of f in place of the tensors.
local function through(f, values)
  local list, places = {}, {}
  for i = 1, values.n do
    if layout.is_tensor(values[i]) then list[#list + 1], places[#places + 1] = values[i], i end
  end
  if #list == 0 then return values end
  local new, out = table.pack(f(table.unpack(list))), table.move(values, 1, values.n, 1, {n = values.n})
  for k, place in ipairs(places) do out[place] = new[k] end
  return out
end

local function same(_, ...) return ... end

-- Returns two identity functions of the autograd graph, one for the arguments and one for the results of a module. In
-- the backward pass, these functions call the module's backward hooks with the gradients.
local function watched(module, list)
  local doutput, takes = nil, false
  local function call(dinput)
    return run(list, module.__name .. " hook", dinput, function(fn, now)
      local new = fn(module, {table.unpack(now, 1, now.n)}, doutput)
      if new == nil then return end
      check.that(type(new) == "table", "%s: the full backward hook at %s must return a list of gradients or nothing, found %s",
        module.__name, line_of(fn), check.shown(new))
      for key in pairs(new) do
        check.that(math.type(key) == "integer" and key >= 1 and key <= now.n,
          "%s: the list of the full backward hook at %s must have one gradient per argument, 1 to %d, found the key %s",
          module.__name, line_of(fn), now.n, check.shown(key))
      end
      return checked(module, "full backward hook", fn, "gradient", now, {n = now.n, table.unpack(new, 1, now.n)})
    end)
  end
  local before = func{name = module.__name .. " backward hook", forward = same, backward = function(_, ...)
    local new = call(table.pack(...))
    return table.unpack(new, 1, new.n)
  end}
  local after = func{name = module.__name .. " backward hook", forward = same, backward = function(_, ...)
    doutput = {...}
    if not takes then call{n = 0} end
    return ...
  end}
  return function(values)
    for i = 1, values.n do takes = takes or layout.is_tensor(values[i]) and values[i].requires_grad end
    return through(before, values)
  end, function(values) return through(after, values) end
end

-- Calls fn, which runs the forward of the module `self`, with the module's hooks before and after it.
function hooks.call(self, fn, ...)
  local all, values, name = lists[self], table.pack(...), self.__name .. " hook"
  local enter, leave
  values = run(all.pre, name, values, function(hook, now) return called(self, "forward pre-hook", hook, "argument", now, now) end)
  if #all.backward > 0 then
    enter, leave = watched(self, all.backward)
    values = enter(values)
  end
  local given = values
  values = table.pack(fn(table.unpack(values, 1, values.n)))
  values = run(all.forward, name, values, function(hook, now)
    return called(self, "forward hook", hook, "result", now, given, table.unpack(now, 1, now.n))
  end)
  if leave then values = leave(values) end
  return table.unpack(values, 1, values.n)
end

return hooks
