-- look.lua - statistics of a tensor's values: x:stats(), x:hist(). The statistics cover the whole tensor on all devices;
-- only sums, minima and maxima are transferred.

local check = require "rille.check"

local look = {}

local nan = 0 / 0
if tostring(nan):find("^-") then nan = -nan end -- so that nan prints without a sign

-- Returns x as f64, a mask of its finite elements, and the mask as f64.
local function finite(x)
  local y = x:detach():to("f64")
  local is = (y - y):eq(0) -- true where y is neither nan nor an infinity
  return y, is, is:to("f64")
end

local stats_meta = {}
function stats_meta.__tostring(s)
  local text = ("%d values: %g to %g, mean %g, std %g, %d zeros"):format(s.numel, s.min, s.max, s.mean, s.std, s.zeros)
  if s.nan > 0 then text = text .. (", %d nan"):format(s.nan) end
  if s.inf > 0 then text = text .. (", %d inf"):format(s.inf) end
  return text
end

-- Returns {numel =, nan =, inf =, zeros =, min =, max =, mean =, std =}. The last four count finite elements only, and
-- are nan if there are none.
function look.stats(x)
  local y, is, one = finite(x)
  local numel, n = x:numel(), one:sum():item()
  local nnan = numel > 0 and y:ne(y):to("f64"):sum():item() or 0
  local s = {numel = numel, nan = math.tointeger(nnan), inf = math.tointeger(numel - n - nnan), zeros = 0}
  s.min, s.max, s.mean, s.std = nan, nan, nan, nan
  if n > 0 then
    s.zeros = math.tointeger(y:eq(0):to("f64"):sum():item())
    s.min, s.max = is:where(y, math.huge):min():item(), is:where(y, -math.huge):max():item()
    s.mean = is:where(y, 0):sum():item() / n
    s.std = n > 1 and math.sqrt((is:where(y - s.mean, 0) ^ 2):sum():item() / (n - 1)) or nan
  end
  return setmetatable(s, stats_meta)
end

local blocks = {[0] = " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
local hist_meta = {}
function hist_meta.__tostring(h)
  local most, text = 0, {}
  for _, count in ipairs(h.counts) do most = math.max(most, count) end
  for i, count in ipairs(h.counts) do text[i] = blocks[math.ceil(8 * count / math.max(most, 1))] end
  return ("%g to %g, most %d\n|%s|"):format(h.min, h.max, most, table.concat(text))
end

-- Returns {min =, max =, counts =}: the number of finite elements in each of `bins` equal intervals between min and
-- max.
function look.hist(x, bins)
  bins = check.whole("hist", "the number of bins", bins or 30, 1)
  local y, is = finite(x)
  local s = look.stats(x)
  local h = {min = s.min, max = s.max, counts = {}}
  local width = (s.max - s.min) / bins
  local bin = width > 0 and ((y - s.min) / width):floor():minimum(bins - 1) or y * 0
  for i = 0, bins - 1 do
    h.counts[i + 1] = s.min == s.min and math.tointeger(is:where(bin:eq(i):to("f64"), 0):sum():item()) or 0
  end
  return setmetatable(h, hist_meta)
end

return look
