-- stages.lua - divides a model into pipeline stages, and assigns a placement to each module.
--
-- Members, such as the blocks of a transformer, are assigned to the stages in order. Members are the entries of the
-- model's longest list of modules. If the entries are lists themselves, the members are the entries of these lists,
-- at any depth. A member may be a table of modules. In a model without a list, the members are its direct parts.
-- members = {"down.*", "mid", "up.*"} in a recipe names the members instead. Modules before the first member are on
-- the first stage, all others on the last. The members of a model without modules are its parameters. A value that a
-- later stage uses is sent to that stage (actors/session/core/placing.h).

local check = require "rille.base.check"
local layout = require "rille.base.layout"
local cut = require "rille.parallel.cut"
local names = require "rille.parallel.names"

local stages = {}

-- ---- finding the members that are assigned to stages ----

-- Returns the prefixes of a path: "a.b.c" -> {"a", "a.b", "a.b.c"}.
local function prefixes(path)
  local list, at = {}, 0
  repeat
    at = path:find(".", at + 1, true)
    list[#list + 1] = path:sub(1, at and at - 1)
  until not at
  return list
end

local function is_place(prefix) return prefix:find("%f[^.\0]%d+$") ~= nil end

-- Returns the paths of modules in order, and the set of these paths. In a model without modules, each parameter
-- counts as a module.
local function module_paths(model)
  local list, is_module = {}, {}
  for path in model:named_modules() do
    if path ~= "" then list[#list + 1], is_module[path] = path, true end
  end
  if #list > 0 then return list, is_module end
  for name in model:named_parameters() do list[#list + 1] = name end
  return list, is_module
end

-- Calls visit(list, member) for each list that contains the module with this path. list: path of the list; member:
-- path of the list's entry that is or contains the module. A list of lists counts as one list.
local function each_list(path, is_module, visit)
  local parts = prefixes(path)
  local i = 1
  while i <= #parts do
    local holder = parts[i - 1] or ""
    if is_place(parts[i]) then
      while not is_module[parts[i]] and parts[i + 1] and is_place(parts[i + 1]) do i = i + 1 end
      visit(holder, parts[i])
    end
    i = i + 1
  end
end

-- Returns the lists of modules, in order: {{holder =, member, ...}, ...}. inner: true for a list inside a member of
-- another list. Also returns the direct parts of the model.
local function lists_of(model)
  local paths, is_module = module_paths(model)
  if not next(is_module) then return {}, paths end
  local lists, at, met, own = {}, {}, {}, {}
  for _, path in ipairs(paths) do
    each_list(path, is_module, function(holder, member)
      if met[member] then return end
      if not at[holder] then
        at[holder] = {holder = holder}
        lists[#lists + 1] = at[holder]
      end
      met[member] = true
      table.insert(at[holder], member)
    end)
    if not path:find(".", 1, true) then own[#own + 1] = path end
  end
  for _, list in ipairs(lists) do
    for _, prefix in ipairs(prefixes(list.holder)) do list.inner = list.inner or met[prefix] end
  end
  return lists, own
end

-- Returns the members of the model's longest list of modules (of the first, if there are two or more). Without lists,
-- returns the direct parts. A list inside a member of another list is considered only if the outer lists have fewer
-- than n members.
local function longest_list(model, n)
  local lists, own = lists_of(model)
  local function longest(inner)
    local best = {}
    for _, list in ipairs(lists) do
      if #list > #best and (inner or not list.inner) then best = list end
    end
    return best
  end
  local best = longest(false)
  if #best < n then best = longest(true) end
  return #best > 0 and best or own
end

-- Returns the outermost modules that match the patterns of recipe.members, in order.
local function named_members(model, patterns)
  check.that(type(patterns) == "table" and #patterns > 0,
    "parallel: members must be a list of names, {\"down.*\", \"up.*\"}, found %s",
    check.shown(patterns))
  local paths = module_paths(model)
  local list, taken = {}, {}
  for i = 1, #patterns do
    for _, path in ipairs(names.matching("members", patterns[i], paths)) do
      local inside = false
      for _, prefix in ipairs(prefixes(path)) do inside = inside or taken[prefix] end
      if not inside then list[#list + 1], taken[path] = path, true end
    end
  end
  return list
end

-- ---- assigning members to stages ----

-- Returns the number of members in the k-th of s stages (from 1); the first stages get one more if n is not divisible
-- by s.
local function share(n, s, k) return n // s + (k <= n % s and 1 or 0) end

-- Numbers the stages' placements from 1, in order of first appearance; returns the number for each stage.
local function numbered(list)
  local met, number = {}, {}
  for s, placement in ipairs(list) do
    for d, other in ipairs(met) do number[s] = number[s] or placement == other and d or nil end
    if not number[s] then met[#met + 1], number[s] = placement, #met + 1 end
  end
  return number
end

-- Returns the number of members of each stage: equal numbers, or the cut with the least batch time (cut.lua).
local function counts_of(recipe, n, list)
  if recipe.blocks then return (cut(recipe.blocks, n, numbered(list))) end
  local counts = {}
  for k = 1, #list do counts[k] = share(n, #list, k) end
  return counts
end

-- Returns the placements of the stages: the recipe's list, repeated `chunks` times.
local function stage_list(recipe)
  check.that(type(recipe.stages) == "table" and #recipe.stages > 0, "parallel: stages must be a list of placements, found %s",
    type(recipe.stages) == "table" and "none" or check.shown(recipe.stages))
  local list, chunks = {}, recipe.chunks or 1
  check.count("parallel", "chunks", chunks)
  for _ = 1, chunks do
    for i = 1, #recipe.stages do
      local p = recipe.stages[i]
      check.that(layout.is_placement(p), "parallel: stages[%d] must be a placement, found %s", i, check.shown(p))
      list[#list + 1] = p
    end
  end
  return list
end

-- Returns the paths of the members, in order.
function stages.members(model, recipe)
  return recipe.members ~= nil and named_members(model, recipe.members) or longest_list(model, #stage_list(recipe))
end

-- Assigns members to stages; returns a table from path to placement.
local function deal(model, recipe)
  local list, members = stage_list(recipe), stages.members(model, recipe)
  check.that(#members > 0, "parallel: %s has no modules and no parameters to assign to stages", model.__name)
  check.that(#list <= #members, "parallel: found %d stages for %d blocks (%s to %s); use 1 to %d stages, or name " ..
    "the blocks: members = {\"down.*\", \"up.*\"}", #list, #members, members[1], members[#members], #members)
  local at, next_member, counts = {}, 1, counts_of(recipe, #members, list)
  for k, p in ipairs(list) do
    for _ = 1, counts[k] do
      at[members[next_member]] = p
      next_member = next_member + 1
    end
  end
  return {at = at, list = list, first = list[1], last = list[#list]}
end

-- Returns the placement that all parameters share, for a recipe without stages; fails if the parameters are on two or
-- more placements.
local function one_place(model, recipe)
  for _, name in ipairs{"chunks", "blocks", "members"} do
    check.that(recipe[name] == nil, "parallel: %s needs stages", name)
  end
  local placement
  for name, p in model:named_parameters() do
    placement = placement or p.placement
    check.that(p.placement == placement,
      "parallel: '%s' is on another placement than the parameters before it; list the placements in stages", name)
  end
  check.that(placement, "parallel: the model has no parameters")
  return {first = placement, last = placement, of = function() return placement end}
end

-- Returns {first =, last =, of =, at =, list =}. first, last: placements of the first and last stage; of(path)
-- returns the placement of a module or parameter; at: member -> its placement.
function stages.places(model, recipe)
  if not recipe.stages then return one_place(model, recipe) end
  local dealt = deal(model, recipe)
  local before, met = {}, false
  for path in model:named_modules() do
    for _, prefix in ipairs(prefixes(path)) do met = met or dealt.at[prefix] ~= nil end
    before[path] = not met
  end
  local function of(path)
    local list = prefixes(path)
    for k = #list, 1, -1 do
      if dealt.at[list[k]] then return dealt.at[list[k]] end
    end
    while before[path] == nil do path = path:match("^(.*)%.[^.]*$") or "" end
    return before[path] and dealt.first or dealt.last
  end
  return {first = dealt.first, last = dealt.last, of = of, at = dealt.at, list = dealt.list}
end

return stages
