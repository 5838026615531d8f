-- records.lua - metatables that make results (tables of numbers) print as text: step:stats(), net:stats(),
-- x:shards(), rille.devices().

local paint = require "rille.show.paint"

-- ---- formatting the cells of a table ----

local function list(l) return "{" .. table.concat(l, ", ") .. "}" end
local function number(x) return x and ("%.4g"):format(x) end
local function some(n) return n > 0 and tostring(n) or "" end

local prefixes = {"", "k", "M", "G", "T", "P", "E"}
local function operations(x)
  local k = 1
  while x >= 999.5 and k < #prefixes do x, k = x / 1000, k + 1 end
  return ("%.3g %sFLOP"):format(x, prefixes[k])
end

-- Formats a list of records as a table. columns: {{key, head, function from value to text}, ...}.
local function table_of(records, columns)
  local rows = {{}}
  for k, column in ipairs(columns) do rows[1][k] = column[2] end
  for i, r in ipairs(records) do
    rows[i + 1] = {}
    for k, column in ipairs(columns) do
      local value = r[column[1]]
      rows[i + 1][k] = value ~= nil and (column[3] or tostring)(value) or ""
    end
  end
  return (paint.table(rows):gsub("\n$", ""))
end

-- ---- metatables of each kind of result ----

local records = {}

local step_columns = {{"device", "device"}, {"busy", "busy", paint.seconds}, {"idle", "idle", paint.seconds},
  {"flops", "operations", operations}, {"bytes_in", "received", paint.bytes}, {"bytes_out", "sent", paint.bytes},
  {"peak_memory", "memory", paint.bytes}}

records.step = {__tostring = function(s)
  local head = ("%s per step, %s idle"):format(paint.seconds(s.step_time), paint.percent(s.bubble))
  if s.flops > 0 then
    head = ("%s, %s"):format(head, operations(s.flops))
    if s.step_time > 0 then head = ("%s (%s/s)"):format(head, operations(s.flops / s.step_time)) end
    if s.peak_share then head = ("%s, %s of the measured peak"):format(head, paint.percent(s.peak_share)) end
  end
  return head .. "\n" .. table_of(s.devices, step_columns)
end}

records.shards = {__tostring = function(s)
  return table_of(s, {{"rank", "rank"}, {"shape", "shape", list}, {"offset", "first element", list}})
end}

records.devices = {__tostring = function(s)
  local rows = {}
  for i, d in ipairs(s) do rows[i] = setmetatable({name = ("%s:%d"):format(d.kind, d.device)}, {__index = d}) end
  local function bytes_or_none(n) return n > 0 and paint.bytes(n) or "" end
  return table_of(rows, {{"name", "device"}, {"thread", "thread"}, {"live_bytes", "values", paint.bytes},
    {"arena_bytes", "plans", paint.bytes}, {"peak_bytes", "at most", paint.bytes}, {"limit_bytes", "limit", bytes_or_none}})
end}

records.module = {__tostring = function(s)
  local text = table_of(s, {{"name", "name"}, {"kind", "what"}, {"norm", "norm", number}, {"grad_norm", "gradient", number},
    {"zeros", "zeros", paint.percent}, {"nan", "nan", some}, {"inf", "inf", some}})
  return s.first_nan and ("%s\nthe first nan or inf: %s"):format(text, s.first_nan) or text
end}

return records
