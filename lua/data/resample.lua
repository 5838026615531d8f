-- resample.lua - resizes images; the results are bit-identical to those of Pillow 13. Weights are rounded to 22
-- fractional bits. Pixels are rounded to 8 bits after the pass along the rows, and again after the pass along the
-- columns.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local ONE <const> = 1 << 22
local PIXELS <const> = 1 << 27 -- maximum number of pixels of a result; image.h has the same limit for files
local WEIGHTS <const> = 1 << 25 -- maximum number of weights of an axis, old times new pixels; 0.5 GiB

local resample = {}

-- ---- interpolation filters ----

local function sinc(x) return x == 0 and 1 or math.sin(x * math.pi) / (x * math.pi) end

-- Returns the cubic filter of Keys 1981.
function resample.cubic(a)
  return function(x)
    x = math.abs(x)
    if x < 1 then return ((a + 2) * x - (a + 3)) * x * x + 1 end
    return x < 2 and (((x - 5) * x + 8) * x - 4) * a or 0
  end
end

-- Filters by their numbers in Pillow: the function, and its support in pixels. Number 0 copies the nearest pixel.
resample.filters = {
  [0] = {},
  [1] = {function(x) return x >= -3 and x < 3 and sinc(x) * sinc(x / 3) or 0 end, 3},
  [2] = {function(x) return math.max(0, 1 - math.abs(x)) end, 1},
  [3] = {resample.cubic(-0.5), 2},
  [4] = {function(x) return x > -0.5 and x <= 0.5 and 1 or 0 end, 0.5},
  [5] = {function(x) return math.abs(x) < 1 and sinc(x) * (0.54 + 0.46 * math.cos(x * math.pi)) or 0 end, 1},
}

-- ---- resizing with rounded weights ----

-- Returns the weights of the n old pixels of a line for one new pixel. centre: centre of the new pixel, in old
-- pixels; scale: old pixels per new pixel.
local function weights_of(filter, centre, scale, n)
  local stretch, row, sum = math.max(scale, 1), {}, 0
  local reach = filter[2] * stretch
  local from, to = math.max(0, math.floor(centre - reach + 0.5)), math.min(n, math.floor(centre + reach + 0.5))
  for k = 1, n do row[k] = 0 end
  for k = from, to - 1 do
    row[k + 1] = filter[1]((k - centre + 0.5) * (1 / stretch))
    sum = sum + row[k + 1]
  end
  for k = from + 1, to do
    local w = (sum ~= 0 and row[k] / sum or row[k]) * ONE
    row[k] = w < 0 and math.ceil(w - 0.5) or math.floor(w + 0.5)
  end
  return row
end

-- Returns the weights of n pixels for each of m new pixels, (m, n), in units of 2^-22.
local function weights(filter, m, n)
  local rows, scale = {}, n / m
  local nearest = scale * 0.5
  for i = 0, m - 1 do
    if filter[1] then
      rows[i + 1] = weights_of(filter, (i + 0.5) * scale, scale, n)
    else
      local row, at = {}, math.min(n - 1, math.floor(nearest))
      for k = 0, n - 1 do row[k + 1] = k == at and ONE or 0 end
      rows[i + 1], nearest = row, nearest + scale
    end
  end
  return rows
end

-- Resizes the last axis of x, f64 pixels, to m pixels. All sums are exact.
local function along(x, filter, m)
  local n = x.shape[x.ndim]
  if n == m then return x end
  local where = {dtype = "f64", placement = x.placement, sbp = layout.replicated(x.placement)}
  local y = rille.matmul(x, rille.tensor(weights(filter, m, n), where):transpose(0, 1))
  return ((y + ONE / 2) * (1 / ONE)):floor():clamp(0, 255)
end

local function along_columns(x, filter, m) return along(x:transpose(2, 3), filter, m):transpose(2, 3) end

-- Fails if images of a size, in pixels, cannot be resized to another size in reasonable memory. who: prefix of the message.
local function check_sizes(who, old_height, old_width, height, width)
  check.that(height <= PIXELS // width and height <= WEIGHTS // old_height and width <= WEIGHTS // old_width,
    "%s: images of %d x %d pixels cannot be resized to %d x %d: the result must have at most %d pixels, and each side at most %d divided by the old side",
    who, old_height, old_width, height, width, PIXELS, WEIGHTS)
end

-- Resizes images (batch, channels, height, width) of f64 pixels from 0 to 255. who: prefix of messages. Pillow 13 begins with the columns if
-- many rows are removed; earlier versions always begin with the rows, and some pixels differ by one or two.
function resample.resize(who, x, filter, height, width)
  check_sizes(who, x.shape[3], x.shape[4], height, width)
  local fewer = x.shape[3] - height
  if fewer > 0 and fewer > 2 * (x.shape[4] - width) then return along(along_columns(x, filter, height), filter, width) end
  return along_columns(along(x, filter, width), filter, height)
end

-- Resizes one image, u8 (channels, height, width), by Pillow's cubic filter.
function resample.resized(who, t, height, width)
  return resample.resize(who, t:unsqueeze(0):to("f64"), resample.filters[3], height, width):squeeze(0):to("u8")
end

return resample
