-- autocast.lua - tests rille.autocast: matrix products are computed in 16 bits, sums and norms in 32 bits. Parameters
-- stay f32, traces keep autocast's state, and moved operands of products have half the bytes.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local P = rille.placement("cpu", {0, 1})
local x = rille.randn{4, 8}
local half = x:to("bf16")

local function under(fn, ...) return rille.autocast("bf16", fn, ...) end

tap.group("dtypes", function()
  for name, case in pairs{
    matmul = {function() return x:matmul(x:transpose(0, 1)) end, "bf16"},
    ["matmul of f64"] = {function() return x:to("f64"):matmul(x:to("f64"):transpose(0, 1)) end, "f64"},
    attention = {function() local q = x:reshape{1, 1, 4, 8}; return rille.scaled_dot_product_attention(q, q, q) end, "bf16"},
    conv2d = {function() return rille.ones({1, 1, 4, 4}):conv2d(rille.ones{1, 1, 2, 2}) end, "bf16"},
    softmax = {function() return half:softmax(-1) end, "f32"}, layer_norm = {function() return half:layer_norm() end, "f32"},
    rms_norm = {function() return half:rms_norm() end, "f32"}, sum = {function() return half:sum() end, "f32"},
    mean = {function() return half:mean() end, "f32"}, exp = {function() return half:exp() end, "f32"},
    loss = {function() return half:cross_entropy(rille.zeros({4}, {dtype = "i64"})) end, "f32"},
    gelu = {function() return half:gelu() end, "bf16"}, ["half + f32"] = {function() return half + x end, "f32"},
    ["sum of integers"] = {function() return rille.arange(3):sum() end, "i64"}} do
    tap.is(under(case[1]).dtype, case[2], name)
  end
  tap.is(x:matmul(x:transpose(0, 1)).dtype, "f32", "after autocast, matmul is f32 again")
end)

-- Computes a loss of 16-bit logits that the program casts to f32. The loss must read the 16-bit logits; the step must
-- make no f32 copy of the logits or of their gradient.
tap.group("a loss of cast logits", function()
  local labels = rille.tensor({1, 7, 0, 5}, {dtype = "i64"})
  local function losses(options, computed)
    local h = half:detach():requires_grad_(true)
    local logits = h:to("f32")
    if computed then logits:sum():item() end
    local loss = logits:reshape{2, 2, 8}:reshape{4, 8}:cross_entropy(labels, options)
    loss:sum():backward()
    return loss.dtype, loss:totable(), h.grad:to("f32"):totable(), h.grad.dtype
  end
  for _, options in ipairs{{}, {reduction = "none"}, {reduction = "sum", label_smoothing = 0.25}, {ignore_index = 7}} do
    tap.is(table.pack(losses(options)), table.pack(losses(options, true)), "loss and gradient equal those of the computed cast bit by bit")
  end
  for name, of in pairs{f32 = function(h) return h:to("f32") end, bf16 = function(h) return h end} do
    tap.is(of(half):cross_entropy(labels).dtype, name, "the loss has the dtype of its logits: " .. name)
  end
  tap.fails(function() return half:to("f32"):cross_entropy(labels:reshape{2, 2}) end, {"logits is f32{4, 8}", "autocast.lua"},
    "errors name the logits that were given")
  local step = rille.graph(function(h) return h:to("f32"):reshape{2, 2, 8}:reshape{4, 8}:cross_entropy(labels) end)
  step(half)
  tap.ok(not tostring(step:plan()):find(" cast ", 1, true), "no task casts logits")
  local kept = rille.graph(function(h) local f = h:to("f32"); return f, f:cross_entropy(labels) end)
  kept(half)
  tap.ok(step(half):item() == select(2, kept(half)):item(), "the loss is equal if the cast is also a result")
end)

tap.group("scope", function()
  pcall(under, error, "stop")
  tap.is((x:matmul(x:transpose(0, 1))).dtype, "f32", "an error ends autocast")
  local inner = under(function() return under(function() return 1 end), x:matmul(x:transpose(0, 1)).dtype end)
  tap.is(inner, 1, "autocast returns the function's results")
  tap.is(table.pack(under(function() return nil, 2, nil end)), {nil, 2, nil, n = 3}, "all results are returned, nil or not")
  tap.fails(function() rille.autocast("f32", print) end, {"bf16", "f32", "autocast.lua"}, "a 32-bit dtype is refused")
  tap.fails(function() rille.autocast("bf16") end, {"function", "autocast.lua"}, "a missing function is refused")
end)

-- Checks that each coroutine has its own autocast state and keeps it across yields.
tap.group("coroutines", function()
  local function dtype() return x:matmul(x:transpose(0, 1)).dtype end
  local function turns(resume)
    local seen = {}
    while true do
      local got = resume()
      if not got then return seen end
      seen[#seen + 1] = got .. " " .. dtype()
    end
  end
  local function body()
    under(function()
      coroutine.yield(dtype())
      coroutine.yield(dtype())
    end)
    coroutine.yield(dtype())
  end
  local within, after = "bf16 f32", "f32 f32"
  tap.is(turns(coroutine.wrap(body)), {within, within, after}, "wrapped: autocast is on in the coroutine, off in the caller")
  local co = coroutine.create(body)
  tap.is(turns(function() return select(2, coroutine.resume(co)) end), {within, within, after}, "resumed: autocast is on in the coroutine, off in the caller")
  local new, old = coroutine.wrap(function() while true do coroutine.yield(dtype()) end end), nil
  tap.is({under(new), new()}, {"bf16", "bf16"}, "a new coroutine begins with the caller's autocast")
  old = coroutine.wrap(function() while true do coroutine.yield(dtype()) end end)
  tap.is({old(), under(old), dtype()}, {"f32", "f32", "f32"}, "an old coroutine keeps its state")
  local left = coroutine.create(body)
  coroutine.resume(left)
  under(function()
    coroutine.close(left)
    tap.is(dtype(), "bf16", "closing a coroutine does not change the caller's autocast")
  end)
  left = coroutine.wrap(function() under(function() coroutine.yield() error("stop") end) end)
  left()
  pcall(left)
  tap.is(dtype(), "f32", "a coroutine that fails does not change the caller's autocast")
end)

local function train(how)
  rille.manual_seed(3)
  local net = nn.TransformerBlock(8, 2)
  local opt = optim.AdamW(net:parameters(), {lr = 1e-2})
  local input = rille.randn{2, 4, 8}
  local function step(a)
    return tap_update(opt, how == "f32" and net(a):square():mean() or under(function() return net(a):square():mean() end))
  end
  local run = how == "graph" and rille.graph(step) or step
  local losses = tap.list(3, function() return run(input):item() end)
  for _, p in ipairs(net:parameters()) do assert(p.dtype == "f32") end
  return losses
end

tap.group("training", function()
  local plain, wide = train("plain"), train("f32")
  tap.near(plain, wide, "losses are near those of f32", 2e-2, 1e-3)
  tap.ok(plain[3] ~= wide[3], "losses differ from f32 by rounding")
  tap.is(train("graph"), plain, "a compiled step keeps the autocast of its trace")
end)

tap.group("moves", function()
  local w = rille.randn({8, 8}, {placement = P, sbp = "S(0)", requires_grad = true})
  local a = rille.randn({4, 8}, {placement = P, sbp = "S(0)"})
  local function bytes(fn) return rille.explain(fn()).bytes end
  local wide = bytes(function() return a:matmul(w:to_global{sbp = "B"}) end)
  local y = under(function() return a:matmul(w) end)
  local moved = rille.explain(y)
  tap.is({moved.boxing[1].dtype, 2 * moved.bytes <= wide}, {"bf16", true}, "operands are cast before they are moved")
end)

-- Checks, by the dtypes of tasks, that autocast casts a value before it takes a view of the value (transpose,
-- reshape), not afterwards.
tap.group("views", function()
  local a = rille.tensor{{1, 0, -1, 1}, {0, 1, 1, 0}} -- small integers, exact in 16 bits
  local function weight(on)
    local w = rille.tensor{{1, 0, 2, -1}, {0, 1, 0, 1}, {-1, 1, 0, 0}}
    w.requires_grad = on
    return w
  end
  local function both(fn, name)
    local function plain(f, ...) return f(...) end
    tap.is(fn(under), fn(plain), name)
  end
  both(function(how)
    local w = weight(true)
    local transposed = w:transpose(0, 1)
    local again = transposed:reshape{2, 6}
    local y = how(function() return a:matmul(transposed) + a:matmul(again:reshape{4, 3}) end):to("f32"):square():sum()
    local g, h, k = rille.grad(y, {transposed, again, w})
    local second = rille.grad((g * g):sum(), {transposed})
    return {g:totable(), h:totable(), k:totable(), second:totable()}
  end, "gradients of views are equal")
  for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
    local function asked(how, compiled)
      local w = weight(true):to_global{placement = P, sbp = sbp}:detach()
      w.requires_grad = true
      local function fn()
        local transposed = w:transpose(0, 1)
        local flat = transposed:reshape{6, 2}
        local y = how(function() return flat:matmul(flat:transpose(0, 1)) end):to("f32")
        return rille.grad(y:sum() + transposed:transpose(0, 1):sum(), {transposed, flat, w})
      end
      local g, h, k = (compiled and rille.graph(fn) or fn)()
      return {g:totable(), h:totable(), k:totable()}
    end
    local function plain(f) return f() end
    local want = asked(plain, false)
    tap.is({asked(under, false), asked(plain, true), asked(under, true)}, {want, want, want}, "gradients are equal with moves below a view: " .. sbp)
  end
  both(function(how)
    local w = weight(true)
    local transposed = rille.no_grad(function() return w:transpose(0, 1) end)
    local y = how(function() return a:matmul(transposed) end)
    local loss = y:to("f32"):sum() + w:sum()
    loss:backward()
    return {y.requires_grad, w.grad:totable()}
  end, "no gradient passes a view made under no_grad")
  for _, on in ipairs{true, false} do
    both(function(how)
      local w = weight(on)
      local transposed = w:transpose(0, 1)
      w.requires_grad = not on
      return how(function() return a:matmul(transposed) end).requires_grad
    end, "a view keeps the requires_grad of its creation: " .. tostring(on))
  end
  both(function(how)
    local w = weight(false)
    local transposed = w:transpose(0, 1)
    local step = rille.graph(function(x) return how(function() return x:matmul(transposed) end) end)
    local before = step(a):totable()
    w[{}] = 7
    return {before, step(a):totable()}
  end, "a view made before a trace keeps its values")
end)

-- Checks that a linear layer adds its bias within the product, as PyTorch does: the sum has 16 bits, whether or not
-- the layer is sharded.
tap.group("layers", function()
  local Q = rille.placement("cpu", {{0, 1}, {2, 3}})
  local ids = rille.randn{4, 4, 8}
  local function int8(bias) return require "rille.nn.int8_linear"(nn.Linear(8, 8, {bias = bias})) end
  local layers = {
    Linear = {function(bias) return nn.Linear(8, 8, {bias = bias}) end, ids, {weight = {"B", "S(0)", "S(1)"}, bias = {"B", "S(0)", "B"}}},
    Int8Linear = {int8, ids, {}},
    Conv2d = {function(bias) return nn.Conv2d(8, 4, 1, {bias = bias}) end, ids:reshape{2, 8, 2, 4}, {weight = {"B", "S(0)"}, bias = {"B", "S(0)"}}},
    MultiheadAttention = {function(bias) return nn.MultiheadAttention(8, 2, {bias = bias}) end, ids, {}},
  }
  for name, layer in pairs(layers) do
    for _, bias in ipairs{true, false} do
      for method = 1, #(layer[3].weight or {1}) do
        for _, rows in ipairs{"B", "S(0)"} do
          for _, compiled in ipairs{false, true} do
            local m = layer[1](bias)
            m:to_global{placement = Q, sbp = {"B", "B"}}
            for part, methods in pairs(layer[3]) do
              if m[part] then m[part]:to_global_{placement = Q, sbp = {"B", methods[method]}} end
            end
            local input = layer[2]:to_global{placement = Q, sbp = {rows, "B"}}
            local function run(how)
              local function forward(a)
                local y, learned = how(m, a), m:parameters()
                if #learned == 0 then return y end
                return y, rille.grad(y:to("f32"):square():sum(), learned)
              end
              local out = {(compiled and rille.graph(forward) or forward)(input)}
              local values, dtypes = {}, {}
              for i, t in ipairs(out) do values[i], dtypes[i] = t:to("f32"):totable(), t.dtype end
              return values, dtypes
            end
            local want = run(function(f, a) return f(a) end)
            local got, dtypes = run(under)
            local called = ("%s, bias %s, way %d, rows %s, compiled %s"):format(name, bias, method, rows, compiled)
            local expected = {"bf16"}
            for i = 2, #dtypes do expected[i] = "f32" end
            tap.is(dtypes, expected, called .. ": the result is bf16, gradients are f32")
            tap.near(got, want, called .. ": values are near those of f32", 2e-2, 0.3)
          end
        end
      end
    end
  end
end)

tap.done()
