-- Runs random programs against the whole Lua interface: all modules and methods, methods on wrong objects, wrong types,
-- coroutines, finalisers, graphs, explicit calls of metamethods. Each statement must give a value or an error, and must
-- not crash, hang, or leave the session unusable. Sanitizer builds also find memory errors.
--
-- Each program is a text drawn from its own seed. RILLE_PROGRAM=n runs and prints only program n; RILLE_PROGRAMS=100000
-- sets the number of programs. Programs run in a child process, in a temporary folder.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"

-- ---- the child process ----

local child = [[
local rille = require "rille"
debug.getmetatable(rille).__close = nil -- all programs share the session
local from, to, seed = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local alone = arg[4] == "alone"
local load, pcall, setmetatable, type, tostring, debug = load, pcall, setmetatable, type, tostring, debug
local random, choose, floor = math.random, nil, math.floor

-- Functions that the programs must not call, because they wait, write to stdout, or make other programs fail.
local left_out = {_slow_op = true, _fail_act = true, _forget_presses = true, help = true, peak = true, recover = true}
local function names_of(t)
  local list = {}
  for name in pairs(t) do
    if type(name) == "string" and not left_out[name] and name:find("^[%a_][%w_]*$") then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end
local function pick(list) return list[random(#list)] end

local place = rille.placement("cpu", {0})
local step, live = rille.graph(function(x) return x end), rille.live(function() return 1 end)
local function methods_of(v) return names_of(debug.getmetatable(v).__methods or {}) end
local metas, functions, methods = {}, {}, {}
for i, v in ipairs{rille.ones(1), place, step, live} do
  metas[i] = names_of(debug.getmetatable(v))
  for _, name in ipairs(methods_of(v)) do methods[#methods + 1] = name end
end
for _, name in ipairs{"item", "shape", "size", "placement", "grad", "name", "ranks", "dtype", "forward", "parameters", "state_dict",
  "load_state_dict", "train", "eval", "to_global", "step", "zero_grad", "lr", "undo", "nosuch", "__gc", "__index"} do
  methods[#methods + 1] = name
end
for _, name in ipairs(names_of(rille)) do functions[#functions + 1] = "rille." .. name end
for _, module in ipairs{"nn", "optim", "data", "models", "parallel", "checkpoint", "tokenizer", "io", "train", "json", "sbp"} do
  for _, name in ipairs(names_of(rille[module])) do functions[#functions + 1] = ("rille.%s.%s"):format(module, name) end
end
for _, name in ipairs(names_of(rille.nn.Module)) do functions[#functions + 1] = "rille.nn.Module." .. name end

-- ---- the grammar ----

local variables = {"a", "b", "c", "d", "e", "f", "net", "opt", "step", "P", "Q"}
local numbers = {"0", "1", "-1", "2", "3", "4", "7", "0.5", "-2.5", "1e300", "0/0", "math.huge", "-math.huge", "math.mininteger",
  "math.maxinteger", "1 << 62", "2^53"}
local words = {'"S(0)"', '"S(1)"', '"S(-1)"', '"B"', '"P"', '"P(max)"', '"(B, S(0))"', '"f32"', '"i64"', '"bf16"', '"bool"', '"cpu"', '"meta"',
  '"mean"', '"sum"', '"1f1b"', '"zb-h1"', '"auto"', '"optimal"', '"x.npy"', '"x.safetensors"', '"x.svg"', '"x.json"', '"dir"', '""', '"S("',
  '"\\0"', '"\\27[31m"', '("x"):rep(5000)', '"weight"', '"lr"'}
local keys = {"axis", "placement", "sbp", "dtype", "requires_grad", "name", "keepdim", "lr", "eps", "betas", "micro_batches", "schedule", "zero",
  "recompute", "auto_parallel", "mesh", "shape", "from", "to", "strategy", "data", "tensor", "stages", "params", "max_new_tokens", "nosuch"}
local expression

local function list(depth, n)
  local parts = {}
  for k = 1, n do parts[k] = expression(depth) end
  return table.concat(parts, ", ")
end

local kinds = {
  function() return random(3) > 1 and pick(variables) or pick(numbers) end,
  function() return pick(variables) end,
  function() return tostring(random(0, 4)) end,
  function() return pick(numbers) end,
  function() return pick(words) end,
  function() return pick{"nil", "true", "false", "print", "rille", "rille.nn", "coroutine.running()", "_ENV"} end,
  function() return ("rille.randn({%d, %d}%s)"):format(random(0, 4), random(1, 4), pick{"", ", {placement = P}", ", {placement = Q, sbp = \"S(0)\"}",
    ", {requires_grad = true}", ", {placement = P, sbp = \"P\"}"}) end,
  function() return ("rille.tensor({%d, %d, %d}%s)"):format(random(0, 3), random(0, 3), random(-1, 3), pick{"", ", {dtype = \"i64\"}", ", {dtype = \"bool\"}"}) end,
  function(d) return ("{%s}"):format(list(d - 1, random(0, 3))) end,
  function(d) return ("{%s = %s, %s = %s}"):format(pick(keys), expression(d - 1), pick(keys), expression(d - 1)) end,
  function(d) return ("{placement = %s, sbp = %s}"):format(pick{"P", "Q", expression(d - 1)}, pick(words)) end,
  function(d) return ("%s(%s)"):format(pick(functions), list(d - 1, random(0, 3))) end,
  function(d) return ("%s:%s(%s)"):format(pick(variables), pick(methods), list(d - 1, random(0, 3))) end,
  function(d) return ("(%s).%s"):format(expression(d - 1), pick(methods)) end,
  function(d) return ("(%s)[%s]"):format(expression(d - 1), expression(d - 1)) end,
  function(d) return ("(%s) %s (%s)"):format(expression(d - 1), pick{"+", "-", "*", "/", "//", "%", "^", "..", "==", "<", "<=", "and", "or"}, expression(d - 1)) end,
  function(d) return ("%s(%s)"):format(pick{"-", "#", "not "}, expression(d - 1)) end,
  function(d) return ("meta(%s, %q)(%s)"):format(pick(variables), pick(pick(metas)), list(d - 1, random(0, 3))) end,
  function(d) return ("function(x, y) return %s end"):format(expression(d - 1)) end,
  function(d) return ("rille.graph(function(x, y) c = %s; return %s end, {micro_batches = %d})"):format(expression(d - 1), expression(d - 1), random(1, 3)) end,
  function(d) return ("coroutine.wrap(function() coroutine.yield(%s) return %s end)()"):format(expression(d - 1), expression(d - 1)) end,
  function(d) return ("tostring(%s)"):format(expression(d - 1)) end,
}
expression = function(depth) return kinds[random(depth > 0 and #kinds or 8)](depth) end

local statements = {
  function() return ("%s = %s"):format(pick(variables), expression(2)) end,
  function() return ("%s = %s"):format(pick(variables), expression(3)) end,
  function() return ("local v = %s"):format(expression(3)) end,
  function() return ("%s = %s:%s(%s)"):format(pick(variables), pick(variables), pick(methods), list(1, random(0, 3))) end,
  function() return ("%s = %s(%s)"):format(pick(variables), pick(functions), list(1, random(0, 3))) end,
  function() return ("%s[%s] = %s"):format(pick(variables), expression(1), expression(1)) end,
  function() return ("%s.%s = %s"):format(pick(variables), pick(methods), expression(1)) end,
  function() return ("local v <close> = %s"):format(expression(2)) end,
  function() return ("setmetatable({}, {__gc = function() %s = %s end}) collectgarbage()"):format(pick(variables), expression(2)) end,
  function() return ("for i = 0, 2 do %s = %s end"):format(pick(variables), expression(2)) end,
  function() return ("for k, v in pairs(%s) do %s = v end"):format(expression(1), pick(variables)) end,
  function() return ("(%s):sum():backward()"):format(expression(2)) end,
  function() return ("rille.no_grad(function() return %s end)"):format(expression(2)) end,
  function() return ("step(%s)"):format(list(1, random(0, 2))) end,
  function() return ("net = rille.nn.%s(%s) net(%s)"):format(pick{"Linear", "Embedding", "LayerNorm", "Sequential"}, list(1, random(1, 3)), expression(1)) end,
  function() return ("opt = rille.optim.%s(%s, {lr = %s}) opt:step()"):format(pick{"SGD", "Adam", "AdamW"}, expression(1), expression(0)) end,
}

local function program(n)
  math.randomseed(seed, n)
  local lines = {"local try = try P = rille.placement('cpu', {0, 1}) Q = rille.placement('cpu', {{0, 1}, {2, 3}})"}
  for k = 1, random(2, 6) do lines[k + 1] = ("try(function() %s end)"):format(pick(statements)()) end
  return table.concat(lines, "\n")
end

-- ---- running ----

local nerror, nline, strange = 0, 0, nil
local function meta(v, name)
  local m = debug.getmetatable(v)
  return m and m[name] or function() end
end
local steps
local function too_long()
  steps = steps + 1
  if steps > 300 then error("too long", 0) end
end
local function try(fn)
  nline, steps = nline + 1, 0
  local co = coroutine.create(fn)
  debug.sethook(co, too_long, "", 1000)
  local good, err = coroutine.resume(co)
  coroutine.close(co)
  if good then return end
  nerror = nerror + 1
  if type(err) == "string" and err:find("0x%x%x%x%x%x") and not strange then strange = err end
end
local base = {rille = rille, math = math, table = table, coroutine = coroutine, meta = meta, try = try, pairs = pairs,
  setmetatable = setmetatable, collectgarbage = collectgarbage, print = type,
  tostring = function(v) return (tostring(v):gsub("0x%x+", "0x")) end,
  a = false, b = false, c = false, d = false, e = false, f = false}

-- Restores the modules after a program has changed them.
local whole = {}
for _, t in ipairs{rille, rille.nn, rille.optim, rille.data, rille.models, rille.parallel, rille.checkpoint, rille.tokenizer, rille.io, rille.train,
  rille.json, rille.nn.Module} do
  whole[t] = {}
  for name, v in next, t do whole[t][name] = v end
end
local function mend()
  for t, was in next, whole do
    for name in next, t do
      if was[name] == nil then rawset(t, name, nil) end
    end
    for name, v in next, was do rawset(t, name, v) end
  end
end

for n = from, to do
  mend()
  local text = program(n)
  if alone then io.stderr:write(text, "\n") end
  local f = assert(io.open("program.lua", "w"))
  f:write(text)
  f:close()
  local env = setmetatable({a = rille.ones{2, 3}, b = rille.ones({4}, {requires_grad = true}), c = rille.tensor(2), d = {1, 2}, e = rille.zeros{0, 2},
    f = function(x) return x end, net = rille.nn.Linear(3, 2), step = step, opt = live}, {__index = base})
  env._ENV = env
  local chunk = assert(load(text, "=program", "t", env))
  local good, err = pcall(chunk)
  if not good then strange = strange or "a program ends: " .. tostring(err) end
  if n % 50 == 0 then
    collectgarbage()
    if rille.ones({3}):sum():item() ~= 3 then strange = strange or "a sum is wrong after program " .. n end
  end
end
if strange then print("strange: " .. strange) end
print(("done: %d statements, %d errors"):format(nline, nerror))
]]

-- ---- running the child ----

local function quoted(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function run(from, to, seed, alone)
  local dir = os.tmpname()
  os.remove(dir)
  os.execute("mkdir " .. quoted(dir))
  tap.write(dir .. "/child.lua", child)
  local p = io.popen(("cd %s && %s -d cpu:4,meta --no-init child.lua %d %d %d %s 2>&1"):format(quoted(dir), quoted(tap.program()), from, to, seed,
    alone and "alone" or ""))
  local text = p:read("a")
  local _, how, code = p:close()
  local program = io.open(dir .. "/program.lua")
  local source = program and program:read("a") or ""
  if program then program:close() end
  os.execute("rm -r " .. quoted(dir))
  return text, source, code, how
end

local seed = tap.seed(1)
local only = tonumber(os.getenv("RILLE_PROGRAM") or "")
local count = tonumber(os.getenv("RILLE_PROGRAMS") or "") or os.getenv("RILLE_LONG") and 5000 or 300
if only then
  print((run(only, only, seed, true)))
  os.exit(0)
end

-- Runs each batch of programs in a new process, so that state left by a program reaches only its batch.
local BATCH <const> = 500
local statements, errors = 0, 0
for from = 1, count, BATCH do
  local to = math.min(count, from + BATCH - 1)
  local text, source, code, how = run(from, to, seed)
  local n, e = text:match("done: (%d+) statements, (%d+) errors")
  local good = n and code == 0 and not text:find("strange: ", 1, true)
  if not tap.ok(good, ("programs %d to %d give values or errors"):format(from, to)) then
    tap.diag(("%s %s; seed %d, the last program:\n%s\n%s"):format(how, code, seed, source, text:sub(-6000)))
  end
  statements, errors = statements + (n or 0), errors + (e or 0)
end
tap.diag(("%d programs, %d statements, %d of them errors"):format(count, statements, errors))
tap.ok(errors < 0.9 * statements, "not all statements are errors")
tap.done()
