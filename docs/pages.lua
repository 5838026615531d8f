-- pages.lua - prints pages.md: the help page of everything that is no operator, made from the registry of help.
--
--   cmake --build --preset release      writes build/release/docs/pages.md; cmake --install installs it

local rille = require "rille"
local pages = require "rille.pages"

local groups = {
  {"Functions", "^[%w_]+$"}, {"Fields of tensors", "^tensor%."}, {"Placements and layouts", "^placement%.", "^sbp%."},
  {"Modules: rille.nn", "^nn"}, {"Optimisers: rille.optim", "^optim", "^optimizer%."}, {"Compiled steps", "^graph%."},
  {"Data: rille.data", "^data", "^loader%."}, {"Models: rille.models", "^models", "^model%.", "^scheduler%."}, {"Recipes: rille.parallel", "^parallel"},
  {"Text: rille.tokenizer", "^tokenizer"}, {"Files: rille.io, rille.checkpoint", "^io", "^checkpoint"}, {"Training: rille.train", "^train", "^progress%.", "^replicas%."},
}

local operator = {}
for _, name in ipairs(rille.operators()) do operator[name] = true end

local function group_of(name)
  for i = #groups, 1, -1 do
    for k = 2, #groups[i] do
      if name:find(groups[i][k]) then return i end
    end
  end
  error("no group for " .. name)
end

local lists = {}
for _, name in ipairs(pages.names()) do
  local row = pages.row(name)
  if row.sign or not operator[name] then
    local g = group_of(name)
    lists[g] = lists[g] or {}
    table.insert(lists[g], name)
  end
end

print("# Pages\n")
print("The help pages of functions, classes and objects, printed by `docs/pages.lua`; `?name` in the shell shows the same page.")
print("`t/shell/help.lua` runs every example. Operators are in [operators.md](operators.md).")
for g, names in ipairs(lists) do
  print(("\n## %s"):format(groups[g][1]))
  for _, name in ipairs(names) do
    local page = rille.page(name):gsub("\n  %?.*", "") -- the pages of members follow
    print(("\n### %s\n\n```\n%s\n```"):format(name, page))
  end
end
