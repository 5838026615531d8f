-- heads.lua - attention on heads: splits and joins heads, and computes attention where several query heads share a
-- key/value head.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local heads = {}

-- (batch, length, heads * size) -> (batch, heads, length, size)
function heads.split(x, n)
  local batch, length, d = x.shape[1], x.shape[2], x.shape[3]
  return x:reshape{batch, length, n, d // n}:permute{0, 2, 1, 3}
end

-- (batch, heads, length, size), or (batch, groups, heads of a group, length, size) -> (batch, length, heads * size)
function heads.join(x)
  local n, shape = x.ndim, x.shape
  local count = n == 4 and shape[2] or shape[2] * shape[3]
  return x:permute(n == 4 and {0, 2, 1, 3} or {0, 3, 1, 2, 4}):reshape{shape[1], shape[n - 1], count * shape[n]}
end

-- Splits dimension 1 (heads) into groups of heads that share keys and values: (batch, groups, heads of a group, ...).
local function in_groups(x, groups)
  local shape = x.shape
  local count = shape[2]
  shape[2] = math.min(groups, count)
  table.insert(shape, 3, count // shape[2])
  return x:reshape(shape)
end

-- Returns the sinks of each head as scores of one more key, in the shape of `scores` with one column.
local function sink_scores(sinks, scores)
  local shape, view = scores.shape, {1, scores.shape[2], 1, 1}
  shape[#shape] = 1
  if #shape == 5 then table.insert(view, 3, shape[3]) end
  return sinks:reshape(view):expand(shape)
end

-- Computes attention with its scores as a tensor.
local function attend_by_scores(q, k, v, mask, options)
  local last = q.ndim - 1
  local size, keys = q.shape[last + 1], k.shape[last]
  local scores = rille.matmul(q, k:transpose(last - 1, last)) * (options.scale or size ^ -0.5)
  if options.softcap then scores = (scores * (1 / options.softcap)):tanh() * options.softcap end
  if mask then scores = mask.dtype == "bool" and rille.where(mask, scores, -math.huge) or scores + mask end
  if not options.sinks then return rille.matmul(scores:softmax(-1), v) end
  local p = rille.concat({scores, sink_scores(options.sinks, scores)}, last):softmax(-1)
  return rille.matmul(p:slice(last, 0, keys), v)
end

-- Returns the SBP of ids along dimension 1 of q.
local function ids_sbp(q)
  local to = {["S(1)"] = "S(0)"}
  return (q.sbp:gsub(" order.*", ""):gsub("S%(%d%)", function(entry) return to[entry] or "B" end):gsub("P%b()", "B"):gsub("P", "B"))
end

-- Returns the keys or values of each query head, sharded like q: (batch, groups, length, size) -> (batch, heads, ...).
local function for_each_head(k, q)
  local count, of = q.shape[2], {}
  for i = 1, count do of[i] = (i - 1) // (count // k.shape[2]) end
  return k:index_select(1, rille.tensor(of, {dtype = "i64", placement = q.placement, sbp = ids_sbp(q)}))
end

-- Computes attention. With fewer key/value heads, keys and values are broadcast within a group. They are copied only if
-- a rank has a part of a group. options: is_causal, scale; softcap: bounds scores to +-softcap by tanh; sinks: (heads),
-- a score by head that takes part in the softmax and has no value. With softcap or sinks the mask must include the
-- causal mask.
function heads.attend(who, q, k, v, mask, options)
  local count = q.shape[2]
  if count ~= k.shape[2] and k.shape[2] % layout.shard_count(q, 1) ~= 0 then k, v = for_each_head(k, q), for_each_head(v, q) end
  local groups = k.shape[2]
  if count ~= groups then
    if mask and mask.ndim > 2 then
      local n = mask.shape[mask.ndim - 2]
      check.that(n == 1 or n == count, "%s: a mask must have 1 or %d heads, found %d", who, count, n)
      mask = in_groups(mask.ndim == 3 and mask:reshape{1, n, mask.shape[2], mask.shape[3]} or mask, groups)
    end
    q, k, v = in_groups(q, groups), in_groups(k, groups), in_groups(v, groups)
  end
  if options.softcap or options.sinks then return attend_by_scores(q, k, v, mask, options) end
  return rille.scaled_dot_product_attention(q, k, v, mask, {is_causal = options.is_causal, scale = options.scale})
end

return heads
