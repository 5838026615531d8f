-- evaluate.lua - evaluates the tree of a chat template.
--
-- A template can read only the values passed to it and the functions of library.lua. The number of steps, the depth
-- of calls and the length of the output are limited, so that every template ends.

local lexer = require "rille.chat.lexer"
local library = require "rille.chat.library"
local values = require "rille.chat.values"
local fail, kind, none, truth = lexer.fail, values.kind, values.none, values.truth

-- maximum number of evaluated nodes: STEPS, and PER_MESSAGE more for each message
local STEPS <const>, PER_MESSAGE <const> = 2000000, 2000
local PER_STEP <const> = 256 -- bytes of a string, or elements of a list, that count as one step
local CALLS <const> = 60 -- maximum depth of calls

-- Creates a scope: a table of the names that a block sets, with the enclosing scope as `outer`.
local function inner(scope) return {names = {}, outer = scope} end

local function lookup(scope, name)
  while scope do
    local v = scope.names[name]
    if v ~= nil then return v end
    scope = scope.outer
  end
end

local evaluate, run = {}, {}

local function count(env, steps, line)
  env.steps = env.steps + steps
  if env.steps > env.most then fail(line, "the template runs more than %d steps", env.most) end
end

-- Returns the value of an expression. A long string or list counts as several steps, because most operations read all of it.
local function value(node, scope, env)
  count(env, 1, node.line)
  local v = evaluate[node.kind](node, scope, env)
  local t = type(v)
  if (t == "string" or t == "table") and #v > PER_STEP then count(env, #v // PER_STEP, node.line) end
  return v
end

local function block(nodes, scope, env)
  for _, node in ipairs(nodes) do
    count(env, 1, node.line)
    local signal = run[node.kind](node, scope, env)
    if signal then return signal end
  end
end

local function write(env, text, line)
  env.bytes = env.bytes + #text
  if env.bytes > values.LONGEST then env.bounded(env.bytes, line) end
  env.out[#env.out + 1] = text
end

-- Runs a block. Returns the text that it writes, and its signal (break or continue).
local function captured(nodes, scope, env)
  local out, bytes = env.out, env.bytes
  env.out = {}
  local signal = block(nodes, scope, env)
  local text = table.concat(env.out)
  env.out, env.bytes = out, bytes
  return text, signal
end

-- ---- evaluating expressions ----

function evaluate.value(node) return node.value end
function evaluate.none() return none end
function evaluate.captured(node, _, env) return env.captured end

function evaluate.name(node, scope)
  local v = lookup(scope, node.name)
  return v == nil and values.undefined("'" .. node.name .. "'") or v
end

function evaluate.list(node, scope, env)
  local list = node.tuple and values.tuple{} or values.list{}
  for i, item in ipairs(node.items) do list[i] = value(item, scope, env) end
  return list
end

function evaluate.dict(node, scope, env)
  local d = values.dict()
  for i, key in ipairs(node.keys) do
    local k = value(key, scope, env)
    if type(k) ~= "string" and math.type(k) ~= "integer" then fail(node.line, "a key must be a string or an integer, found a value of kind %s", kind(k)) end
    values.put(d, k, value(node.values[i], scope, env))
  end
  return d
end

-- Returns a method of a value as a template function; nil: no such method.
local function method(of, name, env)
  local f = (library.methods[kind(of)] or {})[name]
  return f and function(args, named, line) return f(of, args, line, named, env) end
end

local function item(of, key)
  local k = kind(of)
  if k == "dict" then return of.of[key] end
  if k == "namespace" then return of.attributes[key] end
  if math.type(key) ~= "integer" or (k ~= "list" and k ~= "str") then return nil end
  local list = k == "str" and values.characters(of) or of
  return list[key >= 0 and key + 1 or #list + key + 1]
end

local function missing(of, key)
  return values.undefined(("the entry %s of a value of kind %s"):format(values.text(key, true):sub(1, 60), kind(of)))
end

function evaluate.attribute(node, scope, env)
  local of = values.check(value(node.of, scope, env), node.line)
  local v = method(of, node.name, env)
  if v == nil then v = item(of, node.name) end
  return v == nil and missing(of, node.name) or v
end

function evaluate.item(node, scope, env)
  local of = values.check(value(node.of, scope, env), node.line)
  local key = value(node.key, scope, env)
  local v
  if kind(key) ~= "undefined" then v = item(of, key) end
  if v == nil and type(key) == "string" then v = method(of, key, env) end
  return v == nil and missing(of, key) or v
end

function evaluate.slice(node, scope, env)
  local function part(e) return e and value(e, scope, env) end
  return values.slice(value(node.of, scope, env), part(node.from), part(node.to), part(node.step), node.line)
end

local function arguments(node, scope, env)
  local args, named = {}, {}
  for i, e in ipairs(node.args or {}) do args[i] = value(e, scope, env) end
  local names = {}
  for i, e in ipairs(node.named or {}) do
    named[e.name] = value(e.value, scope, env)
    names[i] = e.name
  end
  if #names > 0 then named.names = names end
  return args, named
end

function evaluate.call(node, scope, env)
  local f = values.check(value(node.of, scope, env), node.line)
  if kind(f) == "dict" and node.of.name == "loop" then f = f.of.call end
  if type(f) ~= "function" then fail(node.line, "a value of kind %s cannot be called", kind(f)) end
  local args, named = arguments(node, scope, env)
  return f(args, named, node.line)
end

function evaluate.filter(node, scope, env)
  local of = value(node.of, scope, env)
  local args, named = arguments(node, scope, env)
  return env.filter(node.name, of, args, named, node.line)
end

function evaluate.test(node, scope, env)
  return env.test(node.name, value(node.of, scope, env), arguments(node, scope, env), node.line)
end

evaluate["not"] = function(node, scope, env) return not truth(value(node.of, scope, env)) end
evaluate["and"] = function(node, scope, env)
  local left = value(node.left, scope, env)
  if not truth(left) then return left end
  return value(node.right, scope, env)
end
evaluate["or"] = function(node, scope, env)
  local left = value(node.left, scope, env)
  if truth(left) then return left end
  return value(node.right, scope, env)
end

function evaluate.choice(node, scope, env)
  if truth(value(node.test, scope, env)) then return value(node.left, scope, env) end
  return node.right and value(node.right, scope, env) or (not node.right and values.undefined("a choice without else")) or false
end

local function number(v, line)
  if kind(v) == "bool" then return v and 1 or 0 end
  if type(v) ~= "number" then fail(line, "expected a number, found a value of kind %s", kind(values.check(v, line))) end
  return v
end

function evaluate.minus(node, scope, env) return -number(value(node.of, scope, env), node.line) end

local binary = {}
function binary.add(a, b, line, env)
  if type(a) == "string" and type(b) == "string" then
    env.bounded(#a + #b, line)
    return a .. b
  end
  if kind(a) == "list" and kind(b) == "list" then
    env.bounded(64 * (#a + #b), line)
    return table.move(b, 1, #b, #a + 1, table.move(a, 1, #a, 1, values.list{}))
  end
  if kind(values.check(a, line)) == "str" or kind(values.check(b, line)) == "str" then
    fail(line, "+ cannot join values of kinds %s and %s", kind(a), kind(b))
  end
  return number(a, line) + number(b, line)
end
function binary.multiply(a, b, line, env)
  if type(b) == "string" or kind(b) == "list" then a, b = b, a end
  if type(a) ~= "string" and kind(a) ~= "list" then return number(a, line) * number(b, line) end
  if kind(b) == "bool" then b = b and 1 or 0 end
  if math.type(b) ~= "integer" then fail(line, "a string or list can be multiplied by an integer, found a value of kind %s", kind(b)) end
  b = math.max(b, 0)
  local bytes = type(a) == "string" and 1 or 64
  env.bounded(#a > 0 and b > values.LONGEST // (bytes * #a) and values.LONGEST + 1 or b * #a * bytes, line)
  if type(a) == "string" then return a:rep(b) end
  local out = values.list{}
  for _ = 1, b do table.move(a, 1, #a, #out + 1, out) end
  return out
end
local function nonzero(b, line)
  if b == 0 then fail(line, "division by zero") end
  return b
end
binary["+"], binary["*"] = binary.add, binary.multiply
binary["-"] = function(a, b, line) return number(a, line) - number(b, line) end
binary["/"] = function(a, b, line) return number(a, line) / nonzero(number(b, line), line) end
binary["//"] = function(a, b, line) return number(a, line) // nonzero(number(b, line), line) end
binary["%"] = function(a, b, line)
  if type(a) == "string" then fail(line, "%% does not format strings in chat templates; use ~") end
  return number(a, line) % nonzero(number(b, line), line)
end
binary["**"] = function(a, b, line)
  a, b = number(a, line), number(b, line)
  local v = a ^ b
  local whole = math.type(a) == "integer" and math.type(b) == "integer" and b >= 0
  return whole and math.abs(v) < 2 ^ 53 and math.tointeger(v) or v
end
binary["~"] = function(a, b, line, env)
  a, b = values.text(a), values.text(b)
  env.bounded(#a + #b, line)
  return a .. b
end

function evaluate.binary(node, scope, env)
  return binary[node.op](value(node.left, scope, env), value(node.right, scope, env), node.line, env)
end

local compare = {
  ["=="] = values.equal,
  ["!="] = function(a, b) return not values.equal(a, b) end,
  ["<"] = values.less,
  [">"] = function(a, b, line) return values.less(b, a, line) end,
  ["<="] = function(a, b, line) return not values.less(b, a, line) end,
  [">="] = function(a, b, line) return not values.less(a, b, line) end,
  ["in"] = function(a, b, line) return values.contains(b, a, line) end,
  ["not in"] = function(a, b, line) return not values.contains(b, a, line) end,
}

function evaluate.compare(node, scope, env)
  local left = value(node.first, scope, env)
  for _, part in ipairs(node.rest) do
    local right = value(part.value, scope, env)
    if not compare[part.op](left, right, node.line) then return false end
    left = right
  end
  return true
end

-- ---- running statements ----

function run.text(node, _, env) write(env, node.text, node.line) end
function run.output(node, scope, env) write(env, values.text(value(node.value, scope, env)), node.line) end

local function assign(targets, v, scope, line, env)
  if #targets > 1 then
    local all = values.elements(v, line)
    if #all ~= #targets then fail(line, "expected %d values, found %d", #targets, #all) end
    for i, target in ipairs(targets) do assign({target}, all[i], scope, line, env) end
    return
  end
  local target = targets[1]
  if not target.attribute then
    scope.names[target.name] = v
    return
  end
  local of = lookup(scope, target.name)
  if kind(of) ~= "namespace" then fail(line, "'%s' must be a namespace", target.name) end
  of.attributes[target.attribute] = v
end

function run.set(node, scope, env) assign(node.targets, value(node.value, scope, env), scope, node.line, env) end

function run.capture(node, scope, env)
  local text, signal = captured(node.body, node.targets and scope or inner(scope), env)
  local before = env.captured
  env.captured = text
  local v = value(node.filters, scope, env)
  env.captured = before
  if node.targets then assign(node.targets, v, scope, node.line, env) else write(env, values.text(v), node.line) end
  return signal
end

run["if"] = function(node, scope, env)
  for _, branch in ipairs(node.branches) do
    if truth(value(branch.test, scope, env)) then return block(branch.body, scope, env) end
  end
  if node.otherwise then return block(node.otherwise, scope, env) end
end

run["with"] = function(node, scope, env)
  local own = inner(scope)
  for _, set in ipairs(node.sets) do assign(set.targets, value(set.value, scope, env), own, node.line, env) end
  return block(node.body, own, env)
end

-- Records where the block's text begins and ends in the template's result, unless the text goes to a variable or macro.
function run.generation(node, scope, env)
  local from, is_result = env.bytes + 1, env.out == env.result
  local signal = block(node.body, inner(scope), env)
  if is_result and env.bytes >= from then env.answers[#env.answers + 1] = {from, env.bytes} end
  return signal
end
run["break"] = function() return "break" end
run["continue"] = function() return "continue" end

-- Creates the variable `loop` for element i of a loop.
local function loop_of(all, i, depth, changed)
  local loop = values.dict()
  local function put(name, v) values.put(loop, name, v) end
  put("index", i) put("index0", i - 1) put("revindex", #all - i + 1) put("revindex0", #all - i)
  put("first", i == 1) put("last", i == #all) put("length", #all) put("depth", depth) put("depth0", depth - 1)
  put("previtem", all[i - 1] == nil and values.undefined("loop.previtem of the first element") or all[i - 1])
  put("nextitem", all[i + 1] == nil and values.undefined("loop.nextitem of the last element") or all[i + 1])
  put("cycle", function(args, _, line)
    if #args == 0 then fail(line, "loop.cycle expects at least one value") end
    return args[(i - 1) % #args + 1]
  end)
  put("changed", function(args)
    local now = values.list(args)
    local same = changed.last and values.equal(changed.last, now)
    changed.last = now
    return not same
  end)
  return loop
end

-- Returns the elements of a loop for which its `if` condition is true.
local function loop_elements(node, of, scope, env)
  local all = values.elements(of, node.line)
  if not node.filter then return all end
  local good = {}
  for _, e in ipairs(all) do
    count(env, 10, node.line)
    local own = inner(scope)
    assign(node.targets, e, own, node.line, env)
    if truth(value(node.filter, own, env)) then good[#good + 1] = e end
  end
  return good
end

local function run_loop(node, of, scope, env, depth)
  if depth > CALLS then fail(node.line, "recursive loops are nested more than %d deep", CALLS) end
  local all, changed = loop_elements(node, of, scope, env), {}
  for i, e in ipairs(all) do
    count(env, 10, node.line) -- counts 10 steps, because the variable `loop` has many fields
    local own = inner(scope)
    assign(node.targets, e, own, node.line, env)
    local loop = loop_of(all, i, depth, changed)
    if node.recursive then
      values.put(loop, "call", function(args)
        return (captured({{kind = "again", node = node, of = args[1], depth = depth + 1}}, scope, env))
      end)
    end
    own.names.loop = loop
    local signal = block(node.body, own, env)
    if signal == "break" then return end
  end
  if #all == 0 and node.otherwise then return block(node.otherwise, inner(scope), env) end
end

function run.again(again, scope, env) run_loop(again.node, again.of, scope, env, again.depth) end
run["for"] = function(node, scope, env) return run_loop(node, value(node.of, scope, env), scope, env, 1) end

-- Converts a macro to a template function.
local function macro_of(node, scope, env, caller)
  return function(args, named, line)
    env.calls = env.calls + 1
    if env.calls > CALLS then fail(line, "calls of macros are nested more than %d deep", CALLS) end
    local own = inner(scope)
    own.names.caller = caller or named.caller
    for i, p in ipairs(node.parameters) do
      local v = args[i]
      if v == nil then v = named[p.name] end
      if v == nil and p.default then v = value(p.default, own, env) end
      own.names[p.name] = v == nil and values.undefined("parameter '" .. p.name .. "'") or v
    end
    if #args > #node.parameters then
      fail(line, "macro '%s' expects at most %d arguments, found %d", node.name or "caller", #node.parameters, #args)
    end
    local text = captured(node.body, own, env)
    env.calls = env.calls - 1
    return text
  end
end

function run.macro(node, scope, env) scope.names[node.name] = macro_of(node, scope, env) end

function run.callblock(node, scope, env)
  local call = node.call
  if call.kind ~= "call" then fail(node.line, "call expects a call of a macro") end
  local f = values.check(value(call.of, scope, env), node.line)
  if type(f) ~= "function" then fail(node.line, "a value of kind %s cannot be called", kind(f)) end
  local args, named = arguments(call, scope, env)
  named.caller = macro_of(node, scope, env)
  write(env, values.text(f(args, named, node.line)), node.line)
end

-- ---- evaluating a whole template ----

-- Returns the element of a value at a path, which is a name with dots ("a.b") or a number.
local function path_of(v, path, line)
  if math.type(path) == "integer" then
    local e = item(v, path)
    return e == nil and missing(v, path) or e
  end
  for name in tostring(path):gmatch("[^.]+") do
    local of = v
    v = item(values.check(of, line), math.tointeger(tonumber(name)) or name)
    if v == nil then return missing(of, name) end
  end
  return v
end

local function new_env(nmessages)
  local env = {out = {}, bytes = 0, steps = 0, most = STEPS + PER_MESSAGE * nmessages, calls = 0, path = path_of, answers = {}}
  env.result = env.out
  function env.bounded(n, line)
    if n > values.LONGEST then fail(line, "the template makes a string or list of more than %d bytes", values.LONGEST) end
    count(env, n // 256, line)
  end
  function env.filter(name, v, args, named, line)
    local f = library.filters[name]
    if not f then fail(line, "unknown filter '%s'", name) end
    return f(v, args, named, line, env)
  end
  function env.test(name, v, args, line)
    local f = library.tests[name]
    if not f then fail(line, "unknown test '%s'", name) end
    return f(v, args, line)
  end
  return env
end

-- Runs a parsed template. Returns {text =, answers =}: the text that it writes, and the first and last byte of each
-- generation block's text. names: the variables, a map of values (values.lua).
return function(tree, names)
  local env, all = new_env(values.length(names.messages)), {}
  for name, f in pairs(library.functions) do all[name] = f end
  for name, v in pairs(names) do all[name] = v end
  values.begin()
  block(tree, inner({names = all}), env)
  return {text = table.concat(env.out), answers = env.answers}
end
