-- batch-calls.lua - tests calls with numbers of rows in a step of several micro-batches: constants such as x:slice(0, 0, 2),
-- and numbers computed from x.shape[1]. Each program must give the result and the gradient of the whole batch, or be
-- refused. Tries all constants from 1 to the number of rows, all numbers of micro-batches, replicated and split rows.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(7))
local ROWS <const>, WIDTH <const> = 8, 4
local I64 <const> = {dtype = "i64"}
local P01 = rille.placement("cpu", {0, 1})
local places = {{"rows replicated", rille.placement("cpu", {0}), "B"}, {"rows split", P01, "S(0)"}}
local row, table8 -- constants: one row, and a table with as many rows as the batch
local input, start = rille.randn{ROWS, WIDTH}, rille.rand{WIDTH}

local function first(n) return rille.tensor(tap.list(n, function(i) return i - 1 end), I64) end
local function column(n) return rille.tensor(tap.list(n, function(i) return {i} end), {dtype = "f32"}) end
local function zeros(...) return rille.zeros{...} end

-- Programs with a constant n.
local constant = {
  slice = function(x, n) return x:slice(0, 0, n) end,
  ["slice of the last rows"] = function(x, n) return x:slice(0, -n) end,
  ["slice in the middle"] = function(x, n) return x:slice(0, n, 2 * n) end,
  ["slice with a step"] = function(x, n) return x:slice(0, 0, nil, n) end,
  ["slice of columns of the transpose"] = function(x, n) return x:transpose(0, 1):slice(1, 0, n):sum() end,
  ["slice behind a new dimension"] = function(x, n) return x:unsqueeze(0):slice(1, 0, n):squeeze(0) end,
  ["slice of at most all rows"] = function(x, n) return x:slice(0, 0, math.min(n, x.shape[1])) end,
  ["sum of a slice"] = function(x, n) return x:slice(0, 0, n):sum() end,
  ["mean of a slice by hand"] = function(x, n) return x:slice(0, 0, n):sum() / n end,
  index = function(x, n) return x[{{0, n}}] end,
  ["one row"] = function(x, n) return x[n - 1] end,
  ["one row from the end"] = function(x, n) return x[-n] end,
  narrow = function(x, n) return x:narrow(0, 0, n) end,
  split = function(x, n) return x:split(n, 0)[1] end,
  chunk = function(x, n) return x:chunk(n, 0)[1] end,
  unbind = function(x) return x:unbind(0)[1] end,
  ["pad before"] = function(x, n) return x:pad{0, 0, n, 0} end,
  ["pad behind"] = function(x, n) return x:pad{0, 0, 0, n} end,
  ["rows in a circle"] = function(x, n) return rille.concat({x:slice(0, -n), x:slice(0, 0, -n)}, 0) end,
  reshape = function(x, n) return x:reshape(n, WIDTH) end,
  ["reshape to groups"] = function(x, n) return x:reshape(n, -1) end,
  ["sum over groups"] = function(x, n) return x:reshape(n, -1, WIDTH):sum(0) end,
  ["maximum of neighbours"] = function(x, n) return x:reshape(-1, n, WIDTH):max(1) end,
  ["softmax of neighbours"] = function(x, n) return x:reshape(-1, n, WIDTH):softmax(1):reshape(-1, WIDTH) end,
  flatten = function(x, n) return x:reshape(n * WIDTH) end,
  expand = function(x, n) return x:expand(n, WIDTH) end,
  ["expand of a sum"] = function(x, n) return x:sum(0, true):expand(n, WIDTH) end,
  ["expand in front"] = function(x, n) return x:unsqueeze(0):expand(n, -1, WIDTH) end,
  ["expand behind"] = function(x, n) return x:unsqueeze(1):expand(-1, n, WIDTH):reshape(-1, WIDTH) end,
  tile = function(x, n) return x:tile(n, 1) end,
  repeat_interleave = function(x, n) return x:repeat_interleave(n, 0) end,
  zeros = function(x, n) return x + zeros(n, WIDTH) end,
  ["a column of ones"] = function(x, n) return (x + rille.ones{n, 1}):sum() end,
  arange = function(x, n) return x * rille.arange(n):to("f32"):unsqueeze(1) end,
  linspace = function(x, n) return x * rille.linspace(0, 1, n):unsqueeze(1) end,
  ["values of a list"] = function(x, n) return x * column(n) end,
  ["a product with the unit matrix"] = function(x, n) return rille.eye(n):matmul(x) end,
  ["a product with ones"] = function(x, n) return rille.ones{3, n}:matmul(x) end,
  index_select = function(x, n) return x:index_select(0, first(n)) end,
  ["a sum of selected rows"] = function(x, n) return x:index_select(0, first(n)):sum() end,
  ["rows by a tensor"] = function(x, n) return x[first(n)]:mean() end,
  embedding = function(x, n) return first(n):embedding(x):sum() end,
  gather = function(x, n) return x:gather(0, first(n):unsqueeze(1):expand(n, WIDTH)):sum() end,
  topk = function(x, n) return (x:topk(n, 0)) end,
  tril = function(x, n) return x:tril(n) end,
  one_hot = function(x, n) return x:argmax(1):one_hot(n + 3):to("f32") end,
  scatter_add = function(x, n) return zeros(n, WIDTH):scatter_add(0, rille.zeros({x.shape[1], WIDTH}, I64), x) end,
  index_add = function(x, n) return zeros(n, WIDTH):index_add(0, rille.zeros({x.shape[1]}, I64), x) end,
  ["index_add to rows"] = function(x, n) return x:index_add(0, first(n), rille.ones{n, WIDTH}) end,
  ["assigned rows"] = function(x, n) local y = x * 1; y[{{0, n}}] = 0; return y end,
  ["one assigned row"] = function(x, n) local y = x * 1; y[n - 1] = 0; return y end,
  ["rows assigned by a tensor"] = function(x, n) local y = x * 1; y[first(n)] = 5; return y end,
  ["concat of rows"] = function(x, n) return rille.concat({x, zeros(n, WIDTH)}, 0) end,
  ["concat of columns"] = function(x, n) return rille.concat({x, zeros(n, 1)}, 1) end,
  stack = function(x, n) return rille.stack({x, rille.ones{n, WIDTH}}, 1) end,
  where = function(x, n) return rille.where(rille.ones{n, 1}:gt(0), x, 0) end,
  masked_fill = function(x, n) return x:masked_fill(rille.ones{n, 1}:gt(0), 3) end,
  mse_loss = function(x, n) return x:mse_loss(zeros(n, WIDTH)) end,
  cross_entropy = function(x, n) return x:cross_entropy(first(n) % 4) end,
  ["the classes are rows"] = function(x, n) return x:transpose(0, 1):cross_entropy(rille.full({WIDTH}, n - 1, I64)) end,
  ["attention with a mask"] = function(x, n)
    local q = x:reshape(-1, 1, 1, WIDTH)
    return rille.scaled_dot_product_attention(q, q, q, {mask = zeros(n, 1, 1, 1)})
  end,
  conv2d = function(x, n) return x:reshape(1, 1, -1, WIDTH):conv2d(rille.ones{1, 1, n, 1}) end,
  ["a scan with a state of n rows"] = function(x, n)
    return (rille.scan(function(h, t) return h + t end, zeros(n, WIDTH), x:unsqueeze(0)))
  end,
  ["a scan that reshapes"] = function(x, n)
    return (rille.scan(function(h, t) return h * 0.5 + t:reshape(n, WIDTH) end, zeros(x.shape[1], WIDTH), x:unsqueeze(0)))
  end,
  ["a scan that slices"] = function(x, n)
    return select(2, rille.scan(function(h, t) return h, t[{{0, n}}] * 1 end, zeros(x.shape[1], WIDTH), x:unsqueeze(0)))
  end,
  ["a scan over rows"] = function(x, n) return (rille.scan(function(h, t) return h + t end, zeros(WIDTH), x[{{0, n}}])) end,
}

-- Programs that compute numbers from the number of rows. sure: not refused, but computed.
local computed = {
  ["rows of a table"] = function(x) return x * table8[{{0, x.shape[1]}}] end,
  ["a sum of rows of a table"] = function(x) return table8[{{0, x.shape[1]}}]:sum() + x:sum() end,
  ["assigned rows of a table"] = function(x) local y = table8:clone(); y[{{0, x.shape[1]}}] = x; return y:sum() end,
  ["a mask of a table"] = function(x) return x:masked_fill(table8[{{0, x.shape[1]}}]:gt(0), 0) end,
  ["a row by its number"] = function(x) return x * table8[x:argmax(1)[0]:item() + x.shape[1] - 1] end,
  ["a constant repeated in another number"] = function(x) return x * row:expand(x.shape[1] + 1, WIDTH):slice(0, 0, x.shape[1]) end,
  ["one row more"] = function(x) return rille.ones{x.shape[1] + 1, WIDTH}:sum() + x:sum() end,
  ["half of the rows"] = function(x) return rille.ones{x.shape[1] // 2 + 1}:sum() + x:sum() end,
  ["a square matrix"] = function(x) return rille.ones{x.shape[1], x.shape[1]}:sum() + x:sum() end,
  ["a triangle"] = function(x) return rille.ones{x.shape[1], x.shape[1]}:tril():sum() + x:sum() end,
  ["random rows, and one more"] = function(x) return x:sum() + rille.rand{x.shape[1] + 1, WIDTH}:sum() end,
  ["a squeezed row"] = function(x) return x:squeeze() end,
  ["a repeated mean"] = function(x) return x:mean(0, true):expand(x.shape[1], WIDTH):sum() end,
  ["a repeated sum"] = function(x) return x:detach():sum(0, true):expand(x.shape[1], WIDTH):sum() + x:sum() end,
  ["a repeated mean as a result"] = function(x) return x:detach():mean(0, true):expand(x.shape[1], WIDTH) end,
  ["a difference from a repeated mean"] = function(x) return x - x:detach():mean(0, true):expand(x.shape[1], WIDTH) end,
  ["a scan over a table"] = function(x) return (rille.scan(function(h, t) return h + t end, x, table8[{{0, x.shape[1]}}])) end,
  ["a product with columns"] = function(x) return x:matmul(table8:reshape(WIDTH, -1):slice(1, 0, x.shape[1])):sum() end,
  ["a part of a table"] = function(x) return x * table8:chunk(x.shape[1], 0)[1]:sum() end,
  ["the axis of a sum"] = function(x) return x:square():sum(x.shape[1] > 2 and 1 or 0) end,
}
local sure = {
  ["a row of a table"] = function(x) return x * table8[x.shape[1] - 1] end,
  ["a position in a table"] = function(x) return x * table8[{{x.shape[1] - 1, x.shape[1]}}] end,
  ["a table in another shape"] = function(x) return table8:reshape(x.shape[1], -1)[0]:sum() + x:sum() end,
  ["a repeated row"] = function(x) return x * row:expand(x.shape[1], WIDTH) end,
  ["a repeated row as a result"] = function(x) return row:expand(x.shape[1], WIDTH) end,
  ["a sum of a repeated row"] = function(x) return row:expand(x.shape[1], WIDTH):sum() + x:sum() end,
  ["a mean of a repeated row"] = function(x) return row:expand(x.shape[1], WIDTH):mean() + x:sum() end,
  ["a product of repeated rows"] = function(x)
    local e = row:expand(x.shape[1], WIDTH)
    return e:transpose(0, 1):matmul(e):sum() + x:sum()
  end,
  ["a column"] = function(x) return x[{{}, x.shape[1] % 3}] end,
  ["columns"] = function(x) return x:slice(1, 0, math.min(WIDTH, x.shape[1])) end,
  ["a triangle of columns"] = function(x) return x:unsqueeze(1):expand(-1, 4, -1):tril(x.shape[1] % 3) end,
  ["a number of classes"] = function(x) return x:argmax(1):one_hot(x.shape[1] + WIDTH):to("f32") end,
  ["a number of maxima"] = function(x) return (x:topk(x.shape[1] % 3 + 1, 1)) end,
  ["a limit"] = function(x) return x:clamp(-1 / x.shape[1], 1 / x.shape[1]) end,
  ["an exponent"] = function(x) return x:abs() ^ (1 / x.shape[1]) end,
  ["an epsilon"] = function(x) return x:layer_norm(nil, nil, {eps = 1 / x.shape[1]}) end,
  ["a probability"] = function(x) return x:dropout(1 / (x.shape[1] + 1)) end,
  ["a smoothing"] = function(x) return x:cross_entropy(x:argmax(1), {label_smoothing = 1 / (1 + x.shape[1])}) end,
  ["a row of positions"] = function(x) return rille.arange(x.shape[1], x.shape[1] + WIDTH):to("f32") + x end,
  ["a padding of columns"] = function(x) return x:pad{0, x.shape[1] % 3} end,
  ["all rows"] = function(x) return x:slice(0, 0, x.shape[1]) end,
  ["twice the rows"] = function(x) return x:reshape(x.shape[1] * 2, WIDTH // 2) end,
  ["one dimension"] = function(x) return x:reshape(x.shape[1] * WIDTH) end,
  ["a column of ones"] = function(x) return rille.concat({x, rille.ones{x.shape[1], 2}}, 1) end,
  ["random rows"] = function(x) return x + rille.rand{x.shape[1], WIDTH} end,
  ["a number in rille.per_micro_batch"] = function(x)
    local y = rille.per_micro_batch(function() return x.shape[1] > 2 and x * 2 or x + x end)
    return y:sum() / x.shape[1] + y:mean(1):square():sum() * (1 / x:numel())
  end,
}

-- Returns {result, gradient} of a step of m micro-batches; nil and the error if the step fails.
local function run(place, program, m, n)
  local function there(t, sbp) return t:to_global{placement = place[2], sbp = sbp or "B"}:detach() end
  rille.manual_seed(11)
  row, table8 = there(rille.randn{1, WIDTH}), there(rille.randn{8, WIDTH})
  local w = there(start):clone():requires_grad_()
  local good, y = pcall(rille.graph(function(x)
    local y = program(x * w, n)
    local loss = #y.shape > 0 and y:square():sum() or y
    if loss.requires_grad then loss:backward() end
    return y
  end, {micro_batches = m}), there(input, place[3]))
  if not good then return nil, y end
  return {y:totable(), w.grad and w.grad:totable() or false}
end

local function check(name, place, program, n, must)
  local text = ("%s%s, %s"):format(name, n and ", n = " .. n or "", place[1])
  local want = run(place, program, 1, n)
  for _, m in ipairs(place[3] == "B" and {2, 4, 8} or {2, 4}) do
    local got, why = run(place, program, m, n)
    local case = ("%s, %d micro-batches"):format(text, m)
    if got then tap.near(got, want or "an error", case .. ": the result of the whole batch", 1e-4, 1e-5) else
      tap.ok(not must, case .. ": computed, or refused", why)
    end
  end
end

for _, place in ipairs(places) do
  for name, program in tap.sorted(constant) do
    if tap.share() then for n = 1, ROWS do check(name, place, program, n) end end
  end
  for name, program in tap.sorted(computed) do if tap.share() then check(name, place, program) end end
  for name, program in tap.sorted(sure) do check(name, place, program, nil, true) end
end

-- The errors name the call, both sizes and the remedy.
for name, case in tap.sorted{
  slice = {function(x) return x:slice(0, 0, 2) end, {"slice", "{2, 4}", "micro_batches = 4", "x.shape[1]", "batch-calls.lua"}},
  constant = {function(x) return x + zeros(2, WIDTH) end, {"whole batch", "add", "8 and 2", "x.shape[1]"}},
  source = {function(x) return x:sum() + rille.ones(x.shape[1] + 1):sum() end, {"ones", "{3}", "{9}", "micro_batches = 4"}},
  indices = {function(x) return x:index_select(0, first(2)):sum() end, {"index_select", "combines rows"}},
} do
  tap.fails(function() rille.graph(case[1], {micro_batches = 4})(input) end, case[2], "the error of " .. name)
end

-- Numbers after a cache that the first call fills are those of the whole batch.
tap.group("caches of tensors", function()
  local cache
  local step = rille.graph(function(x)
    cache = cache or rille.tensor(7)
    return x:sum() / rille.tensor(x.shape[1]) + cache
  end, {micro_batches = 4})
  tap.near(step(input):item(), input:sum():item() / ROWS + 7, "the second tensor has the number of rows of the batch")
end)

-- In rille.per_micro_batch, x.shape[1] is the number of rows of the micro-batch.
tap.group("numbers of a micro-batch", function()
  local step = rille.graph(function(x)
    local centred = rille.per_micro_batch(function() return x - x:sum(0) / x.shape[1] end)
    return centred:square():sum() / x.shape[1]
  end, {micro_batches = 2})
  local want = 0
  for k = 0, 1 do
    local part = input[{{4 * k, 4 * k + 4}}]
    want = want + (part - part:mean(0)):square():sum():item() / ROWS
  end
  tap.near(step(input):item(), want, "each micro-batch is centred by its own mean; the number outside is that of the whole batch")
end)

tap.done()
