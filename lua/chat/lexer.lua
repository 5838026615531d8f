-- lexer.lua - divides a chat template (Jinja) into texts and tokens.
--
-- A template consists of texts, {{ expressions }}, {% statements %} and {# comments #}. As in transformers, the
-- newline after a statement or comment is dropped (trim_blocks), and so is white space before a statement or comment
-- that begins a line (lstrip_blocks). A minus sign at either end of a tag drops all white space on that side; a plus
-- sign keeps it.

local lexer = {}

-- Raises a template error. The error is a table, so that it cannot be mistaken for an error of the Lua code.
function lexer.fail(line, format, ...) error({line = line, text = format:format(...)}, 0) end

local ends = {["{{"] = "}}", ["{%"] = "%}", ["{#"] = "#}"}
local escapes = {n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", v = "\v", a = "\a", ["0"] = "\0"}
local operators = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".",
  ":", "|"}

local function lines_in(s) return select(2, s:gsub("\n", "")) end

local function character_of(line, hex)
  local code = tonumber(hex, 16)
  if code > 0x10ffff or (code >= 0xd800 and code < 0xe000) then lexer.fail(line, "\\u%s is not a character", hex) end
  return utf8.char(code)
end

-- Replaces the escape sequences of a string.
local function unescape(s, line)
  s = s:gsub("\\(.)(%x?%x?%x?%x?)", function(c, hex)
    if c == "u" and #hex == 4 then return character_of(line, hex) end
    if c == "x" and #hex >= 2 then return character_of(line, hex:sub(1, 2)) .. hex:sub(3) end
    if c == "\n" then return hex end
    return (escapes[c] or (c:find("[\\'\"]") and c) or "\\" .. c) .. hex
  end)
  return s
end

-- Returns the end position of the string literal that begins at `at`.
local function string_end(s, at, line)
  local quote, i = s:sub(at, at), at + 1
  while true do
    local c = s:sub(i, i)
    if c == "" then lexer.fail(line, "the string that begins with %s has no end", quote) end
    if c == quote then return i end
    i = i + (c == "\\" and 2 or 1)
  end
end

local function operator_at(s, at)
  for _, op in ipairs(operators) do
    if s:sub(at, at + #op - 1) == op then return op end
  end
end

-- Reads the token at `at`: returns its kind, its value, and the position after it.
local function token_at(s, at, line)
  local c = s:sub(at, at)
  if c == "'" or c == '"' then
    local last = string_end(s, at, line)
    return "string", unescape(s:sub(at + 1, last - 1), line), last + 1
  end
  local number = s:match("^%d[%d_]*%.%d+[eE][+-]?%d+", at) or s:match("^%d[%d_]*%.%d+", at) or s:match("^%d[%d_]*[eE][+-]?%d+", at)
    or s:match("^%d[%d_]*", at)
  if number then return "number", tonumber((number:gsub("_", ""))), at + #number end
  local name = s:match("^[%a_][%w_]*", at)
  if name then return "name", name, at + #name end
  local op = operator_at(s, at)
  if op then return "op", op, at + #op end
  lexer.fail(line, "unexpected character '%s'", c:find("%g") and c or ("\\x%02x"):format(c:byte()))
end

-- Reads the tokens of a tag from `at` up to its end, and returns the position of the end. Braces may nest.
local function read_tag(s, at, close, tokens, line)
  local depth = 0
  while true do
    local space = s:match("^%s*", at)
    line, at = line + lines_in(space), at + #space
    if at > #s then lexer.fail(line, "a tag has no end: expected '%s'", close) end
    local ended = s:match("^[-+]?" .. close:gsub("%p", "%%%0"), at)
    if ended and depth == 0 then return at, ended, line end
    local kind, value, next = token_at(s, at, line)
    if value == "{" and kind == "op" then depth = depth + 1 end
    if value == "}" and kind == "op" then depth = depth - 1 end
    tokens[#tokens + 1] = {kind = kind, value = value, line = line}
    line, at = line + lines_in(s:sub(at, next - 1)), next
  end
end

-- Returns the text before a tag, without the white space that is dropped because of the tag.
local function before_tag(text, open, sign, first)
  if sign == "-" then return text:match("^(.*%S)") or "" end
  if open == "{{" or sign == "+" then return text end
  local last = text:match("[^\n]*$")
  return last:find("^[ \t]*$") and (#last < #text or first) and text:sub(1, #text - #last) or text
end

-- Returns the position after a tag and after the white space that is dropped because of the tag.
local function after_tag(s, at, close, sign)
  if sign == "-" then return s:match("^%s*()", at) end
  if close == "}}" or sign == "+" then return at end
  return s:sub(at, at) == "\n" and at + 1 or at
end

-- Reads {% raw %} ... {% endraw %}. Returns the position after it, and the text inside; nil: no such tag begins at
-- `at`.
local function raw_text(s, at)
  local first, sign = s:match("^{%%[-+]?%s*raw%s*()([-+]?)%%}", at)
  if not first then return nil end
  first = first + #sign + 2
  local last, open, close, behind = s:match("(){%%([-+]?)%s*endraw%s*([-+]?)%%}()", first)
  if not last then return nil end
  first = math.min(after_tag(s, first, "%}", sign), last)
  return after_tag(s, behind, "%}", close), before_tag(s:sub(first, last - 1), "{%", open, false)
end

-- Divides a template into a list of {text =} and {open = "{{" or "{%", tokens =}, each with its line number.
function lexer.read(s)
  s = s:gsub("\r\n", "\n"):gsub("\r", "\n"):gsub("\n$", "")
  local parts, at, line = {}, 1, 1
  local function add_text(text, where) if text ~= "" then parts[#parts + 1] = {text = text, line = where} end end
  while at <= #s do
    local from, open, sign = s:match("(){([{%%#])([-+]?)", at)
    if not from then add_text(s:sub(at), line) break end
    open = "{" .. open
    add_text(before_tag(s:sub(at, from - 1), open, sign, at == 1 or s:sub(at - 1, at - 1) == "\n"), line)
    line = line + lines_in(s:sub(at, from - 1))
    local behind, raw = raw_text(s, from)
    local inner, ended, close = from + 2 + #sign, nil, ends[open]
    if behind then
      add_text(raw, line)
    elseif open == "{#" then
      local last, mark = s:match("()([-+]?)#}", inner)
      if not last then lexer.fail(line, "a comment has no end: expected '#}'") end
      behind = after_tag(s, last + #mark + 2, close, mark)
    else
      local part = {open = open, tokens = {}, line = line}
      inner, ended, part.last = read_tag(s, inner, close, part.tokens, line)
      parts[#parts + 1] = part
      behind = after_tag(s, inner + #ended, close, #ended > 2 and ended:sub(1, 1) or "")
    end
    line, at = line + lines_in(s:sub(from, behind - 1)), behind
  end
  return parts
end

return lexer
