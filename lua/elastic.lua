-- elastic.lua - rille.train.elastic{steps =, make =, step =}: a training that continues on other devices when workers
-- are lost or join.
--
-- make(P) builds the parts of the training, {model =, optimizer =, data =, ...}, on a placement P of all devices
-- whose workers are present. step(parts, i) does step i. When the devices change, make() builds the parts again, and
-- the state of the old parts is copied to the new parts. So the following steps have the bits of a training that
-- began with these devices from that state.
--
-- A snapshot's note has the number of its step and the number of its parts, because recovery may return to older
-- parts on other devices. So old parts are kept until a later snapshot is complete.

local rille = require "rille"
local check = require "rille.base.check"
local resume = require "rille.resume"
local snapshot = require "rille.snapshot"

local who = "train.elastic"

-- Returns a placement of all devices whose workers are present.
local function present() return rille.placement(rille._present()) end

-- Returns the parts whose state is copied and saved.
local function state_of(parts) return {model = parts.model, optimizer = parts.optimizer, data = parts.data} end

local function take_snapshot(self) rille.snapshot({step = self.done, built = self.built}) end

-- Builds the parts on the present devices, and copies the state of the previous parts to the new parts.
local function build(self)
  local P, old, seed, count = present(), self.all[self.built], rille._random()
  local parts = self.make(P)
  check.that(type(parts) == "table", "%s: make must return a table {model =, optimizer =, ...}, found %s", who, check.shown(parts))
  if old then
    require("rille.checkpoint")._copy(who, state_of(old.parts), state_of(parts))
    rille._random(seed, count) -- restores the random state, because make() has drawn initial values
    io.stderr:write(("rille: train.elastic: continues on %s after step %d\n"):format(P, self.done))
  end
  local note = not old and resume(state_of(parts))
  snapshot.parts = state_of(parts)
  self.built = self.built + 1
  self.all[self.built] = {parts = parts, place = tostring(P)}
  if note then
    self.done = note.step
  elseif not old and self.load then
    self.done = check.whole(who, "the result of load", self.load(parts) or 0, 0)
  end
  take_snapshot(self)
end

-- Runs a step. If workers were lost, first builds the parts again on the present devices. Then admits workers that wait,
-- and builds the parts on their devices, too. Workers are admitted only while no values are on devices of lost workers,
-- because an admission may move such a device to another host.
local function advance(self)
  local now = self.all[self.built]
  if not now or now.place ~= tostring(present()) then build(self) end
  if rille._admit() then build(self) end
  self.step(self.all[self.built].parts, self.done + 1)
  self.done = self.done + 1
  if self.done % self.every > 0 then return end
  take_snapshot(self)
  self.all = {[self.built] = self.all[self.built]}
end

return check.limited(who, function(options)
  local self = check.options(who, options, {steps = check.none, make = check.none, step = check.none, load = check.none, every = 10})
  check.count(who, "steps", self.steps)
  check.count(who, "every", self.every)
  check.fn(who, "make", self.make)
  check.fn(who, "step", self.step)
  if self.load ~= nil then check.fn(who, "load", self.load) end
  self.done, self.built, self.all = 0, 0, {}
  while self.done < self.steps do
    local good, why = pcall(advance, self)
    if not good then
      if not rille.is_lost(why) or self.built == 0 then error(why, 0) end
      local note = rille.recover()
      self.done, self.built = note.step, note.built
    end
  end
  return self.all[self.built].parts
end)
