-- beside.lua - a derivative that is computed where its function is: one task gives both, in forward, and keeps their
-- operand no longer; results have the bits that they have in tasks of their own. Of silu and each form of gelu, dtypes, with and
-- without a product before and another reader of the operand.

local rille = require "rille"
local tap = dofile("t/lib/tap.lua")

-- One step's loss and gradient to the bit, and the trace of another; `other`: something else reads the operand, and adds nothing.
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
      tap.ok(trace:find(joined, 1, true), case .. ": one task gives both")
      tap.ok(not other:find(joined, 1, true), case .. ": not where the operand has another reader")
      tap.is(both, apart, case .. ": the bits are the same")
    end
  end
end
tap.done()
