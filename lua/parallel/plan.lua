-- plan.lua - converts a recipe to a table of layouts: parameter name -> {placement =, sbp =, state =, gradient =},
-- module name -> pin {placement =, input =, output =, use =}. Changes no model.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local axes = require "rille.parallel.axes"
local class_of = require "rille.parallel.classes"
local cut = require "rille.parallel.cut"
local panel = require "rille.nn.panels"
local priced = require "rille.parallel.priced"
local nn = rille.nn

local plan = {}

local function join(path, name) return path == "" and name or path .. "." .. name end

-- ---- stages ----

-- Returns the paths of the members of the model's longest list of modules, in order; of several, the first. A module
-- that is in the list twice counts once.
local function longest_list(model)
  local members, best = {}, {}
  for path in model:named_modules() do
    local holder = path:match("^(.*)%.%d+$") or path:match("^%d+$") and ""
    if holder then
      members[holder] = members[holder] or {}
      table.insert(members[holder], path)
    end
  end
  for path in model:named_modules() do
    local list = members[path:match("^(.*)%.%d+$") or ""] or {}
    if #list > #best then best = list end
  end
  return best
end

-- Returns the number of members in the k-th of s stages (from 1); the first stages get one more if n is not divisible
-- by s.
local function share(n, s, k) return n // s + (k <= n % s and 1 or 0) end

-- Returns the number of each stage's placement, from 1 in order of appearance.
local function numbered(stages)
  local met, number = {}, {}
  for s, placement in ipairs(stages) do
    for d, other in ipairs(met) do number[s] = number[s] or placement == other and d or nil end
    if not number[s] then met[#met + 1], number[s] = placement, #met + 1 end
  end
  return number
end

-- Returns the number of members of each stage: equal numbers, or the cut with the least batch time (cut.lua).
local function counts_of(recipe, n, stages)
  if recipe.blocks then return (cut(recipe.blocks, n, numbered(stages))) end
  local counts = {}
  for k = 1, #stages do counts[k] = share(n, #stages, k) end
  return counts
end

-- Assigns the members of the longest list to stages: path -> placement. Other modules are on the first stage if they
-- precede the members, else on the last.
local function deal(model, recipe)
  local stages, members = {}, longest_list(model)
  check.that(type(recipe.stages) == "table" and #recipe.stages > 0, "rille.parallel: stages is a list of placements")
  local chunks = recipe.chunks or 1
  check.count("rille.parallel", "chunks", chunks)
  for _ = 1, chunks do
    for i = 1, #recipe.stages do
      local p = recipe.stages[i]
      check.that(layout.is_placement(p), "rille.parallel: stages[%d] is a placement, not %s", i, check.shown(p))
      stages[#stages + 1] = p
    end
  end
  check.that(#members > 0, "rille.parallel: %s has no list of modules to deal over stages", model.__name)
  check.that(#stages <= #members, "rille.parallel: %d stages are more than the %d blocks there are; 1 to %d would do", #stages,
    #members, #members)
  local at, next_member, counts = {}, 1, counts_of(recipe, #members, stages)
  for k, p in ipairs(stages) do
    for _ = 1, counts[k] do
      at[members[next_member]] = p
      next_member = next_member + 1
    end
  end
  return {at = at, first = stages[1], last = stages[#stages]}
end

-- Returns the placements of the model's parts: of(path) for a module or parameter.
local function places(model, recipe)
  if not recipe.stages then
    check.that(recipe.chunks == nil, "rille.parallel: chunks want stages")
    check.that(recipe.blocks == nil, "rille.parallel: blocks want stages")
    local placement
    for name, p in model:named_parameters() do
      placement = placement or p.placement
      check.that(p.placement == placement,
        "rille.parallel: '%s' lies elsewhere than the parameters before it; name the stages", name)
    end
    check.that(placement, "rille.parallel: the model has no parameters")
    return {first = placement, last = placement, of = function() return placement end}
  end
  local dealt = deal(model, recipe)
  -- Modules are visited in order of definition; modules before the first member are on the first stage.
  local before, met = {}, false
  for path in model:named_modules() do
    met = met or dealt.at[path] ~= nil
    before[path] = not met
  end
  local function of(path)
    local at = path
    while at do
      if dealt.at[at] then return dealt.at[at] end
      at = at:match("^(.*)%.[^.]*$")
    end
    local module = before[path] == nil and (path:match("^(.*)%.[^.]*$") or "") or path
    return before[module] and dealt.first or dealt.last
  end
  return {first = dealt.first, last = dealt.last, of = of, at = dealt.at, staged = true}
end

-- ---- roles ----

-- Returns the role of each module and parameter by path, from the classes of its holders; and the modules of unknown
-- classes.
local function roles_of(model)
  local role, known_any, whole = {}, false, {}
  for path, m in model:named_modules() do
    local known = class_of(m)
    known_any = known_any or (known and true or false)
    for what, list in pairs(known or {}) do
      if type(list) == "table" and what ~= "counts" then
        for _, name in ipairs(list) do role[join(path, name)] = what end
      end
    end
    if known and known.experts then role[path] = "routed" end
    if known and (known.block or known.images) then role[path] = known.block and "block" or "images" end
    if not known and role[path] == nil then whole[path] = true end
  end
  check.that(known_any, "rille.parallel: %s has no layer that recipes know (nn.TransformerBlock, nn.MultiheadAttention, nn.SwiGLU, " ..
    "rille.models)", model.__name)
  return role, whole
end

-- Column of the table of axes.lua, for a parameter of a module in this role.
local parameter_roles = {
  columns = {weight = "column", bias = "column_bias"}, heads = {weight = "column", bias = "column_bias"},
  tables = {weight = "column"}, rows = {weight = "row", bias = "row_bias"}, positions = {weight = "positions"},
  norms = {weight = "norm_weight", bias = "norm_weight"},
}

-- Columns for a module's input and output; no entry: no pin. A norm's output has the layout of column layers' input. If
-- the axes gather before a norm (2D), the norm's gradient keeps a pending reduction until then.
local module_roles = {
  columns = {output = "wide"}, rows = {input = "row_in", output = "stream"}, tables = {input = "ids", output = "stream"},
  positions = {output = "stream"}, norms = {input = "norm", output = "inner"}, heads = {output = "logits"},
  block = {output = "stream"}, images = {output = "ids"}, routed = {input = "routed", output = "stream"},
}
local between = {block = "stream", images = "ids"} -- members of the list for stages: column of their input

local function check_counts(model, place, parts)
  for path, m in model:named_modules() do
    local known = class_of(m)
    for _, count in ipairs(known and known.counts or {}) do
      local p = parts(place.of(path))
      local ways = axes.ways(p, place.of(path).shape, "wide", "S(2)")
      local function divides_all(n)
        for _, other in ipairs(known.counts) do
          if m[other[1]] % n ~= 0 then return false end
        end
        return true
      end
      check.that(m[count[1]] % ways == 0, "rille.parallel: %d %s of '%s' do not divide over %d ranks; %s would do", m[count[1]],
        count[2], path, ways, check.divisors(m[count[1]], divides_all))
    end
  end
end

-- Returns the number of pieces into which rows and columns together divide the contraction axis of 2D.
local function panel_unit(placement, parts)
  local n = {rows = 1, columns = 1}
  for a, part in ipairs(parts) do
    if n[part] then n[part] = n[part] * placement.shape[a] end
  end
  return panel.least_common(n.rows, n.columns)
end

local function check_panels(model, place, parts, roles, panels)
  for path, m in model:named_modules() do
    if panels and roles[path] == "columns" and getmetatable(m) == nn.Linear then
      local cut = panel_unit(place.of(path), parts(place.of(path)))
      check.that(m.weight.shape[2] % (cut * panels) == 0,
        "rille.parallel: a width of %d ('%s') does not divide into %d panels over %d ranks; a multiple of %d would do",
        m.weight.shape[2], path, panels, cut, cut * panels)
    end
  end
end

-- ---- the table ----

local known = {data = check.none, tensor = check.none, method = check.none, sequence = check.none, zero = check.none,
  stages = check.none, chunks = check.none, panels = check.none, blocks = check.none}

local known_blocks = {input = check.none, cost = check.none, memory = check.none, activations = check.none, hop = check.none,
  memory_limit = check.none, micro_batches = check.none, schedule = check.none}

local function read_recipe(given)
  local recipe = check.options("rille.parallel", given, known)
  local zero = recipe.zero or 0
  check.that(math.type(zero) == "integer" and zero >= 0 and zero <= 3, "rille.parallel: zero goes from 0 to 3, not %s", check.shown(zero))
  check.that(zero == 0 or recipe.data ~= nil, "rille.parallel: zero wants a data axis: {data = 0, zero = %d}", zero)
  recipe.zero = zero
  if recipe.blocks ~= nil then recipe.blocks = check.options("rille.parallel: blocks", recipe.blocks, known_blocks) end
  if recipe.sequence ~= nil then check.flag("rille.parallel", "sequence", recipe.sequence) end
  if recipe.panels ~= nil then
    check.count("rille.parallel", "panels", recipe.panels)
    check.that(type(recipe.tensor) == "table" and recipe.method ~= "3d" and recipe.method ~= "1d",
      "rille.parallel: panels go with methods 2d and 2.5d, not %s", tostring(recipe.method or "1d"))
  end
  return recipe
end

-- Returns the layouts of a parameter, its optimiser state and its gradient.
local function parameter_entry(placement, parts, what, zero)
  local entry, cut = {placement = placement, sbp = axes.layout(parts, what, false, zero == 3)}, axes.layout(parts, what, false, true)
  if zero == 1 or zero == 2 then entry.state = cut end
  if zero == 2 then entry.gradient = cut end
  return entry
end

-- Returns the pin of a module in this role, without layouts that follow from others. With panels, column layers gather
-- their own input.
local function pin_of(role, parts, panels, is_linear)
  local pin, stream, inner = {}, axes.layout(parts, "stream"), axes.layout(parts, "inner")
  for side, what in pairs(module_roles[role] or {}) do pin[side] = axes.layout(parts, what) end
  local sums = inner:find("S(2)", 1, true)                         -- column layers return pending reductions
  if role == "norms" then
    if pin.input == stream then pin.input = nil end
    if pin.input == inner then pin.output = nil end                -- gathered before the norm; the gradient is reduced there
    if panels then pin.input, pin.output = nil, stream end         -- the norm reduces its rows' statistics instead
  elseif role == "rows" then
    if pin.input == axes.layout(parts, "wide") then pin.input = nil end
  elseif role == "columns" or role == "heads" then
    if not sums then pin.output = nil end
    pin.panels = role == "columns" and is_linear and panels or nil
  elseif role == "routed" and not sums then
    pin = {} -- rows are replicated already; the sum over experts takes the stream's layout
  end
  return pin
end

local function add_pins(out, path, pin)
  for key, value in pairs(pin) do
    out.entries[path] = out.entries[path] or {}
    out.entries[path][key] = value
  end
end

local function add_parameters(model, out, place, parts, roles, zero)
  local entry_of = {}
  for _, found in ipairs(model:named_tensors()) do
    local name, t, kind, key = found.name, found.tensor, found.kind, found.key
    local path = name:match("^(.*)%.[^.]*$") or ""
    local placement, what = place.of(path), "whole"
    if roles[name] == "experts" then what = "experts"
    elseif parameter_roles[roles[path]] then what = parameter_roles[roles[path]][key] or "whole" end
    local p = parts(placement)
    if not entry_of[t] then
      entry_of[t] = parameter_entry(placement, p, what, kind == "parameter" and zero or 0)
      out.entries[name] = entry_of[t]
      out.order[#out.order + 1] = name
    end
    local used = axes.layout(p, what, true)
    if used ~= entry_of[t].sbp or placement ~= entry_of[t].placement then
      add_pins(out, path, {use = out.entries[path] and out.entries[path].use or {}})
      out.entries[path].use[key] = used
    end
  end
end

local function add_modules(model, out, place, parts, roles, recipe)
  local holds, deals = {}, {} -- modules that contain tensors; modules that contain members of the stage list
  local function note(path, set)
    while path do
      set[path] = true
      path = path:match("^(.*)%.[^.]*$")
    end
  end
  for _, found in ipairs(model:named_tensors()) do note(found.name:match("^(.*)%.[^.]*$"), holds) end
  for path in pairs(place.at or {}) do note(path:match("^(.*)%.[^.]*$"), deals) end
  local function within_member(path)
    while path do
      if place.at and place.at[path] then return true end
      path = path:match("^(.*)%.[^.]*$")
    end
  end
  for path, m in model:named_modules() do
    local placement = place.of(path)
    if recipe.tensor ~= nil or between[roles[path]] then
      add_pins(out, path, pin_of(roles[path], parts(placement), recipe.panels, getmetatable(m) == nn.Linear))
    end
    if place.staged and path ~= "" and (place.at[path] or holds[path] and not deals[path] and not within_member(path)) then
      add_pins(out, path, {placement = placement})
      if place.at[path] then add_pins(out, path, {input = axes.layout(parts(placement), between[roles[path]] or "stream")}) end
    end
    if out.entries[path] and not out.known[path] then
      out.known[path] = true
      out.order[#out.order + 1] = path
    end
  end
end

-- Adds estimates of missing block costs to the recipe, computed by the planner for the model with equal numbers of
-- blocks per stage. If the user gives costs, in any unit, no hop time in nanoseconds is added.
local function reckon(model, recipe, evenly)
  local module, blocks = {}, {}
  evenly.blocks = nil
  local entries = plan.of(model, evenly).entries
  for path, m in model:named_modules() do module[path] = m end
  for k, path in ipairs(longest_list(model)) do blocks[k] = module[path] end
  local list = priced(model, blocks, entries, recipe.stages, recipe.blocks.input)
  if recipe.blocks.cost then list.hop = nil end
  for what, reckoned in pairs(list) do recipe.blocks[what] = recipe.blocks[what] or reckoned end
end

-- Converts the user's recipe to {entries =, order =, input =, labels =}.
function plan.of(model, given)
  local recipe = read_recipe(given)
  if recipe.blocks and recipe.blocks.input ~= nil and recipe.stages then reckon(model, recipe, read_recipe(given)) end
  local place, cached = places(model, recipe), {}
  local function parts(placement)
    for _, c in ipairs(cached) do
      if c.placement == placement then return c.parts end
    end
    local p = axes.parts(recipe, placement.shape)
    table.insert(cached, {placement = placement, parts = p})
    return p
  end
  parts(place.first)
  local roles, whole = roles_of(model)
  check_counts(model, place, parts)
  check_panels(model, place, parts, roles, recipe.panels)
  local out = {entries = {}, order = {}, known = {}, whole = whole, zero = recipe.zero}
  add_parameters(model, out, place, parts, roles, recipe.zero)
  add_modules(model, out, place, parts, roles, recipe)
  out.input = {placement = place.first, sbp = axes.layout(parts(place.first), "ids")}
  out.labels = {placement = place.last, sbp = axes.layout(parts(place.last), "labels")}
  return out
end

return plan
