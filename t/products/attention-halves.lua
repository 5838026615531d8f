-- attention-halves.lua - compares attention in bf16 and f16, and its gradients, with f64. Errors must be at most a
-- few roundings of a half, for any lengths, sizes and layouts. This holds for large scores, too, because the kernels
-- do not round scores to halves.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(5))
local unit = {bf16 = 2 ^ -8, f16 = 2 ^ -11}
local ONE, FOUR = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3})
local Q, K, V, MASK, SLOPE = 1, 2, 3, 4, 5
-- Compared values, each with its allowed error, in roundings of the half dtype.
local values = {{"the result", 1}, {"the gradient of q", 3}, {"of k", 3}, {"of v", 1.5}, {"of the mask", 3},
  {"the gradient of q's with respect to q", 6}, {"to k", 6}, {"to v", 6}}

-- Returns all compared values, for operands x converted to dtype d, with layouts sbp on placement `place`.
local function values_of(case, x, d, place, sbp)
  local own, leaves = {}, {}
  for i = Q, SLOPE do
    own[i] = x[i] and x[i]:to(d):to_global{placement = place, sbp = sbp and sbp[i] or "B"}:detach():clone()
    if own[i] and i < SLOPE then leaves[#leaves + 1] = own[i]:requires_grad_() end
  end
  local y = rille.scaled_dot_product_attention(own[Q], own[K], own[V], own[MASK], {is_causal = case.causal})
  local out = {y, rille.grad((y * own[SLOPE]):sum(), leaves)}
  if case.twice then
    for _, g in ipairs{rille.grad((out[2] * own[Q]):sum(), {own[Q], own[K], own[V]})} do out[#out + 1] = g end
  end
  for i, v in ipairs(out) do out[i] = v:detach():to_global{placement = ONE, sbp = "B"}:to"f64" end
  if not own[MASK] then table.insert(out, 5, false) end
  return out
end

-- Shapes are [1, heads, groups, length, size]; one head of keys and values serves all groups of queries.
local function operands(case)
  local g = case.groups or 1
  local function x(sd, groups, rows, cols) return (rille.randn{1, 4, groups, rows, cols} * sd):to(case.dtype):to"f64" end
  return {x(case.sd, g, case.queries, case.size), x(case.sd, 1, case.keys, case.size), x(1, 1, case.keys, case.size),
    case.mask and x(3, g, case.queries, case.keys), x(1, g, case.queries, case.size)}
end

local function norm(x) return x:square():sum():sqrt():item() end

-- Returns the largest error over all cases, as a multiple of the allowed error, and the description of its case.
local function worst_of(cases, place, sbp)
  local worst, where = 0, ""
  for _, case in ipairs(cases) do
    local x = operands(case)
    local want, got = values_of(case, x, "f64", ONE), values_of(case, x, case.dtype, place or ONE, sbp)
    for i, value in ipairs(values) do
      if want[i] then
        -- If one key has nearly all weight, the gradients of q, k and a mask are small differences of large numbers.
        -- Their error is therefore measured relative to at least this size.
        local least = ({[2] = case.sd, [3] = case.sd, [5] = 1})[i] or 0
        least = least / math.sqrt(case.size) * norm(x[SLOPE])
        local off = norm(got[i] - want[i]) / (math.max(norm(want[i]), least) * unit[case.dtype] * value[2])
        if off ~= off or off > worst then
          worst, where = off, ("%s, %d x %d, size %d%s: %.3g of the allowed error"):format(value[1], case.queries, case.keys,
            case.size, case.causal and ", causal" or "", off)
        end
      end
    end
  end
  return worst, where
end

local lengths = {{1, 1}, {1, 7}, {7, 7}, {31, 31}, {32, 32}, {33, 33}, {127, 127}, {128, 128}, {200, 200}, {1, 200}, {1, 1030}, {5, 133}}
local sizes = {16, 33, 64, 80}
local scales = {{"bf16", 1}, {"bf16", 4}, {"bf16", 20}, {"f16", 1}, {"f16", 4}, {"f16", 20}, {"f16", 60}}

-- Pairs each length with one head size; the next scale pairs it with another size.
for n, s in ipairs(scales) do
  local cases = {}
  for i, l in ipairs(lengths) do
    cases[i] = {dtype = s[1], sd = s[2], queries = l[1], keys = l[2], size = sizes[(i + n) % #sizes + 1],
      causal = l[1] == l[2] and (i + n // 2) % 2 == 0}
  end
  local worst, where = worst_of(cases)
  tap.ok(worst <= 1, ("attention of %s, q and k about %d, equals f64 within the bound"):format(s[1], s[2]), where)
end

local methods = {
  {"on one device", {}, {}, {groups = 3}, {mask = true}, {twice = true}},
  {"with sharded heads", {"S(1)", "S(1)", "S(1)", "S(1)", "S(1)"}, {groups = 3, causal = true}},
  {"with sharded queries", {"S(3)", "B", "B", "S(3)", "S(3)"}, {causal = true}, {mask = true}},
  {"with sharded keys", {"B", "S(3)", "S(3)", "S(4)", "B"}, {causal = true}, {mask = true}, {groups = 2}},
}
for _, d in ipairs{"bf16", "f16"} do
  for w, method in ipairs(methods) do
    local cases = {}
    for i = 3, #method do
      for _, n in ipairs{24, 135} do
        local case = {dtype = d, sd = d == "f16" and 30 or 8, queries = n, keys = n, size = 40}
        if method[i].twice then case.sd = 1 end
        for k, v in pairs(method[i]) do case[k] = v end
        cases[#cases + 1] = case
      end
    end
    local worst, where = worst_of(cases, w > 1 and FOUR or ONE, method[2])
    tap.ok(worst <= 1, ("attention of %s %s equals f64 within the bound"):format(d, method[1]), where)
  end
end
tap.done()
