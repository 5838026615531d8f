-- Tests that a compiled step follows changes of everything that its function reads besides arguments: upvalues,
-- globals, fields, functions, modules, metatables. The reference is an eager call of the same function.
local tap = dofile("t/lib/tap.lua")

local function traces(step) return tonumber(tostring(step):match("(%d+) trace")) end

-- Runs a script in a new process and returns the script's warnings.
local function warnings_of(script, environment) return (tap.run("", script, environment)) end

-- ---- each kind of value that a function can read ----

-- Chunks, one for each kind of read. A chunk returns the function, and a list of changes that the test applies in
-- order.
local methods = {
  ["a number in an upvalue"] = "local k = 2.0; return function(x) return x * k end, {function() k = 3.0 end}",
  ["a number in a global"] = "K = 2.0; return function(x) return x * K end, {function() K = 3.0 end}",
  ["a global that was nil"] = "N = nil; return function(x) return N and x * N or x end, {function() N = 3 end}",
  ["a global read through _G"] = "K = 2.0; return function(x) return x * _G.K end, {function() K = 3.0 end}",
  ["a field"] = "local o = {k = 2}; return function(x) return x * o.k end, {function() o.k = 3 end}",
  ["a field of a field"] = "local o = {p = {k = 2}}; return function(x) return x * o.p.k end, {function() o.p.k = 3 end, function() o.p = {k = 4} end}",
  ["a field that was nil"] = "local o = {}; return function(x) return o.k and x * 2 or x end, {function() o.k = true end}",
  ["a field of a global"] = "O = {k = 2}; return function(x) return x * O.k end, {function() O.k = 3 end, function() O = {k = 4} end}",
  ["a field whose name is computed"] = "local o, n = {k1 = 2, k2 = 5}, 'k1'; return function(x) return x * o[n] end, {function() o.k1 = 3 end, function() n = 'k2' end}",
  ["an entry of a list"] = "local o = {2, 3}; return function(x) return x * o[1] + o[2] end, {function() o[2] = 4 end}",
  ["a list that grows"] = "local o = {2}; return function(x) for _, k in ipairs(o) do x = x * k end return x end, {function() o[2] = 4 end, function() o[1] = nil end}",
  ["an entry of a long list"] = "local o = {}; for i = 1, 5000 do o[i] = i end; return function(x) return x * o[4000] end, {function() o[4000] = 4 end, function() o[4000] = 4.5 end, function() o[5001] = 1 end}",
  ["a text in a long list"] = "local o = {}; for i = 1, 300 do o[i] = 'a' end; return function(x) return o[270] == 'b' and x * 2 or x end, {function() o[270] = 'b' end, function() o[270] = true end}",
  ["a table in a long list"] = "local o = {}; for i = 1, 300 do o[i] = {k = i} end; return function(x) return x * o[270].k end, {function() o[270].k = 4 end, function() o[270] = {k = 5} end}",
  ["a function in a long list"] = "local o, k = {}, 2; for i = 1, 300 do o[i] = function(x) return x * k end end; return function(x) return o[300](x) end, {function() k = 3 end, function() o[300] = rille.exp end}",
  ["a flag"] = "local f = true; return function(x) if f then return x end return x * 10 end, {function() f = false end}",
  ["a text"] = "local t = 'a'; return function(x) return t == 'a' and x or x * 7 end, {function() t = 'b' end}",
  ["a tensor that is replaced"] = "local w = rille.ones(2); return function(x) return x * w end, {function() w = rille.full({2}, 5) end}",
  ["a function that is replaced"] = "local g = function(x) return x * 2 end; return function(x) return g(x) end, {function() g = function(x) return x * 5 end end}",
  ["an operator that is replaced"] = "local act = rille.exp; return function(x) return act(x) end, {function() act = rille.square end}",
  ["an upvalue of a function that is called"] = "local k = 2; local function g(x) return x * k end; return function(x) return g(x) end, {function() k = 3 end}",
  ["an upvalue of a nested function"] = "local k = 2; return function(x) return (function() return x * k end)() end, {function() k = 3 end}",
  ["a global of a function in a table"] = "K = 2; local o = {g = function(x) return x * K end}; return function(x) return o.g(x) end, {function() K = 3 end}",
  ["a number in a threshold"] = "local epoch = 1; return function(x) return epoch > 2 and x * 3 or x end, {function() epoch = 2 end, function() epoch = 3 end}",
  ["an option in a table"] = "local how = {axis = 0}; return function(x) return x:reshape(1, 2):sum(how):sum() end, {function() how.keepdim = true end, function() how.axis = 1 end}",
  ["a field of an object"] = "local C = {}; C.__index = C; function C:f(x) return x * self.k end; local o = setmetatable({k = 2}, C); return function(x) return o:f(x) end, {function() o.k = 3 end}",
  ["a field of a class"] = "local C = {k = 2}; C.__index = C; function C:f(x) return x * self.k end; local o = setmetatable({}, C); return function(x) return o:f(x) end, {function() C.k = 3 end, function() o.k = 5 end}",
  ["a method of a class"] = "local C = {}; C.__index = C; function C:f(x) return x * 2 end; local o = setmetatable({}, C); return function(x) return o:f(x) end, {function() function C:f(x) return x * 3 end end}",
  ["__call"] = "local k = 2; local o = setmetatable({}, {__call = function(_, x) return x * k end}); return function(x) return o(x) end, {function() k = 3 end}",
  ["a field of a module"] = [[local M = rille.nn.Module:extend("M"); function M:init() self.k = 2 end; function M:forward(x) return x * self.k end
    local m = M(); return function(x) return m(x) end, {function() m.k = 3 end}]],
  ["a field that a module lacked"] = [[local M = rille.nn.Module:extend("M"); function M:forward(x) return self.k and x * self.k or x end
    local m = M(); return function(x) return m(x) end, {function() m.k = 3 end}]],
  ["a module in a Sequential"] = [[local M = rille.nn.Module:extend("M"); function M:init() self.k = 2 end; function M:forward(x) return x * self.k end
    local m = rille.nn.Sequential(M(), rille.nn.ReLU()); return function(x) return m(x) end, {function() m[1].k = 3 end, function() m[2] = M() end}]],
  ["a module that is the step"] = [[local M = rille.nn.Module:extend("M"); function M:init() self.k = 2 end; function M:forward(x) return x * self.k end
    local m = M(); return m, {function() m.k = 3 end}]],
  ["an upvalue of a method of a module"] = [[local k = 2; local M = rille.nn.Module:extend("M"); function M:forward(x) return x * k end
    local m = M(); return function(x) return m(x) end, {function() k = 3 end}]],
  ["a field in place of another one"] = "local o = {a = 1}; return function(x) return x * (o.b or 1) end, {function() o.a, o.b = nil, 5 end}",
  ["a field in place of one with a long name"] = "local o = {a_name_of_more_than_sixteen_letters = 1}; return function(x) return x * (o.a_name_of_more_than_sixteen_letterz or 2) end, {function() o.a_name_of_more_than_sixteen_letters = nil; o.a_name_of_more_than_sixteen_letterz = 5 end}",
  ["a field that a class lacked"] = "local C = {}; C.__index = C; function C.f(x) return x * (C.zz or 2) end; return function(x) return C.f(x) end, {function() C.zz = 3 end}",
  ["a field that a class of modules lacked"] = [[local M = rille.nn.Module:extend("M"); function M:forward(x) return x * (M.zz or 2) end
    local m = M(); return function(x) return m(x) end, {function() M.zz = 3 end}]],
  ["a global that a text of code reads"] = "ZZ = 2; O = {k = 2}; return function(x) return x * load('return ZZ + O.k')() end, {function() ZZ = 3 end, function() O.k = 7 end}",
  ["rawget"] = "local o = {zz = 2}; return function(x) return x * rawget(o, 'zz') end, {function() o.zz = 3 end}",
  ["rawget of a computed name"] = "local o, n = {zz = 2}, 'z'; return function(x) return x * rawget(o, n .. n) end, {function() o.zz = 3 end}",
  ["pairs"] = "local o = {a = 1, b = 1}; return function(x) for _, v in pairs(o) do x = x * v end return x end, {function() o.b = 2 end, function() o.c = 5 end}",
  ["next"] = "local o = {a = 1}; return function(x) for _, v in next, o do x = x * v end return x end, {function() o.a = 2 end}",
  ["a global whose name is computed"] = "ZZ = 2; return function(x) return x * _G['Z' .. 'Z'] end, {function() ZZ = 3 end}",
  ["a global whose name is computed, through _ENV"] = "ZZ = 2; local n = 'ZZ'; return function(x) return x * _ENV[n] end, {function() ZZ = 3 end}",
  ["a local _ENV"] = "local e = {zz = 2}; return function(x) local _ENV = e; return x * zz end, {function() e.zz = 3 end}",
  ["an argument _ENV"] = "local e = {zz = 2}; local function f(x, _ENV) return x * zz end; return function(x) return f(x, e) end, {function() e.zz = 3 end}",
  ["the environment of a chunk"] = "local e = {zz = 2}; local f = load('local x = ... return x * zz', '=c', 't', e); return function(x) return f(x) end, {function() e.zz = 3 end}",
  ["a metatable that is set"] = "local o = {}; return function(x) return x * (o.zz or 2) end, {function() setmetatable(o, {__index = {zz = 3}}) end, function() setmetatable(o, nil) end}",
  ["a metatable that is replaced"] = "local o = setmetatable({}, {__index = {zz = 2}}); return function(x) return x * o.zz end, {function() setmetatable(o, {__index = {zz = 3}}) end}",
  ["a field of a metatable"] = "local m = {zz = 2}; local o = setmetatable({}, m); return function(x) return x * getmetatable(o).zz end, {function() m.zz = 3 end}",
  ["__index that is replaced"] = "local m = {__index = {zz = 2}}; local o = setmetatable({}, m); return function(x) return x * o.zz end, {function() m.__index = {zz = 3} end, function() m.__index.zz = 4 end}",
  ["an __index function"] = "local s = {zz = 2}; local o = setmetatable({}, {__index = function(_, n) return s[n] end}); return function(x) return x * o.zz end, {function() s.zz = 3 end}",
  ["__mul"] = "local k = 2; local o = setmetatable({}, {__mul = function(_, x) return x * k end}); return function(x) return o * x end, {function() k = 3 end}",
  ["an __eq that fails"] = "local o = setmetatable({zz = 2}, {__eq = error}); return function(x) return x * o.zz end, {function() o.zz = 3 end}",
  ["__len"] = "local k = 2; local o = setmetatable({}, {__len = function() return k end}); return function(x) return x * #o end, {function() k = 3 end}",
  ["package.loaded"] = "package.loaded.zz = {zz = 2}; return function(x) return x * package.loaded.zz.zz end, {function() package.loaded.zz.zz = 3 end, function() package.loaded.zz = {zz = 4} end}",
  ["require"] = "package.loaded.zz = {zz = 2}; return function(x) return x * require('zz').zz end, {function() package.loaded.zz.zz = 3 end, function() package.loaded.zz = {zz = 4} end}",
  ["an added function of a library"] = "function math.zz() return 2 end; return function(x) return x * math.zz() end, {function() function math.zz() return 3 end end}",
  ["an added method of strings"] = "string.zz = nil; return function(x) return x * (('a').zz or 2) end, {function() string.zz = 3 end, function() string.zz = nil end}",
  ["requires_grad of a tensor"] = "local w = rille.ones(2); return function(x) if w.requires_grad then return x * 3 end return x end, {function() w:requires_grad_() end}",
  ["grad of a tensor"] = "local w = rille.ones(2):requires_grad_(); return function(x) if w.grad then return x * 3 end return x end, {function() w.grad = rille.ones(2) end, function() w.grad = nil end}",
  ["name of a tensor"] = "local w = rille.ones(2); return function(x) if w.name == 'a' then return x * 3 end return x end, {function() w.name = 'a' end}",
  ["requires_grad of a parameter of a module"] = [[local M = rille.nn.Module:extend("M"); function M:init() self.p = rille.nn.Parameter(rille.ones(2)) end
    function M:forward(x) return self.p.requires_grad and x * 2 or x end; local m = M(); return function(x) return m(x) end, {function() m.p:requires_grad_(false) end}]],
  ["a tensor as a key"] = "local a = rille.ones(1); local t = {[a] = 2}; return function(x) return x * t[a] end, {function() t[a] = 3 end}",
  ["a table that contains itself"] = "local o = {k = 2}; o.self = o; return function(x) return x * o.self.self.k end, {function() o.k = 3 end}",
  ["a table that contains itself, replaced"] = "local o = {k = 2}; o.self = o; return function(x) return x * o.self.self.k end, {function() o = {k = 3}; o.self = o end}",
}

tap.group("each way of reading", function()
  for _, what in ipairs{false, true} do
    for name, chunk in pairs(methods) do
      local fn, changes = load(chunk, "=chunk", "t", what and setmetatable({}, {__index = _G}) or _G)()
      local step, x = rille.graph(fn), rille.tensor{1.5, 2}
      step(x)
      tap.near(step(x):totable(), fn(x):totable(), name)
      tap.is(traces(step), 1, name .. ": two calls are traced once")
      for i, change in ipairs(changes) do
        change()
        tap.near(step(x):totable(), fn(x):totable(), ("%s, change %d"):format(name, i))
        local n = traces(step)
        step(x)
        tap.ok(traces(step) == n and n <= i + 1, "at most one more trace per change", n)
      end
    end
  end
end)

-- A step is called in each mode, and in each mode within each other one, twice.
tap.group("autocast and no_grad", function()
  local modes = {function(f, ...) return f(...) end}
  for _, dtype in ipairs{"bf16", "f16"} do modes[#modes + 1] = function(f, ...) return rille.autocast(dtype, f, ...) end end
  modes[4] = rille.no_grad
  local x, w = rille.randn{3, 4}, rille.randn({4, 4}, {requires_grad = true})
  local function fn(a)
    local y = a:matmul(w)
    return y, rille.tensor{y.requires_grad and 1 or 0}
  end
  local step = rille.graph(fn)
  for round = 1, 2 do
    for i, outer in ipairs(modes) do
      for k, inner in ipairs(modes) do
        local y, records = outer(inner, step, x)
        local want, want_records = outer(inner, fn, x)
        tap.ok(y.dtype == want.dtype and (y - want):abs():max():item() == 0 and records:item() == want_records:item(),
          ("round %d: a step has the results of the function in mode %d within mode %d"):format(round, k, i))
      end
    end
  end
  tap.is(traces(step), 6, "a step has one trace for each combination of dtype and no_grad")
  tap.fails(function() rille.graph(function(a) rille.manual_seed(1) return a + rille.rand{3} end)(rille.ones{3}) end,
    {"manual_seed: a compiled step must not set the seed"}, "a step does not set the seed")
end)

tap.group("arguments", function()
  local step = rille.graph(function(x, o) return x * o.k end)
  local o, x = {k = 2}, rille.ones{1}
  tap.is({step(x, o):item(), step(x, o):item()}, {2, 2}, "a table")
  o.k = 3
  tap.is(step(x, o):item(), 3, "fields of a table that is an argument are followed")
end)

tap.group("values that do not affect a step", function()
  local log, other, state = {}, 1, {k = 2, losses = {}}
  local seen
  local step = rille.graph(function(x) seen = x; log.last = x; return x * state.k end)
  local x = rille.ones{1}
  for i = 1, 4 do
    step(x)
    log[i], other, state.losses[i], NOT_READ, seen = i, i, i, i, i
  end
  tap.ok(traces(step) <= 2, "values that the step does not read, or only writes, cause no new trace", traces(step))
end)

tap.group("values that a step changes itself", function()
  local n, calls, cache = 0, {}, {}
  local step = rille.graph(function(x)
    n = n + 1
    calls.n = (calls.n or 0) + 1
    cache.w = cache.w or rille.full({1}, 3)
    return x * cache.w
  end)
  for _ = 1, 5 do tap.is(step(rille.ones{1}):item(), 3, "the step computes the same as eagerly") end
  tap.ok(traces(step) <= 2, "counters cause no new trace, and a lazily made tensor causes one", traces(step))
  for _, micro in ipairs{1, 2} do
    local count, state, w = 0, {k = 0, on = false, list = {0}}, rille.ones({1}, {requires_grad = true})
    local counted = rille.graph(function(x)
      count, state.k, state.on = count + 1, state.k + 1, not state.on
      state.list[1] = state.list[1] + 1
      return tap_backward((x * w):sum())
    end, {micro_batches = micro})
    for _ = 1, 5 do counted(rille.ones{4}) end
    local n = traces(counted)
    tap.is({count, state.k, state.list[1], state.on}, {n, n, n, n % 2 == 1}, ("%d micro-batches: a counter counts the traces"):format(micro))
    tap.ok(n <= 2, ("%d micro-batches: counters cause at most one more trace"):format(micro), n)
  end
  local text = warnings_of([[
    local n = 0
    local step = rille.graph(function(x) n = n + 1; return x end)
    for _ = 1, 5 do step(rille.ones{1}) end]])
  local _, times = text:gsub("script.lua:3: graph: the step's function changes 'n', which happens once", "")
  tap.is(times, 1, "the change of a counter is reported once")
end)

tap.group("fields that the user sets in layers", function()
  local layers = {
    ["nn.Linear"] = function() return rille.nn.Linear(3, 3) end, ["nn.Sequential"] = function() return rille.nn.Sequential(rille.nn.ReLU()) end,
    ["nn.Module"] = function() return rille.nn.Module() end, ["a class without methods"] = function() return rille.nn.Module:extend("Mine")() end,
    ["a class that extends nn.Linear"] = function() return rille.nn.Linear:extend("Mine")(3, 3) end,
  }
  for name, make in tap.sorted(layers) do
    local layer = make()
    layer.gain, layer.settings_of_user, layer.shift = 2, {k = 1}, rille.zeros{1}
    local step = rille.graph(function(x) return (x * layer.gain + layer.settings_of_user.k + layer.shift):sum() end)
    local got = tap.list(4, function(i)
      if i == 2 then layer.gain = 3 elseif i == 3 then layer.settings_of_user.k = 10 elseif i == 4 then layer.shift = rille.full({1}, 5) end
      return step(rille.ones{1}):item()
    end)
    tap.is(got, {3, 4, 13, 18}, name .. ": the step follows a number, a table and a tensor")
  end
end)

tap.group("tensors that a step's function assigns", function()
  local keeps = {
    ["a result that its next call does not read"] = function(s, x) s.h = s.v * 2; return (x * s.h):sum() end,
    ["a value that is restored"] = function(s, x)
      local before = s.v
      s.v = before * x:mean(0)
      local y = (x * s.v):sum()
      s.v = before
      return y
    end,
    ["a cache"] = function(s, x) s.h = s.h or rille.full({3}, 2); return (x * s.h):sum() end,
    ["a cache that it computes"] = function(s, x) s.h = s.h or rille.full({3}, 2):square() + 1; return (x * s.h):sum() end,
    ["a copy into the variable"] = function(s, x) s.v:copy_(s.v * 0.5 + x:mean(0)); return s.v:sum() end,
    ["another name of one tensor"] = function(s, x) s.h = s.v; return (x * s.h):sum() end,
  }
  for name, assign in tap.sorted(keeps) do
    for _, micro in ipairs{1, 2} do
      local function results(compile)
        local state = {v = rille.full({3}, 2)}
        local fn = compile(function(x) return assign(state, x) end, {micro_batches = micro})
        return tap.list(4, function(i) return fn(rille.ones{4, 3} * i):item() end)
      end
      local eager = results(function(fn) return fn end)
      tap.is(results(rille.graph), eager, ("%s, %d micro-batches: the step computes the same as eagerly"):format(name, micro))
    end
  end
  local carried = {
    ["a running mean"] = function(s, x) s.h = s.h * 0.5 + x:mean(0); return s.h:sum() end,
    ["the last result"] = function(s, x) local y = (x + s.h):sum(); s.h = x:mean(0); return y end,
    ["a reset"] = function(s, x) local y = (x + s.h):sum(); s.h = rille.ones{3}; return y end,
    ["two tensors that change places"] = function(s, x) s.h, s.v = s.v, s.h; return (x * s.h):sum() end,
  }
  for name, assign in tap.sorted(carried) do
    for _, micro in ipairs{1, 2} do
      local state = {h = rille.full({3}, 5), v = rille.full({3}, 1)}
      local step = rille.graph(function(x) return assign(state, x) end, {micro_batches = micro})
      for call = 1, 2 do
        tap.fails(function() step(rille.ones{4, 3}) end, {"replaces the tensor 'state.", ":copy_(y)", "reads.lua"},
          ("%s, %d micro-batches: call %d is refused"):format(name, micro, call))
      end
      tap.is({state.h:sum():item(), state.v:sum():item()}, {15, 3}, name .. ": the old tensors are put back")
    end
  end
end)

tap.group("warnings", function()
  local text = warnings_of([[
    local w
    local step = rille.graph(function(x) return x * w end)
    for i = 1, 40 do
      w = rille.full({1}, i)
      step(rille.ones{1})
    end]])
  local _, times = text:gsub("script.lua:5: graph: the step was traced 9 times because 'w' changes from call to call", "")
  tap.is(times, 1, "a step that is traced repeatedly because of one variable names the variable, once")
  -- kinds of arguments: value in call n, and the warning about it
  for _, row in ipairs{
    {"n * 0.5", "a > 3 and x or x * a", "'argument 2' changes from call to call, which is slow; pass it as a tensor"},
    {"('a'):rep(n)", "x * #a", "argument 2 is another string in each call, which is slow; call the step with few different values"},
    {"function(y) return y * n end", "a(x)", "argument 2 is another function in each call"},
    {"rille.nn.Linear(1, 1)", "a(x)", "argument 2 is another table in each call"},
    {"{k = ('a'):rep(n)}", "x * #a.k", "'argument 2.k' changes from call to call, which is slow; call the step with few different values"},
    {"{table.unpack({x, x, x, x, x, x, x, x, x, x, x, x}, 1, n)}", "x * #a", "argument 2 has other keys in each call, which is slow; join its tensors"},
    {"{k = {rille.ones{n}}}", "x * a.k[1]:sum()", "dimension 0 of argument 2.k.1 has another size in each call (1, 2, 3, 4, 5, 6, 7, 8, 9)"},
  } do
    local function of(last)
      return warnings_of(([[
    local x = rille.ones{1}
    local step = rille.graph(function(x, a) return %s end)
    for n = 1, %d do step(x, %s) end]]):format(row[2], last, row[1]))
    end
    local said = of(20)
    tap.ok(said:find("script.lua:3: graph: the step was traced 9 times because " .. row[3], 1, true), row[1] .. " as an argument: the warning says why", said)
    tap.is(select(2, said:gsub("times because", "")), 1, row[1] .. " as an argument: there is one warning")
    tap.is(of(8), "", row[1] .. " as an argument: eight values cause no warning")
  end
  local function sizes(first, last, shape)
    return warnings_of(([[
    local step = rille.graph(function(x, k, y) return y * k end)
    for _ = 1, 2 do
      for n = %d, %d do step(rille.ones{2}, 3, rille.ones{%s}) end
    end]]):format(first, last, shape))
  end
  local found = sizes(1, 20, "4, n")
  _, times = found:gsub("script.lua:3: graph: the step was traced 9 times because dimension 1 of argument 3 has another size in each "
    .. "call %(1, 2, 3, 4, 5, 6, 7, 8, 9%)", "")
  tap.is(times, 1, "a step that is traced repeatedly because of a size names dimension, argument and sizes, once")
  tap.ok(found:find("buckets = {1, 2, 4, 8, 16, axis = 1}", 1, true), "the warning suggests buckets of the axis, up to the largest size")
  tap.is(sizes(1, 8, "4, n"), "", "eight sizes cause no warning")
  for _, row in ipairs{{"math.random()", "x * math.random()"}, {"os.clock()", "x * clock()"}, {"io.open()", "io.open('none') and x or x * 2"},
    {"dofile()", "pcall(dofile, 'none') and x or x * 2"}, {"loadfile()", "loadfile('none') and x or x * 2"}, {"a coroutine", "x * co()"}} do
    local text = warnings_of(([[
    local clock, co = os.clock, coroutine.wrap(function() while true do coroutine.yield(2) end end)
    rille.graph(function(x) return %s end)(rille.ones{1})]]):format(row[2]))
    tap.ok(text:find(("script.lua:2: graph: the step's function can read %s, whose value stays"):format(row[1]), 1, true), row[1] .. " is reported", text)
  end
  -- Lua does not look at the values of a tensor in a branch or a comparison with ==
  local branch, compared = "branches on a tensor, which counts as true", "compares a tensor with a number by == or ~="
  for _, row in ipairs{{"if x:gt(0):any() then return x end return x * 2", branch}, {"return x:sum() == 3 and x or x * 2", compared},
    {"return net(x)", branch}, {"local function f(a) return a ~= 1 and x or -x end return f(x:mean())", compared},
    {"local m = x.ndim == 1 and x:gt(0) or nil if m then return m:where(x, 1) end return x"}, {"if x.shape[1] == 2 and x:numel() == 2 then return x end return -x"},
    {"if mask then return x * mask end return x"}, {"return x == mask and x or -x"}} do
    local text = warnings_of(([[
    local M = rille.nn.Module:extend("M")
    function M:forward(x) if x:sum():lt(2) then return x end return -x end
    local net = M()
    rille.graph(function(x, mask) %s end)(rille.ones{2}, rille.ones{2}:gt(0))]]):format(row[1]))
    local line = row[1]:find("net", 1, true) and 2 or 4
    if row[2] then tap.ok(text:find("warning: script.lua:4: graph: script.lua:" .. line .. " " .. row[2], 1, true), "is reported: " .. row[1], text)
    else tap.is(text, "", "causes no warning: " .. row[1]) end
  end
  local cut = warnings_of("local o = {} for i = 1, 70000 do o[i] = i end rille.graph(function(x) return x * o[9] end)(rille.ones{1})")
  tap.ok(cut:find("too many values to follow, such as 'o'; changes of these are not noticed", 1, true), "a list that is not followed is reported", cut)
  tap.is(sizes(1, 20, "4, n % 3 + 1"), "", "three sizes cause no warning, however many calls")
end)

-- Tries expressions of x and k, each with the expected number of traces for 20 values of k. 1: k becomes a live
-- number (an input of the step) in the first trace; 2: in the second trace, after one attempt failed; 20: each value
-- of k needs a trace.
tap.group("numbers", function()
  local x = rille.tensor{1.5, 2}
  for _, row in ipairs{
    {"x * k", 1}, {"x * (1 - k)", 1}, {"k / x - k ^ 2", 1}, {"x * (-k) + x * 2 * k", 1}, {"x * (k // 2) + k % 3", 1},
    {"x + (function() return k * 2 end)()", 1}, {"x * 2", 1},
    {"x * k + 1", 2}, {"x * k + 1.0", 2}, {"x * k * 0.75 + x", 2},
    {"k < 7 and x * k or x", 20}, {"x * math.max(k, 3)", 20}, {"k == 7 and x or x * k", 20}, {"x * (({[7] = 3})[k] or k)", 20},
    {"x * k + rille.full({2}, k)", 20}, {"type(k) == 'number' and x * k or x", 20}, {"x * k + #tostring(k)", 20},
    {"(#x.shape == 2 and\n 1 or 2) *\n x * k", 1}, {"({3, 2})[#x.shape] *\n x *\n k", 1}, {"x * k +\n (function(t, name) return t[name] == 3 and 0.5 or 2 end)({a = 3}, 'a')", 1},
    {"(rawequal(k, 7) or rawequal(k, 7.5)) and x or x * k", 20}, {"tostring(k):match('^7') and x or x * k", 20},
    {"select(2, pcall(function() return k > 7 end)) == true and x or x * k", 20}, {"select(2, pcall(math.max, k, 7)) == k and x or x * k", 20},
    {"x * load('local k = ...; return (k == 7 or k == 7.5) and 1 or k')(k)", 20}, {"x * (math.tointeger(k * 4 / 3) and 2 or k)", 20},
    {"x * (function() local t = {}; t[k] = 1; return (t[7] or t[7.5]) and 2 or k end)()", 20}, {"(k % 7 == 0 and x or x * k)", 20},
  } do
    local body, most = table.unpack(row)
    for _, step_by in ipairs{1, 0.75} do
      for _, how in ipairs{"an upvalue", "an argument"} do
        local fn, set = load((how == "an upvalue" and "local k = 0; return function(x) return %s end, function(v) k = v end"
          or "return function(x, k) return %s end, print"):format(body))()
        local step, right = rille.graph(fn), true
        for i = 1, 20 do
          local k = i * step_by
          if how == "an upvalue" then set(k) end
          right = right and (step(x, k) - fn(x, k)):abs():max():item() < 1e-3
        end
        tap.ok(right, ("%s, k is %s: the step computes the same as eagerly"):format(body, how))
        tap.ok(most == 20 or traces(step) <= most + (step_by % 1 > 0 and 1 or 0),
          ("k is %s: the number becomes a live number: %d traces for 20 values"):format(how, traces(step)))
      end
    end
  end
  local two = {a = 1.5, b = 2.5}
  local step = rille.graph(function(t) return t * two.a + two.b end)
  for i = 1, 10 do
    two.a = two.a + 0.5
    if i % 2 == 0 then two.b = two.b - 0.25 end
    tap.near(step(x):totable(), (x * two.a + two.b):totable(), "two numbers, call " .. i)
  end
  tap.is(traces(step), 1, "two numbers both become live numbers")
  two.a = rille.ones{2}
  tap.near(step(x):totable(), (x + two.b):totable(), "a tensor in place of a number is right")
  two.a = 3.5
  tap.near(step(x):totable(), (x * 3.5 + two.b):totable(), "a number again is right")
  tap.is(traces(step), 2, "the first trace is reused")
  local kept, k = {}, 1.5
  local keeps = rille.graph(function(t) kept.k = k; return t * k, k end)
  for i = 1, 4 do
    k = i + 0.5
    local y, same = keeps(x)
    tap.is({y:totable(), same, math.type(kept.k)}, {(x * k):totable(), k, "float"}, "a number that the function stores or returns stays a number")
  end
  local w = rille.nn.Parameter(rille.ones{2})
  local opt, beta = rille.optim.Adam({w}, {lr = 0.1}), 0.25
  local eager = rille.nn.Parameter(rille.ones{2})
  local eager_opt = rille.optim.Adam({eager}, {lr = 0.1})
  local function train(p, o)
    local loss = (p * p * beta):sum()
    loss:backward(); o:step(); o:zero_grad()
    return loss
  end
  local trains = rille.graph(function() return train(w, opt) end)
  for i = 1, 10 do
    beta = i / 7
    tap.near(trains():item(), train(eager, eager_opt):item(), "a loss weight, step " .. i)
  end
  tap.is({traces(trains), opt.steps}, {1, 10}, "a loss weight becomes a live number next to the optimiser's")
  tap.near(w:totable(), eager:totable(), "parameters equal those of eager steps")
end)

tap.group("hooks", function()
  local k, lines, co = 1.5, 0, nil
  local step = rille.graph(function(x)
    co = co or coroutine.create(function() while true do coroutine.yield() end end)
    return x * k
  end)
  step(rille.ones{1})
  debug.sethook(function() lines = lines + 1 end, "l")
  for i = 2, 5 do
    k = i + 0.5
    step(rille.ones{1})
  end
  local kept = debug.gethook() ~= nil
  debug.sethook()
  tap.is({kept, lines > 4, step(rille.ones{1}):item()}, {true, true, 5.5}, "a hook of the program stays set when a number becomes live")
  coroutine.resume(co)
  tap.is(debug.gethook(co), nil, "a coroutine that the function makes has no hook afterwards")
end)

tap.group("check = \"trace\"", function()
  local step = rille.graph(function(x) return x * os.tmpname():len() + rille.tensor{2} end, {check = "trace"})
  for _ = 1, 9 do tap.ok(pcall(step, rille.ones{1}), "a function that computes the same in each call passes") end
  for _, k in ipairs{2, 3, 2.0, 0.5} do -- x ^ 2 records a square, and x ^ k with a live number k a power
    local exponent = 5
    local powers = {
      rille.graph(function(x) return x ^ exponent end, {check = "trace"}),
      rille.graph(function(x, n) return x ^ n + x ^ 2 end, {check = "trace"}),
      rille.graph(function(x) return x ^ rille.live(function() return exponent end) end, {check = "trace"})}
    for way, power in ipairs(powers) do
      exponent = 5
      power(rille.ones{1} * 3, 5)
      exponent = k
      for _ = 1, 9 do
        local good, y = pcall(power, rille.ones{1} * 3, k)
        tap.near(good and y:item() or 0, 3 ^ k + (way == 2 and 9 or 0), ("exponent %s, way %d: a live number passes"):format(k, way), 1e-5)
      end
    end
  end
  local branch, k = "low", 2
  local branching = rille.graph(function(x)
    if os.getenv(branch == "low" and "NONE" or "PATH") then return k == 2 and x or x * k end
    return x * k
  end, {check = "trace"})
  branching(rille.ones{1})
  k = 3
  tap.is(branching(rille.ones{1}):item(), 3, "a number that a branch not taken compares")
  local ids, total = rille.tensor({1, 1}, {dtype = "i64"}), rille.zeros{4}
  local assigned = rille.graph(function(x)
    local own = rille.zeros{4}
    own:index_put_(ids, x, {accumulate = true})
    total:add_(own)
    return total:sum()
  end, {check = "trace"})
  for i = 1, 5 do tap.is(assigned(rille.ones{2}):item(), 2 * i, "a variable that the step creates, and one that it changes") end
  local made = rille.graph(function(x) return x + rille.tensor{math.random()} end, {check = "trace"})
  made(rille.ones{1})
  tap.fails(function() made(rille.ones{1}) end, {"reads.lua:", "reads or changes other tensors now"}, "a function that makes new tensors in each call fails")
  local drawn = rille.graph(function(x) return x * math.random() end, {check = "trace"})
  drawn(rille.ones{1})
  tap.fails(function() drawn(rille.ones{1}) end, {"reads.lua:", "mul (t/step/reads.lua:", "reads the number"},
    "a random number is reported with its line")
  tap.fails(function() rille.graph(print, {check = true}) end, {'check must be "trace", "nan" or "trace,nan", found'}, "check = true is refused")
  local text = warnings_of("local s = rille.graph(function(x) return x * math.random() end) s(rille.ones{1}) s(rille.ones{1})", "RILLE_CHECK=trace")
  tap.ok(text:find("computed something else when traced again: mul (script.lua:1) reads the number", 1, true), "RILLE_CHECK=trace checks all steps", text)
end)

-- ---- random programs ----

-- Kinds of variables. Columns: declarations, a statement that changes y, and changes. "@" stands for the variable's
-- number, "$" for the new value.
local kinds = {
  {"local a@ = 1", "y = y * a@", "a@ = $"},
  {"A@ = 1", "y = y + A@", "A@ = $"},
  {"local a@ = true", "if a@ then y = y + 1 else y = y * 2 end", "a@ = $ > 1"},
  {"local a@ = {k = 1, deep = {k = 2}}", "y = y * a@.k + a@.deep.k", "a@.k = $", "a@.deep.k = $", "a@.deep = {k = $}", "a@ = {k = $, deep = {k = 3}}"},
  {"local a@ = {1, 2}", "for i = 1, #a@ do y = y + a@[i] end", "a@[1] = $", "a@[3] = $", "a@[3] = nil"},
  {"local a@ = {k0 = 1, k1 = 2}; local n@ = 'k0'", "y = y + a@[n@]", "a@.k0 = $", "a@.k1 = $", "n@ = 'k' .. ($ > 1 and 1 or 0)"},
  {"local a@ = rille.full({2}, 2)", "y = y + a@", "a@ = rille.full({2}, $)", "a@:fill_($)"},
  {"local k@ = 1; local function a@(z) return z * k@ end", "y = a@(y)", "k@ = $", "local v = $; a@ = function(z) return z + v end"},
  {"local C@ = {c = 1}; C@.__index = C@; function C@:f(z) return z * self.c end; local a@ = setmetatable({}, C@)", "y = a@:f(y)",
    "C@.c = $", "a@.c = $", "a@.c = nil"},
  {"local M@ = rille.nn.Module:extend('M'); function M@:init(k) self.k, self.l = k, {} end "
    .. "function M@:forward(z) for _, m in ipairs(self.l) do z = m(z) end return z * self.k + (self.b or 0) end; local a@ = M@(1)", "y = a@(y)",
    "a@.k = $", "a@.b = $", "a@.l[1] = M@($)", "a@.l = {}"},
  {"local a@ = 1", "if a@ > 1.5 then y = y * 3 end", "a@ = $"},
  {"local a@ = 1", "y = y * (2 - a@) + a@ / 2", "a@ = $"},
  {"local a@ = 1.5", "y = a@ == 0.5 and y or y * a@", "a@ = $", "a@ = $ + 0.5"},
  {"local a@ = 1", "y = y * math.min(a@, 1)", "a@ = $"},
  {"local a@ = 1", "if a@ ~= 0 then y = y + a@ end", "a@ = $"},
  {"local a@ = {p = 1, q = 2}", "for _, v in pairs(a@) do y = y + v end", "a@.p = $", "a@.r = $", "a@.r = nil"},
  {"local a@ = {zz = 1}", "y = y * (rawget(a@, 'z' .. 'z') or 3)", "a@.zz = $", "a@.zz = nil"},
  {"local a@ = {}", "y = y + (a@.zz or 3)", "setmetatable(a@, {__index = {zz = $}})", "setmetatable(a@, nil)", "a@.zz = $", "a@.zz = nil"},
  {"local s@ = {zz = 1}; local a@ = setmetatable({}, {__index = function(_, n) return s@[n] end})", "y = y * a@.zz", "s@.zz = $", "s@ = {zz = $}"},
  {"local e@ = {zz = 1}", "y = (function() local y, _ENV = y, e@ return y * zz end)()", "e@.zz = $", "e@ = {zz = $}"},
  {"package.loaded.zz@ = {zz = 1}", "y = y + require('zz@').zz", "package.loaded.zz@.zz = $", "package.loaded.zz@ = {zz = $}"},
  {"local a@ = rille.ones(2)", "if a@.requires_grad then y = y * 3 end", "a@:requires_grad_($ > 1)"},
  {"local a@ = rille.ones(2):requires_grad_()", "if a@.grad then y = y * 3 end", "a@.grad = $ > 1 and a@:detach() or nil"},
  {"A@ = 1", "y = y + _G['A' .. '@']", "A@ = $"},
  {"local o@ = optimizer()", "y = y + o@.lr + o@.groups[1].momentum", "o@.lr = $", "o@.groups[1].momentum = $ / 4", "o@.groups[1].lr = $"},
  {"local o@ = optimizer()", "y = y * o@.groups[1].lr + o@.steps", "o@.steps = $ // 1", "o@.lr = $"},
  {"local a@, t@ = 1, {[0] = 3, 4, 5}", "y = y * (t@[a@] or a@)", "a@ = $", "t@[1] = $"},
}

function optimizer() return rille.optim.SGD({rille.ones(2):requires_grad_()}, {lr = 0.5, momentum = 0.5}) end

local function program(random)
  local declared, body, changes = {}, {}, {}
  for i = 1, 1 + random(5) do
    local kind = kinds[random(#kinds)]
    local function at(text) return (text:gsub("@", tostring(i))) end
    declared[i], body[i] = at(kind[1]), at(kind[2])
    for k = 3, #kind do changes[#changes + 1] = ("function(v) %s end"):format((at(kind[k]):gsub("%$", "v"))) end
  end
  return ("%s\nreturn function(x)\n  local y = x\n  %s\n  return y\nend, {%s}"):format(table.concat(declared, "\n"),
    table.concat(body, "\n  "), table.concat(changes, ", "))
end

local values = {0, 1, 2, 0.5, 1.25}

-- Runs a program; returns an error text, or nil.
local function wrong_in(text, random)
  local fn, changes = assert(load(text, "=program"))()
  local step, x = rille.graph(fn), rille.tensor{1, 2}
  for call = 1, 8 do
    for _ = 1, random(3) - 1 do changes[random(#changes)](values[random(#values)]) end
    local got, want = step(x), fn(x)
    if (got - want):abs():max():item() > 1e-4 * (1 + want:abs():max():item()) then return ("call %d: %s, not %s"):format(call, got, want) end
    local n = traces(step)
    step(x)
    if traces(step) ~= n then return ("call %d: traced again for nothing"):format(call) end
  end
end

tap.group("500 random programs", function()
  local seed = tap.seed(11)
  for i = 1, 500 do
    if tap.share(i) then
      math.randomseed(seed, i)
      local text = program(math.random)
      local wrong = wrong_in(text, math.random)
      if wrong then
        tap.ok(false, ("program %d computes the same as eagerly"):format(i), wrong .. "\n" .. text)
        return
      end
    end
  end
  tap.ok(true, "compute the same as eagerly while their inputs change between calls")
end)

-- Changes a number in each kind of place that a step reads: between 2 and 2.0, and between 0.0 and -0.0. Both matter:
-- an i64 tensor times 2.0 is f32, and 1 / 0 depends on the sign of the zero.
tap.group("numbers of another subtype or sign", function()
  local k, held, list = 2, {k = 2}, {{2}}
  local readers = {
    {"an upvalue", function(x) return x * k end},
    {"a global", function(x) return x * NUMBER end},
    {"a field", function(x) return x * held.k end},
    {"an entry of a list", function(x) return x * list[1][1] end},
    {"math.type of an upvalue", function(x) return math.type(k) == "float" and x * 3 or x end},
    {"tostring of a field", function(x) return x * #tostring(held.k) end},
    {"an argument", function(x, n) return x * n end},
    {"an argument in a table", function(x, _, o) return x * o.a[1] end},
    {"a divisor in an upvalue", function(x) return x / k end},
    {"a divisor in an argument", function(x, n) return x / n end},
  }
  local x = rille.tensor({1, 2}, {dtype = "i64"})
  for _, reader in ipairs(readers) do
    local name, fn = table.unpack(reader)
    local step, got, want = rille.graph(fn), {}, {}
    for i, v in ipairs{2, 2.0, 2, 3.0, 3, 0.0, -0.0, 0.0, 0, 2.0} do
      k, held.k, list[1][1], NUMBER = v, v, v, v
      local a, b = step(x, v, {a = {v}}), fn(x, v, {a = {v}})
      got[i], want[i] = {a.dtype, a:totable()}, {b.dtype, b:totable()}
    end
    tap.is(got, want, name .. ": the compiled step computes what the plain function does")
  end
  NUMBER = nil
end)

tap.group("modules that the step loads", function()
  local x = rille.ones{1}
  local step = rille.graph(function(a) local zy = require("zy"); return a * zy.k * zy.inner.k end)
  local function preload(k) package.preload.zy = function() return {k = k, inner = {k = k}} end end
  local function reload(k)
    package.loaded.zy = nil
    preload(k)
  end
  local changes = {function() reload(2) end, function() package.loaded.zy.k = 5 end, function() package.loaded.zy.inner = {k = 3} end,
    function() reload(7) end, function() end, function() reload(4) end, function() package.loaded.zy.inner.k = 6 end, function() reload(9) end}
  local want = {4, 10, 15, 49, 49, 16, 24, 81}
  for i, change in ipairs(changes) do
    change()
    tap.is(step(x):item(), want[i], ("change %d: the step reads the module that require returns"):format(i))
  end
  package.loaded.zy, package.preload.zy = nil, nil
end)

tap.done()
