-- panels.lua - computes the product of a linear layer panel by panel: SUMMA (van de Geijn & Watts 1997).
--
-- If both operands are sharded along the contraction axis, both would have to be gathered before the product.
-- Instead, the contraction axis is divided into panels: panel k is the k-th part of each rank's shard. Each panel is
-- gathered separately, and its product is accumulated. As many bytes are transferred as in a full gather, but at most
-- two panels are in memory.
--
-- On devices with streams, panel k + 1 is gathered while panel k is multiplied (t/act/streams.c, t/lib/steps/panels.lua);
-- the memory of panel k - 1 is used again for panel k + 1. On CPU threads, a copy and a product share one core, so
-- overlapping them saves no time, and the memory of panel k is used again for panel k + 1.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local panels = {}

function panels.least_common(a, b)
  local x, y = a, b
  while y ~= 0 do x, y = y, x % y end
  return a // x * b
end

-- Cache: x -> its gathered panels. Layers that read the same x share the panels, until the call of the outermost
-- module with pinned layouts ends.
local gathered, depth = {}, 0

-- Marks a call of a module with pinned layouts (pin.lua), until the end of the block: local call <close> =
-- panels.call()
local ends = setmetatable({}, {__close = function()
  depth = depth - 1
  if depth == 0 then gathered = {} end
end})
function panels.call()
  depth = depth + 1
  return ends
end

-- Returns the `count` panels of x, each (batch, length, in / count) and replicated along its last dimension. cut:
-- number of equal parts of x's last dimension that are on separate ranks; a panel has the same share of each part.
local function panels_of(x, cut, count)
  local batch, length, width = table.unpack(x.shape)
  local parts = x:reshape{batch, length, cut, count, width // (cut * count)}
  local kept = gathered[x]
  if kept and kept.cut == cut and kept.count == count and kept.grad == parts.requires_grad then return kept end
  local whole, list = x.sbp:gsub("S%(2[^)]*%)", "B"):gsub(" order.*", ""), {cut = cut, count = count, grad = parts.requires_grad}
  for k = 1, count do
    list[k] = parts:slice(3, k - 1, k):to_global{placement = x.placement, sbp = whole}:reshape{batch, length, width // count}
  end
  gathered[x] = list
  return list
end

-- Multiplies x: (batch, length, in) by the transpose of w: (out, in), on one placement. used: w's SBP during the
-- product.
function panels.product(x, w, used, count)
  local width, out, cut, y = x.shape[3], w.shape[1], panels.least_common(layout.shard_count(x, 2), layout.shard_count(w, 1)), nil
  check.that(width % (cut * count) == 0,
    "parallel: %d panels cannot divide a width of %d over %d ranks; a multiple of %d would do", count,
    width, cut, cut * count)
  local xs, ws = panels_of(x, cut, count), w:reshape{out, cut, count, width // (cut * count)}
  for k = 1, count do
    local b = ws:slice(2, k - 1, k):to_global{placement = w.placement, sbp = used}:reshape{out, width // count}
    local part = rille.matmul(xs[k], b:transpose(0, 1))
    y = y and y + part or part
  end
  return y
end

return panels
