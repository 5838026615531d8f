-- golden-block.lua - tests that two transformer layers with a causal mask match PyTorch's.
--
-- Outputs and the gradients of all parameters are compared with t/golden/block.lua, made by block.py there: on one
-- device, and split by batch, by heads and by both.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local nn = rille.nn
local golden = dofile("t/golden/block.lua")

-- Returns the numbers of the formula in block.py, as nested tables.
local function numbers(shape, seed, low, high)
  local i = -1
  local function part(axis)
    if axis > #shape then
      i = i + 1
      return low + (high - low) * ((i * 7919 + seed * 104729 + 3571) % 9973) / 9973
    end
    local list = {}
    for k = 1, shape[axis] do list[k] = part(axis + 1) end
    return list
  end
  return part(1)
end

local function flat(v, list)
  if type(v) ~= "table" then
    list[#list + 1] = v
  else
    for _, e in ipairs(v) do flat(e, list) end
  end
  return list
end

-- Returns the largest difference, relative to the largest value.
local function distance(got, want)
  local largest, worst = 0, 0
  for _, v in ipairs(want) do largest = math.max(largest, math.abs(v)) end
  for i, v in ipairs(want) do
    local off = math.abs(got[i] - v)
    worst = off <= worst and worst or off
  end
  return #got == #want and worst / largest or math.huge
end

-- Compares a gradient. The keys' bias shifts all scores of a row equally, so its gradient is only rounding noise and is
-- not compared.
local function near(t, want, name)
  local got, limit = flat(t:totable(), {}), 1e-5
  if name:find("k_proj.bias") then
    for _, v in ipairs(want) do assert(math.abs(v) < 1e-12) end
    local worst = 0
    for _, v in ipairs(got) do worst = math.max(worst, math.abs(v)) end
    tap.ok(worst < 1e-4, name)
    return
  end
  local off = distance(got, want)
  if not tap.ok(off < limit, name) then tap.diag(("off by %g"):format(off)) end
end

-- Compares one placement. cut(name): layout of a parameter, or of the input if the name is "x".
local function try(what, placement, cut)
  local layers = {}
  for i = 1, golden.layers do
    layers[i] = nn.TransformerBlock(golden.d, golden.heads, {hidden = golden.hidden, is_causal = true})
  end
  local net = nn.Sequential(table.unpack(layers))
  local found = {}
  for name, p in net:named_parameters() do found[name] = p end
  local x
  for seed, t in ipairs(golden.tensors) do
    local value = numbers(t.shape, seed, t.low, t.high)
    local options = {placement = placement, sbp = cut(t.name), requires_grad = t.name == "x"}
    if t.name == "x" then
      x = rille.tensor(value, options)
      found.x = x
    else
      found[t.name]:to_global_{placement = placement, sbp = cut(t.name)}
      rille.no_grad(function() found[t.name]:copy_(rille.tensor(value, options)) end)
    end
  end
  local y = net(x)
  near(y, golden.y.value, what .. ": the output")
  local w = rille.tensor(numbers(golden.y.shape, 99, -1, 1), {placement = placement, sbp = cut("w")})
  ;(y * w):sum():backward()
  local count = 0
  for _, t in ipairs(golden.tensors) do
    count = count + 1
    near(found[t.name].grad, t.grad, what .. ": the gradient of " .. t.name)
  end
  tap.is(count, 1 + 16 * golden.layers, what .. ": all parameters were compared")
end

-- Splits the weights that make heads or widen by rows, and the weights that read these results by columns.
local function by_heads(name)
  if name:find("[qkv]_proj") or name:find("fc1") then return "S(0)" end
  if name:find("out_proj.weight") or name:find("fc2.weight") then return "S(1)" end
  return "B"
end
local function by_batch(name) return (name == "x" or name == "w") and "S(0)" or "B" end

try("one device", rille.placement("cpu", {0}), function() return "B" end)
try("batch on 2", rille.placement("cpu", {0, 1}), by_batch)
try("heads on 2", rille.placement("cpu", {0, 1}), by_heads)
try("heads on 3", rille.placement("cpu", {0, 1, 2}), by_heads)
try("batch and heads on 2x2", rille.placement("cpu", {{0, 1}, {2, 3}}),
  function(name) return {by_batch(name), by_heads(name)} end)
try("batch and heads on 2x3", rille.placement("cpu", {{0, 1, 2}, {3, 4, 5}}),
  function(name) return {by_batch(name), by_heads(name)} end)
tap.done()
