-- bytecode.lua - parses the code of Lua functions, and finds the upvalues, globals and fields that the code of a Lua
-- function reads, including its inner functions.
--
-- Lua has no function for this, so the module parses the output of string.dump (Lua 5.4, lundump.c).

local bytecode = {}

local HEADER <const> = 32 -- length in bytes of a dump's header: signature, version, sizes, test numbers, number of upvalues
local GETUPVAL <const>, GETTABUP <const>, GETTABLE <const>, GETFIELD <const>, SELF <const> = 9, 11, 12, 14, 20
local TEST <const>, LOADK <const>, ADDI <const>, SUBK <const>, FORPREP <const> = 66, 3, 21, 23, 74
local EQ <const>, EQK <const>, EQI <const> = 57, 60, 61
local SETUPVAL <const>, SETTABUP <const>, SETTABLE <const>, SETFIELD <const> = 10, 15, 16, 18

-- ---- parsing a function's dump ----

-- Returns an object that reads `text` from position `at`. Its methods read unsigned numbers (7 bits per byte; the
-- last byte is marked), strings, and so on.
local function reader(text, at)
  local r = {}
  function r.byte()
    at = at + 1
    return text:byte(at - 1)
  end
  function r.skip(n) at = at + n end
  function r.number()
    local n = 0
    while true do
      local b = r.byte()
      n = n << 7 | b & 0x7f
      if b & 0x80 ~= 0 then return n end
    end
  end
  function r.string()
    local size = r.number()
    if size == 0 then return nil end
    at = at + size - 1
    return text:sub(at - size + 1, at - 1)
  end
  function r.word()
    at = at + 4
    return (string.unpack("<I4", text, at - 4))
  end
  return r
end

local function list_of(r, read)
  local list = {}
  for i = 1, r.number() do list[i] = read(r) or false end
  return list
end

-- Reads a constant. Returns the text of a string, true for a number, and false for any other type.
local function constant(r)
  local kind = r.byte()
  local number = kind == 0x03 or kind == 0x13
  if number then r.skip(8) end
  return number or (kind == 0x04 or kind == 0x14) and r.string()
end

local function captured(r)
  local of_parent = r.byte() == 0
  local index = r.byte()
  r.skip(1)
  return {of_parent = of_parent, index = index}
end

local NO_DELTA <const> = 0x80 -- the line is in the list of absolute lines

-- Returns the source line of each instruction of a function; -1: the function has no line information. first: line
-- where the function begins.
local function read_lines(r, first, n)
  local deltas, line, lines = list_of(r, r.byte), first, {}
  local absolute = {}
  for _ = 1, r.number() do
    local pc = r.number()
    absolute[pc + 1] = r.number()
  end
  for pc = 1, n do
    local delta = deltas[pc]
    line = delta == NO_DELTA and absolute[pc] or delta and line + (delta ~ 0x80) - 0x80 or -1
    lines[pc] = line
  end
  return lines
end

local function prototype(r)
  r.string() -- the name of the source, which is not needed
  local first = r.number()
  r.number() -- the last line, which is not needed
  local p = {parameters = r.byte()}
  r.skip(2)
  p.code = list_of(r, r.word)
  p.constants = list_of(r, constant)
  p.upvalues = list_of(r, captured)
  p.inner = list_of(r, prototype)
  p.lines = read_lines(r, first, #p.code)
  list_of(r, function() r.string(); r.number(); r.number() end)
  list_of(r, r.string)
  return p
end

-- Returns the parsed code of a Lua function: {parameters = number of parameters, code = {word, ...}, constants =, upvalues =, inner
-- = {code of an inner function, ...}, lines = {line of an instruction, ...}}.
function bytecode.parse(fn) return prototype(reader(string.dump(fn), HEADER + 1)) end

-- ---- finding what the code reads ----

-- Returns a list of the numeric loops, each as {first instruction, last instruction, register of the loop variable}.
local function numeric_loops(code)
  local loops = {}
  for pc, word in ipairs(code) do
    if word & 0x7f == FORPREP then loops[#loops + 1] = {pc, pc + (word >> 15) + 1, (word >> 7 & 0xff) + 3} end
  end
  return loops
end

local function counts(loops, pc, register)
  for _, loop in ipairs(loops) do
    if pc > loop[1] and pc <= loop[2] and register == loop[3] then return true end
  end
  return false
end

-- Returns true if the read at pc begins an increment by a constant, n = n + 1 or n = (n or 0) + 1, of an upvalue, a global or a
-- field.
local function is_count(code, pc)
  local at = (code[pc + 1] or 0) & 0x7f == TEST and pc + 4 or pc + 1 -- skips the instructions of `or 0`: test, jump and load
  local add, set = (code[at] or 0) & 0x7f, code[at + 2] or 0
  if add < ADDI or add > SUBK then return false end
  local op, to = code[pc] & 0x7f, set & 0x7f
  if op == GETUPVAL then return to == SETUPVAL and set >> 16 & 0xff == code[pc] >> 16 & 0xff end
  local same = set >> 7 & 0xff == code[pc] >> 16 & 0xff and set >> 16 & 0xff == code[pc] >> 24
  return same and (op == GETTABUP and to == SETTABUP or op == GETFIELD and to == SETFIELD)
end

-- Returns the registers that an instruction compares for equality with a number or another register, or uses as the key
-- of a table; nil: none.
local function tested_registers(p, word)
  local op, a, b, c = word & 0x7f, word >> 7 & 0xff, word >> 16 & 0xff, word >> 24
  if op == EQ then return string.char(a, b) end
  if op == EQI or op == EQK and p.constants[b + 1] == true then return string.char(a) end
  if op == GETTABLE then return string.char(c) end
  if op == SETTABLE then return string.char(b) end
end

-- Returns, by line, the registers that the code of fn itself tests or uses as keys (tested_registers): {[line] =
-- register numbers, packed one per byte}. Leaves out inner functions.
function bytecode.tests(fn)
  local p, lines = bytecode.parse(fn), {}
  for pc, word in ipairs(p.code) do
    local found, line = tested_registers(p, word), p.lines[pc]
    if found then lines[line] = (lines[line] or "") .. found end
  end
  return lines
end

-- Finds the upvalues, globals and fields that the function p (a parsed dump) and its inner functions read. Adds one
-- that is only incremented to `counted`, and any other to `found`. outer[i]: index of p's upvalue i in the outermost
-- function; nil if the upvalue is a local variable of an inner function.
local function scan(p, outer, found, counted)
  local loops, loaded, computed = numeric_loops(p.code), {}, false
  for pc, word in ipairs(p.code) do
    local op, b, c = word & 0x7f, word >> 16 & 0xff, word >> 24
    local into = is_count(p.code, pc) and counted or found
    if op == GETUPVAL and outer[b] then
      into.upvalues[outer[b]] = true
    elseif op == GETTABUP then
      local name = p.constants[c + 1]
      if outer[b] then into.within[#into.within + 1] = {outer[b], name} else into.fields[name] = true end
    elseif op == GETFIELD or op == SELF and word >> 15 & 1 == 1 then
      into.fields[p.constants[c + 1]] = true
    elseif op == GETTABLE then
      computed = computed or not counts(loops, pc, c)
    elseif op == LOADK then
      local name = p.constants[(word >> 15) + 1]
      if name ~= true then loaded[#loaded + 1] = name end
    elseif op == EQ or op == EQI or op == EQK and p.constants[b + 1] == true then
      found.compares = true
    end
  end
  if computed then
    found.computed = true
    -- a name beyond the 256th constant is loaded into a register first
    for _, name in ipairs(loaded) do found.fields[name] = true end
  end
  for _, inner in ipairs(p.inner) do
    local map = {}
    for i, up in ipairs(inner.upvalues) do map[i - 1] = up.of_parent and outer[up.index] or nil end
    scan(inner, map, found, counted)
  end
end

local function nothing_read() return {upvalues = {}, within = {}, fields = {}, computed = false, compares = false} end

local known = setmetatable({}, {__mode = "k"})

-- Returns what the code of fn reads, as a table with these fields:
--   upvalues  {[index] = true}; indices are those of debug.getupvalue
--   within    list of {index of an upvalue, field}
--   fields    {[name] = true}
--   computed  true if fn reads fields with computed names
--   compares  true if fn tests numbers for equality
--   counted   such a table for the places that fn only increments
function bytecode.reads(fn)
  if not known[fn] then
    local main, outer = bytecode.parse(fn), {}
    for i = 1, #main.upvalues do outer[i - 1] = i end
    known[fn] = nothing_read()
    known[fn].counted = nothing_read()
    scan(main, outer, known[fn], known[fn].counted)
  end
  return known[fn]
end

return bytecode
