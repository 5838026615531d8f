-- cache.lua - keys and values of the positions that a language model has seen, while it writes on.
--
-- The first pass has whole prompts; attention hands over their keys and values, which are kept with room for what
-- follows, (batch, heads, room, size), laid out as they came: by batch, by heads. From then on each pass has one position
-- a row, which may be another one in each row: `at`, i64 (batch, 1). Its keys and values are written there, in place, and a
-- query sees all up to it. What stands behind a shorter prompt is never seen. All passes are compiled steps; what they keep
-- are variables, which the next prompts write over.

local rille = require "rille"
local layout = require "rille.layout"
local outside = require("rille.trace").outside

local Cache = {}
Cache.__index = Cache

local function new(room) return setmetatable({room = room, kept = {}}, Cache) end

-- Where the entries of this pass stand; nil: 0, 1, 2...
function Cache:positions() return self.at end

-- Of a partial sum, its layout once it is summed.
local function settled(t)
  local sbp = t.sbp:gsub("P%b()", "B"):gsub("P", "B")
  return sbp == t.sbp and t or t:to_global{placement = t.placement, sbp = sbp}
end

-- The first pass, of prompts.
function Cache:begin(ids)
  local batch, length = table.unpack(ids.shape)
  self.used = {}
  local where = {placement = ids.placement, sbp = layout.whole(ids.placement)}
  self.at, self.seen = nil, nil
  self.places = rille.arange(length, where):reshape{1, length}:expand{batch, length}
end

-- A later pass: at is where its entries stand.
function Cache:go_to(at)
  local batch = at.shape[1]
  self.at, self.places, self.used = at, at, {}
  local where = {placement = at.placement, sbp = layout.whole(at.placement)}
  self.seen = rille.arange(self.room, where):reshape{1, 1, 1, self.room}:le(at:reshape{batch, 1, 1, 1})
end

-- A variable for what a layer keeps of what lies as t.
local function room_for(t, room)
  local shape = t.shape
  shape[3] = room
  return outside(rille.zeros, shape, {dtype = t.dtype, placement = t.placement, sbp = t.sbp})
end

-- Keys and values of all that layer has seen, the mask, and whether attention is causal by itself. A layer that a pass
-- goes through twice sees two things.
function Cache:keep(layer, k, v)
  k, v = settled(k), settled(v)
  local turn = (self.used[layer] or 0) + 1
  self.used[layer] = turn
  self.kept[layer] = self.kept[layer] or {}
  local kept = self.kept[layer][turn]
  if not kept then
    kept = {k = room_for(k, self.room), v = room_for(v, self.room)}
    self.kept[layer][turn] = kept
  end
  local places = layout.beside(self.places, k)
  rille._update("put", {kept.k, places, k}, {axis = 2})
  rille._update("put", {kept.v, places, v}, {axis = 2})
  if not self.at then return k, v, nil, layer.is_causal end
  return kept.k, kept.v, layout.beside(self.seen, k), false
end

return {new = new}
