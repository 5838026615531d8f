-- names.lua - patterns of names. * stands for any characters; "*.fc1" matches "fc1" and every path that ends in ".fc1".

local check = require "rille.base.check"

local names = {}

-- Converts a pattern of names to a Lua pattern.
local function lua_pattern(pattern)
  return "^" .. pattern:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*") .. "$"
end

-- Returns at most six of the names, as text.
local function some(list)
  local n = #list
  return table.concat(list, ", ", 1, math.min(n, 6)) .. (n > 6 and (", ... (%d)"):format(n) or "")
end

-- Returns the names in the list that match the pattern, in order. Fails if no name matches. what: name of the option,
-- for messages.
function names.matching(what, pattern, list)
  check.that(type(pattern) == "string", "parallel: %s must have names or patterns such as \"*.fc1\", found %s", what,
    check.shown(pattern))
  local found, lua, shown = {}, lua_pattern(pattern), {}
  for _, name in ipairs(list) do
    if name ~= "" then shown[#shown + 1] = name end -- the root module has no name
    if ("." .. name):find(lua) or name:find(lua) then found[#found + 1] = name end
  end
  check.that(#found > 0, "parallel: %s: '%s' matches no name; the names are: %s", what, pattern, some(shown))
  return found
end

return names
