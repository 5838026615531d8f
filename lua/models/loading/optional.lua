-- optional.lua - reads JSON files that a model's folder may lack.

local rille = require "rille"
local check = require "rille.base.check"
local json = require "rille.json"

-- Returns the contents of a JSON file as a table; nil if the file does not exist.
return function(path)
  if not rille._kind(path) then return nil end
  local t = json.load(path)
  check.that(type(t) == "table", "%s: expected JSON with an object or a list, found %s", path, check.shown(t))
  return t
end
