-- args.lua - the command line of a script: --name value, --name=value, and --flag for what is false by default.
--
--   local options = rille.args(arg, {layout = "pp-tp", epochs = 40, plain = false, log = ""})
--
-- The defaults tell the names and the types; a mistake is told on stderr, and the script ends as a usage error (2).

local check = require "rille.check"

local function usage(script, defaults)
  local words = {}
  for _, name in ipairs(check.sorted_keys(defaults)) do
    local value = defaults[name]
    words[#words + 1] = value == false and ("[--%s]"):format(name) or ("[--%s %s]"):format(name, value == "" and "TEXT" or value)
  end
  return ("usage: %s %s\n"):format(script, table.concat(words, " "))
end

-- The value of an option whose default has this type; nil when the text is none.
local function convert(text, default)
  if type(default) ~= "number" then return text end
  return math.type(default) == "integer" and math.tointeger(tonumber(text)) or math.type(default) == "float" and tonumber(text)
    or nil
end

return function(words, defaults)
  local function stop(code, format, ...)
    local file = code == 0 and io.stdout or io.stderr
    if format then file:write(format:format(...), "\n") end
    file:write(usage(words[0] or "script", defaults))
    os.exit(code, true)
  end

  local options, i = {}, 1
  for name, value in pairs(defaults) do options[name] = value end
  while words[i] do
    local name, value = words[i]:match("^%-%-([%w-]+)=?(.*)$")
    if name == "help" then stop(0) end
    local default = defaults[name]
    if default == nil then stop(2, "unknown option %s", words[i]) end
    if default == false then
      options[name] = true
    else
      if not words[i]:find("=", 1, true) then i, value = i + 1, words[i + 1] end
      if value == nil then stop(2, "--%s wants a value", name) end
      options[name] = convert(value, default)
      if options[name] == nil then
        stop(2, "--%s is a %s, not '%s'", name, math.type(default) == "float" and "number" or "whole number", value)
      end
    end
    i = i + 1
  end
  return options
end
