-- recipes.lua - the recipes for --recipe of gpt.lua and finetune.lua: meshes of devices, and the use of each mesh axis.
--
--   local placement, how = dofile("recipes.lua")("dp-tp")
--   rille.parallel(model, how)

local rille = require "rille"

local cube = {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}
local recipes = {
  single   = {{0}, {}},
  dp       = {{0, 1}, {data = 0}},
  tp       = {{0, 1}, {tensor = 0}},
  sp       = {{0, 1}, {tensor = 0, sequence = true}},
  ["dp-tp"] = {{{0, 1}, {2, 3}}, {data = 0, tensor = 1}},
  ["2d"]   = {{{0, 1}, {2, 3}}, {tensor = {0, 1}, method = "2d"}},
  ["2.5d"] = {cube, {tensor = {0, 1, 2}, method = "2.5d"}},
  ["3d"]   = {cube, {tensor = {0, 1, 2}, method = "3d"}},
  zero     = {{0, 1, 2, 3}, {data = 0, zero = 3}},
  pp       = {{0}, {stages = {{0}, {1}}}},
  ["pp-tp"] = {{0, 1}, {stages = {{0, 1}, {2, 3}}, tensor = 0}},
}

-- Returns the placement of a recipe, and the options for rille.parallel.
return function(name)
  local recipe = recipes[name]
  if not recipe then
    local names = {}
    for known in pairs(recipes) do names[#names + 1] = known end
    table.sort(names)
    error(("unknown recipe '%s'; expected one of: %s"):format(name, table.concat(names, ", ")), 0)
  end
  local how = recipe[2]
  for i, devices in ipairs(how.stages or {}) do how.stages[i] = rille.placement("cpu", devices) end
  return rille.placement("cpu", recipe[1]), how
end
