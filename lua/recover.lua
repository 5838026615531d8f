-- recover.lua - rille.recover{workers =}: replaces lost workers, or moves their devices to the remaining workers, and
-- restores the last snapshot. With {workers = n}, continues with n workers. Returns the snapshot's note. If a later
-- snapshot could not be used, also returns the reason.

local rille = require "rille"
local check = require "rille.base.check"
local snapshot = require "rille.snapshot"

return check.limited("recover", function(options)
  local o = check.options("recover", options, {workers = 0})
  check.whole("recover", "workers", o.workers, 0)
  local number, why = rille._recover(math.tointeger(o.workers))
  local note = snapshot.restore(number)
  if rille._log then rille._log("recovered", why or "from the last snapshot") end
  if why then return note, why end
  return note
end)
