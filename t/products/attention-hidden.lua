-- attention-hidden.lua - tests queries that see no key. As in PyTorch since 2.5, such a query must give 0 and pass no
-- gradient, for every mask, layout, dtype and form of the call. Other queries must not be affected. The reference is
-- written in f64: a softmax in which hidden keys have the score -1e30, and then the weight 0.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(3))
local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local dtypes = {{"f64", 1e-10}, {"f32", 1e-5}, {"f16", 2e-2}, {"bf16", 6e-2}} -- dtypes, each with the allowed error
local B, H, SIZE <const> = 2, 2, 8

-- Masks by name. seen(case) returns bools of shape {B, 1, queries, keys}: true if the query sees the key. Each mask
-- hides all keys from at least one query.
local masks = {}
local function mask(name, causal, fn)
  masks[#masks + 1] = {name = name, causal = causal, seen = function(case)
    local rows = {}
    for b = 0, B - 1 do
      rows[b + 1] = {{}}
      for i = 0, case.queries - 1 do
        local row = {}
        for j = 0, case.keys - 1 do row[j + 1] = fn(b, i, j, case) and (not causal or j <= i) end
        rows[b + 1][1][i + 1] = row
      end
    end
    return rille.tensor(rows, {dtype = "bool"})
  end}
end
mask("one query hidden", false, function(_, i) return i ~= 1 end)
mask("every query hidden", false, function() return false end)
mask("a padded row of the batch", false, function(b) return b == 0 end)
mask("left padding and causal", true, function(b, _, j) return j >= 2 + b end)
mask("a window that has passed the keys", false, function(_, i, j, case) return j > i and j - i < case.keys // 2 end)

local layouts = { -- Columns: name, placement, layouts of q, k, v and the mask.
  {"on one device", ONE},
  {"replicated", TWO, "B", "B", "B", "B"},
  {"batch split", TWO, "S(0)", "S(0)", "S(0)", "S(0)"},
  {"heads split", TWO, "S(1)", "S(1)", "S(1)", "B"},
  {"queries split", TWO, "S(2)", "B", "B", "S(2)"},
  {"keys split", TWO, "B", "S(2)", "S(2)", "S(3)"},
  {"widths split", TWO, "S(3)", "S(3)", "S(3)", "B"},
}
-- {number of queries, number of keys}: few queries; a short square, which separate operators compute; several blocks
-- of the kernel
local lengths = {{1, 5}, {4, 4}, {20, 20}, {40, 70}, {70, 70}}

local function placed(t, layout, i) return t:to_global{placement = layout[2], sbp = layout[2 + i] or "B"}:detach() end

local function flat(t) return t:detach():to_global{placement = ONE, sbp = "B"}:to"f64" end

local function values(x, y, leaves)
  local out = {flat(y)}
  for i, g in ipairs{rille.grad((y * x.slope):sum(), leaves)} do out[i + 1] = flat(g) end
  return out
end

local function reference(x, seen)
  local q, k, v = x[1]:clone():requires_grad_(), x[2]:clone():requires_grad_(), x[3]:clone():requires_grad_()
  local scores = q:matmul(k:transpose(2, 3)) * SIZE ^ -0.5
  local weights = seen:where(seen:where(scores, -1e30):softmax(3), 0)
  return values(x, weights:matmul(v), {q, k, v})
end

local function attempt(x, seen, case, dtype, layout, added, causal)
  local own = {slope = placed(x.slope:to(dtype), layout, 1)}
  for i = 1, 3 do own[i] = placed(x[i]:to(dtype), layout, i):clone():requires_grad_() end
  local m = placed(added and seen:where(0, -1 / 0):to(added) or seen, layout, 4):clone()
  m.requires_grad = added ~= false
  local y = rille.scaled_dot_product_attention(own[1], own[2], own[3], m, {is_causal = causal})
  return values(own, y, {own[1], own[2], own[3], added and m or nil})
end

local function distance(got, want)
  local worst = 0
  local slope = got[#want + 1] -- gradient of the mask
  if slope and slope:mul(0):sum():item() ~= 0 then return 0 / 0 end
  for i, w in ipairs(want) do
    local off = (got[i] - w):abs():max():item() / math.max(1, w:abs():max():item())
    if off ~= off then return off end
    worst = math.max(worst, off)
  end
  return worst
end

for _, m in ipairs(masks) do
  for _, l in ipairs(layouts) do
    for _, d in ipairs(dtypes) do
      local dtype, most = d[1], d[2]
      for _, added in ipairs{false, dtype} do
        if not tap.share() then goto continue end
        local worst, where = 0, ""
        for _, n in ipairs(lengths) do
          local case = {queries = n[1], keys = n[2]}
          local x = {slope = rille.randn{B, H, n[1], SIZE}}
          for i = 1, 3 do x[i] = rille.randn{B, H, i == 1 and n[1] or n[2], SIZE} end
          for i, t in pairs(x) do x[i] = t:to(dtype):to"f64" end
          local seen = m.seen(case)
          local off = distance(attempt(x, seen, case, dtype, l, added, m.causal), reference(x, seen))
          if not (off <= worst) then worst, where = off, ("%d queries, %d keys: off by %g"):format(n[1], n[2], off) end
          if off ~= off then break end
        end
        tap.ok(worst <= most, ("%s, %s, %s, %s mask: 0 and finite gradients"):format(m.name, l[1], dtype, added or "bool"), where)
        ::continue::
      end
    end
  end
end
tap.done()
