-- operators.lua - prints operators.md: the help page of every operator, made from its record.
--
--   cmake --build --preset release      writes build/release/docs/operators.md; cmake --install installs it

local rille = require "rille"

print("# Operators\n")
print("Made from the operators' records by `docs/operators.lua`; `?name` in the shell shows the same. A layout is said for each")
print("operand and result in order; on a mesh of several axes any of an operator's rows may stand on each axis.\n")
local names = rille.operators()
for _, name in ipairs{"chunk", "floor_divide", "remainder", "split"} do names[#names + 1] = name end -- of no record, or of a sign
table.sort(names)
for _, name in ipairs(names) do
  print(("## %s\n\n```\n%s\n```\n"):format(name, rille.page(name)))
end
