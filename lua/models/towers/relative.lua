-- relative.lua - relative positions of T5 (Raffel et al. 2020): adds to each attention score a learned number for the
-- head and the bucket of the distance. Each small distance has a separate bucket; larger distances share wider
-- buckets.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = rille.nn

local Relative = nn.Module:extend("models.Relative")

-- Rounds to f32, because the bounds of the buckets are defined by f32 arithmetic.
local function f32(x) return (string.unpack("<f", string.pack("<f", x))) end

-- Returns the bucket of a distance >= 0. count: number of buckets; most: all distances from this one on share the
-- last bucket.
local function bucket(distance, count, most)
  local exact = count // 2
  if distance < exact then return distance end
  local share = f32(f32(math.log(f32(distance / exact))) / f32(math.log(most / exact)))
  return math.min(count - 1, exact + math.floor(f32(share * (count - exact))))
end

-- how.buckets: number of buckets. how.distance: all positions at this distance or more share a bucket. The buckets of
-- a causal tower cover only earlier keys.
function Relative:init(how, c)
  local least = c.is_causal and 2 or 4
  check.that(how.buckets >= least and how.buckets % 2 == 0 and how.buckets <= 65536,
    "relative_attention_num_buckets must be even, and from %d to 65536, found %d", least, how.buckets)
  check.that(how.distance > how.buckets // 2 and how.distance <= 65536,
    "relative_attention_max_distance must be above half of the %d buckets and at most 65536, found %d", how.buckets, how.distance)
  self.weight = nn.Embedding(how.buckets, c.heads).weight
  self.distance, self.count, self.is_causal = how.distance, how.buckets, c.is_causal
end

-- Returns the bucket of each relative position, key minus query, from -distance to distance.
local function buckets_of(self)
  local list, count = {}, self.is_causal and self.count or self.count // 2
  for d = -self.distance, self.distance do
    local own = bucket(self.is_causal and math.max(0, -d) or math.abs(d), count, self.distance)
    list[#list + 1] = own + (d > 0 and not self.is_causal and count or 0)
  end
  return list
end

-- Returns the bias that is added to the scores, (batch or 1, heads, queries, keys). q: positions of queries, i64
-- (batch or 1, queries, 1).
function Relative:forward(q, keys)
  local where = {placement = q.placement, sbp = layout.replicated(q.placement)}
  local buckets = rille.tensor(buckets_of(self), {dtype = "i64", placement = where.placement, sbp = where.sbp})
  local by_distance = rille.embedding(buckets, self.weight)
  local far = self.distance
  local at = (rille.arange(keys, where):reshape{1, 1, keys} - q):clamp(-far, far) + far
  return rille.embedding(at, by_distance):permute{0, 3, 1, 2}
end

-- Returns the list of a tower's tables: one per layer, or a single table for all layers.
function Relative.list(how, c)
  local list = {}
  for i = 1, how.each and c.layers or 1 do list[i] = Relative(how, c) end
  return list
end

-- Returns a function mask(i), which returns the attention mask of layer i. list: the tables of the layers. q:
-- positions of the queries; nil: 0, 1, 2... finish(bias) returns the bias with an additional mask of the keys that no
-- query may attend to.
function Relative.masks(list, x, q, keys, finish)
  q = q or rille.arange(keys, {placement = x.placement, sbp = layout.replicated(x.placement)}):reshape{1, keys, 1}
  local made = {}
  return function(i)
    local k = math.min(i, #list)
    made[k] = made[k] or finish(list[k](q, keys))
    return made[k]
  end
end

return Relative
