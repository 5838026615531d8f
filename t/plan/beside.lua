-- beside.lua - tests that a derivative is computed together with its function if nothing else reads the operand.
--
-- One task then computes function and derivative in forward, so the operand is not kept for backward. Results must
-- have the same bits as those of separate tasks. Covers silu and each form of gelu, f32 and f64, with and without a
-- matrix product before the function, and with and without another reader of the operand.

local tap = dofile("t/lib/tap.lua")

-- Returns the loss and gradient of one step as exact text, and the trace of a second step. product: true: a matrix
-- product precedes f; other: true: the operand has a second reader, which adds 0 to the loss.
local function run(f, dtype, product, other)
  rille.manual_seed(5)
  local x = rille.randn({33, 17}, {dtype = dtype}) * 3
  local w = rille.randn({17, 17}, {dtype = dtype, requires_grad = true})
  local step = rille.graph(function(a)
    local h = product and a:matmul(w) or a * w:sum{axis = 0}
    local loss = f.call(h):square():sum()
    if other then loss = loss + (h * 0):sum() end
    loss:backward()
    return loss, w.grad
  end)
  local loss, grad = step(x)
  local bits, path = {("%a"):format(loss:item())}, os.tmpname()
  for i, v in ipairs(grad:reshape{17 * 17}:totable()) do bits[i + 1] = ("%a"):format(v) end
  step:trace(path)
  step(x)
  step:trace(path)
  local file <close> = io.open(path)
  os.remove(path)
  return table.concat(bits, " "), file:read("a")
end

local functions = {
  {name = "gelu", form = "gelu none", call = function(x) return x:gelu{approximate = "none"} end},
  {name = "gelu", form = "gelu tanh", call = function(x) return x:gelu{approximate = "tanh"} end},
  {name = "silu", form = "silu", call = function(x) return x:silu() end},
}
for _, f in ipairs(functions) do
  local joined = ("%s_derivative+%s"):format(f.name, f.name)
  for _, dtype in ipairs{"f32", "f64"} do
    for _, product in ipairs{false, true} do
      local case = ("%s of %s%s"):format(f.form, dtype, product and " after a product" or "")
      local both, trace = run(f, dtype, product, false)
      local apart, other = run(f, dtype, product, true)
      tap.ok(trace:find(joined, 1, true), case .. ": one task computes function and derivative")
      tap.ok(not other:find(joined, 1, true), case .. ": separate tasks if the operand has another reader")
      tap.is(both, apart, case .. ": the fused task gives the same bits")
    end
  end
end
tap.done()
