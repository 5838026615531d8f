-- heads.lua - attention on heads: splits and joins heads, and computes attention. Two or more query heads may share a
-- key/value head.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local heads = {}

-- Splits heads: (batch, length, heads * size) -> (batch, heads, length, size).
function heads.split(x, n)
  local batch, length, d = x.shape[1], x.shape[2], x.shape[3]
  return x:reshape{batch, length, n, d // n}:permute{0, 2, 1, 3}
end

-- Joins heads: (batch, heads, length, size), or (batch, groups, heads of a group, length, size) -> (batch, length,
-- heads * size).
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

-- Returns the SBP for a tensor of indices into dimension 1 of q.
local function ids_sbp(q)
  local list = layout.entries(q.sbp)
  for axis, entry in ipairs(list) do list[axis] = layout.split_of(entry) == 1 and entry:gsub("1", "0", 1) or "B" end
  return list
end

-- Returns the keys or values of each query head, sharded like q: (batch, groups, length, size) -> (batch, heads, ...).
local function for_each_head(k, q)
  local count, of = q.shape[2], {}
  for i = 1, count do of[i] = (i - 1) // (count // k.shape[2]) end
  return k:index_select(1, rille.tensor(of, {dtype = "i64", placement = q.placement, sbp = ids_sbp(q)}))
end

-- Reshapes a mask to match queries whose heads are divided into groups (in_groups()).
local function grouped(who, t, count, groups)
  if not t or t.ndim <= 2 then return t end
  local n = t.shape[t.ndim - 2]
  check.that(n == 1 or n == count, "%s: a mask must have 1 or %d heads, found %d", who, count, n)
  return in_groups(t.ndim == 3 and t:reshape{1, n, t.shape[2], t.shape[3]} or t, groups)
end

-- Returns rows of x. ids: i64, replicated on the mesh of the model's input.
function heads.rows(x, ids) return x:index_select(0, layout.on_mesh_of(ids, x)) end

-- Computes attention. If there are fewer key/value heads than query heads, keys and values are broadcast to the query
-- heads of a group. Keys and values are copied only if the query heads of one group are on two or more ranks.
-- options: is_causal, scale, window and softcap as in rille.scaled_dot_product_attention; sinks: (heads); spans:
-- (batch, 1, queries, 2); rows: if k and v have other rows than q: inverse, the row of q for each row of k; slots, the
-- row of k for each row of q.
function heads.attend(who, q, k, v, mask, options)
  local count, sinks, spans, rows = q.shape[2], options.sinks, options.spans, options.rows
  if rows then q = heads.rows(q, rows.inverse) end
  local groups = k.shape[2]
  local shards, unit = layout.shard_count(q, 1)
  local cut = groups % shards ~= 0 and unit % (count // groups) ~= 0 -- the query heads of a group are on two or more ranks
  if count ~= groups and cut then k, v = for_each_head(k, q), for_each_head(v, q) end
  groups = k.shape[2]
  if count ~= groups then
    mask = grouped(who, mask, count, groups)
    spans = spans and in_groups(spans, 1)
    sinks = sinks and sinks:reshape{groups, count // groups}
    q, k, v = in_groups(q, groups), in_groups(k, groups), in_groups(v, groups)
  end
  local y = rille.scaled_dot_product_attention(q, k, v, mask, sinks, spans,
    {is_causal = options.is_causal, scale = options.scale, window = options.window, softcap = options.softcap})
  return rows and heads.rows(y, rows.slots) or y
end

return heads
