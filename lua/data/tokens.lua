-- tokens.lua - reads windows of token ids for training a language model.
--
--   local data = rille.data.tokens("train.bin", {batch = 8, length = 256, seed = 1, placement = P, sbp = "S(0)"})
--   for x, y in data:batches() do ... end        x, y: i64 {batch, length}; y is x shifted by one token
--
-- The ids come from one or more token files of llm.c, a list, or a tensor. Windows do not overlap, except that the
-- last id of a window is the first of the next. No window spans two files. Seed and epoch determine the order of
-- windows. With vocab = n, an id >= n in a batch is an error that names the file and position. While a step runs, the
-- source prefetches batches: as many as it has credits. data:stats() shows whether source or consumer waited.

local rille = require "rille"
local check = require "rille.base.check"
local epochs = require "rille.data.epochs"

local who = "data.tokens"

local methods = setmetatable({}, {__index = epochs.methods})

function methods:take(epoch, first, n)
  for name, value in pairs{epoch = epoch or false, first = first or false, n = n or false} do check.integer(who .. ":take", name, value) end
  return self.tokens:batch(who, {length = self.length, first = first, n = n, vocab = self.vocab or 0, seed = self.seed,
    epoch = epoch}, self.x, self.y)
end

-- Returns statistics of the source: depth (its credits), read and taken (batches), full (number of waits for a credit),
-- waited (number of requests whose batch was not ready), wait (seconds waited for batches).
function methods:stats() return self.tokens:stats() end

check.strict("data.tokens", methods, true)
local meta = {__class = "reader of data.tokens", __index = methods, __len = epochs.count, __call = epochs.call, __close = function(self) self.tokens:close() end}

-- Returns the fields placement and sbp of the options for x or y.
local function layout_of(t) return {placement = t.placement, sbp = t.sbp} end

-- Checks, before the first batch is read, that a batch can have the requested layouts of x and y.
local function check_layout(self)
  for _, where in ipairs{self.x, self.y} do
    local good, why = check.try(rille.empty, {self.batch, self.length},
      {dtype = "i64", placement = where.placement, sbp = where.sbp})
    if not good then error((why:gsub("empty: ", who .. ": ", 1)), 0) end
  end
end

-- Returns the greatest window length, at most `most`, with enough windows for one batch; 0 if there is none.
local function longest(self, most)
  local low, high = 0, most
  while low < high do
    local middle = (low + high + 1) // 2
    if self.tokens:windows(middle) >= self.batch then low = middle else high = middle - 1 end
  end
  return low
end

local function check_room(self)
  local ids, most = self.tokens:count()
  self.size = self.tokens:windows(self.length)
  self.same = {batch = self.batch, length = self.length, ids = ids, ids_digest = self.tokens:digest()}
  check.that(self.size > 0, "%s: a window of length %d needs one id more than its length, found %d ids%s", who, self.length, most,
    ids > most and " in the longest file" or "")
  if self.size < self.batch then
    local length = longest(self, self.length)
    check.fail("%s: batch of %d windows of length %d, but %d ids have only %d such windows; batch = %d would do%s", who, self.batch, self.length,
      ids, self.size, self.size, length > 0 and (", or length = %d"):format(length) or "")
  end
end

return function(from, given)
  local self = check.options(who, given, {batch = check.none, length = check.none, seed = 0, vocab = check.none,
    placement = check.none, sbp = check.none, labels = check.none})
  check.count(who, "batch", self.batch)
  check.count(who, "length", self.length)
  if self.vocab ~= nil then check.count(who, "vocab", self.vocab) end
  check.integer(who, "seed", self.seed)
  local labels = check.options(who .. ": labels", self.labels, {placement = check.none, sbp = check.none})
  self.who, self.drop_last, self.x = who, true, layout_of(self)
  self.y = self.labels and layout_of(labels) or self.x
  self.tokens = rille._tokens(who, from)
  check_room(self)
  check_layout(self)
  epochs.start(self)
  return setmetatable(self, meta)
end
