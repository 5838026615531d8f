-- data.lua - data sets in memory, cut into batches.
--
--   for x, y in rille.data.loader{x, y, batch = 64, shuffle = true, seed = 1} do ... end
--
-- Which entries are in which batch is a function of the seed and the epoch
-- alone: not of layouts, of the machine, or of what was drawn before.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local data = {}

-- splitmix64 (Steele, Lea & Flood 2014): a generator of 64-bit integers from a 64-bit seed.
local function generator(seed)
  local state = seed
  return function()
    state = state + 0x9e3779b97f4a7c15
    local z = state
    z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
    z = (z ~ (z >> 27)) * 0x94d049bb133111eb
    return z ~ (z >> 31)
  end
end

-- The positions 0 .. n - 1 in an order given by the seed (Fisher & Yates).
function data.permutation(n, seed)
  check.count("rille.data.permutation", "n", n)
  check.that(math.type(seed) == "integer", "rille.data.permutation: the seed is an integer, not %s", check.shown(seed))
  local order, random = {}, generator(seed)
  for i = 1, n do order[i] = i - 1 end
  for i = n, 2, -1 do
    local j = (random() >> 1) % i + 1
    order[i], order[j] = order[j], order[i]
  end
  return order
end

-- Entries `from` .. `to` of order as positions on t's placement, laid out so that the batch comes as sbp.
local function take(t, order, from, to, sbp)
  local ids = table.move(order, from, to, 1, {})
  local where = {dtype = "i64", placement = t.placement, sbp = sbp or layout.whole(t.placement)}
  return t:index_select(0, rille.tensor(ids, where))
end

local methods = {}

function methods:order(epoch)
  if self.shuffle then return data.permutation(self.size, generator(self.seed + generator(epoch)())()) end
  local order = {}
  for i = 1, self.size do order[i] = i - 1 end
  return order
end

-- The batches of an epoch, counted from 0: for x, y in loader:epoch(3) do
function methods:epoch(epoch)
  local order, at = self:order(epoch), 1
  return function()
    local last = math.min(at + self.batch - 1, self.size)
    if last < at or self.drop_last and last < at + self.batch - 1 then return nil end
    local batch = {}
    for i, t in ipairs(self.tensors) do batch[i] = take(t, order, at, last, self.sbp) end
    at = last + 1
    return table.unpack(batch)
  end
end

function methods:begin()
  self.running = self:epoch(self.next_epoch)
  self.next_epoch = self.next_epoch + 1
end

-- The next batch, of the next epoch when this one is over: for loops over steps.
function methods:next()
  if not self.running then self:begin() end
  local batch = table.pack(self.running())
  if batch[1] == nil then
    self:begin()
    batch = table.pack(self.running())
  end
  return table.unpack(batch)
end

local meta = {__index = methods}

-- How many batches an epoch has.
function meta.__len(self)
  return self.drop_last and self.size // self.batch or (self.size + self.batch - 1) // self.batch
end

-- A loader in a for loop: every loop is the next epoch.
function meta.__call(self, _, before)
  if before == nil then self:begin() end
  return self.running()
end

-- data.loader{x, y, ..., batch =, shuffle = false, seed = 0, drop_last = false, sbp = of the batches}
function data.loader(given)
  local who = "rille.data.loader"
  check.that(type(given) == "table", "%s takes a table: {x, y, batch = 64}", who)
  local tensors, named = {}, {}
  for key, value in pairs(given) do
    if math.type(key) == "integer" then tensors[key] = value else named[key] = value end
  end
  local self = check.options(who, named, {batch = check.none, shuffle = false, seed = 0, drop_last = false, sbp = check.none})
  check.count(who, "batch", self.batch)
  check.that(#tensors > 0, "%s: there is no tensor", who)
  for i, t in ipairs(tensors) do
    check.that(layout.is_tensor(t) and t.ndim > 0, "%s: entry %d is not a tensor with rows", who, i)
    check.that(#t == #tensors[1], "%s: tensor %d has %d rows, the first %d", who, i, #t, #tensors[1])
  end
  self.tensors, self.size, self.next_epoch = tensors, #tensors[1], 0
  check.that(self.size >= self.batch or not self.drop_last, "%s: %d rows are less than one batch of %d", who, self.size,
    self.batch)
  return setmetatable(self, meta)
end

function data.tokens()
  check.fail("rille.data.tokens: this version does not read llm.c token files (.bin, magic 20240520) yet")
end

return check.names("rille.data", data)
