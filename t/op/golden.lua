-- golden.lua - tests that values and gradients of every operator match PyTorch's (t/golden/values.lua, made by make.py).
local tap = dofile("t/lib/tap.lua")
local cases = dofile("t/golden/values.lua")

-- Returns n numbers by the formula of make.py.
local function numbers(n, seed, low, high)
  local list = {}
  for i = 0, n - 1 do list[i + 1] = low + (high - low) * ((i * 7919 + seed * 104729 + 3571) % 9973) / 9973 end
  return list
end

local function nested(list, shape, axis, at)
  if axis > #shape then
    at[1] = at[1] + 1
    return list[at[1]]
  end
  return tap.list(shape[axis], function() return nested(list, shape, axis + 1, at) end)
end

local function values(t) return tap.flat(t:to("f64"):totable()) end

local function tensor(list, shape, dtype, options)
  options = options or {}
  options.dtype = dtype
  return rille.tensor(nested(list, shape, 1, {0}), options)
end

local function operand(how, seed)
  local shape, low, high, dtype = table.unpack(how)
  local list, float = numbers(tap.numel(shape), seed, low, high), dtype == "f32" or dtype == "f64"
  for i, v in ipairs(list) do
    if dtype == "bool" then list[i] = v > (low + high) / 2 elseif not float then list[i] = math.floor(v) end
  end
  return tensor(list, shape, dtype, {requires_grad = float}), float
end

-- Returns the largest difference relative to the largest expected value. NaN and infinity must be equal.
local function distance(got, want)
  local largest, worst = 1, 0
  for _, v in ipairs(want) do if v == v and math.abs(v) < math.huge then largest = math.max(largest, math.abs(v)) end end
  for i, v in ipairs(want) do
    local same = got[i] == v or (got[i] ~= got[i] and v ~= v)
    if not same then worst = math.max(worst, math.abs(got[i] - v) / largest) end
    if worst ~= worst then return math.huge end
  end
  return #got == #want and worst or math.huge
end

local function near(got, want, name)
  local off = distance(got, want)
  if not tap.ok(off < 1e-5, name) then
    tap.diag(("off by %g: got {%s}"):format(off, table.concat(got, ", ")))
    tap.diag(("want {%s}"):format(table.concat(want, ", ")))
  end
end

local function call(c)
  local a = {}
  local floats = {}
  for k, how in ipairs(c.operands) do a[k], floats[k] = operand(how, k) end
  local env = setmetatable({a = a[1], b = a[2], c = a[3], d = a[4], rille = rille}, {__index = _G})
  local y = load("return (" .. c.call .. ")", c.call, "t", env)()
  tap.is(y.shape, c.shape, c.call .. " has the right shape")
  near(values(y), c.value, c.call .. " has the right values")
  if not c.grad then return end
  local w = tensor(numbers(tap.numel(c.shape), 99, -1, 1), c.shape, y.dtype)
  ;(y * w):sum():backward()
  for k, want in ipairs(c.grad) do
    if want then
      local got = a[k].grad and values(a[k].grad) or numbers(#want, 0, 0, 0)
      near(got, want, ("%s: the gradient of operand %d"):format(c.call, k))
    end
  end
end

local compared = {}
for _, c in ipairs(cases) do
  compared[c.op] = true
  local good, why = pcall(call, c)
  if not good then tap.ok(false, c.call .. " runs"); tap.diag(tostring(why)) end
end
-- Operators that PyTorch cannot check: random numbers, uninitialised memory, a move, and blocks of GGUF (t/products/blocks.c).
local alone = {rand = true, randn = true, randint = true, empty = true, to_global = true, linear_blocks = true, from_blocks = true,
  to_blocks = true}
local bare = 0
for _, op in ipairs(rille.operators()) do
  if not alone[op] and not compared[op] then bare = bare + 1; tap.diag(op .. " has no cases") end
end
tap.ok(bare <= 3, ("%d operators have no cases yet"):format(bare))
tap.done()
