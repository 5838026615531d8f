-- trace.lua - follows (records and compares) the values that a compiled step reads besides the tensors in its
-- arguments. If a value changes, the step is traced again.
--
-- Each trace of a step has a list of places (lua/step/reach.lua) with their values at the time of the call: list[i] is the
-- holder, list[i + 1] the key, list[i + 2] the value, for i = 1, 4, ... below list.n; names[i] names the place in
-- messages. Before each call the shell compares the listed values with the present values by identity. For each value
-- that is not identical, the shell asks this module whether the values are equal. Places of the user's program that
-- the function may read are listed before the function runs. Rille's layers and optimisers list their own fields when
-- the function uses them (trace.follow).

local rille = require "rille"
local branches = require "rille.step.branches"
local buckets = require "rille.step.buckets"
local bytecode = require "rille.step.bytecode"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nested = require "rille.step.nested"
local reach = require "rille.step.reach"

local trace = {}

-- Calls fn outside the current trace, so that its results exist before the compiled step runs.
function trace.outside(fn, ...)
  local before = rille._trace_pause(true)
  local results = table.pack(pcall(fn, ...))
  rille._trace_pause(before)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- ---- comparing values ----

local DEEP <const> = 8 -- maximum nesting depth of tables that are compared by contents; deeper tables are compared by identity

local function is_plain(v, depth) return type(v) == "table" and getmetatable(v) == nil and depth < DEEP end

local function copied(v, depth)
  if not is_plain(v, depth) then return v end
  local copy = {}
  for key, part in next, v do copy[key] = copied(part, depth + 1) end
  return copy
end

-- Returns true if a step computes the same with either number: 2 and 2.0 differ, as do 0.0 and -0.0; NaN equals NaN.
local function is_same_number(a, b)
  return math.type(a) == math.type(b) and (a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b)
end

-- Returns true for equal values. Plain tables are equal if their contents are equal.
local function is_same(a, b, depth)
  if type(a) == "number" then return is_same_number(a, b) end
  if rawequal(a, b) then return true end
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

-- ---- following the training modes of modules ----

-- first_mode: module whose mode has changed at least once -> its mode before the first change; clock.turns: number of
-- changes of modes
local first_mode, clock = setmetatable({}, {__mode = "k"}), {turns = 0}

-- Returns true if all modules are in the mode that they had when the trace began. Called only after some mode has changed.
local function is_in_mode(list)
  if list.sets_modes then return true end
  for m, first in next, first_mode do
    local mode = list.modes[m]
    if mode == nil then mode = first end
    if m.training ~= mode then return false end
  end
  list[3] = clock.turns
  return true
end

-- Sets a module's training mode. Counts the change, because traces depend on the modes.
function trace.turn(m, on)
  if m.training == on then return end
  if first_mode[m] == nil then first_mode[m] = m.training end
  rawset(m, "training", on)
  clock.turns = clock.turns + 1
end

-- ---- the list of values on which a trace depends ----

local weak = {__mode = "k"}

-- Creates the table that all traces of a step share. A place is a holder (function or table) and a key. Fields:
--   changed[holder][key]   number of traces in which the function itself changed the place
--   ignored[holder][key]   true if the place is not followed any more
--   failed[holder][key]    number of failed attempts to make the place's number live
--   counts[name]           number of traces that a change of the place with this name has caused
--   shapes, sizes, values  by name of an argument or dimension: the last shape, the sizes and the values of traces
local function new_memory()
  return {changed = setmetatable({}, weak), ignored = setmetatable({}, weak), failed = setmetatable({}, weak), counts = {},
    shapes = {}, sizes = {}, values = {}}
end

local function field_of(t, holder)
  t[holder] = t[holder] or {}
  return t[holder]
end

local function put(list, holder, key, value, name)
  local n = list.n
  list[n + 1], list[n + 2], list[n + 3], list.names[n + 1], list.n = holder, key, value, name, n + 3
end

local warned = {} -- texts of the warnings printed so far

-- Prints a warning with the user's line, once.
local function warn_once(format, ...)
  local text = ("%s: graph: %s"):format(check.line(), format:format(...))
  if not warned[text] then io.stderr:write("rille: warning: ", text, "\n") end
  warned[text] = true
end

-- number of traces caused by changes of one variable, field or argument after which a warning is printed
local OFTEN <const> = 8

-- Called before a step is traced again: finds the first variable, field or number argument in the list of the last
-- trace that has changed, and counts the change for its name.
local function count_change(memory, last)
  local i = last and rille._first_changed(last, 4)
  while i and is_same(last[i + 2], read(last[i], last[i + 1]), 0) do i = rille._first_changed(last, i + 3) end
  if not i or not last.names[i] then return end
  local name = last.names[i]
  memory.counts[name] = (memory.counts[name] or 0) + 1
  if memory.counts[name] ~= OFTEN then return end
  local number, argument = type(last[i + 2]) == "number", name:find("^argument ") ~= nil
  warn_once("the step was traced %d times because '%s' changes from call to call, which is slow; %s", OFTEN + 1, name,
    number and "pass it as a tensor or a rille.live number" or argument and "call the step with few different values" or "pass it as an argument")
end

-- Counts, for each dimension of a tensor, the sizes that differ from those in the last trace. name: "argument 1".
local function count_sizes(memory, name, shape)
  local before = memory.shapes[name] or shape
  for d = 1, #before == #shape and #shape or 0 do
    local place = ("dimension %d of %s"):format(d - 1, name)
    local sizes = memory.sizes[place] or {before[d]}
    if before[d] ~= shape[d] then sizes[#sizes + 1] = shape[d] end
    if before[d] ~= shape[d] and #sizes == OFTEN + 1 then
      warn_once("the step was traced %d times because %s has another size in each call (%s), which is slow; pad it to "
        .. "a few sizes: rille.graph(fn, {buckets = {%s, axis = %d}}), and mask the padding (?graph)", #sizes, place,
        table.concat(sizes, ", "), buckets.suggest(sizes), d - 1)
    end
    memory.sizes[place] = sizes
  end
  memory.shapes[name] = shape
end

-- Counts the different values of an argument that is neither a tensor nor a number. is_copy: the value is the step's
-- copy of a table; tables with the same keys have the same copy.
local function count_values(memory, name, value, is_copy)
  local seen = memory.values[name] or {n = 0, set = setmetatable({}, weak)}
  memory.values[name] = seen
  if value == nil or seen.set[value] then return end
  seen.set[value], seen.n = true, seen.n + 1
  if seen.n ~= OFTEN + 1 then return end
  warn_once("the step was traced %d times because %s %s in each call, which is slow; %s", OFTEN + 1, name,
    is_copy and "has other keys" or "is another " .. type(value),
    is_copy and "join its tensors, by rille.stack or rille.concat" or "call the step with few different values")
end

-- counter -> {n = number of updates}, for traces without a list: of the whole batch, and of check = "trace". Each such
-- trace follows a call of begin() or count_arguments(), which empty the table. done() empties it, too, because it would keep
-- optimisers alive.
local unlisted = {}

-- Called before a step is traced for new arguments. n: number of arguments; the tensors of tables follow them.
local function count_arguments(traces, n, ...)
  unlisted = {}
  traces.memory = traces.memory or new_memory()
  local memory, args = traces.memory, table.pack(...)
  for i = 1, args.n do
    local slot = i > n and traces.slots[i - n]
    local name, value = slot and slot[3] or "argument " .. i, args[i]
    if layout.is_tensor(value) then
      count_sizes(memory, name, value.shape)
    elseif type(value) ~= "number" then
      count_values(memory, name, value, traces.spread and traces.spread[i])
    end
  end
end

-- Returns the list of places (holder, key, value) for a new trace of fn with arguments args. numbers: those arguments
-- that are numbers.
local function new_list(fn, args, memory, numbers)
  local list = {n = 0, names = {}, seen = {}, fields = {}, start = {}, counts = {}, steps = {}, memory = memory,
    modes = setmetatable({}, weak)}
  put(list, clock, "turns", clock.turns)
  put(list, clock, rille._mode_key, read(clock, rille._mode_key))
  for m in next, first_mode do list.modes[m] = m.training end
  local function place(holder, key, value, name)
    local ignored = memory.ignored[holder]
    if not ignored or not ignored[key] then put(list, holder, key, value, name) end
  end
  local function note(holder, key) field_of(list.start, holder)[key] = {copied(read(holder, key), 0)} end
  local function count(...) list.counts[#list.counts + 1] = {...} end
  list.walk = reach.new{place = place, count = count, note = note, follows_all = trace.is_users}
  reach.from(list.walk, fn, "the step")
  for i = 1, args.n do
    reach.from(list.walk, args[i], "argument " .. i)
    if numbers[i] then place(numbers, i, numbers[i], "argument " .. i) end
  end
  list.own = list.n -- index after which places are fields of Rille's objects
  list.settled = reach.hides(list.walk)
  return list
end

-- ---- replacing changed numbers by live numbers ----

-- Live numbers. A number that a step reads is a constant of its trace, so a change of the number causes a new trace.
-- A live number is an input instead, which the compiled step reads before each run. A number that has changed becomes
-- live if the function only computes with it.
-- To find out, the function is traced with live numbers in place of the changed numbers. That trace, evaluated with
-- the former numbers, must record the same program as the former trace. Comparing a live number with < is an error,
-- and functions that need a number refuse it; both end the attempt. Lua permits two more uses: comparing numbers for
-- equality, and computing names of fields. rille._watch finds these. A function that may catch errors, or calls
-- another function that hides a use (reach.hides), gets no live numbers.

-- values in a trace's list that stand for any float (LIVE) or any integer (WHOLE): the place has a live number
local LIVE <const>, WHOLE <const> = rille._live_key, rille._whole_key

local function write(row, value)
  if type(row.holder) == "function" then
    debug.setupvalue(row.holder, row.key, value)
  else
    rawset(row.holder, row.key, value)
  end
end

-- Maximum number of attempts to make a number live (an input of the compiled step). An attempt fails by chance if the
-- number equals a constant of the program, because the trace cannot tell them apart.
local ATTEMPTS <const> = 2

-- Returns true if a live number (an input of the compiled step) can replace the number in this variable or field. It
-- must hold a number of the same type as before, and the holder itself must have the key, not a table that Lua finds
-- by __index.
local function can_be_live(memory, holder, key, was)
  local now, failed = read(holder, key), memory.failed[holder]
  return type(key) ~= "userdata" and math.type(now) and math.type(was) == math.type(now) and not (failed and (failed[key] or 0) >= ATTEMPTS)
    and (type(holder) == "function" or rawget(holder, key) ~= nil)
end

-- Returns the former value of each variable and field whose number has changed since the trace with the list `near`:
-- {[holder] = {[key] = former number}}; nil if a value other than a number has changed.
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

-- Adds a row to list.numbers for each variable or field in which a live number replaces the number during the trace.
local function add_numbers(list, found)
  list.numbers, list.live = {}, setmetatable({}, {__mode = "v"})
  for i = 1, list.own, 3 do
    local holder, key = list[i], list[i + 1]
    local former = found[holder] and found[holder][key]
    if former then list.numbers[#list.numbers + 1] = {i = i, holder = holder, key = key, former = former, now = list[i + 2]} end
  end
end

-- Puts the live numbers into the variables and fields whose numbers they replace, before the function runs.
local function enter(list)
  for k, row in ipairs(list.numbers or {}) do
    local holder, key, now = row.holder, row.key, row.now
    local live = rille.live(function()
      local v = read(holder, key)
      -- during tracing the variable or field holds the live number itself; then returns the number that it replaces
      return type(v) == "userdata" and now or v
    end)
    list.live[k] = live
    write(row, math.type(row.now) == "integer" and rille._live_whole(live) or live)
  end
  if list.numbers then list.watch = {rille._watch()} end
end

-- Puts the plain numbers back in place of the live numbers, and records whether the function changed one of these
-- variables or fields.
local function leave(list)
  if list.numbers then list.touched = rille._watched(table.unpack(list.watch)) end
  for k, row in ipairs(list.numbers or {}) do
    list.touched = list.touched or not rawequal(read(row.holder, row.key), list.live[k])
    write(row, row.now)
  end
end

-- Puts the former numbers in place of the live numbers, or restores the present numbers.
local function set_numbers(list, former)
  for _, row in ipairs(list.numbers) do write(row, former and row.former or row.now) end
end

-- Decides whether the numbers stay live. good: the trace recorded the same program as the former trace. Must be
-- called after a garbage collection. If a live number still exists then, the function has stored it somewhere, so its
-- place cannot hold a live number.
local function proven(list, good, traces)
  good = good and not list.touched and next(list.live) == nil
  for _, row in ipairs(list.numbers) do
    local failed = field_of(list.memory.failed, row.holder)
    if good then list[row.i + 2] = math.type(row.now) == "integer" and WHOLE or LIVE else failed[row.key] = (failed[row.key] or 0) + 1 end
  end
  if good then traces.last = list end
  return good
end

-- Warns if fn compares tensors with numbers by ==, or branches on tensors: Lua does not look at their values.
local function warn_of_branches(fn, args)
  local list = {}
  for i = 1, args.n do
    -- a light userdata, which has no metatable, stands for a tensor
    list[i] = type(args[i]) == "userdata" and not debug.getmetatable(args[i]) and branches.TENSOR or nil
  end
  branches.search(fn, list, function(kind, line)
    if kind == "number" then
      warn_once("%s compares a tensor with a number by == or ~=, whose result does not depend on values; write x:eq(y)", line)
    elseif kind == "branch" then
      warn_once("%s branches on a tensor, which counts as true whatever its values; choose by c:where(a, b)", line)
    end
  end)
end

-- Begins a trace of fn. near nil: begins an ordinary trace. Otherwise near is the list (places and their values) of
-- an earlier trace, of which some values have changed. Then begins a trace with live numbers in place of the changed
-- numbers, or returns nil if another value than a number has changed.
local function begin(fn, args, traces, near)
  unlisted = {}
  traces.memory = traces.memory or new_memory()
  local memory, found = traces.memory, nil
  if near then
    found = changed_numbers(memory, near)
    if not found then return nil end
  else
    count_change(memory, traces.last)
  end
  local list = new_list(fn, args, memory, traces.numbers)
  warn_of_branches(fn, args)
  if found then add_numbers(list, found) else traces.last = list end
  return list
end

-- ---- values that the traced function itself changes ----

-- Removes from a trace's list the places that are no longer followed, because the function itself changes them
-- (memory.ignored).
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

-- Warns that a compiled step does not repeat a change made by its function.
local function tell_change(name)
  warn_once("the step's function changes '%s', which happens once, when it is traced, and not at each call", name)
end

-- Records that the traced function changed the value of place i of the list, a variable or field. The trace fits only
-- calls that find the value before the change. If a second trace also changes it, the value changes from call to
-- call, like a counter. Then stops following the place, and returns true.
local function note_change(list, i)
  local holder, key, memory = list[i], list[i + 1], list.memory
  local changed = field_of(memory.changed, holder)
  changed[key] = (changed[key] or 0) + 1
  if changed[key] < 2 then return false end
  field_of(memory.ignored, holder)[key] = true
  tell_change(list.names[i])
  return true
end

-- Fails if the function has assigned another tensor to a place that the trace read. The compiled step would read the old
-- tensor in each call. Puts the old tensors back.
local function refuse_carried(list)
  local name, replaced
  for i = 4, list.n, 3 do
    local left = type(list[i + 1]) ~= "userdata" and read(list[i], list[i + 1])
    if not rawequal(left, list[i + 2]) and layout.is_tensor(left) then
      replaced = replaced or {}
      replaced[#replaced + 1] = i
      name = name or rille._trace_carries(list[i + 2], left) and list.names[i]
    end
  end
  for _, i in ipairs(name and replaced or {}) do write({holder = list[i], key = list[i + 1]}, list[i + 2]) end
  check.that(not name, "graph: the step's function replaces the tensor '%s', which it reads, by another one, and a compiled step does not "
    .. "repeat assignments of Lua; write %s:copy_(y), or return y and pass it as an argument", name, name)
end

local function put_back(holder, key, value)
  if type(key) ~= "userdata" and not rawequal(read(holder, key), value) then write({holder = holder, key = key}, value) end
end

-- Ends the trace of the whole batch, which a step of micro-batches makes before its trace: puts back the values of the
-- user's variables and fields that the function has changed, so that the function changes them once.
local function leave_whole(list, failed)
  local ok, message = true, nil
  if not failed then ok, message = pcall(refuse_carried, list) end
  for i = 4, list.own, 3 do put_back(list[i], list[i + 1], list[i + 2]) end
  for _, row in ipairs(list.counts) do put_back(row[1], row[2], row[3]) end
  if not ok then error(message, 0) end
end

-- Ends a trace, after the function has returned or failed. list.repeats: the trace is only compared with an earlier one.
local function done(list, failed, traces)
  unlisted = {}
  leave(list)
  if failed or list.repeats then return end
  refuse_carried(list)
  local ignores = false
  for i = 4, list.n, 3 do
    local left = read(list[i], list[i + 1])
    if list[i + 1] == reach.KEYS then
      list[i + 2] = left
    elseif i <= list.own and not is_same(left, list[i + 2], 0) then
      ignores = note_change(list, i) or ignores
    end
  end
  for _, row in ipairs(list.counts) do
    local holder, key, value, name = table.unpack(row, 1, 4)
    if not is_same(read(holder, key), value, 0) then tell_change(name) end
  end
  local loaded = reach.loaded(list.walk)
  if loaded then put(list, package.loaded, loaded, {}, loaded) end -- no later call finds this value
  local fixed, cut = reach.fixed(list.walk), reach.cut(list.walk)
  if fixed then
    warn_once("the step's function can read %s, whose value stays that of the trace; pass it as an argument, or use rille.live, or rille.rand for "
      .. "random numbers", fixed)
  end
  if cut then
    warn_once("the step's function can read too many values to follow, such as '%s'; changes of these are not noticed: pass values that change as "
      .. "arguments", cut)
  end
  list.walk, list.start, list.counts, list.steps, list.fields = nil, nil, nil, nil, nil
  if not ignores then return end
  drop_ignored(list)
  for _, other in ipairs(traces) do drop_ignored(other.conditions) end
end

-- Called if entry i of a trace's list, a variable or field, has another value than recorded: returns true if the two
-- values are equal. For i = 1, returns true if all modules are in their recorded training modes.
local function holds(list, i)
  if i == 1 then return is_in_mode(list) end
  return is_same(list[i + 2], read(list[i], list[i + 1]), 0)
end

-- Makes the current step follow a field of a tensor that the function reads. key: requires_grad, name, is_leaf, or
-- whether the tensor has a gradient.
local function reads_field(t, key)
  local list = rille._conditions()
  local fields = list and field_of(list.fields, t)
  if not fields or fields[key] then return end
  fields[key] = true
  put(list, t, key, read(t, key), check.named(key))
end

-- Returns, by line, the registers that the code of fn tests for equality or uses as keys, for which a live number
-- would be a mistake (bytecode.tests). Returns {} for trace.lua and reach.lua, which may use live numbers as keys.
local function tests(fn)
  local source = debug.getinfo(fn, "S").source
  return source ~= "=rille.trace" and source ~= "=rille.reach" and bytecode.tests(fn) or {}
end

rille._conditions{tests = tests, begin = begin, reads_field = reads_field, sizes = count_arguments, enter = enter, leave_whole = leave_whole, done = done, set_numbers = set_numbers, proven = proven, holds = holds,
  spread = nested.spread, fill = nested.fill, drain = nested.drain, gather = nested.gather, rebuild = nested.rebuild,
  read_buckets = buckets.read, call_in_bucket = buckets.call}

-- ---- following the fields of Rille's own objects ----

local followed = rille._conditions -- function that returns the list of the current trace; nil: no trace

-- Returns true for a module of a user's class. Replaced by lua/nn/base/settings.lua.
function trace.is_users() return false end

-- Makes the current step independent of the previous modes of modules, because the step sets all modes itself.
function trace.sets_modes()
  local list = followed()
  if list then list.sets_modes = true end
end

-- Makes the current step depend on these fields of t. A field that was recorded before the function ran
-- (lua/step/reach.lua) keeps its recorded value.
function trace.follow(t, keys)
  local list = followed()
  for _, key in ipairs(list and keys or {}) do
    local value = copied(read(t, key), 0)
    local start = list.start[t] and list.start[t][key]
    if start then value = start[1] end
    put(list, t, key, value, check.named(key))
  end
end

-- Makes the current step depend on everything that is read through t, an object of a user's class.
function trace.follow_all(t, name)
  local list = followed()
  if list then reach.from(list.walk, t, name) end
end

-- Adds an update to those that the current trace makes and counter.steps counts. Returns the number of earlier updates;
-- and a function that returns this number while the compiled step runs, when counter.steps includes all its updates.
function trace.steps(counter)
  local list = followed()
  local steps = list and list.steps or rille._tracing() and unlisted or {}
  local made = field_of(steps, counter)
  local earlier = made.n or 0
  made.n = earlier + 1
  return counter.steps + earlier, function() return math.max(counter.steps - made.n + earlier, 0) end
end

local met = setmetatable({}, weak) -- objects that some traced step has used

-- Returns true if a step is being traced, and this is its first use of t.
function trace.meets(t)
  local list = followed()
  if not list or list.seen[t] then return false end
  list.seen[t], met[t] = true, true
  return true
end

-- Returns true if some traced step has used t.
function trace.has_met(t) return met[t] ~= nil end

return trace
