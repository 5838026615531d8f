-- whole-batch.lua - tests that micro-batches give the loss, results and gradients of the complete batch, for means,
-- sums and data-dependent divisors, also if a micro-batch has no labels. Tries one device, split rows, stages, and
-- stages with split rows. If the scale of a loss is unknown, the error must suggest other code.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(7))
local IGNORED <const>, ROWS <const>, WIDTH <const>, CLASSES <const> = -100, 8, 5, 4
local P0, P1, P01, P23 = rille.placement("cpu", {0}), rille.placement("cpu", {1}), rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})

local places = { -- Columns: placements of the first and the second layer; sbp of the rows.
  {"on one device", P0, P0, "B"},
  {"with rows split", P01, P01, "S(0)"},
  {"on two stages", P0, P1, "B"},
  {"with rows split, on two stages", P01, P23, "S(0)"},
}

local labels = {
  {"labels", {0, 1, 2, 3, 0, 1, 2, 3}},
  {"some ignored", {0, IGNORED, 2, 0, IGNORED, IGNORED, 1, 3}},
  {"micro-batches of ignored ones", {IGNORED, IGNORED, IGNORED, IGNORED, 1, 2, IGNORED, 3}},
  {"one label", {IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, 2, IGNORED, IGNORED}},
}

local weight = rille.tensor{0.5, 2, 1, 3} -- weights of classes
local function seen(y) return y:ne(IGNORED):to("f32") end
local function each(z, y) return z:cross_entropy(y, {reduction = "none"}) end
local function class_weight(z, y)
  local of = weight:to_global{placement = z.placement, sbp = "B"}
  return y:eq(IGNORED):where(0, of[y:eq(IGNORED):where(0, y)])
end

-- Columns of losses: name, and loss(z, y, w), a function of logits, labels and the second layer's weight.
local losses = {
  {"cross_entropy", function(z, y) return z:cross_entropy(y) end},
  {"cross_entropy with smoothing", function(z, y) return z:cross_entropy(y, {label_smoothing = 0.1}) end},
  {"a sum of cross_entropy", function(z, y) return z:cross_entropy(y, {reduction = "sum"}) end},
  {"cross_entropy divided by hand", function(z, y) return each(z, y):sum() / seen(y):sum() end},
  {"a masked mean", function(z, y) return (z:square():mean(1) * seen(y)):sum() / seen(y):sum() end},
  {"a masked mean with a least divisor", function(z, y) return (z:square():mean(1) * seen(y)):sum() / seen(y):sum():maximum(1) end},
  {"a masked mean by its reciprocal", function(z, y) return (z:square():sum(1) * seen(y)):sum() * seen(y):sum():reciprocal() end},
  {"a masked mean, unless nothing is seen", function(z, y)
    local n = seen(y):sum()
    return n:gt(0):where((z:square():sum(1) * seen(y)):sum() / n, 0)
  end},
  {"a mean with normalised weights", function(z, y) return (each(z, y) * (seen(y) / seen(y):sum())):sum() end},
  {"weights of classes", function(z, y) local c = class_weight(z, y); return (each(z, y) * c):sum() / c:sum() end},
  {"a detached divisor", function(z, y)
    local c = z:detach():square():sum(1)
    return (each(z, y) * c):sum() / c:sum()
  end},
  {"a mean", function(z) return z:square():mean() end},
  {"a mean of sums", function(z) return z:square():sum(1):mean() end},
  {"a sum of means over the rows", function(z) return z:square():mean(0):sum() end},
  {"a sum", function(z) return z:square():sum() end},
  {"a sum divided by the number of rows", function(z) return z:square():sum() / z.shape[1] end},
  {"a sum divided by a constant, which is also the row count of a micro-batch", function(z) return z:square():sum() / 2 end},
  {"a sum times the reciprocal of the number of elements", function(z) return z:square():sum() * (1 / z:numel()) end},
  {"rows divided by their number before the sum", function(z) return (z:square() / z.shape[1] ^ 2):sum() end},
  {"a penalty beside a mean by hand", function(z, _, w) return z:square():sum() / z.shape[1] + 0.5 * w:square():sum() end},
  {"half a sum", function(z) return 0.5 * z:square():sum() end},
  {"a sum by two axes", function(z) return z:square():sum(0):sum() / 3 end},
  {"a sum of rows in another order", function(z) return z:transpose(0, 1):exp():sum(1):mean() end},
  {"mse_loss", function(z) return z:mse_loss(z:detach() * 0.5) end},
  {"a sum of mse_loss", function(z) return z:mse_loss(z:detach() * 0.5, {reduction = "sum"}) end},
  {"a sum and a regulariser", function(z, _, w) return z:square():sum() + w:square():sum() * 0.1 end},
  {"a mean and a regulariser", function(z, _, w) return z:square():mean() + w:square():sum() * 0.1 end},
  {"cross_entropy and a mean", function(z, y) return z:cross_entropy(y) + 0.01 * z:square():mean() end},
  {"a mean and a sum", function(z, y) return z:square():mean() - each(z, y):sum() end},
  {"cross_entropy and a constant", function(z, y) return 1 - z:cross_entropy(y) end},
  {"two divisors", function(z, y) return z:cross_entropy(y) + (z:sum(1) * y:eq(2):to("f32")):sum() / (y:eq(2):sum() + 1) end},
}

-- Returns the loss, the further results and the gradients of a step of m micro-batches.
local function run(place, y, loss, m, dtype)
  local function leaf(t, p) return t:to_global{placement = p, sbp = "B"}:detach():clone():requires_grad_() end
  rille.manual_seed(11)
  local w1 = leaf(rille.randn{WIDTH, 6}, place[2])
  local w2 = leaf(rille.randn{6, CLASSES}, place[3])
  local x = rille.randn{ROWS, WIDTH}:to_global{placement = place[2], sbp = place[4]}:detach()
  local function there(t) return t:to_global{placement = place[3], sbp = place[4]} end
  local step = rille.graph(function(x, y)
    local z = there(x:matmul(w1):tanh()):matmul(w2)
    if dtype then z = z:to(dtype) end
    y = there(y)
    local l = loss(z, y, w2)
    l:backward()
    return l, l:exp(), seen(y):sum(), z:sum(1), z:mean(0), z:detach():sum(0)
  end, {micro_batches = m})
  local out = {step(x, rille.tensor(y, {placement = place[2], sbp = place[4], dtype = "i64"}))}
  out[#out + 1], out[#out + 2] = w1.grad, w2.grad
  for i, t in ipairs(out) do out[i] = t:to("f64"):totable() end
  return out
end

for _, l in ipairs(losses) do
  for _, y in ipairs(labels) do
    for _, place in ipairs(places) do
      if tap.share() then
        local name = ("%s, %s, %s"):format(l[1], y[1], place[1])
        local want = run(place, y[2], l[2], 1)
        for m = 2, place[4] == "B" and ROWS or ROWS // 2, m == 2 and 2 or 1 do
          if ROWS % m == 0 then tap.near(run(place, y[2], l[2], m), want, name .. (", %d micro-batches"):format(m), 2e-5, 1e-5) end
        end
      end
    end
  end
end

-- Tests a mean that the user writes as a product with a scale. The scale changes between calls and becomes a live
-- number. The number of rows in the mean must stay that of the complete batch.
tap.group("a mean by hand with a scale that changes", function()
  local scale = 1.5
  local w = rille.ones({WIDTH}, {requires_grad = true})
  local x = rille.randn{ROWS, WIDTH}
  local function loss_of(x) return scale * ((x * w):square():sum() / x.shape[1]) end
  for _, m in ipairs{1, 2, 4} do
    local step = rille.graph(function(x) return tap_backward(loss_of(x)) end, {micro_batches = m, check = "trace"})
    for _, value in ipairs{1.5, 2.5, 0.25, 7} do
      scale, w.grad = value, nil
      local want = loss_of(x)
      want:backward()
      local gradient = w.grad:totable()
      w.grad = nil
      local got = step(x)
      tap.near(got:item(), want:item(), ("%d micro-batches, scale %g: loss"):format(m, value), 1e-6, 1e-6)
      tap.near(w.grad:totable(), gradient, ("%d micro-batches, scale %g: gradient"):format(m, value), 1e-6, 1e-6)
    end
  end
end)

-- Returns the loss f(...) of a step of m micro-batches, and the gradient of w.
local function loss_and_gradient(f, m, w, ...)
  w.grad = nil
  local loss = rille.graph(function(...)
    local l = f(...)
    if l.requires_grad then l:backward() end
    return l
  end, {micro_batches = m})(...)
  return {loss:item(), w.grad and w.grad:totable()}
end

-- Tries layers and operators between the step's arguments and its loss. With micro-batches, the sum of squares of the
-- layer's result must equal that of the complete batch.
tap.group("rows pass", function()
  local nn = rille.nn
  local function T(...) return rille.randn{ROWS, ...}:detach() end
  local lin, norm, rms, conv, bn = nn.Linear(6, 6), nn.LayerNorm(6), nn.RMSNorm(6), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(3)
  local experts, block, table = nn.MixtureOfExperts(6, 8, 4), nn.TransformerBlock(6, 2, {hidden = 8}), nn.Embedding(5, 6)
  bn:eval()
  local calls = {
    {"nn.Embedding", rille.randint(0, 5, {ROWS, 3}):to("i64"):detach(), function(x) return lin(table(x)) end},
    {"nn.LayerNorm", T(6), function(x) return norm(lin(x)) end},
    {"nn.RMSNorm", T(6), function(x) return rms(lin(x)) end},
    {"nn.Conv2d", T(3, 6, 6), function(x) return conv(lin(x)) end},
    {"nn.BatchNorm2d", T(3, 6, 6), function(x) return bn(lin(x)) end},
    {"nn.MixtureOfExperts", T(6), function(x) return experts(lin(x)) end},
    {"nn.MixtureOfExperts of sequences", T(5, 6), function(x) return experts(lin(x)) end},
    {"nn.TransformerBlock", T(5, 6), function(x) return block(lin(x)) end},
    {"max_pool2d", T(3, 6, 6), function(x) return lin(x):max_pool2d(2) end},
    {"avg_pool2d", T(3, 6, 6), function(x) return lin(x):avg_pool2d(2) end},
    {"attention", T(2, 4, 6), function(x) local y = lin(x); return rille.scaled_dot_product_attention(y, y, y, {is_causal = true}) end},
    {"reshape", T(5, 6), function(x) return lin(x):reshape{-1, 6} end},
    {"reshape to one dimension", T(5, 6), function(x) return lin(x):reshape{-1} end},
    {"permute", T(5, 6), function(x) return lin(x):permute{1, 2, 0} end},
    {"permute and reshape", T(5, 6), function(x) return lin(x):permute{1, 0, 2}:reshape{5, -1} end},
    {"concat of columns", T(6), function(x) local y = lin(x); return rille.concat({y, y}, 1) end},
    {"concat of rows", T(6), function(x) local y = lin(x); return rille.concat({y, y}, 0) end},
    {"stack", T(6), function(x) local y = lin(x); return rille.stack({y, y}, 0) end},
    {"a slice", T(5, 6), function(x) return lin(x)[{{}, {1, 3}}] end},
    {"a position", T(5, 6), function(x) return lin(x)[{{}, 0}] end},
    {"gather", T(6), function(x) local y = lin(x); return y:gather(1, y:argmax(1):unsqueeze(1)) end},
    {"an entry of each row", T(6), function(x) local y = lin(x); return y[{rille.arange(y.shape[1]), y:argmax(1)}] end},
    {"an entry of each row and column", T(5, 6), function(x)
      local y = lin(x)
      return y[{rille.arange(y.shape[1]):unsqueeze(1), rille.arange(5), y:argmax(2)}]
    end},
    {"an assigned entry of each row", T(6), function(x)
      local y, z = lin(x), rille.zeros({x.shape[1], 6}):clone()
      z[{rille.arange(#y), y:argmax(1)}] = 1
      z:index_put_({rille.arange(#y), rille.zeros({#y}, {dtype = "i64"})}, y:sum(1), {accumulate = true})
      return z * y
    end},
    {"entries of each row", T(5, 6), function(x)
      local y = lin(x)
      return y[{rille.arange(y.shape[1]):reshape{-1, 1}, {}, (y:sum(1):topk(2, 1):argmax(1):unsqueeze(1) + rille.arange(2)) - 2}]
    end},
    {"a row of each matrix", T(5, 6), function(x) local y = lin(x); return y[{rille.arange(#y), y:sum(2):argmax(1)}] end},
    {"topk", T(6), function(x) return (lin(x):topk(2)) end},
    {"cumsum", T(6), function(x) return lin(x):cumsum(1) end},
    {"flip", T(6), function(x) return lin(x):flip(1) end},
    {"tril", T(6, 6), function(x) return lin(x):tril() end},
    {"softmax", T(6), function(x) return lin(x):softmax(1) end},
    {"logsumexp", T(6), function(x) return lin(x):logsumexp(1) end},
    {"var", T(6), function(x) return lin(x):var(1) end},
    {"max", T(6), function(x) return (lin(x):max(1)) end},
    {"one_hot", T(6), function(x) local y = lin(x); return y * y:argmax(1):one_hot(6):to("f32") end},
    {"expand", T(1), function(x) return lin(x:expand{-1, 6}) end},
    {"unsqueeze", T(6), function(x) return lin(x):unsqueeze(0) end},
    {"squeeze", T(1, 6), function(x) return lin(x):squeeze(1) end},
    {"where", T(6), function(x) return x:gt(0):where(lin(x), 0) end},
    {"an outer product", T(6), function(x) local y = lin(x); return y:unsqueeze(1):matmul(y:unsqueeze(2)) end},
    {"a cast", T(6), function(x) return lin(x):to("bf16"):to("f32") end},
  }
  for _, c in ipairs(calls) do
    local function value(m) return loss_and_gradient(function(x) return c[3](x):square():sum() end, m, lin.weight, c[2]) end
    local want = value(1)
    for _, m in ipairs{2, ROWS} do tap.near(value(m), want, ("%s, %d micro-batches"):format(c[1], m), 1e-4, 1e-4) end
  end
end)

-- Computes a contrastive loss, which compares every two rows of the batch. A step of micro-batches must refuse the
-- loss, because a micro-batch has only some of the rows. Inside per_micro_batch, the loss is the mean over the
-- micro-batches.
tap.group("a contrastive loss", function()
  local x, w = rille.randn{4, 3}:detach(), rille.randn{3, 3}:detach()
  local function loss(x)
    local z = x:matmul(w)
    return z:matmul(z:transpose(0, 1)):cross_entropy(rille.arange(z.shape[1]))
  end
  local want = (loss(x[{{0, 2}}]):item() + loss(x[{{2, 4}}]):item()) / 2
  local step = rille.graph(function(x) return rille.per_micro_batch(loss, x) end, {micro_batches = 2})
  tap.near(step(x):item(), want, "in per_micro_batch equals the mean over micro-batches", 1e-5)
  local both = rille.graph(function(x) return rille.per_micro_batch(loss, x) + x:square():sum() end, {micro_batches = 2})
  tap.near(both(x):item(), want + x:square():sum():item(), "beside a sum over rows", 1e-5)
  local rows = rille.graph(function(x) return rille.per_micro_batch(function() return x:softmax(0) end) end, {micro_batches = 2})(x)
  tap.near(rows:totable(), rille.concat({x[{{0, 2}}]:softmax(0), x[{{2, 4}}]:softmax(0)}, 0):totable(), "rows of results are joined", 1e-5)
  tap.fails(function() rille.graph(loss, {micro_batches = 2})(x) end, {"per_micro_batch", "whole-batch.lua"}, "is an error otherwise")
end)

-- Checks functions that combine rows of the batch. A step of micro-batches must refuse such a function, or compute
-- the value of the complete batch.
tap.group("calls that combine rows", function()
  local w = rille.randn({6, 6}, {requires_grad = true})
  local function z(x) return x:matmul(w) end
  local calls = {
    softmax = function(x) return z(x):softmax(0) end,
    log_softmax = function(x) return z(x):log_softmax(0) end,
    logsumexp = function(x) return z(x):logsumexp(0) end,
    var = function(x) return z(x):var(0) end,
    ["var of all"] = function(x) return z(x):var() end,
    cumsum = function(x) return z(x):cumsum(0) end,
    flip = function(x) return z(x):flip(0) end,
    topk = function(x) return (z(x):transpose(0, 1):topk(1)) end,
    argmax = function(x) return z(x):argmax(0) end,
    prod = function(x) return z(x):prod(0) end,
    ["first row"] = function(x) return z(x)[0] end,
    ["last row"] = function(x) return z(x)[-1] end,
    ["a slice of rows"] = function(x) return z(x)[{{0, 1}}] end,
    ["differences of rows"] = function(x) local y = z(x); return y[{{1, y.shape[1]}}] - y[{{0, y.shape[1] - 1}}] end,
    ["products of rows"] = function(x) local y = z(x); return y:matmul(y:transpose(0, 1)) end,
    distances = function(x) local y = z(x); return (y:unsqueeze(0) - y:unsqueeze(1)):square():sum(2) end,
    ["a difference from the mean"] = function(x) local y = z(x); return y - y:mean(0) end,
    ["a difference from the maximum"] = function(x) local y = z(x); return y - y:max(0) end,
    ["a variance by hand"] = function(x) local y = z(x); return (y - y:mean(0)):square():mean() end,
    ["a difference from the arguments' mean"] = function(x) return z(x - x:mean(0)) end,
    ["a variance of arguments by hand"] = function(x) return z((x - x:mean(0)) / ((x - x:mean(0)):square():mean(0) + 1):sqrt()) end,
    ["a mean times a sum"] = function(x) local y = z(x); return y:mean() * y:sum() end,
    ["numbers of the rows"] = function(x) return z(x) * rille.arange(x.shape[1]):to("f32"):unsqueeze(1) end,
    ["a triangle"] = function(x) return z(x):tril() end,
    ["rows read by index"] = function(x) return z(x):index_select(0, rille.tensor({0, 1}, {dtype = "i64"})) end,
    ["rows read by rows"] = function(x) return z(x):index_select(0, x:argmax(1) * 0) end,
    ["padded rows"] = function(x) return z(x):pad{1, 0, 0, 0} end,
    ["halves of the rows"] = function(x) return z(x):reshape{2, -1, 6}:softmax(1) end,
    ["pairs of halves"] = function(x) local y = z(x):reshape{2, -1, 6}; return y[0] - y[1] end,
    ["joined rows that are combined"] = function(x) local y = z(x); return rille.concat({y, -y}, 0):softmax(0) end,
    ["joined rows as a result"] = function(x) local y = z(x); return rille.concat({y, -y}, 0) end,
    ["joined rows beside others"] = function(x) local y = z(x); return rille.concat({y, y}, 0) + rille.stack({y, y}, 1):reshape{-1, 6} end,
    ["rows joined with a constant"] = function(x) return rille.concat({z(x), rille.zeros{1, 6}}, 0) end,
  }
  for name, f in tap.sorted(calls) do
    for m = 2, 4, 2 do
      local x = rille.randn{ROWS, 6}:detach()
      w.grad = nil
      local ok, want = pcall(function() local y = f(x); if y.requires_grad then y:to("f32"):square():sum():backward() end; return {y:to("f32"):totable(), w.grad and w.grad:totable()} end)
      w.grad = nil
      if ok then
        local step = rille.graph(function(x)
          local y = f(x)
          if y.requires_grad then y:to("f32"):square():sum():backward() end
          return y:to("f32")
        end, {micro_batches = m})
        local fine, got = pcall(step, x)
        if fine then
          tap.near({got:totable(), w.grad and w.grad:totable()}, want, ("%s, %d micro-batches: is that of the batch"):format(name, m), 1e-4, 1e-4)
        else
          tap.ok(tostring(got):find("micro"), ("%s, %d micro-batches: is refused"):format(name, m), got)
        end
      else
        tap.ok(false, name .. " is possible without micro-batches", want)
      end
    end
  end
end)

-- Tries losses that are no sum or mean of losses of rows. Micro-batches must give the loss and the gradient of the complete
-- batch, or refuse the loss. In rille.per_micro_batch, which the error names, the loss must be the mean over the micro-batches.
tap.group("losses that are not linear in sums and means", function()
  local x, first = rille.randn{ROWS, 5}, rille.randn{5, 3}
  local function mean(z) return z:square():mean() end
  -- Columns: name, loss; true: the loss is computed without rille.per_micro_batch, too.
  local forms = {
    {"a product of means", function(z) return mean(z) * z:sigmoid():mean() end},
    {"a ratio of means", function(z) return mean(z) / z:sigmoid():mean() end},
    {"a product of sums", function(z) return z:square():sum() * z:sigmoid():sum() end},
    {"a ratio of sums", function(z) return z:square():sum() / z:sigmoid():sum() end},
    {"a ratio of overlaps", function(z) local p = z:sigmoid(); return 1 - 2 * (p * z:gt(0):to("f32")):sum() / (p:sum() + z:gt(0):to("f32"):sum()) end},
    {"the logarithm of a mean", function(z) return mean(z):log() end},
    {"the square root of a mean", function(z) return mean(z):sqrt() end},
    {"the exponential of a mean", function(z) return mean(z):exp() end},
    {"the greater of two means", function(z) return mean(z):maximum(z:sigmoid():mean()) end},
    {"a mean or its square", function(z) return mean(z):gt(0.5):where(mean(z):square(), mean(z)) end},
    {"the variance of means", function(z) return z:square():mean(0):var() end},
    {"the variance of all", function(z) return z:var() end},
    {"a norm", function(z) return z:square():sum():sqrt() end},
    {"logsumexp of all", function(z) return z:logsumexp() end},
    {"the maximum", function(z) return z:max() end},
    {"the distance of a mean", function(z) return (z:mean() - 0.3):abs() end},
    {"a mean beside a logarithm", function(z) return z:mean() + mean(z):log() end},
    {"a softmax of means", function(z) return z:mean(0):softmax(0):square():sum() end},
    {"a product of vectors of means", function(z) local m = z:mean(0, true); return m:matmul(m:transpose(0, 1)):sum() end},
    {"a difference from the mean", function(z) return (z - z:mean(0)):square():mean() end},
    {"a covariance", function(z) return (z:transpose(0, 1):matmul(z) / z.shape[1]):square():sum() end},
    {"a mean divided by a detached mean", function(z) return mean(z) / (mean(z):detach() + 1) end, true},
    {"a detached factor", function(z) return mean(z) * z:sigmoid():mean():detach():sqrt() + z:mean() end, true},
    {"a sum divided by a detached sum", function(z) return z:square():sum() / z:sigmoid():sum():detach() end, true},
  }
  for _, form in ipairs(forms) do
    local name, loss, computes = table.unpack(form)
    local function run(m, alone, combine)
      local w = first:clone():requires_grad_()
      local function whole(x) return loss(x:matmul(w):tanh()) end
      local function of(x) return alone and rille.per_micro_batch(whole, x) or whole(x) end
      local step = rille.graph(function(x) return tap_backward((combine or of)(x, whole)) end, {micro_batches = m})
      return {step(x):item(), w.grad:totable()}
    end
    local want = run(1)
    for _, m in ipairs{2, 4} do
      local label = ("%s, %d micro-batches: "):format(name, m)
      local fine, got = pcall(run, m)
      tap.ok(not computes or fine, label .. "is computed", got)
      if fine then tap.near(got, want, label .. "is that of the batch", 1e-4, 1e-5) else tap.ok(got:find("rille.per_micro_batch", 1, true), label .. "the error has a remedy", got) end
      local parts = run(1, false, function(x, whole)
        local sum = 0
        for k = 0, m - 1 do sum = sum + whole(x[{{k * ROWS // m, (k + 1) * ROWS // m}}]) / m end
        return sum
      end)
      tap.near(run(m, true), parts, label .. "in per_micro_batch it is the mean over the micro-batches", 1e-4, 1e-5)
    end
  end
end)

-- A micro-batch of one row beside a value with as many rows as the batch: broadcasting would combine each row with
-- all rows of the value.
tap.group("values with the rows of the batch beside a single row", function()
  local outside, x = rille.full({ROWS, 1}, 2), rille.ones{ROWS, 6}
  for name, make in tap.sorted{
    full = function() return rille.full({ROWS, 1}, 2) end, zeros = function() return rille.zeros{ROWS, 6} end,
    ones = function() return rille.ones{ROWS, 1} * 2 end, tensor = function() return rille.tensor(tap.list(ROWS, function(i) return {i} end)) end,
    arange = function() return rille.arange(ROWS):unsqueeze(1) end, outside = function() return outside end,
  } do
    for kind, f in tap.sorted{product = function(x) return x * make() end, sum = function(x) return (x + make()):sum() end,
      choice = function(x) return rille.where(make():gt(0), x, 0):mean() end} do
      tap.fails(function() rille.graph(f, {micro_batches = ROWS})(x) end, {"combines rows of the batch"}, ("%s, %s: is refused"):format(name, kind))
    end
  end
  local same = rille.graph(function(x) return x * rille.full({x.shape[1], 1}, 2) end, {micro_batches = ROWS})
  tap.is(same(x):totable(), (x * 2):totable(), "a constant with the rows of the argument is accepted")
end)

-- The gradient of a parameter is the sum over the micro-batches, also if a micro-batch has a single row, like the
-- gradient, or if the gradient's operator combines rows. Uses by shape of the parameter b.
tap.group("gradients of parameters", function()
  local ids = rille.tensor({{0, 2}, {1, 1}, {2, 0}, {3, 2}}, {dtype = "i64"})
  local uses = {
    ["1 8"] = {
      add = function(x, b) return x + b end, mul = function(x, b) return x * b end, div = function(x, b) return x / (b:square() + 1) end,
      pow = function(x, b) return (x:abs() + 0.1) ^ b end, where = function(x, b) return x:gt(0):where(x, b) end,
      maximum = function(x, b) return x:maximum(b) end, expand = function(x, b) return x * b:expand(x.shape) end,
      concat = function(x, b) return x:concat(b:expand{x.shape[1], 8}, 1) end,
      computed = function(x, b) return x * (b:exp() + b:reshape{8}) end,
      matmul = function(x, b) return x:unsqueeze(1):matmul(b:reshape{1, 8, 1}) end,
      token = function(x, b) return x:unsqueeze(1):concat(b:unsqueeze(0):expand{x.shape[1], 1, 8}, 1) end,
    },
    ["4 8"] = {
      embedding = function(x, b, k) return k:embedding(b):sum(1) * x end, selection = function(x, b, k) return b[k]:mean(1) * x end,
      linear = function(x, b) return x:matmul(b:transpose(0, 1)) end,
      ["two uses"] = function(x, b, k) return x:matmul(b:transpose(0, 1)):matmul(b) + k:embedding(b):sum(1) end,
      latents = function(x, b)
        local q = b:unsqueeze(0):expand{x.shape[1], 4, 8}:layer_norm():matmul(b:transpose(0, 1)):softmax(-1):matmul(b)
        return (x:unsqueeze(1) * q:reshape{x.shape[1], 4, 2, 4}:permute{0, 2, 1, 3}:sum(2):reshape{x.shape[1], 1, 8}):mean(1)
      end,
      ["attention of latents"] = function(x, b)
        local q, k = b:unsqueeze(0):expand{x.shape[1], 4, 8}:matmul(b:transpose(0, 1)):reshape{x.shape[1], 4, 1, 4}, x:reshape{-1, 1, 2, 4}
        return q:transpose(1, 2):scaled_dot_product_attention(k, k)
      end,
      scan = function(x, b) return (rille.scan(function(h, t) return (h + t:unsqueeze(1) * b:sum(0)):tanh() end, x, x:transpose(0, 1))) end,
    },
    ["8 8"] = {bmm = function(x, b) return x:unsqueeze(1):matmul(b:unsqueeze(0)):matmul(b) end,
      conv = function(x, b) return x:reshape{-1, 1, 2, 4}:conv2d(b:reshape{8, 1, 2, 4}) end},
  }
  local x = rille.randn{4, 8}
  for _, shape in ipairs{"1 8", "4 8", "8 8"} do
    for name, use in tap.sorted(uses[shape]) do
      local b = rille.rand({tonumber(shape:sub(1, 1)), 8}, {requires_grad = true})
      for penalty = 0, 1 do
        local function step(rows, k)
          local loss = use(rows, b, k):square():sum() + penalty * b:square():sum()
          return loss, (rille.grad(loss, {b}))
        end
        local loss, gradient = step(x, ids)
        for _, m in ipairs{2, 4} do
          local l, g = rille.graph(step, {micro_batches = m})(x, ids)
          tap.near({l:item(), g:totable()}, {loss:item(), gradient:totable()},
            ("%s, %d micro-batches, penalty %d: the gradient is that of the batch"):format(name, m, penalty), 1e-4, 1e-4)
        end
      end
    end
  end
end)

-- A value that repeats along the rows may be used with the rows of a micro-batch; these functions of it do not repeat.
tap.group("values that do not repeat along the rows", function()
  local b = rille.rand{1, 8}
  for name, f in tap.sorted{cumsum = function(t) return t:cumsum(0) end, softmax = function(t) return t:softmax(0) end, tril = function(t) return t:tril() end,
    ["a reshape"] = function(t) return t:reshape{2, -1, 8}:cumsum(1):reshape{-1, 8} end, ["a transpose"] = function(t) return t:transpose(0, 1):cumsum(1):transpose(0, 1) end} do
    local function use(x) return x * f(b:expand(x.shape)):matmul(rille.eye(8)) end
    local x = rille.rand{4, 8}
    local good, y = pcall(rille.graph(use, {micro_batches = 2}), x)
    tap.ok(not good or (y - use(x)):abs():max():item() < 1e-5, name .. ": is refused, or has the values of the batch", y)
  end
end)

-- Checks losses and metrics that are means and sums. Each must have the value and gradient of the complete batch, or
-- be refused.
tap.group("functions of means", function()
  local w = rille.randn({6}, {requires_grad = true})
  local function B(x) return x.shape[1] end
  local function centred(x) return x - x:mean() end
  local calls = {
    ["the square of a mean"] = function(x) return (x * w):mean():square() end,
    ["the root of a mean"] = function(x) return (x * w):square():mean():sqrt() end,
    ["a product of means"] = function(x) return (x * w):mean() * (x * w):square():mean() end,
    ["a sum of squares of means"] = function(x) return (x * w):mean(0):square():sum() end,
    ["a linear function of means"] = function(x) return 2 * (x * w):mean() - (x * w):square():mean() / 3 + 1 end,
    ["a product with a mean"] = function(x) return ((x * w):mean(0) * w):sum() end,
    ["a divisor that reads a mean"] = function(x, y) return (x * w - y):square():sum() / centred(y):square():sum() end,
    ["two divisors that read means"] = function(x, y)
      return (centred(x) * centred(y)):sum() / (centred(x):square():sum() * centred(y):square():sum()):sqrt() * w:sum()
    end,
    ["a root of a mean of data"] = function(x) return ((x - x:mean(0)) / (x:square():mean(0) + 1e-5):sqrt() * w):square():mean() end,
    ["a product of quotients"] = function(x, y)
      local p, t = x:gt(0):to("f32"), y:gt(0):to("f32")
      return (p * t):sum() / p:sum() * ((p * t):sum() / t:sum()) * w:sum()
    end,
    ["a variance of data"] = function(x, y) return (x * w - y):square():mean() / y:var() end,
    ["zeros beside rows"] = function(x) return (rille.zeros(B(x), 6) + x * w):square():sum() end,
    ["a column of ones"] = function(x) return rille.concat({x * w, rille.ones(B(x), 1)}, 1):square():sum() end,
    ["the sum of ones"] = function(x) return rille.ones(B(x)):sum() * w:sum() end,
    ["numbers of rows"] = function(x) return (rille.arange(B(x)):to("f32") * (x * w):sum(1)):sum() end,
    ["rows in another order"] = function(x) return (x * w):transpose(0, 1):reshape(-1):square():sum() end,
  }
  for name, f in tap.sorted(calls) do
    local x, y = rille.randn{ROWS, 6}:detach(), rille.randn{ROWS, 6}:detach()
    local want = loss_and_gradient(f, 1, w, x, y)
    for _, m in ipairs{2, 4, ROWS} do
      local fine, got = pcall(loss_and_gradient, f, m, w, x, y)
      local text = ("%s, %d micro-batches"):format(name, m)
      if fine then tap.near(got, want, text .. ": loss and gradient of the batch", 1e-4, 1e-5) else
        tap.ok(tostring(got):find("micro"), text .. ": an error", got)
      end
    end
  end
end)

tap.group("a refused step", function()
  local w = rille.ones({6}, {requires_grad = true})
  local bad = rille.graph(function(x) return tap_backward((x * w):sum() * 7) end, {micro_batches = 4})
  tap.fails(function() bad(rille.randn{6, 6}) end, "divide", "rows that the micro-batches do not divide are refused")
  w.grad = nil
  local s = rille.graph(function(x) local l = (x * w):sum(); l:backward(); return w.grad * 1 end)
  tap.is(s(rille.ones(2, 6)):totable(), {2, 2, 2, 2, 2, 2}, "leaves no numbers for the next step")
end)

-- Checks that the step still recognises rows of the batch after they are joined with other rows or with another
-- dimension.
tap.group("rows in blocks", function()
  local w = rille.randn({6, 6}, {requires_grad = true})
  local calls = {
    ["a mean of joined rows"] = function(x, y) return rille.concat({x:matmul(w), y}, 0):square():mean() end,
    ["a loss of joined rows"] = function(x, y)
      local z, c = rille.concat({x:matmul(w), y}, 0), rille.concat({x:argmax(1), y:argmax(1)}, 0)
      return z:cross_entropy(c)
    end,
    ["sequences first"] = function(x) return x:reshape{-1, 2, 3}:transpose(0, 1):reshape{-1, 3}:square():mean() end,
    ["sequences first and back"] = function(x)
      local n = x.shape[1]
      local y = x:matmul(w):reshape{n, 2, 3}:transpose(0, 1):reshape{2 * n, 3}:exp():reshape{2, n, 3}
      return (y[0] * y[1]):sum(1):mean()
    end,
  }
  for name, f in tap.sorted(calls) do
    local x, y = rille.randn{ROWS, 6}:detach(), rille.randn{ROWS, 6}:detach()
    local want = loss_and_gradient(f, 1, w, x, y)
    for _, m in ipairs{2, ROWS} do tap.near(loss_and_gradient(f, m, w, x, y), want, ("%s, %d micro-batches"):format(name, m), 1e-5, 1e-5) end
  end
end)

tap.group("values of halves", function()
  for _, d in ipairs{"bf16", "f16"} do
    for _, l in ipairs{losses[1], losses[3], losses[12], losses[15]} do
      local want, got = run(places[1], labels[2][2], l[2], 1, d), run(places[1], labels[2][2], l[2], 4, d)
      tap.near({got[1], got[7], got[8]}, {want[1], want[7], want[8]}, d .. ": " .. l[1], 5e-2, 5e-2)
    end
  end
end)

-- Checks the cases of torchtitan#2206 and transformers#34191. Columns: logits, labels and the loss in PyTorch.
tap.group("PyTorch's values", function()
  local L = rille.tensor{{0.2, 1.0, 0.5}, {0.1, 0.3, 0.6}, {1, 2, 3}, {-1, 0, 1}}
  local step = rille.graph(function(x, y) return x:cross_entropy(y) end, {micro_batches = 2})
  local function loss(i, label)
    local row = L:totable()[i]
    return math.log(math.exp(row[1]) + math.exp(row[2]) + math.exp(row[3])) - row[label + 1]
  end
  tap.near(step(L, rille.tensor({0, IGNORED, 2, 0}, {dtype = "i64"})):item(), (loss(1, 0) + loss(3, 2) + loss(4, 0)) / 3, "one row is ignored")
  tap.near(step(L, rille.tensor({IGNORED, IGNORED, 2, 0}, {dtype = "i64"})):item(), (loss(3, 2) + loss(4, 0)) / 2, "a whole micro-batch is ignored")
end)

-- Tests a loss that contains the square of a gradient.
tap.group("a penalty on gradients", function()
  local w = rille.tensor({{1, 2}, {3, 4}}, {requires_grad = true})
  local function penalty(x)
    x = x:detach():requires_grad_()
    local g = rille.grad(x:matmul(w):square():sum(), {x})
    return (g * g):sum()
  end
  local x = rille.tensor{{1, 0}, {0, 1}, {1, 1}, {2, 1}}
  tap.near(loss_and_gradient(penalty, 2, w, x), loss_and_gradient(penalty, 1, w, x), "equals that of the complete batch", 1e-5)
end)

tap.group("losses whose scale is unknown", function()
  local w = rille.tensor({{1, 2}, {3, 4}}, {requires_grad = true})
  local x = rille.tensor{{1, 0}, {0, 1}, {1, 1}, {2, 1}}
  local function refused(fn, texts, name)
    tap.fails(function() rille.graph(fn, {micro_batches = 2})(x) end, texts, name)
    w.grad = nil
  end
  local function z(a) return a:matmul(w) end
  refused(function(a) return tap_backward(z(a):square():sum() / z(a):sum()) end, {"detach()", "micro_batches"},
    "a divisor with a gradient")
  refused(function(a) return tap_backward(z(a):sum():square()) end, {"detach()", "micro_batches"}, "the square of a sum")
  refused(function(a) return tap_backward((z(a) / z(a):sum(0)):sum()) end, {"div", "detach()"},
    "rows divided by a sum over rows")
  refused(function(a) return z(a):max():square() end, {"square", "combines rows"}, "a function of a maximum over rows")
  for _, op in ipairs{"max", "min"} do
    for _, reduced in ipairs{function(a) return z(a)[op](z(a)) end, function(a) return z(a)[op](z(a), {axis = 0}):sum(-1) end,
      function(a) return z(a):mean() + z(a)[op](z(a)) * 0.5 end} do
      refused(function(a) local l = reduced(a); l:backward(); return l end, {"batch", "micro_batches = 1"}, "a loss with the " .. op .. " over rows")
    end
  end
  refused(function(a) return z(a):transpose(0, 1) end, {"dimension 1", "permute"}, "rows moved to another dimension")
  refused(function(a) return z(a):topk(3, 0):sum() end, {"topk: ", "from 0 to 2", "micro_batches = 2"},
    "an error that only a micro-batch has")
  local v = rille.tensor({{1, 2}, {3, 4}}, {name = "v"})
  for how, read in tap.sorted{itself = function() return v end, ["a view"] = function() return v:transpose(0, 1) end} do
    refused(function(a)
      v:add_(a:sum())
      return a:matmul(read())
    end, {"variable v was changed", "a compiled step of each part", "micro_batches = 1"}, "a variable that the step has changed, " .. how)
  end
  tap.fails(function() rille.graph(function(a, b) return a:sum() + b:sum() end, {micro_batches = 2})(x, rille.ones{6}) end,
    {"argument 2 has 6 rows", "upvalue"}, "an argument without the rows of the batch")
end)

-- Tests gradients that user code sees: the gradient of a mean over the batch is that of the whole batch.
tap.group("gradients of means over the batch", function()
  local squares = rille.func{
    forward = function(ctx, x, w)
      ctx:save_for_backward(x, w)
      return x:matmul(w):square():mean()
    end,
    backward = function(ctx, dy)
      local x, w = table.unpack(ctx.saved_tensors)
      local y = x:matmul(w)
      local g = y * (2 / y:numel()) * dy
      return g:matmul(w:transpose(0, 1)), x:transpose(0, 1):matmul(g)
    end}
  local tripled = rille.func{forward = function(_, m) return m * 3 end, backward = function(_, dm) return (dm * 3):clamp(-2, 2) end}
  local function clamped(g) return g:clamp(-0.5, 0.5) end
  local function with_hook(z, fn)
    z:register_hook(fn)
    z:sum():backward()
    return z:sum()
  end
  -- Columns: name, and fn(z), where z: {ROWS, 3} depends on a parameter. Returns a result of the step.
  local cases = {
    {"rille.grad of a mean", function(z) local m = z:mean() return rille.grad(m * 3, {m}) end},
    {"rille.grad of a mean of each column", function(z) local m = z:mean(0) return rille.grad((m * 3):sum(), {m}):sum() end},
    {"a factor from rille.grad", function(z) local m = z:mean() return tap_backward(m * rille.grad(m * 3, {m}):detach()) end},
    {"a hook", function(z) return with_hook(z:mean(), clamped) end},
    {"a hook of the mean of each column", function(z) return with_hook(z:mean(0), clamped) end},
    {"a hook of rows", function(z) return with_hook(z:mean(1), clamped) end},
    {"retain_grad", function(z) local m = z:mean():retain_grad(); (m * 3):backward() return m.grad end},
    {"a leaf of the step", function(z) local m = z:mean():detach():requires_grad_(); (m * 3):backward() return m.grad end},
    {"the argument of a function with its own gradient", function(z) return tap_backward(tripled(z:mean())) end},
  }
  local x = rille.randn({ROWS, 4}, {dtype = "f64"})
  local function run(fn, micro, whole)
    rille.manual_seed(4)
    local w = rille.randn({4, 3}, {dtype = "f64"}):detach():requires_grad_()
    local y = rille.graph(function(a) return whole and tap_backward(fn(a, w)) or fn(a:matmul(w)) end, {micro_batches = micro})(x)
    return {y:detach():totable(), w.grad and w.grad:totable() or false}
  end
  for _, case in ipairs(cases) do
    for _, micro in ipairs{2, 4} do tap.near(run(case[2], micro), run(case[2], 1), ("%s, %d micro-batches"):format(case[1], micro), 1e-12) end
  end
  tap.near(run(squares, 4, true), run(squares, 1, true), "the result of a function with its own gradient, which divides by the number of elements", 1e-12)
end)

-- ---- values that a function computes from the number of rows ----

local rows, classes = rille.randn({ROWS, 4}, {dtype = "f64"}), rille.randint(0, 3, {ROWS})
local function number(v) return rille.tensor(v, {dtype = "f64"}) end
local function zeros(...) return rille.zeros({...}, {dtype = "f64"}) end
local function twice(a, w) return rille.concat({a, a:sin()}, {axis = 0}):matmul(w) end

-- Columns: name, and fn(w, a, n), which returns the loss and a further result of a step. w: {4, 3}, a: {ROWS, 4}, n:
-- {ROWS}.
local functions = {
  {"a tensor made from the number of rows", function(w, a) return a:matmul(w):sum() / number(a.shape[1]), number(a.shape[1]) end},
  {"a list made from it", function(w, a) return (a:matmul(w):sum{axis = 0} / number{a.shape[1], 2, 3}):sum() end},
  {"a number chosen by it", function(w, a) return (a:matmul(w) * (a.shape[1] > 4 and 2 or 3)):mean() end},
  {"max", function(w, a) return a:matmul(w):mean(), a:matmul(w):max() end},
  {"min of columns", function(w, a) return a:matmul(w):mean(), a:matmul(w):min{axis = 0} end},
  {"max of integers", function(w, a, n) return a:matmul(w):mean(), n:max() end},
  {"any", function(w, a) return a:matmul(w):mean(), a:matmul(w):gt(1):any{axis = 0} end},
  {"all", function(w, a) return a:matmul(w):mean(), a:matmul(w):gt(-100):all() end},
  {"the gradient of a tensor of the step", function(w, a)
    local z = a:detach():requires_grad_()
    z:matmul(w):tanh():mean():backward()
    return a:matmul(w):mean(), z.grad
  end},
  {"halves of a concat by chunk", function(w, a)
    local c = twice(a, w):chunk(2, 0)
    return (c[1] * c[2]):mean()
  end},
  {"halves of a concat by slices", function(w, a)
    local b, c = a.shape[1], twice(a, w)
    return (c[{{0, b}}] * c[{{-b}}]):mean(), c[{{b, 2 * b}}]
  end},
  {"thirds of a concat", function(w, a)
    local c = rille.concat({a, a:sin(), a:cos()}, {axis = 0}):matmul(w):chunk(3, 0)
    return ((c[1] - c[2]):square():sum(1) - (c[1] - c[3]):square():sum(1) + 1):relu():mean()
  end},
  {"scatter_add into rows", function(w, a, n) return zeros(a.shape[1], 3):scatter_add(1, n:unsqueeze(1), a:matmul(w)):square():mean() end},
  {"scatter_add into classes", function(w, a, n) return a:matmul(w):mean(), zeros(3):scatter_add(0, n, a:matmul(w):sum{axis = 1}) end},
  {"states in a stack", function(w, a)
    local h = zeros(a.shape[1], 3)
    local all = rille.stack({h, h}, {axis = 0})
    for _ = 1, 2 do all = rille.stack({(all[0] + a:matmul(w)):tanh(), all[0]}, {axis = 0}) end
    return (all[0] - all[1]):square():mean()
  end},
  {"a cache that the first call fills", (function()
    local cache = {}
    return function(w, a)
      cache[w] = cache[w] or number{1, 2, 3}:cumsum(0)
      return (a:matmul(w) * cache[w]):mean()
    end
  end)()},
  {"a branch in rille.per_micro_batch", function(w, a)
    return rille.per_micro_batch(function()
      local y = a:matmul(w)
      return (a.shape[1] > 4 and y * 1 or y + 0):mean()
    end)
  end},
}

-- Returns the loss, the further result and the gradient of w, of a step of `pieces` micro-batches. split: true: rows
-- are sharded.
local function values_of(fn, pieces, split)
  rille.manual_seed(5)
  local place, sbp = split and P01 or P0, split and "S(0)" or "B"
  local w = rille.randn({4, 3}, {dtype = "f64", placement = place}):detach():requires_grad_()
  local loss, more = rille.graph(function(a, n)
    local l, m = fn(w, a, n)
    l:backward()
    return l, m
  end, {micro_batches = pieces})(rows:to_global{placement = place, sbp = sbp}, classes:to_global{placement = place, sbp = sbp})
  return {loss:totable(), more and more:totable() or false, w.grad:totable()}
end
tap.group("values that depend on the number of rows", function()
  for _, row in ipairs(functions) do
    for _, pieces in ipairs{1, 2, 4, 8} do
      for _, split in ipairs{false, true} do
        local fits = (pieces > 1 or split) and not (split and pieces == 8)
        if fits and tap.share() then
          tap.near(values_of(row[2], pieces, split), values_of(row[2], 1), ("%s: %d micro-batches%s"):format(row[1], pieces,
            split and ", rows sharded" or ""), 1e-12, 1e-12)
        end
      end
    end
  end
end)

tap.group("branches on the number of rows", function()
  local other = rille.ones({4, 3}, {dtype = "f64", requires_grad = true})
  local branches = {
    {"an operator more", function(w, a) return a.shape[1] > 4 and (a:matmul(w) * 2):mean() or a:matmul(w):mean() end, {"'mean'", "'mul'"}},
    {"an operator less", function(w, a) return a.shape[1] > 4 and a:matmul(w):mean() or (a:matmul(w) * 2):mean() end, {"'mul'", "'mean'"}},
    {"another operator", function(w, a) return (a.shape[1] > 4 and a:matmul(w):sin() or a:matmul(w):cos()):mean() end, {"'cos'", "'sin'"}},
    {"another parameter", function(w, a) return a:matmul(a.shape[1] > 4 and w or other):mean() + w:mean() end, {"another parameter"}},
    {"a list with an entry per row", function(w, a)
      local list = tap.list(a.shape[1], function(i) return i end)
      return (a:matmul(w):sum(1) * number(list)):mean()
    end, {"tensor", "number of rows", "argument"}},
    {"positions of rows", function(w, a) return (a:matmul(w):sum(1) * rille.arange(a.shape[1])):mean() end, {"arange", "entry of each row"}},
    {"positions of rows as a class", function(w, a) return a:matmul(w):cross_entropy(rille.arange(a.shape[1])) end, {"arange", "argument"}},
    {"positions of rows as a result", function(w, a) return a:matmul(w):mean(), rille.arange(#a):unsqueeze(1) end, {"counts the rows"}},
    {"positions of rows from 1", function(w, a) return (a:matmul(w):sum(1) * rille.arange(1, a.shape[1] + 1)):mean() end, {"arange", "argument"}},
    {"a constant part of a concat", function(w, a) return twice(a, w)[{{0, 3}}]:mean() end, {"slice", "combines rows"}},
  }
  for _, row in ipairs(branches) do
    tap.fails(function() values_of(row[2], 2) end, {"micro", table.unpack(row[3])}, row[1] .. ": refused")
  end
end)

tap.group("backward functions and hooks", function()
  local function hooked(hook)
    return function(w, a)
      local y = a:matmul(w)
      y:register_hook(hook)
      return y:square():mean()
    end
  end
  local function own(backward)
    local f = rille.func{forward = function(ctx, y) ctx:save_for_backward(y) return y * 2 end, backward = backward}
    return function(w, a) return f(a:matmul(w)):square():mean() end
  end
  local linear = rille.func{
    forward = function(ctx, a, w) ctx:save_for_backward(a, w) return a:matmul(w) end,
    backward = function(ctx, d)
      local a, w = table.unpack(ctx.saved_tensors)
      return d:matmul(w:transpose(0, 1)), a:transpose(0, 1):matmul(d) * 3
    end,
  }
  local rowwise = {
    {"a scale", hooked(function(g) return g * 3 end)}, {"a limit", hooked(function(g) return g:clamp(-0.1, 0.1) end)},
    {"a norm per row", hooked(function(g) return g / g:square():sum(1, true):sqrt() end)},
    {"a sign", own(function(_, d) return d:sign() end)}, {"a saved tensor", own(function(ctx, d) return d * ctx.saved_tensors[1]:cos() end)},
    {"a product", function(w, a) return linear(a, w):square():mean() end},
  }
  for _, row in ipairs(rowwise) do
    for _, pieces in ipairs{2, 4} do
      tap.near(values_of(row[2], pieces), values_of(row[2], 1), ("%s: %d micro-batches"):format(row[1], pieces), 1e-12, 1e-12)
    end
  end
  local combined = {
    {"a norm of all rows", hooked(function(g) return g / g:square():sum():sqrt() end)}, {"a maximum", hooked(function(g) return g / g:abs():max() end)},
    {"a mean of rows", hooked(function(g) return g - g:mean(0, true) end)},
    {"a sum over rows", hooked(function(g) return g + g:cumsum(0) end)},
    {"a maximum in backward", own(function(_, d) return d / d:max() end)},
    {"a saved mean", own(function(ctx, d) return d * ctx.saved_tensors[1]:mean(0, true) end)},
    {"the loss", function(w, a)
      local y = a:matmul(w)
      local loss = y:square():mean()
      y:register_hook(function(g) return g * loss:detach() end)
      return loss
    end},
  }
  for _, row in ipairs(combined) do
    tap.fails(function() values_of(row[2], 2) end, {"combines rows", "micro_batches = 1"}, row[1] .. ": refused")
  end
end)

tap.group("micro-batches of one row", function()
  local weight = rille.randn({7, 8}, {requires_grad = true})
  local step = rille.graph(function(x, y)
    local loss = x:matmul(weight:transpose(0, 1)):reshape{-1, 7}:cross_entropy(y:reshape{-1})
    return loss, rille.grad(loss, {weight})
  end, {micro_batches = 4})
  step(rille.randn{4, 6, 8}, rille.randint(0, 7, {4, 6}))
  tap.ok(tostring(step:plan()):find("contract%+accumulate +cpu%[0%] +f32{7, 8}"), "the product of a weight's gradient is added to the sum without a transposition")
end)

tap.done()
