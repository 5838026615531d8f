-- doctor.lua - :doctor and rille --doctor [--json]: prints properties of this program and machine. facts: a list of {name, value}.

local json = require "rille.json"

return function(facts, as_json)
  if as_json then
    local object = {}
    for _, fact in ipairs(facts) do object[fact[1]] = fact[2] end
    return json.encode(object) .. "\n"
  end
  local label, lines = 0, {}
  for _, fact in ipairs(facts) do label = math.max(label, #fact[1]) end
  for _, fact in ipairs(facts) do
    local value = type(fact[2]) == "boolean" and (fact[2] and "yes" or "no") or tostring(fact[2])
    lines[#lines + 1] = "  " .. ("%-" .. label .. "s  %s"):format(fact[1], value)
  end
  return table.concat(lines, "\n") .. "\n"
end
