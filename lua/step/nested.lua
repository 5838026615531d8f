-- nested.lua - tables as arguments and results of compiled steps: step{ids = x, labels = y}.
--
-- A step compares its arguments by identity, and its inputs and outputs must be tensors. So a plain table cannot be
-- passed to the step itself. If the table contains tensors, or is not the table that the previous call passed, its
-- contents are copied into a holder. A holder is a table that the step keeps for each structure (the keys, and which
-- of them have tensors). The holder's tensors become further inputs of the step. The other values in a holder are
-- conditions of the trace, like those of any table that the function reads. A result that is a plain table with
-- tensors is stored as a template, from which each call makes a new table.
--
-- The step's state is a table of the shell (`traces`), with these fields: tables[i]: the last table passed as
-- argument i; spread[i]: true if argument i is copied into a holder; holders: the holders, by argument and structure;
-- slots: {holder, key, name} for each tensor of the present call; templates: the templates, by structure.

local check = require "rille.base.check"
local layout = require "rille.base.layout"

local nested = {}

local DEEP <const> = 8 -- maximum nesting depth

local function is_plain(v) return type(v) == "table" and getmetatable(v) == nil end

local function is_before(a, b)
  if type(a) ~= type(b) then return type(a) == "number" end
  return a < b
end

-- Returns the keys of a table in order. Keys other than numbers and strings are an error.
local function ordered_keys(t, who)
  local keys = {}
  for key in next, t do
    check.that(type(key) == "number" or type(key) == "string", "%s: keys must be numbers or strings, found %s", who, check.shown(key))
    keys[#keys + 1] = key
  end
  table.sort(keys, is_before)
  return keys
end
nested.ordered_keys = ordered_keys

local function has_tensor(t, depth)
  if depth > DEEP then return false end
  for _, v in next, t do
    if layout.is_tensor(v) or is_plain(v) and has_tensor(v, depth + 1) then return true end
  end
  return false
end

-- Returns the structure of a table as text. leaf(v): returns the text for a value that is no tensor.
local function structure_of(t, who, leaf, depth)
  check.that(depth <= DEEP, "%s: tables may be nested %d deep, found a deeper one", who, DEEP)
  local parts = {}
  for i, key in ipairs(ordered_keys(t, who)) do
    local v = t[key]
    local kind = layout.is_tensor(v) and "T" or is_plain(v) and structure_of(v, who, leaf, depth + 1) or leaf(v)
    parts[i] = ("%q=%s"):format(key, kind)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- ---- copying tables among the arguments into holders ----

-- Copies the contents of t into a holder, the table that the step keeps for tables with these keys. Appends the
-- tensors to the list `tensors`, and the place of each tensor in the holder to `slots`. path: name of t in messages.
local function copy_into(holder, t, path, tensors, slots)
  for key in next, holder do
    if t[key] == nil then holder[key] = nil end
  end
  for _, key in ipairs(ordered_keys(t, "graph: " .. path)) do
    local v, name = t[key], ("%s.%s"):format(path, key)
    if layout.is_tensor(v) then
      holder[key] = nil
      tensors[#tensors + 1], slots[#slots + 1] = v, {holder, key, name}
    elseif is_plain(v) then
      if not is_plain(holder[key]) then holder[key] = {} end
      copy_into(holder[key], v, name, tensors, slots)
    else
      holder[key] = v
    end
  end
end

local function is_spread(traces, i, t)
  traces.tables = traces.tables or setmetatable({}, {__mode = "v"})
  traces.spread = traces.spread or {}
  local last = traces.tables[i]
  traces.tables[i] = t
  if not traces.spread[i] then traces.spread[i] = has_tensor(t, 1) or last ~= nil and last ~= t end
  return traces.spread[i]
end

-- Returns the arguments of a call, with a holder in place of each copied table. The step keeps the holder, so its
-- identity does not change between calls. The tensors of these tables follow as further values.
function nested.spread(traces, ...)
  local args, tensors = table.pack(...), {}
  traces.slots, traces.holders = {}, traces.holders or {}
  for i = 1, args.n do
    local t = args[i]
    if is_plain(t) and is_spread(traces, i, t) then
      local path = "argument " .. i
      local name = i .. structure_of(t, "graph: " .. path, function() return "." end, 1)
      local holder = traces.holders[name] or {}
      traces.holders[name] = holder
      copy_into(holder, t, path, tensors, traces.slots)
      args[i] = holder
    end
  end
  table.move(tensors, 1, #tensors, args.n + 1, args)
  return table.unpack(args, 1, args.n + #tensors)
end

-- Puts the tensors that stand for one micro-batch into the holders (the step's own copies of the tables that were
-- passed as arguments), while the function is traced.
function nested.fill(traces, ...)
  for k, slot in ipairs(traces.slots) do slot[1][slot[2]] = select(k, ...) end
end

function nested.drain(traces)
  for _, slot in ipairs(traces.slots or {}) do slot[1][slot[2]] = nil end
end

-- ---- replacing tables among the results by templates ----

local is_template = setmetatable({}, {__mode = "k"})
local TENSOR <const> = {} -- stands for a tensor in a template

local function template_of(t, who, tensors)
  local template = {}
  for _, key in ipairs(ordered_keys(t, who)) do
    local v = t[key]
    if layout.is_tensor(v) then
      tensors[#tensors + 1], template[key] = v, TENSOR
    elseif is_plain(v) then
      template[key] = template_of(v, who, tensors)
    else
      template[key] = v
    end
  end
  return template
end

local function constant(v) return type(v) == "table" and tostring(v) or type(v) .. tostring(v) end

-- Returns the results of a traced function. Replaces each table that contains tensors by a template, which has the
-- table's keys, but no tensors. The tensors of these tables follow as further values.
function nested.gather(traces, ...)
  local results, tensors = table.pack(...), {}
  traces.templates = traces.templates or {}
  for i = 1, results.n do
    local t = results[i]
    if is_plain(t) and has_tensor(t, 1) then
      local who = ("graph: result %d"):format(i)
      local name = structure_of(t, who, constant, 1)
      local template = template_of(t, who, tensors)
      template = traces.templates[name] or template
      traces.templates[name], is_template[template] = template, true
      results[i] = template
    end
  end
  table.move(tensors, 1, #tensors, results.n + 1, results)
  return table.unpack(results, 1, results.n + #tensors)
end

-- Undoes nested.gather(): returns the n results, with a new table in place of each template. The arguments after the
-- n results are the tensors that fill these tables.
function nested.rebuild(n, ...)
  local values = table.pack(...)
  local at = n
  local function table_of(template)
    local t = {}
    for _, key in ipairs(ordered_keys(template, "graph: result")) do
      local v = template[key]
      if v == TENSOR then
        at = at + 1
        t[key] = values[at]
      else
        t[key] = is_plain(v) and table_of(v) or v
      end
    end
    return t
  end
  for i = 1, n do
    if is_template[values[i]] then values[i] = table_of(values[i]) end
  end
  return table.unpack(values, 1, n)
end

return nested
