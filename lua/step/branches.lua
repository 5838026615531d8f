-- branches.lua - finds code that branches on a tensor where Lua raises no error.
--
-- Lua calls no metamethod when it compares a table or a userdata with a number for equality, branches on one, or uses one
-- as a key. So `x:sum() == 0` is false and `if x:gt(0):any() then` is true, whatever the values. The search reads the
-- bytecode of a function, and of the functions that it defines or calls. It follows the registers in the order of the
-- instructions, and records which registers hold tensors. Fields of tables are followed to functions only.

local rille = require "rille"
local bytecode = require "rille.step.bytecode"
local check = require "rille.base.check"

-- opcodes of Lua 5.4
local MOVE <const>, LOADNIL <const>, GETUPVAL <const>, GETTABUP <const>, GETTABLE <const>, GETI <const> = 0, 8, 9, 11, 12, 13
local GETFIELD <const>, SETTABLE <const>, NEWTABLE <const>, SELF <const>, ADDI <const>, SHLI <const> = 14, 16, 19, 20, 21, 33
local ADD <const>, SHR <const>, UNM <const>, NOT <const>, CONCAT <const>, JMP <const> = 34, 45, 49, 51, 53, 56
local EQ <const>, EQK <const>, EQI <const>, TEST <const>, TESTSET <const>, CALL <const> = 57, 60, 61, 66, 67, 68
local TAILCALL <const>, RETURN <const>, RETURN1 <const>, FORPREP <const>, TFORCALL <const> = 69, 70, 72, 74, 76
local CLOSURE <const>, VARARG <const> = 79, 80

-- ---- values of registers: nil if unknown; otherwise a table ----

-- Fields: tensor, true for a tensor; boolean, true for the result of a comparison; scalar, true if computed from
-- mesh:rank() and numbers only. A method has the fields name and of (its object). A function has the field run. A
-- table of the program has the field fields, the table itself.
local MESH, TENSOR, SCALAR = {}, {tensor = true}, {tensor = true, scalar = true}

local booleans = {}
for name in ("all any eq ge gt le logical_and logical_not logical_or lt ne"):gmatch("%S+") do booleans[name] = true end

-- Returns true if a call with the arguments in the list may pass on a tensor.
local function concerns(list)
  for _, v in pairs(list) do
    if v.tensor or v.run or v == MESH then return true end
  end
  return false
end

-- Returns the result of a call. list: arguments; n: their number.
local function called(callee, list, n)
  if not callee then return nil end
  if callee.run then return concerns(list) and callee.run(list) or nil end
  if callee.of == MESH then return callee.name == "rank" and SCALAR or TENSOR end
  local is_tensor = callee.of and callee.of.tensor and (rille._operator(callee.name) or callee.name == "to" or callee.name == "detach")
  if not is_tensor then return nil end
  local scalar = callee.of.scalar and n <= 2 and (not list[2] or list[2].scalar)
  return {tensor = true, boolean = booleans[callee.name], scalar = scalar}
end

-- Returns the result of arithmetic with the operands a and b.
local function computed(a, b)
  a, b = a and a.tensor and a, b and b.tensor and b
  if not (a or b) then return nil end
  return (not a or a.scalar) and (not b or b.scalar) and SCALAR or TENSOR
end

local scan
-- of the search in progress: parsed code by function; set of the codes whose scan is in progress; function for findings
local codes, active, tell

-- Returns the value of a register that holds the Lua value v: a function of the user's program, a module of a class
-- with such a forward method, or another table; nil: another value.
local function of_program(v)
  local fields = type(v) == "table" and v or nil
  local class = fields and debug.getmetatable(v)
  local fn = type(class) == "table" and rawget(class, "forward") or v
  if type(fn) ~= "function" or check.is_own(fn) then return fields and {fields = fields} end
  local info = debug.getinfo(fn, "S")
  if info.what == "C" then return nil end
  return {fields = fields, run = function(list)
    codes[fn] = codes[fn] or bytecode.parse(fn)
    if class then list = table.move(list, 1, codes[fn].parameters, 2, {}) end
    return scan(codes[fn], info.short_src, list, function(i)
      local _, value = debug.getupvalue(fn, i + 1)
      return of_program(value), value
    end)
  end}
end

-- Returns the value of a register that holds field `name` of a table, or of the table that its class looks in.
local function field_of(fields, name)
  local class = type(fields) == "table" and debug.getmetatable(fields)
  local behind = type(class) == "table" and rawget(class, "__index")
  if type(fields) ~= "table" or name == nil then return nil end
  local v = rawget(fields, name)
  if v == nil and type(behind) == "table" then v = rawget(behind, name) end
  return of_program(v)
end

-- ---- the effects of instructions on the registers of a function ----

-- Each function below returns the new value of register a. s: state of the scan of one function, with the fields held
-- (values by register), p (parsed code), file, last (register of the result of a call that is the last argument of
-- the next one), and upvalue(i), which returns the value of an upvalue and its Lua value.
local effects = {}

effects[MOVE] = function(s, _, b) return s.held[b] end
effects[TESTSET] = effects[MOVE]
effects[UNM] = function(s, _, b) return computed(s.held[b]) end
effects[GETUPVAL] = function(s, _, b) return (s.upvalue(b)) end
for code = ADDI, SHLI do effects[code] = effects[UNM] end
for code = ADD, SHR do effects[code] = function(s, _, b, c) return computed(s.held[b], s.held[c]) end end

effects[GETTABUP] = function(s, _, b, c)
  local _, globals = s.upvalue(b)
  return field_of(globals, s.p.constants[c + 1])
end

effects[GETFIELD] = function(s, _, b, c) return s.held[b] and field_of(s.held[b].fields, s.p.constants[c + 1]) or nil end

effects[GETTABLE] = function(s, _, b) return s.held[b] and s.held[b].tensor and TENSOR or nil end
effects[GETI] = effects[GETTABLE]

effects[SELF] = function(s, a, b, c, word)
  local object, name = s.held[b], word >> 15 & 1 == 1 and s.p.constants[c + 1]
  s.held[a + 1] = object
  if object and object.fields then return field_of(object.fields, name) end
  return object and name and {name = name, of = object} or nil
end

effects[CALL] = function(s, a, b, c)
  local list, callee = {}, s.held[a]
  if b == 0 then b = (s.last or a) - a + 1 end -- all registers up to the result of the call before
  for i = 1, b - 1 do list[i] = s.held[a + i] end
  for r in pairs(s.held) do
    if r >= a then s.held[r] = nil end
  end
  local result = called(callee, list, b - 1)
  s.last = c == 0 and a
  return c ~= 1 and result or nil
end

effects[CLOSURE] = function(s, _, _, _, word)
  local inner = s.p.inner[(word >> 15) + 1]
  local function run(list)
    return scan(inner, s.file, list, function(i)
      local from = inner.upvalues[i + 1]
      if from.of_parent then return s.upvalue(from.index) end
      return s.held[from.index]
    end)
  end
  run{}
  return {run = run}
end

for _, code in ipairs{NEWTABLE, NOT, NOT + 1, CONCAT, VARARG} do effects[code] = function() end end
for code = MOVE + 1, LOADNIL do effects[code] = effects[NOT] end

-- Forgets the loop variables of a loop, registers a + 3 and above.
effects[FORPREP] = function(s, a)
  for r in pairs(s.held) do
    if r > a then s.held[r] = nil end
  end
end
effects[TFORCALL] = effects[FORPREP]

-- ---- uses that Lua permits ----

-- Calls s.tell(kind, line) for each use at this instruction. Kinds: "number" and "value", a comparison of a tensor for
-- equality with a number or with any value; "branch"; "key", of a table.
local function tell_uses(s, pc, code, a, b, c, word)
  local function tensor(r) return s.held[r] and s.held[r].tensor and s.held[r] end
  local function report(kind) s.tell(kind, ("%s:%d"):format(s.file, s.p.lines[pc])) end
  if (code == EQI or code == EQK and s.p.constants[b + 1] == true) and tensor(a) then report "number" end
  if code == EQ and (tensor(a) or tensor(b)) then report "value" end
  local tested = code == TEST and a or (code == TESTSET or code == NOT) and b
  if tested and tensor(tested) and tensor(tested).boolean and s.certain[tested] and (code == NOT or word >> 15 & 1 == 0) then report "branch" end
  local key = code == GETTABLE and not tensor(b) and c or code == SETTABLE and b
  if key and tensor(key) and tensor(key).scalar then report "key" end
end

-- Returns the set of instructions that a jump may lead to.
local function jump_targets(code)
  local targets = {}
  for pc, word in ipairs(code) do
    if word & 0x7f == JMP then targets[pc + 1 + (word >> 7) - 0xffffff] = true end
  end
  return targets
end

-- Scans the code p of one function. list: values of its parameters. Returns the value that the function returns.
function scan(p, file, list, upvalue)
  local s, targets, result = {p = p, file = file, tell = tell, held = {}, certain = {}, upvalue = upvalue}, jump_targets(p.code), nil
  if active[p] then return nil end
  active[p] = true
  for i = 1, p.parameters do s.held[i - 1] = list[i] end
  for pc, word in ipairs(p.code) do
    local code, a, b, c = word & 0x7f, word >> 7 & 0xff, word >> 16 & 0xff, word >> 24
    tell_uses(s, pc, code, a, b, c, word)
    local effect = effects[code == TAILCALL and CALL or code]
    -- certain: no other path through the code skips this instruction
    if effect then s.held[a], s.certain[a] = effect(s, a, b, c, word), not targets[pc + 1] end
    if code == TAILCALL or code == RETURN1 or code == RETURN and b == 2 then result = result or s.held[a] end
  end
  active[p] = nil
  return result
end

-- Searches fn. list: values of its arguments. found(kind, line): is called for each finding (tell_uses).
local function search(fn, list, found)
  local program = of_program(fn)
  if not (program and program.run) then return end
  codes, active, tell = {}, {}, found
  local good, why = pcall(program.run, list)
  codes, active, tell = nil, nil, nil -- they refer to the program's values
  if not good then error(why, 0) end
end

return {search = search, MESH = MESH, TENSOR = TENSOR}
