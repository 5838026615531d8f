-- train.lua - a line on the terminal that tells how training goes.
--
--   local line = rille.train.progress{total = 800, step = step}
--   line:update(i, loss, 64)          step 12/800  loss 1.2345  84210 samples/s  busy 87 %
--   line:finish()
--
-- On a terminal the line is written over itself, ten times a second at most;
-- elsewhere (a file, a pipe) a line is printed for every tenth of the whole.

local rille = require "rille"
local check = require "rille.check"

local train = {}

local methods = {}

-- The share of device time in which devices worked, in the last run of a compiled step; nil without one.
local function busy_share(step)
  if not step then return nil end
  local stats = step:stats()
  if stats.step_time <= 0 then return nil end
  local busy = 0
  for _, device in ipairs(stats.devices) do busy = busy + device.busy end
  return busy / (#stats.devices * stats.step_time)
end
train.busy_share = busy_share

local function text_of(self, at, loss, now)
  local text = ("step %d/%d  loss %.4f  %.0f samples/s"):format(at, self.total, loss, self.samples / (now - self.start))
  local busy = busy_share(self.step)
  return busy and ("%s  busy %.0f %%"):format(text, 100 * busy) or text
end

-- After step `at` (from 1) of `samples` samples.
function methods:update(at, loss, samples)
  local now = rille.clock()
  self.samples = self.samples + samples
  local due = at == self.total
  if self.terminal then
    due = due or now - self.shown >= 0.1
  else
    due = due or at * 10 // self.total > (at - 1) * 10 // self.total
  end
  if not due then return end
  self.shown = now
  self.file:write(self.terminal and "\r\27[K" or "", text_of(self, at, loss, now), self.terminal and "" or "\n")
  self.file:flush()
end

-- Leaves the line standing.
function methods:finish()
  if self.terminal then self.file:write("\n") end
end

function train.progress(given)
  local self = check.options("rille.train.progress", given, {total = check.none, step = check.none, file = io.stderr})
  check.count("rille.train.progress", "total", self.total)
  self.terminal = self.file == io.stderr and rille.is_terminal(2)
  self.samples, self.start, self.shown = 0, rille.clock(), 0
  return setmetatable(self, {__index = methods})
end

return check.names("rille.train", train)
