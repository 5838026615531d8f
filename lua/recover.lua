-- recover.lua - rille.recover{workers =}: lost workers are replaced, or their devices taken over by those that are left;
-- then everything is as it was at the last snapshot, whose note it gives, and why it is none of a later one where it is
-- not. {workers = n}: with so many workers.

local rille = require "rille"
local check = require "rille.check"
local snapshot = require "rille.snapshot"

return check.limited("rille.recover", function(options)
  local o = check.options("rille.recover", options, {workers = 0})
  check.whole("rille.recover", "workers", o.workers, 0)
  local number, why = rille._recover(math.tointeger(o.workers))
  local note = snapshot.restore(number)
  if why then return note, why end
  return note
end)
