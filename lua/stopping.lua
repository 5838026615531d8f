-- stopping.lua - rille.stopping{signals =, file =}: whether the job was asked to stop, by a signal or a file.
--
-- The first call declares that the script handles the signals, so they no longer end the program. After the first
-- result that is not false, the result does not change any more. The existence of the file is checked at most once a
-- second, because the file may be on a network file system.

local rille = require "rille"
local check = require "rille.base.check"

local who <const> = "stopping"
local why, path
local looked = -math.huge -- time at which the file's existence was last checked, s

local function declare(options)
  local o = check.options(who, options, {signals = {"TERM", "USR1"}, file = check.none})
  check.that(type(o.signals) == "table", "%s: signals must be a list of TERM, USR1, USR2 and HUP, found %s", who, check.quoted(o.signals))
  check.list(who, "signals", o.signals)
  for _, name in ipairs(o.signals) do
    check.that(type(name) == "string" and rille._stop_on(name), "%s: signals must be a list of TERM, USR1, USR2 and HUP, found %s", who,
      check.quoted(name))
  end
  if o.file then
    check.path(who, "the path of a file", o.file)
    path = o.file
  end
end

local function found()
  if not path or rille.clock() - looked < 1 then return nil end
  looked = rille.clock()
  return rille._kind(path) and "file " .. path
end

local declared = false

return check.limited(who, function(options)
  if options ~= nil or not declared then declare(options) end
  declared = true
  why = why or rille._stop_signal() or found()
  return why or false
end)
