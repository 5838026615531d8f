-- epochs.lua - iterates over a data set epoch by epoch, and resumes from a saved position.
--
-- A reader has size (rows), batch, drop_last, seed, and take(self, epoch, first, n), which returns the tensors of n
-- rows from position `first` (from 0) of the epoch's order. The reader's field `same`, {name = integer or flag}, has
-- further settings that must be equal when a state is loaded. This module adds:
--
--   for x, y in reader:batches() do      each loop runs over the next epoch
--   local x, y = reader:next()           one batch; starts the next epoch when the current one is over
--   reader:state()  reader:load_state(s) the position, as numbers; the first loop then finishes that epoch

local check = require "rille.base.check"

local LAST <const> = 1 << 53 -- the largest epoch number accepted

local epochs = {}

local methods = {}
epochs.methods = methods

-- Sets the position of a new reader to the start.
function epochs.start(self)
  self.next_epoch, self.at = 0, 0
end

function methods:begin()
  self.running, self.next_epoch, self.at = self.next_epoch, self.next_epoch + 1, 0
end

-- Returns the next batch of the current epoch; nil at its end.
function methods:advance()
  local n = math.min(self.batch, self.size - self.at)
  if not self.running or n < 1 or self.drop_last and n < self.batch then
    self.running = nil
    return nil
  end
  self.at = self.at + n
  return self:take(self.running, self.at - n, n)
end

local function go_on(self)
  if not (self.resumed and self.running) then self:begin() end
  self.resumed = nil
end

function methods:batches()
  go_on(self)
  return function() return self:advance() end
end

function methods:next()
  self.resumed = nil
  local batch = table.pack(self:advance())
  if batch[1] ~= nil then return table.unpack(batch) end
  self:begin()
  return self:advance()
end

-- Returns the number of batches per epoch.
function epochs.count(self)
  return self.drop_last and self.size // self.batch or (self.size + self.batch - 1) // self.batch
end

-- Implements __call of a reader, so that a for loop can use the reader itself as iterator.
function epochs.call(self, _, before)
  if before == nil then go_on(self) end
  return self:advance()
end

function methods:state()
  local state = {size = self.size, seed = self.seed, next_epoch = self.next_epoch, at = self.at, running = self.running or -1}
  for name, value in pairs(self.same) do state[name] = value end
  return state
end

-- Returns the reason why a state cannot be loaded, or nil.
function methods:refuses(state)
  if type(state) ~= "table" then return "the state is missing" end
  for _, name in ipairs{"size", "seed", "next_epoch", "at", "running"} do
    if math.type(state[name]) ~= "integer" then return ("the state's '%s' must be an integer, found %s"):format(name, check.shown(state[name])) end
  end
  if state.size ~= self.size then return ("%d rows here, %d in the loaded state"):format(self.size, state.size) end
  for _, name in ipairs(check.sorted_keys(self.same)) do
    local here, there = self.same[name], state[name]
    if there ~= nil and there ~= here then -- states of older versions lack some of these settings
      return ("its %s is %s here, %s in the loaded state"):format(name, here, check.shown(there))
    end
  end
  if state.next_epoch < 0 or state.next_epoch > LAST then return ("the loaded state must have a next_epoch from 0 to %d, found %d"):format(LAST, state.next_epoch) end
  if state.running ~= -1 and state.running ~= state.next_epoch - 1 then
    return ("the loaded state must have consecutive running and next epochs, found %d and %d"):format(state.running, state.next_epoch)
  end
  if state.at < 0 or state.at > state.size then return ("the loaded state must have a position from row 0 to %d, found row %d"):format(state.size, state.at) end
end

function methods:load_state(state)
  local why = self:refuses(state)
  check.that(not why, "%s: %s", self.who, why)
  self.seed, self.next_epoch, self.at = state.seed, state.next_epoch, state.at
  self.running = state.running >= 0 and state.running or nil
  self.resumed = true
end

check.strict("data.loader", methods, true)
return epochs
