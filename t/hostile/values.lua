-- Tests of extreme input: the largest numbers, empty tensors, scalars, absent operands. Each case must give the right
-- value or a clear error. Sanitizers find memory errors.
local tap = dofile("t/lib/tap.lua")
local T = rille.tensor
local I64 = {dtype = "i64"}
local LEAST, MOST = math.mininteger, math.maxinteger
local a, s = rille.arange(20):reshape{4, 5}:to("f32"), T(3)

tap.group("numbers at the limits of 64 bits", function()
  tap.is(rille.arange(LEAST, MOST, MOST):totable(), {LEAST, -1, MOST - 1}, "arange covers the whole range")
  local x = rille.randint(LEAST, MOST, {64}):totable()
  tap.ok(math.min(table.unpack(x)) < 0 and math.max(table.unpack(x)) > 0, "randint draws from the whole range")
  tap.is(T({MOST, 1}, I64):cumsum(0):totable(), {MOST, LEAST}, "cumsum wraps, like sum")
  tap.is(a:slice(0, 0, 4, MOST).shape, {1, 5}, "a slice with a huge step has only its first entry")
  tap.is(a:triu(MOST):sum():item(), 0, "triu with the largest diagonal is all zeros")
  tap.is(a:triu(LEAST):sum():item(), 190, "triu with the smallest diagonal keeps everything")
  tap.is(a:tril(LEAST):sum():item(), 0, "tril with the smallest diagonal is all zeros")
  tap.is({a:var(0, LEAST):totable()[1], a:var(0, MOST):totable()[1]}, {125 / 2 ^ 63, math.huge}, "var accepts the limits as correction")
  tap.fails(function() a:pad({MOST, MOST}) end, {"pad", "2^60"}, "a pad that is too large is refused")
  tap.is(a:pad({4, -8}).shape, {4, 1}, "negative padding may remove all original columns")
  tap.is(a:pad({4, -8}, 7):totable(), {{7}, {7}, {7}, {7}}, "only padding remains then")
  local x, w = rille.ones{1, 1, 4, 4}, rille.ones{1, 1, 3, 3}
  for _, name in ipairs{"padding", "dilation", "stride"} do
    tap.fails(function() x:conv2d(w, {[name] = MOST}) end, {"conv2d", name}, "conv2d: a huge " .. name .. " is refused")
  end
  tap.fails(function() x:max_pool2d(MOST) end, {"max_pool2d", "kernel_size"}, "max_pool2d: a huge window is refused")
end)

tap.case("metamethods and methods with wrong objects", function()
  local P, step = rille.placement("cpu", {0}), rille.graph(function(x) return x + 1 end)
  step(a)
  local move = rille.boxing{shape = {4}, from = {placement = P, sbp = "B"}, to = {placement = P, sbp = "S(0)"}}
  local net = rille.nn.Linear(2, 2)
  local objects = {a, P, step, rille.live(function() return 1 end), rille, a.shape, rille.explain(a + 1), rille.plan(a + 1), move, rille.sbp,
    a:stats(), a:hist(), net, rille.optim.SGD(net:parameters(), {lr = 1}), step:stats(), step:chart()}
  local others = {nil, 0, "x", print, io.stdout, {}, rille, a, P, step, a.shape, [12] = coroutine.create(print)}
  local seconds = {nil, 1, "nn", "nosuch", {}, a, [7] = false}
  local n = 0
  local function try(fn, of)
    if type(fn) ~= "function" then return end
    for i = 1, 12 do
      local mine = others[i] ~= nil and debug.getmetatable(others[i]) == of
      for k = 1, mine and 0 or 7 do
        pcall(fn, others[i], seconds[k], seconds[8 - k])
        n = n + 1
      end
      if others[i] == nil then pcall(fn) end
    end
  end
  for _, object in pairs(objects) do
    local meta = debug.getmetatable(object)
    for _, fn in pairs(meta or {}) do try(fn, meta) end
    for _, fn in pairs(type(meta) == "table" and rawget(meta, "__methods") or {}) do try(fn, meta) end
  end
  tap.ok(n > 10000, "every method was called with every wrong self", n)
  tap.is(a:sum():item(), 190.0, "the session still works")
end)

-- A program for a new process. It closes its session, then calls every function with objects of the closed session.
local closed = [[
local x, held
do
  local rille <close> = require "rille"
  x = rille.ones{4, 4}
  held = {x, x * 2, rille.placement("cpu", {0}), rille.graph(function(y) return y + 1 end), rille.live(function() return 1 end),
    rille.nn.Linear(4, 4), rille.data.tokens({1, 2, 3, 4}, {batch = 1, length = 2}), 1, "x", {3}, print}
  held[4](x)
end
local rille, skip = require "rille", {help = true, _slow_op = true, _forget_presses = true, _watch = true}
print(select(2, pcall(function() return x:sum() end)))
print(select(2, pcall(function() return rille.ones{3} end)))
local function call_all(t)
  for name, fn in pairs(t or {}) do
    for _, self in ipairs(type(fn) == "function" and not skip[name] and held or {}) do
      for _, second in ipairs{2, {2}, "cpu", x} do pcall(fn, self, second, second) end
    end
  end
end
call_all(rille)
for _, module in ipairs{"nn", "optim", "data", "sbp"} do call_all(rille[module]) end
for _, object in ipairs(held) do
  call_all(debug.getmetatable(object))
  call_all((debug.getmetatable(object) or {}).__methods)
end
x, held = nil
collectgarbage()
print "whole"]]

tap.case("objects of a closed session", function()
  local text = tap.run("-d cpu:2", closed, ("cd '%s' &&"):format(tap.folder()))
  tap.ok(tap.has(text, "a value of the closed session", "script.lua:11: the session was closed"), "raise an error that names the line of close", text)
  tap.ok(text:find("whole\n$"), "crash no function that they are passed to", text)
end)

tap.group("tensors larger than memory", function()
  local meta = {dtype = "u8", placement = rille.placement("meta", {0})}
  for _, shape in ipairs{{1 << 59}, {1 << 30, 1 << 28}, {1 << 62}} do
    if not tap.share() then goto next end
    local long = T({1}, {dtype = "u8"}):expand(shape)
    tap.ok(tostring(long):find("1 1 1 ... 1 1 1"), "the ends of a huge tensor can be printed")
    tap.fails(function() long:totable() end, {"values.lua:", "out of memory on cpu:0"}, "a huge tensor as a table is refused")
    tap.fails(function() rille.save("hostile.npy", long) end, {"values.lua:", "out of memory on cpu:0"}, "a huge tensor in a file is refused")
    tap.fails(function() (long + 1)[{{0, 1}}]:totable() end, {"values.lua:", "out of memory on cpu:0"}, "computing a huge tensor is refused")
    tap.fails(function() rille.zeros(shape, meta):totable() end, {"values.lua:", "meta", "no values"}, "a huge meta tensor has no values")
    if #shape == 1 then
      local x = rille.zeros(shape, meta)
      tap.fails(function() x[5] = 1 end, {"values.lua:", "index: out of memory: the values need"}, "assigning an entry of a huge meta tensor is refused")
    end
    ::next::
  end
end)

tap.group("tensors with more bytes than can be counted", function()
  for _, dtype in ipairs{"u8", "bf16"} do
    for _, size in ipairs{1 << 60, 1 << 61} do
      local x = T({1}, {dtype = dtype}):expand{size}
      for _, call in ipairs{"argmax", "argmin", "topk", "logsumexp"} do
        local args = call == "topk" and {1, 0} or {0}
        -- true: the operator converts the tensor to a wider dtype, in which it has at least 2^62 bytes, so the error
        -- must name that limit; false: the error must be "out of memory"
        local uncounted = size == 1 << 61 and (call == "logsumexp" or dtype == "bf16")
        tap.fails(function() x[call](x, table.unpack(args)):item() end, {"values.lua:", uncounted and "2^62 bytes" or "out of memory on cpu:0"},
          ("%s of 2^60 elements is refused"):format(call))
      end
      tap.fails(function() ((x:to("u8") + 1) * (x:to("u8") - 1):flip(0)):sum():item() end, {"values.lua:", "cpu:0"}, "a chain of 2^60 elements is refused")
    end
  end
  local x = rille.zeros({1 << 61, 2}, {dtype = "u8", placement = rille.placement("meta", {0})})
  tap.fails(function() rille.plan(x:mse_loss(x + 1)) end, {"values.lua:", "meta:0", "2^63 bytes"}, "a plan for a tensor of 2^63 bytes is refused")
  tap.fails(function() x:split(1, 0) end, {"values.lua:", "split", "1048576 chunks"}, "split into too many pieces is refused")
  tap.fails(function() T({1, 2}, I64):pow(-1) end, {"values.lua:", "pow", "must not be negative, found -1", "i64{2}"}, "a negative power of integers is refused")
  tap.is(T({1, 2, -1}, I64):pow(T({-1, -1, -3}, I64)):totable(), {1, 0, -1}, "negative powers in an integer tensor are truncated")
end)

-- Checks that division by zero follows PyTorch: integers raise an error; reals give infinity or NaN.
tap.group("division by zero", function()
  local two = rille.placement("cpu", {0, 1})
  for _, dtype in ipairs{"i64", "i32", "u8"} do
    local x, zeros = T({7, 8, 9}, {dtype = dtype}), T({1, 2, 0}, {dtype = dtype})
    local split = {placement = two, sbp = "S(0)"}
    for sign, f in pairs{floor_divide = function(a, b) return a // b end, remainder = function(a, b) return a % b end} do
      tap.fails(function() f(x, 0) end, {"values.lua:", sign .. ": ", "number 0", dtype .. "{3} B on cpu[0]"},
        sign .. " of " .. dtype .. " by the number 0 is an error with its line")
      local y = f(x, zeros)
      local words = {"values.lua:", sign .. ": ", "position 2", "needed at"}
      tap.fails(function() y:totable() end, words, "a tensor with a zero divisor is an error when computed")
      tap.fails(function() (f(x:to_global(split), zeros:to_global(split)) + 1):totable() end, {sign .. ": ", "position 2"},
        "the error has the global position, in a chain, too")
      tap.fails(function() f(5, zeros):totable() end, {sign .. ": ", "position 2"}, "a number divided by a tensor with a zero is an error")
      local step = rille.graph(f)
      tap.fails(function() step(x, zeros) end, words[2], "a zero divisor in a compiled step is an error")
      tap.is(step(x, x):totable(), f(x, x):totable(), "the compiled step still works afterwards")
      tap.is((f(x + 1, x) * 3):totable(), {3, 3, 3}, "other divisions are right")
      tap.is(f(T({}, {dtype = dtype}), T({}, {dtype = dtype})):totable(), {}, "empty tensors can be divided")
    end
  end
  tap.is({(T({1, -1, 0}) // 0):totable(), (T({1}) % 0):totable()}, {{math.huge, -math.huge, 0 / 0}, {0 / 0}},
    "a float divided by zero is infinite or NaN")
  tap.is((T({1, 2}, I64) // 0.0):totable(), {math.huge, math.huge}, "an integer by a float zero is infinite")
  tap.is({(T({LEAST}, I64) // -1):item(), (T({LEAST}, I64) % T({-1}, I64)):item()}, {LEAST, 0}, "the smallest integer by -1 wraps")
end)

tap.group("one table in many places", function()
  local t = tap.list(65536, function(i) return i end)
  for _ = 1, 3 do
    local more = tap.list(65536, function() return t end)
    t = more
  end
  tap.fails(function() T(t) end, {"tensor", "2^48"}, "the elements are counted before memory is allocated")
  tap.is(rille.eye(2, nil, {dtype = "bool"}).dtype, "bool", "options may follow a nil")
end)

tap.group("a tensor of no dimensions", function()
  for _, name in ipairs{"softmax", "log_softmax", "cumsum", "argmax", "sum", "max", "logsumexp", "flip"} do
    local want = ({softmax = 1, log_softmax = 0, argmax = 0})[name] or 3
    for _, axis in ipairs{0, -1} do
      tap.is(s[name](s, axis):item(), want, ("%s over axis %d of a scalar is that of one entry"):format(name, axis))
    end
    tap.fails(function() s[name](s, 1) end, {name, "must be from -1 to 0, found 1"}, name .. " of a scalar over axis 1 is refused")
  end
  local p = T(3, {requires_grad = true})
  tap.is(rille.grad(p:log_softmax(0), {p}):item(), 0, "the gradient of a scalar's log_softmax is 0")
  tap.fails(function() s:slice(0, 0, 1) end, {"slice", "dimension"}, "slicing a scalar is refused")
  tap.fails(function() s:index_select(0, T({0}, I64)) end, {"index_select", "dimension"}, "index_select of a scalar is refused")
  tap.fails(function() s:gather(0, T(0, I64)) end, {"gather", "dimension"}, "gather of a scalar is refused")
end)

tap.group("operands that are absent", function()
  local x = T({-1, 2, 5})
  tap.is(x:to("i64"):clamp(0):totable(), {0, 2, 5}, "clamp with a lower bound, in a chain")
  tap.is((x + 1):to("i64"):clamp(nil, 3):totable(), {0, 3, 3}, "clamp with an upper bound, in a chain")
  tap.is((x * 2):clamp(nil, nil):totable(), {-2, 4, 10}, "clamp without bounds")
  tap.is(x:clamp{max = 2}:totable(), {-1, 2, 2}, "clamp with a named bound")
  tap.is(x:clamp{min = T({0, 3, 0}), max = 4}:totable(), {0, 3, 4}, "clamp with both bounds named, one a tensor")
  tap.is(x:layer_norm{bias = T({1, 1, 1})}:sum():item(), 3, "layer_norm with a named tensor")
  tap.fails(function() x:clamp(0, {min = 1}) end, {"clamp", "min", "twice"}, "an operand by position and by name is refused")
  tap.fails(function() x:clamp{max = "2"} end, {"clamp", "max", "found \"2\""}, "an operand of a wrong type is refused")
  tap.fails(function() rille.nn.Linear(2, 2)() end, {"values.lua:", "nn.Linear", "input must be a tensor", "nil"},
    "a module without its operand names the user's line")
  tap.fails(function() a:cross_entropy(T({0, 1, 2, 3}, I64), {label_smoothing = 2}) end, {"label_smoothing", "1"},
    "label_smoothing above 1 is refused")
end)

-- Tests every combination of value and bounds. If the value or a bound is NaN, the result must be NaN in every
-- kernel, as in PyTorch.
tap.group("clamp", function()
  local nan, inf = 0 / 0, math.huge
  local points = {nan, -inf, -2, 0.5, 1, inf}
  local function clamp(x, least, most)
    if least and (x < least or least ~= least) then x = least end
    if most and (x > most or most ~= most) then x = most end
    return x
  end
  for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
    local x, wrong = T(points, {dtype = dtype}), 0
    local function check(got, least, most)
      for i, v in ipairs(got:totable()) do
        local want = clamp(points[i], least, most)
        if v ~= want and (v == v or want == want) then wrong = wrong + 1 end
      end
    end
    local function spread(v) return T(v, {dtype = dtype}):expand{#points} end
    for _, least in ipairs(points) do
      check(x:clamp(least), least)
      check(x:clamp(nil, least), nil, least)
      for _, most in ipairs(points) do
        check(x:clamp(least, most), least, most)
        check(x:clamp(spread(least), spread(most)), least, most)
        check((x * 1):clamp(least, spread(most)) * 1, least, most)
      end
    end
    tap.is(wrong, 0, dtype .. ": clamp alone and in a chain, with numbers and with tensors")
  end
  tap.is(T({1, 2}, I64):clamp(nan).dtype, "f32", "clamping integers with NaN gives floats")
  local x, least, most = T({-1, 3, 7}, {requires_grad = true}), T(5, {requires_grad = true}), T(1, {requires_grad = true})
  x:clamp(least, most):sum():backward()
  tap.is({x.grad:totable(), least.grad:item(), most.grad:item()}, {{0, 0, 0}, 0, 3},
    "if max is below min, the gradient is that of max")
end)

tap.group("values that escape from a graph", function()
  local kept
  local step = rille.graph(function(x)
    kept = x * 2
    return {x * 3}
  end)
  local result = step(T({1}))
  local words = {"inside a graph", "return it"}
  tap.fails(function() kept:item() end, words, "a value that was not returned cannot be read")
  tap.is(result[1]:item(), 3.0, "a value returned in a table can be read")
  tap.fails(function() (kept + 1):item() end, words, "a value computed from it cannot be read")
  tap.fails(function() rille.graph(function(x) return kept + x end)(T({1})) end, words,
    "the next graph refuses it")
  tap.is(rille.explain(kept).ops[1].name, "mul", "it can be explained")
  tap.is(rille.graph(function(x) return x * 5 end)(T({1})):item(), 5, "later graphs work")
end)

tap.group("in place", function()
  local p = T({1, 2})
  tap.fails(function() p:copy_(T({1, 2, 3})) end, {"copy_: the value must have the variable's shape {2}", "found {3}"}, "a variable keeps its shape")
  tap.fails(function() p:add_(T({{1, 2}})) end, {"add_: the value must have the variable's shape {2}", "found {1, 2}"}, "a variable keeps its number of dimensions")
  tap.is(p:copy_(T(7)) and p:totable(), {7, 7}, "an assigned value may broadcast")
  local q = T(3, {requires_grad = true})
  q:backward()
  tap.is(q.grad:item(), 1, "the gradient of a variable with respect to itself is 1")
end)

-- Assigns a result in place to a variable whose dtype cannot hold it. This must be an error, as in PyTorch ("can't be
-- cast to the desired output type").
tap.group("in place, values of another dtype", function()
  local one = {f32 = 1.5, i64 = 2, i32 = 2, u8 = 2, bool = true}
  local class = {f32 = 3, i64 = 2, i32 = 2, u8 = 2, bool = 1}
  local function try(dtype, what, want, f)
    local x = T({one[dtype], one[dtype]}, {dtype = dtype})
    local before = x:totable()
    if want then
      tap.is(pcall(f, x) and x.dtype, dtype, what .. " in place is accepted for " .. dtype)
    else
      tap.fails(function() f(x) end, {"values.lua:", what .. "_: the result is", dtype .. "{2} B on cpu[0]", "cannot change its type"},
        what .. " in place is refused for " .. dtype)
      tap.is(x:totable(), before, "a refused in-place operator changes nothing")
    end
  end
  for dtype in pairs(one) do
    for _, name in ipairs{"mul", "add", "pow", "maximum", "clamp"} do
      try(dtype, name, class[dtype] == 3, function(x) x[name .. "_"](x, 1.5) end)
    end
    for other in pairs(one) do
      try(dtype, "maximum", class[other] <= class[dtype],
        function(x) x:maximum_(T({one[other], one[other]}, {dtype = other})) end)
    end
    for _, name in ipairs{"exp", "sqrt", "sigmoid", "reciprocal"} do
      try(dtype, name, class[dtype] == 3, function(x) x[name .. "_"](x) end)
    end
    try(dtype, "div", class[dtype] == 3, function(x) x:div_(2) end)
    try(dtype, "eq", true, function(x) x:eq_(1) end)
    try(dtype, "copy", true, function(x) x:copy_(T({1.5, 0.5})) end)
    try(dtype, "[]", true, function(x) x[0] = 1.5 end)
  end
  local x = T({7, 8}, I64)
  tap.is(x:add_(T({1, 2}, {dtype = "i32"})):mul_(3):totable(), {24, 30}, "in-place operators with integer operands that fit are computed")
end)

tap.group("empty tensors, in every shape and layout", function()
  local two = rille.placement("cpu", {0, 1})
  for _, sbp in ipairs{"S(0)", "S(1)", "B", "P"} do
    local x = rille.zeros({0, 4}, {placement = two, sbp = sbp})
    tap.is(x:reshape{0}:reshape{0, 4}:reshape{2, 0}:totable(), {{}, {}}, sbp .. ": reshaped")
    tap.is((x:reshape{4, 0}:transpose(0, 1) + 1):sum():item(), 0, sbp .. ": transposed, added to and summed")
  end
end)

tap.group("meta devices", function()
  local meta = rille.placement("meta", {0, 1, 2, 3})
  local x = rille.zeros({1024, 1024}, {placement = meta, sbp = "S(0)"})
  local y = x:matmul(rille.zeros({1024, 512}, {placement = meta, sbp = "B"})):relu()
  tap.is(rille.explain(y).bytes, 0, "explain() works on meta devices")
  local plan = tostring(rille.plan(y))
  tap.ok(plan:find("matmul") and plan:find("relu") and plan:find("meta[0-3]", 1, true), "plan() works on meta devices", plan)
  tap.fails(function() y:totable() end, {"meta", "no values"}, "meta tensors have no values")
  tap.fails(function() rille.boxing{shape = {MOST // 8}, from = {placement = meta, sbp = "S(0)"},
    to = {placement = meta, sbp = "B"}} end, {"boxing", "bytes"}, "boxing() refuses more bytes than can be counted")
end)

tap.group("likely mistakes", function()
  tap.fails(function() return rille.sbp.brodcast end, {"brodcast", "broadcast"}, "a misspelt SBP is an error, not nil")
  tap.fails(function() rille.full({2}, -1, {dtype = "u8"}) end, {"full", "-1", "u8"}, "a value that does not fit the dtype is refused")
  tap.fails(function() rille.full({2}, 0 / 0, {dtype = "i64"}) end, {"full", "i64"}, "NaN for an integer dtype is refused")
  tap.is(rille.full({2}, 255, {dtype = "u8"}):totable(), {255, 255}, "a value that fits the dtype is accepted")
  tap.fails(function() rille.placement("cpu", {1, 1}) end, {"placement", "1", "twice"}, "a repeated rank is refused")
end)

tap.group("garbage collection during a trace", function()
  local w, kept = T({2, 3}), nil
  local step = rille.graph(function(x)
    local y = x * rille.live(function() collectgarbage() return 5 end)
    kept = w * rille.live(function() return 7 end)
    collectgarbage()
    collectgarbage()
    return y
  end)
  for _ = 1, 3 do tap.is(step(T({1, 2})):totable(), {5, 10}, "a live number outlives its handle") end
  collectgarbage()
  tap.is(kept:totable(), {14, 21}, "a live number outlives its handle in a value that was not returned")
  local failing = rille.graph(function(x)
    x = x * rille.live(function() return 1 end)
    collectgarbage()
    error("stop")
  end)
  tap.fails(function() failing(T({1})) end, {"stop"}, "a trace that fails after a collection reports its error")
  collectgarbage()
end)

tap.group("axes out of range", function()
  local calls = {sum = {7}, softmax = {-3}, unsqueeze = {4}, slice = {0, 0, 4, 0}, expand = {{5, 5}}}
  for _, name in ipairs{"sum", "softmax", "unsqueeze", "slice", "expand"} do
    tap.fails(function() a[name](a, table.unpack(calls[name])) end, {name, "x is f32{4, 5} B on cpu[0]"},
      name .. ": the error names the operand, with shape and layout")
  end
end)

-- Asks for the gradient of an argument of a compiled step. Arguments never require a gradient, so this must be an
-- error, not the gradient 0.
tap.group("gradients of tensors that require none", function()
  local w, x = T({2}, {requires_grad = true}), T({3}, {requires_grad = true})
  local function slopes(x) return rille.grad((x * w):square():sum(), {w, x}) end
  tap.fails(function() rille.grad((w * T({1})):sum(), {T({1})}) end, {"tensor 1", "does not require a gradient"}, "are an error")
  tap.fails(function() rille.graph(slopes)(x) end, {"tensor 2", "does not require a gradient", "arguments of a graph"}, "are an error in a graph, too")
  local own = rille.graph(function(x) return slopes(x:detach():requires_grad_(true)) end)
  local dw, dx = own(x)
  tap.is({dw:item(), dx:item()}, {36, 24}, "a detached copy of an argument has a gradient")
  tap.is((rille.grad((w * 2):sum(), {x})):item(), 0, "an unused tensor that requires a gradient has gradient 0")
end)

tap.done()
