-- args.lua - parses the command line of a script: --name value, --name=value, and --flag for options that default to
-- false.
--
--   local options = rille.args(arg, {"folder", layout = "pp-tp", epochs = 40, plain = false, log = ""})
--
-- The defaults define the names and types of the options. Names in the list part ("folder") are positional arguments:
-- they are required and are given in that order, without dashes. A mistake is reported on stderr, and the script exits
-- with status 2 (usage error).

local check = require "rille.base.check"

local function usage(script, defaults)
  local words = {}
  for i, name in ipairs(defaults) do words[i] = name:upper() end
  for _, name in ipairs(check.sorted_keys(defaults)) do
    local value = defaults[name]
    if value ~= nil then -- a named option; an index instead of a name would be a positional argument
      words[#words + 1] = value == false and ("[--%s]"):format(name)
        or ("[--%s %s]"):format(name, value == "" and "TEXT" or value)
    end
  end
  return ("usage: %s %s\n"):format(script, table.concat(words, " "))
end

-- Converts text to the type of the option's default value. Returns nil if the text is not a value of this type.
local function convert(text, default)
  if type(default) ~= "number" then return text end
  return math.type(default) == "integer" and math.tointeger(tonumber(text)) or math.type(default) == "float" and tonumber(text)
    or nil
end

return check.limited("args", function(words, defaults)
  local function stop(code, format, ...)
    local file, script = code == 0 and io.stdout or io.stderr, words[0] or "script"
    if format then file:write(script, ": ", format:format(...), "\n") end
    file:write(usage(script, defaults))
    os.exit(code, true)
  end

  check.that(type(words) == "table", "args: expected a list of words, as in arg, found %s", check.shown(words))
  check.that(type(defaults) == "table", "args: expected a table of options, {name = default}, found %s", check.shown(defaults))
  for i = 1, #words do check.text("args", ("word %d"):format(i), words[i]) end
  for i = 1, #defaults do check.text("args", ("the name of argument %d"):format(i), defaults[i]) end
  local options, i, given = {}, 1, 0
  for name, value in pairs(defaults) do
    if type(name) == "string" then options[name] = value end
  end
  while words[i] do
    local name, value = words[i]:match("^%-%-([%w-]+)=?(.*)$")
    if name == "help" then stop(0) end
    local default = defaults[name]
    if default == nil and words[i]:sub(1, 1) ~= "-" and given < #defaults then
      given = given + 1
      options[defaults[given]] = words[i]
    elseif default == nil then
      stop(2, "unknown option %s", words[i])
    elseif default == false then
      if words[i]:find("=", 1, true) then stop(2, "--%s must not have a value", name) end
      options[name] = true
    else
      if not words[i]:find("=", 1, true) then i, value = i + 1, words[i + 1] end
      if value == nil then stop(2, "--%s needs a value", name) end
      options[name] = convert(value, default)
      if options[name] == nil then
        stop(2, "--%s must be %s, found '%s'", name, math.type(default) == "float" and "a number" or "an integer", value)
      end
    end
    i = i + 1
  end
  if given < #defaults then stop(2, "missing argument %s", defaults[given + 1]:upper()) end
  return options
end)
