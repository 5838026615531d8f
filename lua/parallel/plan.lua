-- plan.lua - converts a recipe to a table of layouts: parameter name -> {placement =, sbp =, state =, gradient =},
-- module name -> pin {placement =, input =, output =, use =}. Changes no model.

local rille = require "rille"
local check = require "rille.base.check"
local axes = require "rille.parallel.axes"
local classes = require "rille.parallel.classes"
local names = require "rille.parallel.names"
local panel = require "rille.nn.base.panels"
local priced = require "rille.parallel.priced"
local stages = require "rille.parallel.stages"
local traced = require "rille.parallel.traced"
local nn = rille.nn

local plan = {}

local function join(path, name) return path == "" and name or path .. "." .. name end

-- ---- finding the roles of layers and parameters ----

-- Fails if a user's class gives a role to a part that no module of the class has. has: name of the part -> whether a
-- module has it. at: path of a module of the class. Rille's own classes name parts that only some modules have.
local function check_parts(class, has, at, exists)
  if check.is_own(class.forward) or rawget(class, "parallel") == nil then return end
  for _, name in ipairs(check.sorted_keys(has)) do
    local parts, prefix = {}, join(at, "")
    for path in pairs(exists) do
      if path:sub(1, #prefix) == prefix and path ~= at then parts[path:sub(#prefix + 1)] = true end
    end
    local near = not has[name] and rille._nearest(parts, name)
    check.that(has[name], "parallel: %s.parallel names '%s', but no %s has a part of this name%s", class.__name, name, class.__name,
      near and ("; the nearest name is '%s'"):format(near) or "")
  end
end

-- Adds to `role` the roles (column, row, ...) that the field `parallel` of modules' classes assigns to their layers. Adds
-- to `heads`, for each module with heads: path of a layer -> {number of heads, name of the module's field with that
-- number}.
local function roles_of_classes(model, role, heads)
  local exists, found, at = {}, {}, {} -- found: class -> name of a part with a role -> true if some module of the class has it
  for path in model:named_modules() do exists[path] = true end
  for _, t in ipairs(model:named_tensors()) do exists[t.name] = true end
  for path, m in model:named_modules() do
    local class = getmetatable(m)
    local roles = classes.of(class)
    if roles then
      found[class], at[class] = found[class] or {}, path
      classes.each(roles, function(name, what)
        role[join(path, name)] = what
        found[class][name] = found[class][name] or exists[join(path, name)] or false
      end)
      if roles.expert then role[path] = "routed" elseif roles.stream then role[path] = "block" end
      local of_layer = {}
      for name, field in pairs(roles.heads or {}) do of_layer[join(path, name)] = {m[field], field} end
      heads[path] = of_layer
    end
  end
  for class, has in pairs(found) do check_parts(class, has, at[class], exists) end
end

-- Adds the roles that the recipe's `layers` name, by pattern.
local function roles_of_names(model, layers, role)
  check.that(type(layers) == "table",
    "parallel: layers must be a table, {[\"*.fc1\"] = \"column\", [\"*.fc2\"] = \"row\"}, found %s",
    check.shown(layers))
  local list, module, is_tensor = {}, {}, {}
  for path, m in model:named_modules() do list[#list + 1], module[path] = path, m end
  for _, found in ipairs(model:named_tensors()) do list[#list + 1], is_tensor[found.name] = found.name, true end
  local by = {}
  for _, pattern in ipairs(check.sorted_keys(layers)) do
    classes.check_role(("parallel: layers: '%s'"):format(tostring(pattern)), layers[pattern])
    for _, path in ipairs(names.matching("layers", pattern, list)) do
      -- "*.fc1*" also matches the parameters of the layers that it names. Such a parameter gets its role from its
      -- layer.
      local holder = path:match("^(.*)%.[^.]*$")
      if not (is_tensor[path] and by[holder] == pattern) then
        check.that(not by[path] or layers[by[path]] == layers[pattern],
          "parallel: layers: '%s' has two roles: %s by '%s' and %s by '%s'; keep one",
          path, layers[by[path]], by[path], layers[pattern], pattern)
        check.that(is_tensor[path] or rawget(module[path], "weight") ~= nil,
          "parallel: layers: '%s' is a module without a parameter 'weight'; name layers that have one, or parameters", path)
        role[path], by[path] = layers[pattern], pattern
      end
    end
  end
end

-- Returns the role of each module and parameter by path, and the heads of each module's layers.
local function roles_of(model, recipe)
  local role, heads = {}, {}
  roles_of_classes(model, role, heads)
  if recipe.layers ~= nil then roles_of_names(model, recipe.layers, role) end
  return role, heads
end

-- Role of a module -> name of its parameter -> kind of the parameter: a column of the table `cuts` of axes.lua, which
-- says how the parameter is sharded.
local parameter_roles = {
  column = {weight = "column", bias = "column_bias", lora_B = "column", lora_magnitude = "column_bias", lora_bias = "column_bias",
    lora_factor = "column_bias"},
  row = {weight = "row", bias = "row_bias", lora_A = "row", lora_magnitude = "row_bias", lora_bias = "row_bias", lora_factor = "row_bias"},
  embedding = {weight = "column", lora_A = "row"}, positions = {weight = "positions"},
  norm = {weight = "norm_weight", bias = "norm_weight"},
}
parameter_roles.head = parameter_roles.column
-- Role of a parameter -> kind of the parameter: a column of the table `cuts` of axes.lua, which says how the
-- parameter is sharded.
local own_roles = {column = "column", head = "column", embedding = "column", row = "row", positions = "positions",
  norm = "norm_weight", expert = "experts"}

-- Role of a module -> columns of the table of axes.lua for its input and output; no entry: no pin. A norm's output
-- has the layout that column layers expect as input. In the 2D method, mesh axes gather the input of a norm. The
-- gradient then keeps a pending reduction from the norm back to that gather.
local module_roles = {
  column = {output = "wide"}, row = {input = "row_in", output = "stream"}, embedding = {input = "ids", output = "stream"},
  positions = {output = "stream"}, norm = {input = "norm", output = "inner"}, head = {output = "logits"},
  block = {output = "stream"}, routed = {input = "routed", output = "stream"},
}

-- Returns the number of groups into which the heads of a module's layers are divided; a rank gets complete groups. The
-- number is the number of heads of some layer, such as the key heads that query heads share. Prefers the least multiple
-- of the number of ranks, then the least number with a group for each rank. list: numbers of heads by layer; ways: number
-- of ranks.
local function groups_of(list, ways)
  table.sort(list)
  for _, n in ipairs(list) do if n % ways == 0 then return n end end
  for _, n in ipairs(list) do if n >= ways then return n end end
  return list[#list]
end

-- Decides how the layers with heads of a module are sharded, so that no head is on two ranks. A layer with fewer heads
-- than groups is replicated. Returns path of a layer -> number of groups, if the ranks do not divide this number. If the
-- class does not name the heads of its row layer, the groups of that layer are unknown. A column layer is then
-- replicated if the ranks do not divide its number of heads.
local function settle_heads(place, parts, role, heads, groups)
  local list, has_row = {}, false
  for path, count in pairs(heads) do
    check.that(math.type(count[1]) == "integer",
      "parallel: the number of heads of '%s', the field '%s', must be a positive integer, found %s", path,
      count[2], check.shown(count[1]))
    list[#list + 1], has_row = count[1], has_row or role[path] == "row"
  end
  for path, count in pairs(heads) do
    local placement = place.of(path)
    local ways = axes.ways(parts(placement), placement.shape, "wide", "S(-1)")
    local n = has_row and groups_of(list, ways) or ways
    if n == 1 then n = ways end
    if role[path] == "column" and count[1] % n ~= 0 then role[path] = nil end
    if role[path] and n % ways ~= 0 then groups[path] = n end
  end
end

-- Returns the number of pieces into which the 2D method divides a panel: a common multiple of the sizes of its two
-- mesh axes.
local function panel_unit(placement, parts)
  local n = {rows = 1, columns = 1}
  for a, part in ipairs(parts) do
    if n[part] then n[part] = n[part] * placement.shape[a] end
  end
  return panel.least_common(n.rows, n.columns)
end

local function check_panels(model, place, parts, roles, panels)
  for path, m in model:named_modules() do
    if panels and roles[path] == "column" and getmetatable(m) == nn.Linear then
      local cut = panel_unit(place.of(path), parts(place.of(path)))
      check.that(m.weight.shape[2] % (cut * panels) == 0,
        "parallel: a width of %d ('%s') cannot be split into %d panels over %d ranks; a multiple of %d would do",
        m.weight.shape[2], path, panels, cut, cut * panels)
    end
  end
end

-- ---- making the table of layouts ----

-- Returns the keys that a recipe may have, with the roles of mesh axes that users defined.
local function known_keys()
  local known = {}
  for _, key in ipairs{"data", "tensor", "method", "sequence", "layers", "zero", "zero_axes", "reshard", "stages", "members",
    "chunks", "panels", "blocks", "input"} do known[key] = check.none end
  for _, key in ipairs(axes.own()) do known[key] = check.none end
  return known
end

local known_blocks = {input = check.none, cost = check.none, memory = check.none, activations = check.none, hop = check.none,
  memory_limit = check.none, micro_batches = check.none, schedule = check.none}

-- Returns true if the recipe has mesh axes other than data axes.
local function has_tensor_axes(recipe)
  if recipe.tensor ~= nil then return true end
  for _, name in ipairs(axes.own()) do
    if recipe[name] ~= nil then return true end
  end
  return false
end

local function read_recipe(given)
  local known = known_keys()
  for name, value in pairs(given) do
    check.that(known[name] ~= nil or type(value) ~= "string", "parallel: '%s' must be a table {placement =, sbp =} of a parameter, found %s",
      check.named(name), check.shown(value))
  end
  local recipe = check.options("parallel", given, known_keys())
  local zero = recipe.zero or 0
  check.that(math.type(zero) == "integer" and zero >= 0 and zero <= 3,
    "parallel: zero must be 0, 1, 2 or 3, found %s", check.shown(zero))
  check.that(zero == 0 or recipe.data ~= nil, "parallel: zero needs a data axis: {data = 0, zero = %d}", zero)
  check.that(recipe.zero_axes == nil or zero > 0, "parallel: zero_axes needs zero = 1, 2 or 3, found 0")
  check.that(recipe.input == nil or recipe.tensor ~= nil,
    "parallel: input is for tensor axes: {tensor = 0, input = x}; to balance stages, write blocks = {input = x}")
  recipe.zero = zero
  if recipe.blocks ~= nil then recipe.blocks = check.options("parallel: blocks", recipe.blocks, known_blocks) end
  for _, flag in ipairs{"sequence", "reshard"} do
    if recipe[flag] ~= nil then check.flag("parallel", flag, recipe[flag]) end
  end
  if recipe.panels ~= nil then
    check.count("parallel", "panels", recipe.panels)
    check.that(type(recipe.tensor) == "table" and recipe.method ~= "3d" and recipe.method ~= "1d",
      "parallel: panels need method 2d or 2.5d, found %s", tostring(recipe.method or "1d"))
  end
  return recipe
end

-- Returns the dimension that ZeRO shards; nil: none. If other axes shard the parameter, too, returns 0. Otherwise
-- returns the first dimension with at least one entry per rank, or, if there is none, the longest dimension.
local function zero_dimension(placement, parts, what, shape)
  if #shape == 0 then return nil end
  if what ~= "whole" then return 0 end
  local ranks, best = 1, 1
  for a in pairs(parts.zero) do ranks = ranks * placement.shape[a] end
  for d, size in ipairs(shape) do
    if size >= ranks then return d - 1 end
    if size > shape[best] then best = d end
  end
  return best - 1
end

-- Returns the number of features of a group of heads; nil: the layer has no groups, or they do not divide the tensor.
local function unit_of(groups, what, shape)
  local dimension = groups and axes.features(what)
  local size = dimension and shape[dimension + 1]
  return size and size > groups and size % groups == 0 and size // groups or nil
end

-- Returns the layouts of a parameter, its optimiser state and its gradient.
local function parameter_entry(placement, parts, what, zero, shape, unit)
  local dimension = zero > 0 and zero_dimension(placement, parts, what, shape) or nil
  local cut = axes.layout(parts, what, false, dimension, unit)
  local entry = {placement = placement, sbp = zero == 3 and cut or axes.layout(parts, what, false, nil, unit)}
  if zero == 1 or zero == 2 then entry.state = cut end
  if zero == 2 then entry.gradient = cut end
  return entry
end

-- Returns the pin of a module in this role (nn/base/pin.lua). Leaves out layouts that Rille derives from other layouts.
-- panels: column layers gather their own input. unit: number of features of a group of heads; nil: no heads.
local function pin_of(role, parts, panels, is_linear, unit)
  local pin, stream, inner = {}, axes.layout(parts, "stream"), axes.layout(parts, "inner")
  for side, what in pairs(module_roles[role] or {}) do pin[side] = axes.layout(parts, what, false, nil, unit) end
  -- not nil if the input of column layers is split along its last axis, so that they return pending reductions
  local sums = inner:find("S(-1)", 1, true)
  if role == "norm" then
    if pin.input == stream then pin.input = nil end
    -- the stream is gathered before the norm, and the norm's gradient is reduced there
    if pin.input == inner then pin.output = nil end
    -- instead of gathering, the norm reduces the statistics of its rows
    if panels then pin.input, pin.output = nil, stream end
  elseif role == "row" then
    if pin.input == axes.layout(parts, "wide", false, nil, unit) then pin.input = nil end
  elseif role == "column" or role == "head" then
    if not sums then pin.output = nil end
    if inner == stream then pin.input = inner end -- no norm gathers the input and reduces its gradient
    pin.panels = role == "column" and is_linear and panels or nil
  elseif role == "routed" and not sums then
    pin = {} -- rows are replicated already, and the sum over experts gets the layout of the stream
  end
  return pin
end

local function add_pins(out, path, pin)
  for key, value in pairs(pin) do
    out.entries[path] = out.entries[path] or {}
    out.entries[path][key] = value
  end
end

-- Returns the kind of a parameter, the column of the table `cuts` of axes.lua that says how it is sharded. module:
-- path of the module that has the parameter.
local function column_of(roles, name, module, key)
  if own_roles[roles[name]] then return own_roles[roles[name]] end
  return parameter_roles[roles[module]] and parameter_roles[roles[module]][key] or "whole"
end

local function add_parameters(model, out, place, parts, roles, recipe)
  local entry_of, is_module = {}, {}
  for path in model:named_modules() do is_module[path] = true end
  for _, found in ipairs(model:named_tensors()) do
    local name, t, module = found.name, found.tensor, found.name
    repeat module = module:match("^(.*)%.[^.]*$") or "" until is_module[module]
    local key = module == "" and name or name:sub(#module + 2) -- path within the module: "weight", or "list.0"
    local placement, what = place.of(module == "" and name or module), column_of(roles, name, module, key)
    local p, unit = parts(placement), unit_of(out.groups[name] or out.groups[module], what, t.shape)
    if not entry_of[t] then
      entry_of[t] = parameter_entry(placement, p, what, found.kind == "parameter" and recipe.zero or 0, t.shape, unit)
      out.entries[name] = entry_of[t]
      out.order[#out.order + 1], out.columns[name], out.tensors[name] = name, what, {shape = t.shape, dtype = t.dtype,
        kind = found.kind}
    end
    local used = axes.layout(p, what, true, nil, unit)
    if used ~= entry_of[t].sbp or placement ~= entry_of[t].placement then
      add_pins(out, module, {use = out.entries[module] and out.entries[module].use or {}})
      out.entries[module].use[key] = used
    end
    if used ~= entry_of[t].sbp and found.kind == "parameter" then
      out.gathers = true
      if recipe.reshard == false then entry_of[t].reshard = false end
    end
  end
end

-- Returns the set of modules that are pinned to a stage: members (the modules that are assigned to stages in order),
-- and other modules with tensors that contain no member. A module inside a pinned module is not pinned.
local function staged_modules(model, place)
  local holds, deals, pinned = {}, {}, {}
  local function note(path, set)
    while path do
      set[path] = true
      path = path:match("^(.*)%.[^.]*$")
    end
  end
  for _, found in ipairs(model:named_tensors()) do note(found.name:match("^(.*)%.[^.]*$"), holds) end
  for path in pairs(place.at or {}) do note(path:match("^(.*)%.[^.]*$"), deals) end
  local function within_pinned(path)
    repeat path = path:match("^(.*)%.[^.]*$") until not path or pinned[path]
    return path ~= nil
  end
  for path in model:named_modules() do
    local wanted = place.list and path ~= "" and (place.at[path] or holds[path] and not deals[path])
    pinned[path] = wanted and not within_pinned(path) or nil
  end
  return pinned
end

local function add_modules(model, out, place, parts, roles, recipe)
  local pinned = staged_modules(model, place)
  for path, m in model:named_modules() do
    local placement = place.of(path)
    if has_tensor_axes(recipe) or roles[path] == "block" then
      local weight = out.groups[path] and rawget(m, "weight")
      local unit = weight and unit_of(out.groups[path], roles[path], weight.shape)
      add_pins(out, path, pin_of(roles[path], parts(placement), recipe.panels, getmetatable(m) == nn.Linear, unit))
    end
    if pinned[path] then
      add_pins(out, path, {placement = placement})
      local input = roles[path] == "row" and "row_in" or "stream"
      if place.at[path] then add_pins(out, path, {input = axes.layout(parts(placement), input)}) end
    end
    if out.entries[path] and not out.known[path] then
      out.known[path] = true
      out.order[#out.order + 1] = path
    end
  end
end

local warned = {} -- texts of the warnings printed so far

-- Reports a mesh axis whose rules shard no parameter. Without a trace, this is an error. After a trace, the model
-- trains with replicated layers, as on one device, so a warning suffices.
local function report_unused(model, found, axis, part, because)
  local text = ("parallel: no parameter of %s is sharded over mesh axis %d (%s), because %s"):format(model.__name, axis, part, because)
  local names = "layers = {[\"*.fc1\"] = \"column\", [\"*.fc2\"] = \"row\"}"
  check.that(found, "%s; pass an example of the model's input, input = x, or name the layers: %s", text, names)
  text = ("%s: %s, so its ranks repeat each other's work; use a data axis instead, or name the layers: %s"):format(check.line(), text, names)
  if not warned[text] then io.stderr:write("rille: warning: ", text, "\n") end
  warned[text] = true
end

-- Stores in out.unsplit the parameters that no tensor axis shards. Reports an axis whose rules shard parameters and that
-- shards no parameter.
local function check_tensor_axes(model, out, parts)
  local splits, mesh_axis = {}, {}
  for _, name in ipairs(out.order) do
    local what, any = out.columns[name], false
    for a, part in ipairs(what and parts(out.entries[name].placement) or {}) do
      if axes.shards_parameters(part) then
        local cut = axes.role(part)[what]
        mesh_axis[part], any, splits[part] = a - 1, any or cut, splits[part] or cut
      end
    end
    if not any and what == "whole" and out.tensors[name].kind == "parameter" then out.unsplit[#out.unsplit + 1] = name end
  end
  local because = out.found and "sharding would move more than it saves" or
    next(splits) and "no layer has a role that this axis shards" or "no layer has a role"
  for _, part in ipairs(check.sorted_keys(mesh_axis)) do
    if not splits[part] then report_unused(model, out.found, mesh_axis[part], part, because) end
  end
end

-- Adds estimates of the block costs that the recipe lacks. evenly: the recipe in which each stage has an equal number
-- of blocks; the planner computes the estimates for this recipe. The estimated time of transfers, in ns, is added
-- only if the user gives no costs, because given costs may have any unit.
local function reckon(model, recipe, evenly)
  local module, blocks = {}, {}
  evenly.blocks = nil
  local entries = plan.of(model, evenly).entries
  for path, m in model:named_modules() do module[path] = m end
  for k, path in ipairs(stages.members(model, recipe)) do 
    check.that(module[path],
      "parallel: blocks: costs can be estimated only for modules, but '%s' is a table of modules; list cost", path)
    blocks[k] = module[path]
  end
  local list = priced(model, blocks, entries, recipe.stages, recipe.blocks.input)
  if recipe.blocks.cost then list.hop = nil end
  for what, reckoned in pairs(list) do recipe.blocks[what] = recipe.blocks[what] or reckoned end
end

-- Returns a function that returns the roles of the axes of a placement, by the recipe.
local function parts_of(recipe)
  local cached = {}
  return function(placement)
    for _, c in ipairs(cached) do
      if c.placement == placement then return c.parts end
    end
    local p = axes.parts(recipe, placement.shape)
    table.insert(cached, {placement = placement, parts = p})
    return p
  end
end

-- Returns the table of layouts for a model whose layers have these roles. groups: path of a layer -> number of groups of
-- its heads, if the ranks do not divide this number.
local function lay(model, recipe, place, parts, roles, groups)
  local out = {groups = groups, entries = {}, order = {}, known = {}, columns = {}, tensors = {}, unsplit = {}, unused = {}, zero = recipe.zero}
  add_parameters(model, out, place, parts, roles, recipe)
  add_modules(model, out, place, parts, roles, recipe)
  return out
end

-- Adds the roles that a trace of the model finds (traced.lua), and returns the decisions. The trace uses one mesh
-- axis in place of all tensor axes of the recipe.
local function add_traced(model, recipe, place, parts, roles, groups)
  local ranks, list, alone = 1, type(recipe.tensor) == "table" and recipe.tensor or {recipe.tensor}, {tensor = 0, zero = 0}
  for _, axis in ipairs(list) do ranks = ranks * place.first.shape[axis + 1] end
  local function entries_of(more, mesh, known)
    local all = {}
    for path, role in pairs(roles) do all[path] = role end
    for path, role in pairs(more) do all[path] = role end
    return lay(model, alone, {first = mesh, last = mesh, of = function() return mesh end}, parts_of(alone), all, known).entries
  end
  local more, found = traced(model, recipe.input, roles, ranks, entries_of, #list > 1 and 2 or 1, groups)
  for path, role in pairs(more) do roles[path] = role end
  return found
end

-- Converts the user's recipe to {entries =, order =, input =, labels =}.
function plan.of(model, given)
  local recipe = read_recipe(given)
  if recipe.blocks and recipe.blocks.input ~= nil and recipe.stages then reckon(model, recipe, read_recipe(given)) end
  local place = stages.places(model, recipe)
  local parts = parts_of(recipe)
  parts(place.first)
  local roles, heads = roles_of(model, recipe)
  local groups = {}
  for _, of_module in pairs(heads) do settle_heads(place, parts, roles, of_module, groups) end
  local found = recipe.input ~= nil and add_traced(model, recipe, place, parts, roles, groups) or nil
  check_panels(model, place, parts, roles, recipe.panels)
  local out = lay(model, recipe, place, parts, roles, groups)
  out.found, out.stages = found, place.list
  check.that(out.gathers or recipe.reshard == nil,
    "parallel: reshard has no effect, because this recipe gathers no weights; " ..
    "add zero = 3, or 2 or 3 tensor axes, or remove reshard")
  for a, part in ipairs(parts(place.first)) do
    if part == "none" and #place.first.shape > 1 and place.first.shape[a] > 1 then out.unused[#out.unused + 1] = a - 1 end
  end
  if has_tensor_axes(recipe) then check_tensor_axes(model, out, parts) end
  out.input = {placement = place.first, sbp = axes.layout(parts(place.first), "ids")}
  out.labels = {placement = place.last, sbp = axes.layout(parts(place.last), "labels")}
  return out
end

return plan
