-- table.lua - text files as tensors: columns of numbers, and plain text.

local rille = require "rille"
local check = require "rille.base.check"

local files = {}

local MOST <const> = 1 << 32 -- maximum size of a file, bytes

-- Returns the content of a regular file. Fails if a byte matches the pattern `strange`.
function files.read(who, path, strange)
  local text = rille._read(check.path(who, "the name of a file", path), MOST, who)
  local at = strange and text:find(strange)
  check.that(not at, "%s: %s: not text: byte %d is %d", who, path, (at or 1) - 1, text:byte(at))
  return text
end

local BYTE_ORDER_MARK = "\xEF\xBB\xBF"

-- Finds the end of the quoted field that begins at `at`. Returns the position after the closing quote and the white
-- space that follows it, and the unquoted text; nil if the field is not quoted or has no closing quote. White space
-- that is the separator is not skipped.
local function quoted_end(line, at, separator)
  local spaces = separator == " " and "\t*" or separator == "\t" and " *" or "%s*"
  local first = line:match("^" .. spaces .. '"()', at)
  local quote = first and line:find('"', first, true)
  while quote and line:sub(quote + 1, quote + 1) == '"' do quote = line:find('"', quote + 2, true) end
  if quote then return line:match("^" .. spaces .. "()", quote + 1), line:sub(first, quote - 1):gsub('""', '"') end
end

-- Returns the fields of a line. A quoted field may contain separators; inside the quotes, "" stands for one quote.
local function fields(line, separator)
  local list, at = {}, 1
  while true do
    local last, field = quoted_end(line, at, separator)
    if not last or last <= #line and line:sub(last, last) ~= separator then
      last = line:find(separator, at, true) or #line + 1
      field = line:sub(at, last - 1)
    end
    list[#list + 1] = field
    if last > #line then return list end
    at = last + 1
  end
end

-- Least and greatest value of the integer dtypes.
local integers = {i32 = {-1 << 31, (1 << 31) - 1}, i64 = {math.mininteger, math.maxinteger}, u8 = {0, 255}}

-- Words that other programs write for NaN and infinity.
local words = {nan = 0 / 0, inf = math.huge, infinity = math.huge}

-- Converts the text of a decimal number to a value of the dtype. Returns nil and the reason if that is impossible.
local function number_of(field, dtype)
  local whole = integers[dtype]
  local sign, word = field:match("^%s*([+-]?)(%a+)%s*$")
  local value = word and words[word:lower()]
  if value then return not whole and (sign == "-" and -value or value) or nil, "not an integer" end
  value = not field:find("[xX]") and tonumber(field) or nil
  if not value then return nil, "not a number" end
  if value == math.huge or value == -math.huge then return nil, "out of range for f64" end
  if not whole then return value end
  if value ~= math.floor(value) then return nil, "not an integer" end
  -- true: the text is an integer that does not fit in 64 bits, so Lua has rounded it to a float
  local rounded = math.type(value) == "float" and not field:find("[.eE]")
  local integer = not rounded and math.tointeger(value)
  if not integer or integer < whole[1] or integer > whole[2] then return nil, "out of range for " .. dtype end
  return integer
end

local function check_separator(who, separator)
  check.that(type(separator) == "string" and #separator == 1 and not separator:find('[%w"+.\r\n-]'),
    "%s: separator must be one character that is not part of numbers, quotes or line ends, such as \",\", \";\" or \"\\t\", found %s", who,
    check.quoted(separator))
end

-- Returns the end of an error message about line `at`, whose fields are not numbers: what the user should write
-- instead. row: the fields of the line.
local function remedy(at, row)
  local separator = #row == 1 and row[1]:match("[;\t|,]")
  if separator then return ("; the fields seem to be separated by %q: write separator = %q"):format(separator, separator) end
  return at == 1 and "; header = true skips a line of names" or ""
end

-- Reads a file of separated numbers as a tensor {rows, columns}: data.csv(path, {separator = ",", header = false,
-- dtype = "f32", placement =, sbp =}). header: the first line has column names, which are returned as second result.
function files.csv(path, given)
  local who = "data.csv"
  local o = check.options(who, given, {separator = ",", header = false, dtype = "f32", placement = check.none, sbp = check.none})
  check_separator(who, o.separator)
  local text, rows, names, at = files.read(who, path, "\0"), {}, nil, 0
  if text:sub(1, 3) == BYTE_ORDER_MARK then text = text:sub(4) end
  for line in text:gmatch("([^\n]*)\n?") do
    at, line = at + 1, line:gsub("\r$", "")
    if o.header and not names and at == 1 then
      names = fields(line, o.separator)
      for i, name in ipairs(names) do names[i] = name:match("^%s*(.-)%s*$") end
    elseif line:find("%S") then
      local row = fields(line, o.separator)
      for i, field in ipairs(row) do
        local number, what = number_of(field, o.dtype)
        check.that(number, "%s: %s:%d: column %d: '%s' is %s%s", who, path, at, i, field, what,
          what == "not a number" and remedy(at, row) or "")
        row[i] = number
      end
      check.that(#rows == 0 or #row == #rows[1], "%s: %s:%d: the number of columns must be %d, as in the lines before, found %d", who, path,
        at, rows[1] and #rows[1] or 0, #row)
      check.that(not names or #row == #names, "%s: %s:%d: the number of columns must be %d, as in the header, found %d", who, path, at,
        names and #names or 0, #row)
      rows[#rows + 1] = row
    end
  end
  check.that(#rows > 0, "%s: %s: no line of numbers", who, path)
  return rille.tensor(rows, {dtype = o.dtype, placement = o.placement, sbp = o.sbp}), names
end

-- Reads a text file as an i64 tensor: the token ids if a tokenizer is given, else the bytes.
function files.text(path, given)
  local who = "data.text"
  local o = check.options(who, given, {tokenizer = check.none, placement = check.none, sbp = check.none})
  local meta = debug.getmetatable(o.tokenizer)
  check.that(o.tokenizer == nil or meta and meta.__name == "rille.tokenizer", "%s: tokenizer must be a rille.tokenizer, found %s", who, check.shown(o.tokenizer))
  local text = files.read(who, path)
  local ids = o.tokenizer and o.tokenizer:encode(text) or nil
  if not ids then
    ids = {}
    for at = 1, #text, 4096 do table.move({text:byte(at, at + 4095)}, 1, 4096, at, ids) end
  end
  return rille.tensor(ids, {dtype = "i64", placement = o.placement, sbp = o.sbp})
end

return files
