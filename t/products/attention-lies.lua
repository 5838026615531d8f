-- attention-lies.lua - tests that attention writes its result and gradients in a memory layout from which heads are
-- merged without a copy. Compiled steps must equal eager calls in every layout. With 32 or more queries, attention
-- must be a single operator.
local tap = dofile("t/lib/tap.lua")

local B, T, H, D = 4, 192, 4, 16
local ONE, FOUR = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3})
rille.manual_seed(tap.seed(11))
local values = tap.list(3, function() return rille.randint(-3, 4, {B, T, H * D}):to"f32" end)
local slope = rille.randint(-3, 4, {B, T, H * D}):to"f32"

local function heads(x) return x:reshape{B, T, H, D}:permute{0, 2, 1, 3} end

-- Returns the result and the three gradients, on device 0, and the compiled step. more: true: the step also returns
-- attention's result, so it has a second reader.
local function all(compiled, place, sbp, more)
  local x = tap.list(3, function(i) return values[i]:to_global{placement = place, sbp = sbp}:detach():requires_grad_() end)
  local w = slope:to_global{placement = place, sbp = sbp}
  local function run()
    local y = rille.scaled_dot_product_attention(heads(x[1]), heads(x[2]), heads(x[3]), nil, {is_causal = true})
    local z = y:permute{0, 2, 1, 3}:reshape{B, T, H * D}
    local g = {rille.grad((z * w):sum(), x)}
    if more then return z * 2, g[1] * 2, g[2] * 2, g[3] * 2, y end -- with `more`, the result has a second reader
    return z * 2, g[1] * 2, g[2] * 2, g[3] * 2
  end
  local step = compiled and rille.graph(run)
  local out = table.pack((step or run)())
  for i = 1, out.n do out[i] = out[i]:to_global{placement = ONE, sbp = "B"} end
  return out, step
end

local function copies(step)
  return tap.sum(dofile("t/lib/steps/acts.lua")(step), function(act) return (act.name == "copy" and 1 or 0) end)
end

local want = all(false, ONE, "B")
for _, how in ipairs{{ONE, "B"}, {FOUR, "B"}, {FOUR, "S(0)"}, {FOUR, "S(2)"}, {FOUR, "S(1)"}} do
  for _, more in ipairs{false, true} do
    local name = ("%d devices, %s%s"):format(how[1].size, how[2], more and ", result returned" or "")
    local got, step = all(true, how[1], how[2], more)
    for i = 1, 4 do
      local err = (got[i] - want[i]):abs():max():item()
      tap.ok(err <= 1e-5 * want[i]:abs():max():item(), name .. ": value " .. i, ("off by %g"):format(err))
    end
    if how[2] ~= "S(1)" and not more then tap.is(copies(step), 0, name .. ": no copies") end
  end
end

-- Returns true if attention with this number of queries is a single operator in a step.
local function is_one(d, queries, causal, wanted)
  local x = rille.randn{1, 2, queries, 16}:to(d):detach()
  local step = rille.graph(function(q)
    if wanted then q = q:detach():requires_grad_() end
    local y = rille.scaled_dot_product_attention(q, x, x, nil, {is_causal = causal})
    return wanted and rille.grad(y:sum(), q) or y
  end)
  step(x)
  local one, parts = false, false
  for _, act in ipairs(dofile("t/lib/steps/acts.lua")(step)) do
    one = one or act.name:find"^attention" and not act.name:find"softmax"
    parts = parts or act.name:find"softmax"
  end
  tap.ok(not one ~= not parts, "attention is either one operator or parts")
  return not parts
end
for _, d in ipairs{"f32", "bf16", "f16"} do
  for _, n in ipairs{31, 32, 127, 128} do
    for method = 0, 3 do
      local causal, wanted = method % 2 == 1, method > 1
      local want = n >= 32
      tap.is(is_one(d, n, causal, wanted), want, ("%d queries of %s%s%s are %s"):format(n, d, causal and ", causal" or "",
        wanted and ", with a gradient" or "", want and "one operator" or "products and a softmax"))
    end
  end
end
tap.done()
