-- public.lua - returns a function each(t, prefix, visit) that calls visit(prefix .. name, value) for the public functions
-- and classes in a table, in sorted order.
local function is_callable(v) return type(v) == "function" or type(v) == "table" and getmetatable(v) and getmetatable(v).__call end

return function(t, prefix, visit)
  local names = {}
  for name, v in pairs(t) do
    if type(name) == "string" and name:sub(1, 1) ~= "_" and is_callable(v) then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do visit(prefix .. name, t[name]) end
end
