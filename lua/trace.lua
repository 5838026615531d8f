-- trace.lua - follows what compiled steps read besides their arguments' tensors, so that they are traced again once it changes.
--
-- Each trace of a step has a list of places (lua/reach.lua) with the values that they had when the step was called: list[i] is
-- the holder, list[i + 1] the key, list[i + 2] the value, for i = 1, 4, ... below list.n; names[i] is the place in messages. The
-- shell compares the list before each call, and asks here about values that are not the same object.
--
-- What the step's function may read of the user's own is listed before the function runs. Layers and optimisers of Rille list
-- their fields when the function uses them (trace.follow).

local rille = require "rille"
local check = require "rille.check"
local reach = require "rille.reach"

local trace = {}

-- Returns what fn returns, called as outside a trace: what it makes is there before the compiled step runs.
function trace.outside(fn, ...)
  local before = rille._trace_pause(true)
  local results = table.pack(pcall(fn, ...))
  rille._trace_pause(before)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- ---- values ----

local DEEP <const> = 8 -- tables in tables; deeper ones are compared by identity

local function is_plain(v, depth) return type(v) == "table" and getmetatable(v) == nil and depth < DEEP end

local function copied(v, depth)
  if not is_plain(v, depth) then return v end
  local copy = {}
  for key, part in next, v do copy[key] = copied(part, depth + 1) end
  return copy
end

-- Plain tables are the same if their contents are; NaN is the same as NaN.
local function is_same(a, b, depth)
  if rawequal(a, b) or a ~= a and b ~= b then return true end
  if not is_plain(a, depth) or not is_plain(b, depth) then return false end
  for key, part in next, a do
    if not is_same(part, b[key], depth + 1) then return false end
  end
  for key in next, b do
    if a[key] == nil then return false end
  end
  return true
end

local read = rille._place

-- ---- modes of modules ----

-- Modules whose mode has ever changed -> their mode before the first change; number of changes.
local turned, clock = setmetatable({}, {__mode = "k"}), {turns = 0}

-- Are all modules in the modes in which the function found them? Called only after a mode has changed.
local function is_in_mode(list)
  if list.sets_modes then return true end
  for m, first in next, turned do
    local mode = list.modes[m]
    if mode == nil then mode = first end
    if m.training ~= mode then return false end
  end
  list[3] = clock.turns
  return true
end

-- Sets a module to training mode, or ends it.
function trace.turn(m, on)
  if m.training == on then return end
  if turned[m] == nil then turned[m] = m.training end
  rawset(m, "training", on)
  clock.turns = clock.turns + 1
end

-- ---- a trace's list ----

local weak = {__mode = "k"}

-- What is known of a step, for all of its traces. By holder and key: changed, how many traces changed the place; ignored: the
-- place is no longer followed. By name: counts, how many traces a change of the place has caused.
local function new_memory() return {changed = setmetatable({}, weak), ignored = setmetatable({}, weak), counts = {}} end

local function field_of(t, holder)
  t[holder] = t[holder] or {}
  return t[holder]
end

local function put(list, holder, key, value, name)
  local n = list.n
  list[n + 1], list[n + 2], list[n + 3], list.names[n + 1], list.n = holder, key, value, name, n + 3
end

local told = {} -- warnings that were printed

-- Prints a warning about the user's line, the first time.
local function warn_once(format, ...)
  local text = ("%s: graph: %s"):format(check.line(), format:format(...))
  if not told[text] then io.stderr:write("rille: warning: ", text, "\n") end
  told[text] = true
end

local OFTEN <const> = 8 -- traces for one place before a warning

-- The step is going to be traced again: counts which place has changed since the last trace.
local function count_change(memory, last)
  local i = last and rille._first_changed(last, 4)
  while i and is_same(last[i + 2], read(last[i], last[i + 1]), 0) do i = rille._first_changed(last, i + 3) end
  if not i or not last.names[i] then return end
  local name = last.names[i]
  memory.counts[name] = (memory.counts[name] or 0) + 1
  if memory.counts[name] ~= OFTEN then return end
  local number = type(last[i + 2]) == "number"
  warn_once("the step was traced %d times because '%s' changes from call to call, which is slow; %s", OFTEN + 1, name,
    number and "make it an argument that is a tensor, or a rille.live number" or "make it an argument")
end

-- A trace of fn is going to be made; args: what it is called with, traces: the step's other traces.
local function begin(fn, args, traces)
  local memory = traces.memory or new_memory()
  count_change(memory, traces.last)
  local list = {n = 0, names = {}, seen = {}, start = {}, counts = {}, memory = memory, modes = setmetatable({}, weak)}
  traces.memory, traces.last = memory, list
  put(list, clock, "turns", clock.turns)
  for m in next, turned do list.modes[m] = m.training end
  local function place(holder, key, value, name)
    local ignored = memory.ignored[holder]
    if not ignored or not ignored[key] then put(list, holder, key, value, name) end
  end
  local function note(holder, key) field_of(list.start, holder)[key] = {copied(read(holder, key), 0)} end
  local function count(...) list.counts[#list.counts + 1] = {...} end
  list.walk = reach.new{place = place, count = count, note = note, follows_all = trace.is_users}
  reach.from(list.walk, fn, "the step")
  for i = 1, args.n do reach.from(list.walk, args[i], "argument " .. i) end
  list.own = list.n -- places beyond are fields of Rille's own objects
  return list
end

-- Removes ignored places from a list.
local function drop_ignored(list)
  local n, own = 0, list.n
  for i = 1, list.n, 3 do
    local ignored = list.memory.ignored[list[i]]
    if not (ignored and ignored[list[i + 1]]) then
      list[n + 1], list[n + 2], list[n + 3], list.names[n + 1] = list[i], list[i + 1], list[i + 2], list.names[i]
      n = n + 3
    elseif i < list.own then
      own = own - 3
    end
  end
  list.n, list.own = n, math.min(own, n)
end

-- A compiled step does not repeat that its function changes a place.
local function tell_change(name)
  warn_once("the step's function changes '%s' itself, which happens when it is traced and not at each call", name)
end

-- The traced function itself changed place i. The trace serves calls that find the value that this one found. If a second trace
-- changed it, too, it is a running value: it is followed no more.
local function note_change(list, i)
  local holder, key, memory = list[i], list[i + 1], list.memory
  local changed = field_of(memory.changed, holder)
  changed[key] = (changed[key] or 0) + 1
  if changed[key] < 2 then return false end
  field_of(memory.ignored, holder)[key] = true
  tell_change(list.names[i])
  return true
end

-- The traced function has returned.
local function done(list, traces)
  local ignores = false
  for i = 4, list.n, 3 do
    local left = read(list[i], list[i + 1])
    if list[i + 1] == reach.SIZE then
      list[i + 2] = left
    elseif i <= list.own and not is_same(left, list[i + 2], 0) then
      ignores = note_change(list, i) or ignores
    end
  end
  for _, row in ipairs(list.counts) do
    local holder, key, value, name = table.unpack(row, 1, 4)
    if not is_same(read(holder, key), value, 0) then tell_change(name) end
  end
  if reach.is_cut(list.walk) then
    warn_once("the step's function can read more values than are followed; pass what changes as an argument")
  end
  list.walk, list.start, list.counts = nil, nil, nil
  if not ignores then return end
  drop_ignored(list)
  for _, other in ipairs(traces) do drop_ignored(other.conditions) end
end

-- Place i, or the mode of a module, is not the same object as at the trace: is its value the same?
local function holds(list, i)
  if i == 1 then return is_in_mode(list) end
  return is_same(list[i + 2], read(list[i], list[i + 1]), 0)
end

rille._conditions{begin = begin, done = done, holds = holds}

-- ---- what Rille's own objects follow ----

local followed = rille._conditions -- returns the list of the trace in progress; nil: none

-- Of a user's class? Replaced by lua/nn/settings.lua.
function trace.is_users() return false end

-- Ignores the modes in which the step in progress finds modules, because it sets all of them itself.
function trace.sets_modes()
  local list = followed()
  if list then list.sets_modes = true end
end

-- Makes the step in progress follow these fields of t. Their values are those before the step's function ran, if the walk found t.
function trace.follow(t, keys)
  local list = followed()
  for _, key in ipairs(list and keys or {}) do
    local value = copied(read(t, key), 0)
    local start = list.start[t] and list.start[t][key]
    if start then value = start[1] end
    put(list, t, key, value, check.named(key))
  end
end

-- Makes the step in progress follow all that is read through t, an object of a user's class.
function trace.follow_all(t, name)
  local list = followed()
  if list then reach.from(list.walk, t, name) end
end

local met = setmetatable({}, weak) -- by all traces

-- Is it the first time that the step in progress uses t? False if no step is traced.
function trace.meets(t)
  local list = followed()
  if not list or list.seen[t] then return false end
  list.seen[t], met[t] = true, true
  return true
end

-- Has any traced step used t?
function trace.has_met(t) return met[t] ~= nil end

return trace
