-- strategy.lua - tests sharding strategies on every operator, eagerly and in planned steps.
--
-- The result must have the layout that follows from the requested operand layouts, and the values of a call without a
-- strategy. A strategy that fits no layout must be rejected; the error must contain the operator's name and
-- "strategy".
local tap = dofile("t/lib/tap.lua")

local P = rille.placement("cpu", {0, 1, 2, 3})
local at = {placement = P, sbp = "B"}
local function real(...) return (rille.rand({...}, at) + 0.5):detach() end
local function whole(most, ...) return rille.randint(0, most, {...}, at) end
rille.manual_seed(2)
local x, y, truth = real(4, 8), real(4, 8), (real(4, 8):gt(1)):detach()
local image, kernel = real(4, 2, 8, 8), real(4, 2, 3, 3)

-- Entries by operator: a function that calls it with a strategy (nil: without), the strategy, and the expected layout of
-- the result.
local rows, columns, both = {{4, 1}}, {{1, 4}}, {{4, 1}, {4, 1}}
local calls = {}
for op in ("abs ceil cos erf exp floor gelu log neg reciprocal relu round rsqrt sigmoid sign silu sin softplus sqrt square tanh"):gmatch("%S+") do
  calls[op] = {function(s) return x[op](x, {strategy = s}) end, columns, "S(1)"}
end
for op in ("add div eq ge gt le lt maximum minimum mul ne pow sub"):gmatch("%S+") do
  calls[op] = {function(s) return x[op](x, y, {strategy = s}) end, both, "S(0)"}
end
for op in ("argmax argmin cumsum log_softmax logsumexp max mean min prod softmax sum var"):gmatch("%S+") do
  calls[op] = {function(s) return x[op](x, 1, {strategy = s}) end, rows, "S(0)"}
end
for _, op in ipairs{"all", "any"} do calls[op] = {function(s) return truth[op](truth, 1, {strategy = s}) end, rows, "S(0)"} end
for _, op in ipairs{"logical_and", "logical_or"} do calls[op] = {function(s) return truth[op](truth, truth, {strategy = s}) end, both, "S(0)"} end
for _, op in ipairs{"tril", "triu"} do calls[op] = {function(s) return x[op](x, 1, {strategy = s}) end, columns, "S(1)"} end
for _, op in ipairs{"max_pool2d", "avg_pool2d"} do
  calls[op] = {function(s) return rille[op](image, 2, {strategy = s}) end, {{4, 1, 1, 1}}, "S(0)"}
end
local more = {
  cast = {function(s) return x:to("f64", {strategy = s}) end, rows, "S(0)"},
  clamp = {function(s) return x:clamp(0.6, 1, {strategy = s}) end, rows, "S(0)"},
  concat = {function(s) return rille.concat({x, y}, 1, {strategy = s}) end, both, "S(0)"},
  conv2d = {function(s) return rille.conv2d(image, kernel, nil, {strategy = s}) end, {{1, 1, 1, 1}, {4, 1, 1, 1}}, "S(1)"},
  cross_entropy = {function(s) return x:cross_entropy(whole(8, 4) * 0 + 3, {reduction = "none", strategy = s}) end, {{4, 1}, {4}}, "S(0)"},
  dropout = {function(s) return x:dropout(0.5, true, {strategy = s}):ge(0) end, rows, "S(0)"},
  embedding = {function(s) return rille.embedding(whole(4, 8) * 0 + 2, x, {strategy = s}) end, {{4}, {1, 1}}, "S(0)"},
  expand = {function(s) return x:expand({3, 4, 8}, {strategy = s}) end, rows, "S(1)"},
  flip = {function(s) return x:flip({1}, {strategy = s}) end, rows, "S(0)"},
  from_blocks = {function(s) return rille.from_blocks(rille.full({8, 8, 34}, 32, {dtype = "u8", placement = P}), {strategy = s}):ge(0) end, {{4, 1, 1}}, "S(0)"},
  gather = {function(s) return x:gather(0, whole(1, 4, 8), {strategy = s}) end, {{1, 4}, {1, 4}}, "S(1)"},
  index_select = {function(s) return x:index_select(0, whole(1, 4), {strategy = s}) end, {{1, 4}, {1}}, "S(1)"},
  layer_norm = {function(s) return x:layer_norm(nil, nil, {strategy = s}) end, rows, "S(0)"},
  linear_blocks = {function(s) return real(4, 256):linear_blocks(rille.full({6, 8, 34}, 32, {dtype = "u8", placement = P}), {strategy = s}):ge(0) end,
    {{4, 1}, {1, 1, 1}}, "S(0)"},
  linear_int8 = {function(s) return x:linear_int8(rille.full({6, 8}, 130, {dtype = "u8", placement = P}), rille.ones({6}, at), {strategy = s}) end,
    {{4, 1}, {1, 1}, {1}}, "S(0)"},
  logical_not = {function(s) return truth:logical_not({strategy = s}) end, rows, "S(0)"},
  matmul = {function(s) return x:matmul(y:transpose(0, 1), {strategy = s}) end, {{1, 1}, {1, 4}}, "S(1)"},
  mse_loss = {function(s) return x:mse_loss(y, {reduction = "none", strategy = s}) end, both, "S(0)"},
  one_hot = {function(s) return (whole(1, 8) + 2):one_hot(4, {strategy = s}) end, {{4}}, "S(0)"},
  pad = {function(s) return x:pad({1, 1}, 0, {strategy = s}) end, rows, "S(0)"},
  permute = {function(s) return x:permute({1, 0}, {strategy = s}) end, rows, "S(1)"},
  reshape = {function(s) return x:reshape({32}, {strategy = s}) end, rows, "S(0)"},
  rms_norm = {function(s) return x:rms_norm(nil, {strategy = s}) end, rows, "S(0)"},
  rotary = {function(s) return image:rotary(real(8, 4) * 0 + 0.5, real(8, 4) * 0 + 0.5, {strategy = s}) end, {{4, 1, 1, 1}, {1, 1}, {1, 1}}, "S(0)"},
  scaled_dot_product_attention = {function(s) return rille.scaled_dot_product_attention(image, image, image, {strategy = s}) end,
    {{4, 1, 1, 1}, {4, 1, 1, 1}, {4, 1, 1, 1}}, "S(0)"},
  scatter_add = {function(s) return x:scatter_add(0, whole(1, 4, 8), y, {strategy = s}) end, {{1, 4}, {1, 4}, {1, 4}}, "S(1)"},
  slice = {function(s) return x:slice(1, 0, 2, 1, {strategy = s}) end, rows, "S(0)"},
  squeeze = {function(s) return x:reshape{1, 4, 8}:squeeze(0, {strategy = s}) end, {{1, 4, 1}}, "S(0)"},
  stack = {function(s) return rille.stack({x, y}, 0, {strategy = s}) end, both, "S(1)"},
  to_blocks = {function(s) return real(8, 64):to_blocks({strategy = s}):ge(0) end, rows, "S(0)"},
  topk = {function(s) return (x:topk(2, {strategy = s})) end, rows, "S(0)"},
  transpose = {function(s) return x:transpose(0, 1, {strategy = s}) end, rows, "S(1)"},
  unsqueeze = {function(s) return x:unsqueeze(0, {strategy = s}) end, rows, "S(1)"},
  where = {function(s) return rille.where(truth, x, y, {strategy = s}) end, {{4, 1}, {4, 1}, {4, 1}}, "S(0)"},
}
for op, call in pairs(more) do calls[op] = call end

-- Operators without an entry: sources, whose result has the requested layout, and to_global, which is a move itself.
local sources = {}
for op in ("arange empty eye full linspace ones rand randint randn zeros to_global"):gmatch("%S+") do sources[op] = true end

for _, op in ipairs(rille.operators()) do
  local call = calls[op]
  if sources[op] then
    tap.fails(function() return op == "to_global" and x:to_global{sbp = "B", strategy = rows} or rille[op]({4, 8}, {strategy = rows}) end, {"strategy", op},
      op .. " refuses a strategy")
  elseif not call then
    tap.ok(false, op .. " is tried")
  else
    local f, strategy, want = table.unpack(call)
    local values = f():totable()
    local good, z = pcall(f, strategy)
    tap.is(good and z.sbp or z, want, op .. ": the result follows the requested operand layouts")
    tap.near(good and z:totable(), values, op .. ": the values are the same", 1e-4, 1e-5)
    for _, mode in ipairs{"optimal", "propagate", "recursive", "greedy"} do
      local step = rille.graph(function() return f(strategy) end, {auto_parallel = mode})
      local fine, r = pcall(step)
      tap.near(fine and r:totable() or tostring(r), values, ("%s: the same values in a step, %s"):format(op, mode), 1e-4, 1e-5)
      local found = false
      for _, o in ipairs(fine and step:explain().ops or {}) do found = found or o.outputs[1] == want end
      tap.ok(found, ("%s: the same layout in a step, %s"):format(op, mode))
    end
    -- the error names the function that the user called: the operator cast is called as x:to()
    local odd, called = {}, op == "cast" and "to" or op
    for k, list in ipairs(strategy) do
      odd[k] = {table.unpack(list)}
      for d, n in ipairs(list) do odd[k][d] = n == 4 and 3 or n end
    end
    tap.fails(function() return f(odd) end, {called, "strategy"}, op .. ": a strategy of three on four devices is refused by the operator's name")
    tap.fails(function() return rille[op](x, {stratgy = strategy}) end, {"stratgy", "strategy"}, op .. ": a misspelled option is refused with the right name")
    tap.fails(function() return f{} end, {called, "strategy"}, op .. ": a strategy without lists is refused")
  end
end
tap.done()
