-- bicubic.lua - bicubic interpolation of a table of position embeddings, as torch.nn.functional.interpolate computes
-- it: Keys 1981, a = -0.75.

local rille = require "rille"
local layout = require "rille.base.layout"
local weight = require("rille.data.resample").cubic(-0.75)

-- Returns the weights of n samples for each of m new samples, (m, n). A sample beyond an end equals the last sample
-- at that end.
local function weights(m, n)
  local rows = {}
  for i = 0, m - 1 do
    local row, at = {}, (i + 0.5) * n / m - 0.5
    for k = 1, n do row[k] = 0.0 end
    for k = math.floor(at) - 1, math.floor(at) + 2 do
      local own = math.max(0, math.min(n - 1, k)) + 1
      row[own] = row[own] + weight(at - k)
    end
    rows[i + 1] = row
  end
  return rows
end

-- Interpolates a table of positions for images of n * n patches, (n * n, size), to one for height * width patches,
-- (height * width, size).
return function(positions, n, height, width)
  local size, where = positions.shape[2], {placement = positions.placement, sbp = layout.replicated(positions.placement)}
  local function times(m, x) return rille.matmul(rille.tensor(weights(m, n), where):to(x.dtype), x) end
  local rows = times(height, positions:reshape{n, n * size}):reshape{height, n, size}:transpose(0, 1)
  local both = times(width, rows:reshape{n, height * size}):reshape{width, height, size}
  return both:transpose(0, 1):reshape{height * width, size}
end
