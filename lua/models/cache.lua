-- cache.lua - keys and values of the positions that a language model has seen, while it writes on.
--
-- The first pass has whole prompts; attention hands over their keys and values, which are kept with room for what
-- follows, (batch, heads, room, size), laid out as they came: by batch, by heads. From then on each pass has one position
-- a row, which may be another one in each row: `at`, i64 (batch, 1). Its keys and values are written there, in place, and a
-- query sees all up to it. What stands behind a shorter prompt is never seen.

local rille = require "rille"
local layout = require "rille.layout"

local Cache = {}
Cache.__index = Cache

local function new(room) return setmetatable({room = room, kept = {}, order = {}}, Cache) end

-- Where the entries of this pass stand; nil: 0, 1, 2...
function Cache:positions() return self.at end

-- Of a partial sum, its layout once it is summed.
local function settled(t)
  local sbp = t.sbp:gsub("P%b()", "B"):gsub("P", "B")
  return sbp == t.sbp and t or t:to_global{placement = t.placement, sbp = sbp}
end

local function with_room(t, room)
  return settled(t):pad{0, 0, 0, room - t.shape[3]}:detach()
end

-- A later pass: at is where its entries stand.
function Cache:go_to(at)
  local batch = at.shape[1]
  self.at = at
  local where = {placement = at.placement, sbp = layout.whole(at.placement)}
  local places = rille.arange(self.room, where):reshape{1, 1, self.room, 1}
  self.seen = places:reshape{1, 1, 1, self.room}:le(at:reshape{batch, 1, 1, 1})
end

-- Keys and values of all that layer has seen, the mask, and whether attention is causal by itself.
function Cache:keep(layer, k, v)
  local kept = self.kept[layer]
  if not self.at then
    self.kept[layer] = {k = with_room(k, self.room), v = with_room(v, self.room)}
    return k, v, nil, layer.is_causal
  end
  local at, seen = layout.beside(self.at, k), layout.beside(self.seen, k)
  rille._update("put", {kept.k, at, k}, {axis = 2})
  rille._update("put", {kept.v, at, v}, {axis = 2})
  return kept.k, kept.v, seen, false
end

return {new = new}
