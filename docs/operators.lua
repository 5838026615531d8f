-- operators.lua - prints operators.md: the help page of every operator, made from its record.
--
--   cmake --build --preset release      writes build/release/docs/operators.md; cmake --install installs it

local rille = require "rille"

print("# Operators\n")
print("The help pages of all operators, printed by `docs/operators.lua`; `?name` in the shell shows the same page. A row of layouts lists")
print("the operands and results in order. On a mesh of several axes each axis may use another row.\n")
local names = rille.operators()
-- rille.operators() omits these: chunk and split have no record, and // and % stand for floor_divide and remainder.
for _, name in ipairs{"chunk", "floor_divide", "remainder", "split"} do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  print(("## %s\n\n```\n%s\n```\n"):format(name, rille.page(name)))
end
