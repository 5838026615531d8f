-- panels.lua - the product of a linear layer whose operands come in panels: SUMMA (van de Geijn & Watts 1997).
--
-- On a mesh where x is cut by columns and w by rows of the contraction, both are gathered before they are multiplied. Panel k
-- is the k-th part of what each rank holds of the contraction: it is gathered alone, and its product added up. The bytes are
-- the same, and never more than two panels are in memory, whatever their number: panel k + 1 lies where panel k - 1 was. So on
-- devices with streams it is gathered while panel k is multiplied (t/act/streams.c, t/lib/panels.lua). A device that is a
-- thread copies and multiplies with one core, so that nothing is won: there panel k + 1 lies where panel k was.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local panels = {}

function panels.least_common(a, b)
  local x, y = a, b
  while y ~= 0 do x, y = y, x % y end
  return a // x * b
end

-- What layers that read the same x have gathered of it already, in the call of the outermost module that is pinned.
local gathered, depth = {}, 0

-- local call <close> = panels.call(): to the end of the block a module is called.
local ends = setmetatable({}, {__close = function()
  depth = depth - 1
  if depth == 0 then gathered = {} end
end})
function panels.call()
  depth = depth + 1
  return ends
end

-- The panels of x: (batch, length, in / count), whole where x is cut along its last dimension.
local function panels_of(x, cut, count)
  local batch, length, width = table.unpack(x.shape)
  local parts = x:reshape{batch, length, cut, count, width // (cut * count)}
  local kept = gathered[x]
  if kept and kept.cut == cut and kept.count == count and kept.grad == parts.requires_grad then return kept end
  local whole, list = x.sbp:gsub("S%(2%)", "B"):gsub(" order.*", ""), {cut = cut, count = count, grad = parts.requires_grad}
  for k = 1, count do
    list[k] = parts:slice(3, k - 1, k):to_global{placement = x.placement, sbp = whole}:reshape{batch, length, width // count}
  end
  gathered[x] = list
  return list
end

-- x: (batch, length, in), w: (out, in), on one placement, as they lie; used: how w lies while it is used.
function panels.product(x, w, used, count)
  local width, out, cut, y = x.shape[3], w.shape[1], panels.least_common(layout.ways(x, 2), layout.ways(w, 1)), nil
  check.that(width % (cut * count) == 0, "rille.parallel: %d panels of a width of %d cut in %d; a multiple of %d would do", count,
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
