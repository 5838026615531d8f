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
-- place is no longer followed; banned: its number cannot be live. By name: counts, how many traces a change of the place has caused.
local function new_memory()
  return {changed = setmetatable({}, weak), ignored = setmetatable({}, weak), banned = setmetatable({}, weak), counts = {}}
end

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
    number and "pass it as an argument: a tensor or a rille.live number" or "pass it as an argument")
end

-- The list of a trace of fn that is going to be made; args: what it is called with.
local function new_list(fn, args, memory)
  local list = {n = 0, names = {}, seen = {}, start = {}, counts = {}, memory = memory, modes = setmetatable({}, weak)}
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
  list.settled = list.walk.computed or list.walk.compares
  return list
end

-- ---- numbers ----

-- A number that changed becomes a live number, which costs no new trace, if the step's function only computes with it: a trace
-- in which live numbers stand for the changed numbers must give the former trace's program, with the former numbers. Comparing a
-- live number with < is an error, and functions that need a number refuse it; both end such a trace. Equality with a number and
-- names of fields that are computed would go unnoticed, so functions with them have no live numbers.
local LIVE <const>, WHOLE <const> = rille._live_key, rille._whole_key -- values of places that may be any float, any integer

local function write(row, value)
  if type(row.holder) == "function" then
    debug.setupvalue(row.holder, row.key, value)
  else
    rawset(row.holder, row.key, value)
  end
end

-- May the place hold a live number, in its holder itself?
local function can_be_live(memory, holder, key, was)
  local now, banned = read(holder, key), memory.banned[holder]
  return key ~= reach.SIZE and math.type(now) and math.type(was) == math.type(now) and not (banned and banned[key])
    and (type(holder) == "function" or rawget(holder, key) ~= nil)
end

-- The places whose numbers changed since the trace of `near`, {[holder] = {[key] = former number}}; nil: there is another change.
local function changed_numbers(memory, near)
  local found, i = {}, rille._first_changed(near, 1)
  if near.settled then return nil end
  while i do
    local holder, key, was = near[i], near[i + 1], near[i + 2]
    if i > 1 and i < near.own and can_be_live(memory, holder, key, was) then
      field_of(found, holder)[key] = was
    elseif not (i == 1 and is_in_mode(near) or is_same(was, read(holder, key), 0)) then
      return nil
    end
    i = rille._first_changed(near, i + 3)
  end
  for k = 1, near.own, 3 do
    if near[k + 2] == LIVE or near[k + 2] == WHOLE then field_of(found, near[k])[near[k + 1]] = read(near[k], near[k + 1]) end
  end
  return next(found) and found
end

-- Makes rows of the list's places that get live numbers.
local function add_numbers(list, found)
  list.numbers, list.live = {}, setmetatable({}, {__mode = "v"})
  for i = 1, list.own, 3 do
    local holder, key = list[i], list[i + 1]
    local former = found[holder] and found[holder][key]
    if former then list.numbers[#list.numbers + 1] = {i = i, holder = holder, key = key, former = former, now = list[i + 2]} end
  end
end

-- Puts live numbers into their places, before the step's function runs.
local function enter(list)
  for k, row in ipairs(list.numbers or {}) do
    local holder, key, now = row.holder, row.key, row.now
    local live = rille.live(function()
      local v = read(holder, key)
      return type(v) == "userdata" and now or v -- during the trace the live number itself is there
    end)
    list.live[k] = live
    write(row, math.type(row.now) == "integer" and rille._live_whole(live) or live)
  end
end

-- Puts the numbers back; notes places that the function itself changed.
local function leave(list)
  for k, row in ipairs(list.numbers or {}) do
    list.touched = list.touched or not rawequal(read(row.holder, row.key), list.live[k])
    write(row, row.now)
  end
end

-- Sets the former numbers, or the present ones.
local function set_numbers(list, former)
  for _, row in ipairs(list.numbers) do write(row, former and row.former or row.now) end
end

-- Rille's garbage has been collected. good: the trace is the former one with live numbers. Are they live from now on? Not if the
-- function has kept one of them.
local function proven(list, good, traces)
  good = good and not list.touched and next(list.live) == nil
  for _, row in ipairs(list.numbers) do
    if good then list[row.i + 2] = math.type(row.now) == "integer" and WHOLE or LIVE else field_of(list.memory.banned, row.holder)[row.key] = true end
  end
  if good then traces.last = list end
  return good
end

-- A trace of fn is going to be made, with other values than the step's other traces. near: the list of a trace that serves but
-- for its values, to make one with live numbers from it; nil: none is wanted.
local function begin(fn, args, traces, near)
  traces.memory = traces.memory or new_memory()
  local memory, found = traces.memory, nil
  if near then
    found = changed_numbers(memory, near)
    if not found then return nil end
  else
    count_change(memory, traces.last)
  end
  local list = new_list(fn, args, memory)
  if found then add_numbers(list, found) else traces.last = list end
  return list
end

-- ---- changes by the function itself ----

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
  warn_once("the step's function changes '%s', which happens once, when it is traced, and not at each call", name)
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

-- The traced function has returned, or failed.
local function done(list, failed, traces)
  leave(list)
  if failed then return end
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
    warn_once("the step's function can read too many values to track; pass values that change as arguments")
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

rille._conditions{begin = begin, enter = enter, done = done, set_numbers = set_numbers, proven = proven, holds = holds}

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
