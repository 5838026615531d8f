-- The page of every operator says what may be asked of it, and what it says is so.
local tap = dofile("t/tap.lua")
local rille = require "rille"

local P = rille.placement("meta", {0, 1})
local function empty(shape, sbp, dtype) return rille.empty(shape, {placement = P, sbp = sbp, dtype = dtype}) end
local function names(e)
  local list = {}
  for _, op in ipairs(e.ops) do list[#list + 1] = op.name end
  return table.concat(list, ", ")
end

-- Sources and to_global have the layout that is asked for.
local free = {to_global = true}
for _, name in ipairs{"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "zeros"} do free[name] = true end

tap.group("layouts", function()
  for _, name in ipairs(rille.operators()) do
    local page = rille.page(name)
    tap.ok(free[name] or page:find("\n  layouts of [^\n]+\n.-%->"), name .. " has a table of layouts", page)
  end
end)

tap.group("what is made of others", function()
  local page, rows = rille.page("cross_entropy"), 0
  for _, logits in ipairs{"S(0)", "S(1)", "B"} do
    for _, labels in ipairs{"S(0)", "B"} do
      local y = empty({4, 6}, logits):cross_entropy(empty({4}, labels, "i64"))
      local e = rille.explain(y)
      local row = ("    %s, %s -> %s%s\n"):format(logits, labels, y.sbp, e.bytes > 0 and "   moves " .. e.bytes .. " bytes" or "")
      if page:find(row, 1, true) then
        rows = rows + 1
        tap.ok(page:find("made of        " .. names(e) .. "\n", 1, true), "the operators are named:" .. row:gsub("%s+", " "), page)
      end
    end
  end
  tap.is(rows, 3, "rows of cross_entropy are what explain says")
end)
tap.done()
