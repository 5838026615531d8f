-- trace.lua - what compiled steps are traced with besides tensors and numbers, so that they are traced again once it changes.

local rille = require "rille"

local trace = {}

-- What fn gives, called as outside a trace: what it makes is there before the compiled step runs.
function trace.outside(fn, ...)
  local before = rille._trace_pause(true)
  local results = table.pack(pcall(fn, ...))
  rille._trace_pause(before)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- ---- what a compiled step was traced with besides tensors and numbers ----

-- What a trace follows: fields, of which list[i] has list[i + 2] under list[i + 1], up to list.n, and values, which value.read()
-- gives. Each call of a step asks. Of plain tables what is in them counts, so copies are kept; NaN is as NaN.
local DEEP <const> = 8 -- tables in tables; those beyond are themselves

local function is_plain(v, depth) return type(v) == "table" and getmetatable(v) == nil and depth < DEEP end

local function kept(v, depth)
  if not is_plain(v, depth) then return v end
  local copy = {}
  for key, part in next, v do copy[key] = kept(part, depth + 1) end
  return copy
end

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

-- Modules whose mode has ever changed -> their mode before they first did; how often any has.
local turned, turns = setmetatable({}, {__mode = "k"}), 0

-- Are all modules in the modes in which the function found them? Asked again only after one has changed.
local function is_in_mode(list)
  if list.turns ~= turns and not list.sets_modes then
    list.turns, list.in_mode = turns, true
    for m, first in next, turned do
      local mode = list.modes[m]
      if mode == nil then mode = first end
      list.in_mode = list.in_mode and m.training == mode
    end
  end
  return list.in_mode
end

local function as_it_was(list)
  if list.never or not is_in_mode(list) then return false end
  local i = rille._first_changed(list, 1)
  while i do
    if not is_same(list[i][list[i + 1]], list[i + 2], 0) then return false end
    i = rille._first_changed(list, i + 3)
  end
  for _, value in ipairs(list.values) do
    if not is_same(value.read(), value.was, 0) then return false end
  end
  return true
end

-- A function is going to be traced again: what this trace of it follows is now as it finds it.
local function note_start(list)
  list.start, list.read = {}, {}
  for i = 1, list.n, 3 do
    local t, key = list[i], list[i + 1]
    list.start[t] = list.start[t] or {}
    list.start[t][key] = {kept(t[key], 0)}
  end
  for _, value in ipairs(list.values) do list.read[value.of] = {trace.outside(value.read)} end
end

-- {what was found} under key of t, of one key alone for values; nil: none of the traces followed that.
local function found(traces, what, t, key)
  for _, of in ipairs(traces or {}) do
    local list = of.conditions.fields
    local start = list and list[what] and list[what][t]
    if key ~= nil then start = start and start[key] end
    if start then return start end
  end
end

-- The traced function, which read `was`, has returned, and leaves `left`: what fits? What it read, unless it leaves another value.
-- Where that is what it had found it put it back, and that fits; where it read what it had found, it changed it later. What it
-- had found is known from its other traces on: one of which it is not known, or that read what it had made of it, never fits.
local function fitting(list, was, left, start)
  if is_same(left, was, 0) then return was end
  if start and is_same(left, start[1], 0) then return kept(left, 0) end
  list.never = list.never or not start or not is_same(start[1], was, 0)
  return was
end

local function settle(list, traces)
  for i = 1, list.n, 3 do
    local t, key = list[i], list[i + 1]
    list[i + 2] = fitting(list, list[i + 2], t[key], found(traces, "start", t, key))
  end
  for _, value in ipairs(list.values) do
    value.was = fitting(list, value.was, trace.outside(value.read), found(traces, "read", value.of))
  end
  for _, of in ipairs(traces or {}) do
    if of.conditions.fields then of.conditions.fields.start, of.conditions.fields.read = nil, nil end
  end
end

-- A trace is going to be made.
rille._conditions(function(conditions)
  local list = {n = 0, values = {}, seen = {}, modes = setmetatable({}, {__mode = "k"}), turns = turns, in_mode = true}
  for m in next, turned do list.modes[m] = m.training end
  conditions.fields = list
  conditions[1] = function(when)
    if when == "again" then return note_start(list) end
    if when == "traced" then return settle(list, conditions.traces) end
    return as_it_was(list)
  end
end)

-- Those of the trace that is being made; nil: none is made.
local function followed()
  local conditions = rille._conditions()
  return conditions and conditions.fields
end

-- A module goes to training mode, or leaves it.
function trace.turn(m, on)
  if m.training == on then return end
  if turned[m] == nil then turned[m] = m.training end
  rawset(m, "training", on)
  turns = turns + 1
end

-- The step that is being traced sets the modes of all modules itself, so that those in which it finds them are no matter.
function trace.sets_modes()
  local list = followed()
  if list then list.sets_modes = true end
end

-- The step that is being traced is traced again where one of these fields of t is another than it is now.
function trace.follow(t, keys)
  local list = followed()
  for _, key in ipairs(list and keys or {}) do
    list[list.n + 1], list[list.n + 2], list[list.n + 3], list.n = t, key, kept(t[key], 0), list.n + 3
  end
end

-- The same where read() gives another value than now, in tables of its own; of: whose value that is, one each.
function trace.follow_value(of, read)
  local list = followed()
  if list then list.values[#list.values + 1] = {of = of, read = read, was = trace.outside(read)} end
end

local met = setmetatable({}, {__mode = "k"}) -- by all traces

-- Is it the first time that the step which is being traced comes across t? False where none is traced.
function trace.meets(t)
  local list = followed()
  if not list or list.seen[t] then return false end
  list.seen[t], met[t] = true, true
  return true
end

-- Did any step that was traced?
function trace.has_met(t) return met[t] ~= nil end

return trace
