-- look.lua - statistics of values: x:stats(), x:hist(), net:stats(). The statistics cover whole tensors on all devices;
-- only sums, minima and maxima are transferred.

local check = require "rille.base.check"
local layout = require "rille.base.layout"
local records = require "rille.show.records"

local look = {}

local nan = 0 / 0
if tostring(nan):find("^-") then nan = -nan end -- makes nan print without a sign

-- Returns x as f64, a mask of its finite elements, and the mask as f64.
local function finite(x)
  local y = x:detach():to("f64")
  local is = (y - y):eq(0) -- mask: y is finite (neither nan nor infinite)
  return y, is, is:to("f64")
end

local stats_meta = {}
function stats_meta.__tostring(s)
  local text = ("%d values: %g to %g, mean %g, std %g, %d zeros"):format(s.numel, s.min, s.max, s.mean, s.std, s.zeros)
  if s.nan > 0 then text = text .. (", %d nan"):format(s.nan) end
  if s.inf > 0 then text = text .. (", %d inf"):format(s.inf) end
  return text
end

-- Returns {numel =, nan =, inf =, zeros =, min =, max =, mean =, std =}. min, max, mean and std are computed over
-- finite elements only, and are nan if there are none.
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

-- ---- statistics of modules ----

-- Returns the 2-norm of x's elements.
local function norm(x) return math.sqrt((x:detach():to("f64") ^ 2):sum():item()) end

-- Adds the record of a tensor to the list, and stores the name of the first tensor with a nan or an infinity.
local function add_record(list, kind, name, x)
  local numel = x:numel()
  if not x.dtype:find("f") then return end -- integers have no norm
  local s = look.stats(x)
  list[#list + 1] = {name = name, kind = kind, norm = norm(x), zeros = numel > 0 and s.zeros / numel or 0, nan = s.nan, inf = s.inf}
  if kind == "weight" and x.grad then list[#list].grad_norm = norm(x.grad) end
  if s.nan + s.inf > 0 then list.first_nan = list.first_nan or name end
end

-- Calls net(...), and adds a record for each result of each module, in the order in which the modules return.
local function add_outputs(list, net, ...)
  local replaced = {}
  local undo <close> = setmetatable({}, {__close = function()
    for module, own in pairs(replaced) do rawset(module, "forward", own or nil) end
  end})
  for name, module in net:named_modules() do
    local forward = module.forward
    replaced[module] = rawget(module, "forward") or false
    rawset(module, "forward", function(self, ...)
      local results = table.pack(forward(self, ...))
      for _, result in ipairs(results) do
        if layout.is_tensor(result) then add_record(list, "output", name == "" and "(result)" or name, result) end
      end
      return table.unpack(results, 1, results.n)
    end)
  end
  net(...)
end

-- Returns a list of records {name =, kind =, norm =, grad_norm =, zeros =, nan =, inf =}. There is one record per
-- parameter (kind "weight"). If arguments of the module are given, there is also one record per result of its modules
-- (kind "output"). zeros: share of zeros. The list's field first_nan is the name of the first output, in the order of
-- computation, that has a nan or an infinity. If no output has one, first_nan is the name of the first such
-- parameter.
function look.module(net, ...)
  local outputs, list = {}, {}
  if select("#", ...) > 0 then add_outputs(outputs, net, ...) end
  for name, x in net:named_parameters() do add_record(list, "weight", name, x) end
  list.first_nan = outputs.first_nan or list.first_nan
  table.move(outputs, 1, #outputs, #list + 1, list)
  return setmetatable(list, records.module)
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
