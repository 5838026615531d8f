-- table.lua - text files as tensors: columns of numbers, and plain text.

local rille = require "rille"
local check = require "rille.check"

local files = {}

local function open(who, path)
  check.that(type(path) == "string", "%s: the name of a file is wanted, not %s", who, check.shown(path))
  local file, why = io.open(path, "rb")
  check.that(file, "%s: %s", who, why)
  return file
end

-- The fields of a line as numbers, added to row; nil and the field that is none.
local function numbers(line, separator, row)
  for field in (line .. separator):gmatch("(.-)%" .. separator) do
    local value = tonumber((field:match('^%s*"(.*)"%s*$') or field))
    if not value then return nil, field end
    row[#row + 1] = value
  end
  return row
end

-- A file of numbers separated by commas as a tensor {rows, columns}: data.csv(path, {separator = ",", header = false,
-- dtype = "f32", placement =, sbp =}). header: the first line is names, which are the second result.
function files.csv(path, given)
  local who = "rille.data.csv"
  local o = check.options(who, given, {separator = ",", header = false, dtype = "f32", placement = check.none, sbp = check.none})
  check.that(type(o.separator) == "string" and #o.separator == 1, "%s: the separator is one character", who)
  local file, rows, names, at = open(who, path), {}, nil, 0
  for line in file:lines() do
    at, line = at + 1, line:gsub("\r$", "")
    if o.header and not names then
      names = {}
      for field in (line .. o.separator):gmatch("(.-)%" .. o.separator) do names[#names + 1] = field:match('^%s*"?(.-)"?%s*$') end
    elseif line:find("%S") then
      local row, bad = numbers(line, o.separator, {})
      check.that(row, "%s: %s:%d: '%s' is no number%s", who, path, at, bad, at == 1 and "; header = true skips a line of names" or "")
      check.that(#rows == 0 or #row == #rows[1], "%s: %s:%d: %d columns, the lines before have %d", who, path, at, #row,
        rows[1] and #rows[1] or 0)
      rows[#rows + 1] = row
    end
  end
  file:close()
  check.that(#rows > 0, "%s: %s: there is no line of numbers", who, path)
  return rille.tensor(rows, {dtype = o.dtype, placement = o.placement, sbp = o.sbp}), names
end

-- A text as a tensor: its ids by a tokenizer, i64; without one its bytes.
function files.text(path, given)
  local who = "rille.data.text"
  local o = check.options(who, given, {tokenizer = check.none, placement = check.none, sbp = check.none})
  local file = open(who, path)
  local text, why = file:read("a")
  file:close()
  check.that(text, "%s: %s: %s", who, path, tostring(why))
  local ids = o.tokenizer and o.tokenizer:encode(text) or nil
  if not ids then
    ids = {}
    for at = 1, #text, 4096 do table.move({text:byte(at, at + 4095)}, 1, 4096, at, ids) end
  end
  return rille.tensor(ids, {dtype = "i64", placement = o.placement, sbp = o.sbp})
end

return files
