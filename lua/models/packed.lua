-- packed.lua - documents packed into rows: a position attends only to earlier positions of its own document, and the positions
-- of each document begin at 0.
--
--   logits = m(ids, rille.models.packed(documents))       documents: i64 (batch, length), equal within a document
--
-- The object takes the place of a key/value cache (cache.lua) in a forward pass. The mask is (batch, 1, length, length).

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local Packed = {}
Packed.__index = Packed

-- Returns the position of each entry within its document.
function Packed:positions() return self.at end

-- Returns k, v and the mask of a layer, in the way of Cache:keep. mask: the layer's own mask.
function Packed:keep(_, k, v, mask)
  local own = layout.on_mesh_of(self.mask, k)
  if not mask then return k, v, own, false end
  mask = layout.on_mesh_of(mask, k)
  return k, v, mask.dtype == "bool" and mask:logical_and(own) or rille.where(own, mask, -math.huge), false
end

return check.limited("models.packed", function(documents)
  check.that(layout.is_tensor(documents) and documents.ndim == 2 and layout.is_integer(documents),
    "models.packed: documents must be integers (batch, length), found %s",
    layout.is_tensor(documents) and ("%s of %d dimensions"):format(documents.dtype, documents.ndim) or check.shown(documents))
  local batch, n = table.unpack(documents.shape)
  local where = {placement = documents.placement, sbp = layout.replicated(documents.placement)}
  local before = rille.arange(n, where):reshape{1, 1, n}:le(rille.arange(n, where):reshape{1, n, 1})
  local same = documents:reshape{batch, n, 1}:eq(documents:reshape{batch, 1, n}):logical_and(before)
  return setmetatable({packed = true, at = same:to("i64"):sum{axis = 2} - 1, mask = same:reshape{batch, 1, n, n}}, Packed)
end)
