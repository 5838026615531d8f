-- cache.lua - key/value cache of a language model during generation.
--
-- A pass over whole prompts starts at position 0. Attention passes its keys and values to the cache. The cache stores
-- them, with their SBP, in buffers (batch, heads, room, size); room is the number of positions. A later pass has
-- explicit positions, which may differ between rows: `at`, i64 (batch, n); -1: the entry belongs to no text. Such a
-- pass writes the keys and values of its positions into the buffers, in place; each query attends to all positions up
-- to its own. Positions after the end of a text are never attended to. All passes are compiled steps. The buffers are
-- variables, which later texts overwrite.

local rille = require "rille"
local layout = require "rille.base.layout"
local heads = require "rille.nn.sequence.heads"
local outside = require("rille.step.trace").outside

local Cache = {}
Cache.__index = Cache

-- Creates a cache. batch: number of rows of the buffers; room: positions per row.
local function new(batch, room) return setmetatable({batch = batch, room = room, kept = {}}, Cache) end

-- Returns the positions of the entries in this pass; nil: 0, 1, 2...
function Cache:positions() return self.at end

-- Returns t with its pending reduction completed (P becomes B).
local function settled(t)
  local sbp = t.sbp:gsub("P%b()", "B"):gsub("P", "B")
  return sbp == t.sbp and t or t:to_global{placement = t.placement, sbp = sbp}
end

-- Begins the first pass, which reads the prompts.
function Cache:begin(ids)
  local batch, length = table.unpack(ids.shape)
  self.used = {}
  local where = {placement = ids.placement, sbp = layout.replicated(ids.placement)}
  self.at, self.rows = nil, nil
  self.places = rille.arange(length, where):reshape{1, length}:expand{batch, length}
end

-- Begins a later pass. at: position of each entry of the pass, i64 (batch, n); -1: the entry is not stored.
function Cache:go_to(at)
  self.at, self.places, self.used, self.rows, self.spans = at:maximum(0), at, {}, nil, {}
end

-- Returns the spans of keys that the queries of this pass attend to, (batch, 1, n, 2). left: number of earlier
-- positions that a query sees; -1: all.
local function spans_of(self, left)
  local at = self.places:maximum(0)
  local batch, n = table.unpack(at.shape)
  local first = left >= 0 and (at - left):maximum(0) or at * 0
  self.spans[left] = self.spans[left] or rille.stack({first, at + 1}, 2):reshape{batch, 1, n, 2}
  return self.spans[left]
end

-- Begins a later pass over n rows of ids, which belong to some rows of the buffers. slots: the row of the buffers of each
-- row of ids, i64 (n); inverse: the row of ids of each row of the buffers, i64 (batch), any row if there is none.
-- Attention is computed for all rows of the buffers, because a copy of the keys and values of n rows takes more time.
function Cache:go_to_rows(at, slots, inverse)
  self:go_to(at)
  local where = {placement = at.placement, sbp = layout.replicated(at.placement)}
  local own = rille.arange(self.batch, where):eq(slots:index_select(0, inverse)):reshape{self.batch, 1}
  self.rows, self.places = {slots = slots, inverse = inverse}, rille.where(own, at:index_select(0, inverse), -1)
end

-- Replaces row i of all buffers by row from[i]. from: i64 (batch).
function Cache:reorder(from)
  for _, calls in pairs(self.kept) do
    for _, kept in ipairs(calls) do
      for _, t in pairs(kept) do rille._update_to(t, t:index_select(0, layout.on_mesh_of(from, t))) end
    end
  end
end

-- Creates a variable for the cached keys or values of a layer: t's shape extended to all rows and positions, in t's
-- layout.
local function room_for(t, batch, room)
  local shape = t.shape
  shape[1], shape[3] = batch, room
  return outside(rille.zeros, shape, {dtype = t.dtype, placement = t.placement, sbp = t.sbp})
end

-- Stores the keys k and values v of this pass. seen: {is_causal =, window =} of the layer. Returns the keys and
-- values to attend to, and a table that says which keys each query sees, for heads.attend(). The table has is_causal and
-- window, or spans and rows. If a pass calls a layer more than once, each call has separate buffers.
function Cache:keep(layer, k, v, seen)
  k, v = settled(k), settled(v)
  local turn = (self.used[layer] or 0) + 1
  self.used[layer] = turn
  self.kept[layer] = self.kept[layer] or {}
  local kept = self.kept[layer][turn]
  if not kept then
    kept = {k = room_for(k, self.batch, self.room), v = room_for(v, self.batch, self.room)}
    self.kept[layer][turn] = kept
  end
  local places = layout.on_mesh_of(self.places, k)
  local rows = self.rows
  if rows then k, v = heads.rows(k, rows.inverse), heads.rows(v, rows.inverse) end
  rille._update("put", {kept.k, places, k}, {axis = 2})
  rille._update("put", {kept.v, places, v}, {axis = 2})
  if not self.at then return k, v, seen end
  return kept.k, kept.v, {spans = layout.on_mesh_of(spans_of(self, seen.window and seen.window[1] or -1), k), rows = rows}
end

return {new = new}
