-- scan-bodies.lua - tests rille.scan with many functions: values and gradients are those of a Lua loop, eager and
-- compiled, on one device, in split batches, in micro-batches and with recomputation; so are second derivatives. Plans
-- have the same number of tasks for 16 and 1,024 positions. Functions that cannot become one operator give the values
-- of a loop, too.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local nn <const> = rille.nn

local BATCH <const>, WIDTH <const> = 4, 3

local function weight(...) return rille.randn({...}, {dtype = "f64", requires_grad = true}) end

-- Returns zeros with the rows of x, which may be one micro-batch.
local function zeros(x, ...)
  local shape = {-1}
  for k = 1, select("#", ...) do shape[k + 1] = 1 end
  return (x:sum(2):sum(1) * 0):reshape(shape) + rille.zeros({1, ...}, {dtype = "f64", placement = x.placement})
end

local function module_of(m)
  m:to("f64")
  return m, m:parameters()
end

-- Each entry returns the function of the scan, its parameters, and a function first() that returns the initial state.
-- The scan's function receives slices (BATCH, WIDTH); first() receives the complete input (BATCH, length, WIDTH).
local bodies = {
  rnn = function()
    local w = weight(WIDTH, WIDTH)
    return function(h, x) h = (h:matmul(w) + x):tanh() return h, h end, {w}, function(x0) return zeros(x0, WIDTH) end
  end,
  lstm = function()
    local cell, list = module_of(nn.LSTMCell(WIDTH, 5))
    return function(s, x)
      local h, c = cell(x, s.h, s.c)
      return {h = h, c = c}, {h, c = c}
    end, list, function(x0) return {h = zeros(x0, 5), c = zeros(x0, 5)} end
  end,
  gru = function()
    local cell, list = module_of(nn.GRUCell(WIDTH, 2))
    return function(h, x) h = cell(x, h) return h, h end, list, function(x0) return zeros(x0, 2) end
  end,
  two_layers = function()
    local a, b = nn.RNNCell(WIDTH, 4), nn.RNNCell(4, 2)
    a:to("f64") b:to("f64")
    local list = a:parameters()
    for _, t in ipairs(b:parameters()) do list[#list + 1] = t end
    return function(s, x)
      local h = a(x, s[1])
      local k = b(h, s[2])
      return {h, k}, k
    end, list, function(x0) return {zeros(x0, 4), zeros(x0, 2)} end
  end,
  average = function()
    local decay = weight()
    return function(m, x) m = m * decay:sigmoid() + x * 0.25 return m, m end, {decay}, function(x0) return zeros(x0, WIDTH) end
  end,
  state_space = function()
    local a, b, c = weight(6), weight(WIDTH, 6), weight(6, 2)
    return function(s, x) s = s * a:sigmoid() + x:matmul(b) return s, s:matmul(c) end, {a, b, c}, function(x0) return zeros(x0, 6) end
  end,
  linear_attention = function()
    local k, v, q = weight(WIDTH, 2), weight(WIDTH, 4), weight(WIDTH, 2)
    return function(s, x)
      s = s * 0.9 + x:matmul(k):unsqueeze(2) * x:matmul(v):unsqueeze(1)
      return s, x:matmul(q):unsqueeze(1):matmul(s):squeeze(1)
    end, {k, v, q}, function(x0) return zeros(x0, 2, 4) end
  end,
  attention = function()
    local w, memory = weight(WIDTH, WIDTH), weight(5, WIDTH)
    return function(h, x)
      local p = (h + x):matmul(w):matmul(memory:transpose(0, 1)):softmax(1)
      h = p:matmul(memory)
      return h, p
    end, {w, memory}, function(x0) return zeros(x0, WIDTH) end
  end,
  normed = function()
    local w, gain = weight(WIDTH, WIDTH), weight(WIDTH)
    return function(h, x)
      h = (h:matmul(w) + x):layer_norm(gain, nil):gelu()
      return h, h:slice(1, 0, 2)
    end, {w, gain}, function(x0) return zeros(x0, WIDTH) end
  end,
  exchanged = function()
    local w = weight(WIDTH)
    return function(s, x) return {s[2], (s[1] * w + x):sin()}, s[1] end, {w}, function(x0) return {zeros(x0, WIDTH), zeros(x0, WIDTH)} end
  end,
  counter = function()
    local w = weight(WIDTH)
    return function(s, x)
      local h = rille.where((s.n % 3):eq(0), s.h * w, s.h) + x
      return {h = h:tanh(), n = s.n + 1}, h
    end, {w}, function(x0) return {h = zeros(x0, WIDTH), n = zeros(x0, 1):to("i64")} end
  end,
  forward_algorithm = function()
    local moves = weight(WIDTH, WIDTH)
    return function(a, x) a = (a:unsqueeze(2) + moves):logsumexp(1) + x return a, a end, {moves}, function(x0) return zeros(x0, WIDTH) end
  end,
  nested = function()
    local w = weight(WIDTH)
    return function(h, x)
      local k = rille.scan(function(s, y) return (s * y):tanh() + 1, nil end, h:sum(1), x * w, {axis = 1})
      h = h + k:unsqueeze(1)
      return h:sin(), h
    end, {w}, function(x0) return zeros(x0, WIDTH) end
  end,
  descent = function() -- the function computes the gradient of an energy
    local w = weight(WIDTH, WIDTH)
    return function(h, x)
      local energy = ((h:matmul(w) - x):square():sum(1) * 0.1):sum()
      h = h - rille.grad(energy, {h}) * 0.1
      return h, h
    end, {w}, function(x0) return zeros(x0, WIDTH) + w:sum(0) * 0.1 end
  end,
  detached = function()
    local w, v = weight(WIDTH), weight(WIDTH)
    return function(h, x)
      local still = rille.no_grad(function() return (h * v):tanh() end)
      h = (h * w + x + still):cos()
      return h, h
    end, {w, v}, function(x0) return zeros(x0, WIDTH) end
  end,
}
-- Tensors without a gradient inside the function: results of no_grad and detach, and a leaf that the function makes,
-- without and with a gradient of its own.
bodies.detached_tensors = function()
  local w = weight(WIDTH)
  return function(h, x)
    local still = h:detach()
    local own = (h * w):detach():requires_grad_(true)
    local slope = rille.grad((own:sin() * own):sum(), {own})
    h = (h * w + x * still + slope):cos()
    return h, {h, still, h:detach() * w}
  end, {w}, function(x0) return zeros(x0, WIDTH) end
end
bodies.largest = function() -- topk, whose gradient writes to the positions of the largest values
  local w = weight(WIDTH)
  return function(h, x)
    local most, at = (h * w + x):topk(2, 1)
    return (h + most:sum(1, true)):sin(), {most, at}
  end, {w}, function(x0) return zeros(x0, WIDTH) end
end

local function leaves(tree, list)
  list = list or {}
  if type(tree) == "table" and getmetatable(tree) == nil then
    local keys = {}
    for key in pairs(tree) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do leaves(tree[key], list) end
  else
    list[#list + 1] = tree
  end
  return list
end

local function stacked(list)
  if type(list[1]) ~= "table" or getmetatable(list[1]) ~= nil then return rille.stack(list, 1) end
  local tree = {}
  for key in pairs(list[1]) do
    local parts = {}
    for t, y in ipairs(list) do parts[t] = y[key] end
    tree[key] = stacked(parts)
  end
  return tree
end

local function loop(fn, state, x)
  local ys = {}
  for t = 0, x.shape[2] - 1 do state, ys[t + 1] = fn(state, x[{{}, t}]) end
  return state, stacked(ys)
end

local function scan(fn, state, x) return rille.scan(fn, state, x, {axis = 1}) end
local function recomputed(fn, state, x) return rille.scan(fn, state, x, {axis = 1, recompute = true}) end

-- Returns loss and gradients: as Lua tables, or as tensors.
local function train(how, fn, params, first, x)
  local state, ys = how(fn, first(x), x)
  local loss = 0
  for _, y in ipairs(leaves{state, ys}) do loss = loss + y:to("f64"):square():sum(1):mean() end
  return loss, table.unpack(table.pack(rille.grad(loss, params)))
end

-- Returns the gradients of a sum of squared gradients.
local function train_twice(how, fn, params, first, x)
  local grads, penalty = table.pack(train(how, fn, params, first, x)), 0
  for k = 2, grads.n do penalty = penalty + grads[k]:square():sum() end
  return rille.grad(penalty, params)
end

local function values(...)
  local list = table.pack(...)
  for k = 1, list.n do list[k] = list[k]:to_global{placement = rille.placement("cpu", {0}), sbp = "B"}:totable() end
  list.n = nil
  return list
end

local function input(n) return rille.randn({BATCH, n, WIDTH}, {dtype = "f64"}):detach() end

local function tasks(step)
  local _, lines = tostring(step:plan()):gsub("\n%s*%d+ ", "")
  return lines
end

local lengths <const> = {1, 2, 3, 5, 8, 13, 32, 64}
for name, make in tap.sorted(bodies) do
  for _, n in ipairs(lengths) do
    if tap.share() then
      rille.manual_seed(n)
      local fn, params, first = make()
      local x = input(n)
      local want = values(train(loop, fn, params, first, x))
      local about = ("%s, %d positions"):format(name, n)
      tap.near(values(train(scan, fn, params, first, x)), want, about .. ": a loop's loss and gradients", 1e-9, 1e-9)
      tap.near(values(train(recomputed, fn, params, first, x)), want, about .. ": with recomputation, a loop's", 1e-9, 1e-9)
      if n < 9 then
        local twice = values(train_twice(loop, fn, params, first, x))
        for _, how in ipairs{scan, recomputed} do
          tap.near(values(train_twice(how, fn, params, first, x)), twice, about .. ": a loop's second derivatives", 1e-7, 1e-7)
        end
      end
      for _, ranks in ipairs{1, 2, 4} do
        local at = {placement = rille.placement("cpu", tap.ranks(ranks)), sbp = "B"}
        local split = x:to_global{placement = at.placement, sbp = "S(0)"}
        for _, t in ipairs(params) do t:to_global_(at) end
        local step = rille.graph(function(a) return train(scan, fn, params, first, a) end)
        tap.near(values(step(split)), want, ("%s: compiled, the batch over %d devices"):format(about, ranks), 1e-9, 1e-9)
        if ranks == 2 then
          local parts = rille.graph(function(a) return train(scan, fn, params, first, a) end, {micro_batches = 2})
          tap.near(values(parts(split)), want, about .. ": two micro-batches on two devices", 1e-9, 1e-9)
        end
      end
    end
  end
end

for name, make in tap.sorted(bodies) do
  local fn, params, first = make()
  local step = rille.graph(function(a) return train(scan, fn, params, first, a) end)
  step(input(16))
  local short = tasks(step)
  step(input(1024))
  tap.is(tasks(step), short, ("%s: as many tasks for 1,024 positions as for 16"):format(name))
  tap.ok(short < 100, ("%s: few tasks"):format(name), short)
end

-- ---- gradients that are summed over devices (of an input without a batch dimension), 16-bit floats, meshes ----

local meshes <const> = {{{0}, "S(0)"}, {{0, 1}, "S(0)"}, {{0, 1, 2, 3}, "S(0)"}, {{0, 1}, "B"}, {{{0, 1}, {2, 3}}, {"S(0)", "B"}},
  {{{0, 1}, {2, 3}}, {"S(0)", "S(0)"}}}
for _, dtype in ipairs{"f64", "f32", "bf16"} do
  local want
  for k, mesh in ipairs(meshes) do
    rille.manual_seed(1)
    local place, whole = rille.placement("cpu", mesh[1]), type(mesh[2]) == "table" and {"B", "B"} or "B"
    local function made(shape, sbp)
      return rille.randn(shape, {dtype = "f64"}):to_global{placement = place, sbp = sbp}:to(dtype):detach():requires_grad_()
    end
    local w, u, x = made({WIDTH, WIDTH}, whole), made({6, WIDTH}, whole), made({8, 6, WIDTH}, mesh[2])
    local step = rille.graph(function()
      local h, ys = rille.scan(function(h, t)
        h = (h:matmul(w) + t.x + t.u):tanh()
        return h, h
      end, x[{{}, 0}] * 0, {x = x:transpose(0, 1), u = u})
      local loss = ys:to("f64"):square():sum() + h:to("f64"):sum()
      return loss, rille.grad(loss, {w, u, x})
    end)
    local got, off = values(step()), ({f64 = 1e-9, f32 = 1e-5, bf16 = 0.1})[dtype]
    want = want or got
    tap.near(got, want, ("%s, mesh %d: gradients of inputs with and without the batch"):format(dtype, k), off, off)
  end
end

tap.done()
