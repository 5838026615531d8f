-- data.lua - data sets cut into batches. Tensors in memory are handled here, tokens in data/tokens.lua, text files in
-- data/table.lua.
--
--   for x, y in rille.data.loader{x, y, batch = 64, shuffle = true, seed = 1} do ... end
--
-- The seed and the epoch alone determine the entries of a batch; layouts, the machine, and earlier random draws have
-- no influence.

local rille = require "rille"
local check = require "rille.base.check"
local epochs = require "rille.data.epochs"
local files = require "rille.data.table"
local layout = require "rille.base.layout"
local resample = require "rille.data.resample"
local generator = require("rille.base.random").integers

local data = {}

-- Returns the positions 0 .. n - 1 in an order determined by the seed (Fisher-Yates shuffle).
function data.permutation(n, seed)
  check.count("data.permutation", "n", n)
  check.integer("data.permutation", "seed", seed)
  local order, random = {}, generator(seed)
  for i = 1, n do order[i] = i - 1 end
  for i = n, 2, -1 do
    local j = (random() >> 1) % i + 1
    order[i], order[j] = order[j], order[i]
  end
  return order
end

-- Returns the SBP for a tensor of row indices if the rows have the given SBP. S(0) is kept, so that each rank selects
-- its own rows; all other entries become B.
local function of_rows(sbp)
  if type(sbp) == "string" then
    return (sbp:gsub("S%b()", function(cut) return cut ~= "S(0)" and "B" or nil end):gsub("P%b()", "B"):gsub("P", "B"))
  end
  if type(sbp) ~= "table" then return sbp end -- the SBP is of no valid form; rille.tensor reports the error
  local entries = {order = sbp.order}
  for axis, entry in ipairs(sbp) do entries[axis] = of_rows(entry) end
  return entries
end

-- Returns the rows of t whose indices are order[from] to order[to], laid out as sbp (default: as t).
local function take(t, order, from, to, sbp)
  sbp = sbp or t.sbp
  local ids = rille.tensor(table.move(order, from, to, 1, {}), {dtype = "i64", placement = t.placement, sbp = of_rows(sbp)})
  return t:index_select(0, ids):to_global{placement = t.placement, sbp = sbp}
end

local methods = setmetatable({}, {__index = epochs.methods})

function methods:order(epoch)
  check.integer(self.who .. ":order", "epoch", epoch)
  if self.shuffle then return data.permutation(self.size, generator(self.seed + generator(epoch)())()) end
  local order = {}
  for i = 1, self.size do order[i] = i - 1 end
  return order
end

-- Returns n rows of an epoch, from position `first` of its order. The order of the last epoch is cached.
function methods:take(epoch, first, n)
  local who = self.who .. ":take"
  check.integer(who, "epoch", epoch)
  check.whole(who, "first", first, 0)
  check.whole(who, "n", n, 0)
  check.that(first + n <= self.size, "%s: rows %d to %d are beyond the %d rows", who, first, first + n - 1, self.size)
  if self.ordered ~= epoch or self.ordered_by ~= self.seed then
    self.ordered, self.ordered_by, self.order_now = epoch, self.seed, self:order(epoch)
  end
  local batch = {}
  for i, t in ipairs(self.tensors) do batch[i] = take(t, self.order_now, first + 1, first + n, self.sbp) end
  return table.unpack(batch)
end

-- Returns an iterator over the batches of one epoch (counted from 0): for x, y in loader:epoch(3) do
function methods:epoch(epoch)
  local one = setmetatable({running = math.tointeger(check.whole(self.who .. ":epoch",
    "the epoch", epoch, 0)), at = 0}, {__index = self})
  return function() return one:advance() end
end

check.strict("data.loader", methods, true)
local meta = rille._refuse({__class = "data.loader", __index = methods, __len = epochs.count, __call = epochs.call},
  "for x in loader do iterates over batches")

-- data.loader{x, y, ..., batch =, shuffle = false, seed = 0, drop_last = false, sbp =}: returns a reader of batches.
-- sbp: layout of the batches.
function data.loader(given, more)
  local who = "data.loader"
  check.that(type(given) == "table" and more == nil, "%s: expected one table, {x, y, batch = 64}, found %s%s", who, check.shown(given),
    more ~= nil and " and " .. check.shown(more) or "")
  local tensors, named, least, most = {}, {}, 1, 0
  for key, value in pairs(given) do
    if math.type(key) == "integer" then
      tensors[key], least, most = value, math.min(least, key), math.max(most, key)
    else
      named[key] = value
    end
  end
  local self = check.options(who, named, {batch = check.none, shuffle = false, seed = 0, drop_last = false, sbp = check.none})
  check.count(who, "batch", self.batch)
  check.integer(who, "seed", self.seed)
  check.that(least == 1, "%s: tensors must be entries 1, 2, ... of the table, found one at %d", who, least)
  check.that(most > 0, "%s: expected at least one tensor, as in {x, y, batch = 64}, found none", who)
  for i = 1, most do
    local t = tensors[i]
    check.that(layout.is_tensor(t), "%s: entry %d must be a tensor, found %s", who, i, check.shown(t))
    check.that(t.ndim > 0, "%s: entry %d must have at least one dimension, the rows, found none", who, i)
    check.that(#t == #tensors[1], "%s: all tensors must have the same number of rows, found %d in tensor 1 and %d in tensor %d", who, #tensors[1], #t, i)
  end
  self.who, self.tensors, self.size = who, tensors, #tensors[1]
  self.same = {batch = self.batch, shuffle = self.shuffle, drop_last = self.drop_last}
  epochs.start(self)
  check.that(self.size >= self.batch or not self.drop_last, "%s: %d rows are less than one batch of %d", who, self.size,
    self.batch)
  return setmetatable(self, meta)
end

data.tokens = require "rille.data.tokens"
data.chats = require "rille.data.chats"
data.csv, data.text = files.csv, files.text

-- data.image(path[, {height =, width =, placement =, sbp =}]): returns the pixels of a PNG or JPEG file, u8 {3, height,
-- width}. height, width: new size; default: the file's.
function data.image(path, given)
  local who = "data.image"
  local o = check.options(who, given, {height = check.none, width = check.none, placement = check.none, sbp = check.none})
  for _, name in ipairs{"height", "width"} do
    if o.height or o.width then check.count(who, name, o[name]) end
  end
  local t = rille._image(check.path(who, "the name of a file", path), {placement = o.placement, sbp = o.sbp})
  return o.height and rille.no_grad(function() return resample.resized(who, t, o.height, o.width) end) or t
end

return check.names("data", data)
