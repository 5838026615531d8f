-- parallel.lua - rille.parallel(model, recipe): sets the layouts of a whole model by known methods of parallel
-- training.
--
--   local t = rille.parallel(model, {data = 0, tensor = 1})     print(t)
--   t["h.0.fc1.weight"].sbp = "B";  rille.parallel(model, t)
--   rille.parallel(model, {tensor = {0, 1}, method = "2d", panels = 4})        2D gathers panel by panel (nn/base/panels.lua)
--   rille.parallel(model, {data = {0, 1}, zero = 3, zero_axes = 1})            HSDP: ZeRO over axis 1, replicas over axis 0
--   rille.parallel(model, {tensor = 0, layers = {["*.fc1"] = "column", ["*.fc2"] = "row"}})
--   rille.parallel(model, {tensor = 0, input = x})
--
-- Any module can be laid out. Only tensor axes need the roles of layers: from classes (classes.lua), by name, or from a
-- trace of the model on an example input (traced.lua).
-- A recipe becomes a table of layouts. The table sets the layouts of parameters, of optimiser state and of gradients
-- (layout.lua). The table also pins modules (nn/base/pin.lua), because a planner that sees one operator at a time cannot
-- find the cheapest layouts of a stack of blocks. parallel/axes.lua defines the methods. All entries are checked before
-- the first change.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local Module = require "rille.nn.base.module"
local pin = require "rille.nn.base.pin"
local axes = require "rille.parallel.axes"
local classes = require "rille.parallel.classes"
local plan = require "rille.parallel.plan"
local paint = require "rille.show.paint"

local applied = setmetatable({}, {__mode = "k"}) -- model -> the result of plan.of() whose layouts it has
-- table of layouts -> the result of plan.of() from which it was created
local plan_of = setmetatable({}, {__mode = "k"})

-- ---- showing a table of layouts ----

local function sbp_text(sbp)
  if type(sbp) ~= "table" then return tostring(sbp) end
  local text = #sbp == 1 and sbp[1] or "(" .. table.concat(sbp, ", ") .. ")"
  return sbp.order and ("%s order (%s)"):format(text, table.concat(sbp.order, ", ")) or text
end

-- Returns, as text, how many bytes all ranks together receive when a parameter is gathered once; nil: the parameter
-- is not in the plan.
local function gathered(p, t, module, name, sbp)
  local path = module == "" and name or module .. "." .. name
  local known, entry = p and p.tensors[path], t[path]
  if not known or not entry or not entry.placement then return nil end
  local place = t[module].placement or entry.placement
  local bytes = rille.boxing{shape = known.shape, dtype = known.dtype, from = {placement = entry.placement, sbp = entry.sbp},
    to = {placement = place, sbp = sbp}}.bytes
  return ("(%s per gather%s)"):format(paint.bytes(bytes), entry.reshard == false and ", kept for backward" or "")
end

-- Returns one line of text for the entry of `path` in a table of layouts: the layout first, then the fields of the
-- pin.
local function entry_text(p, t, path)
  local entry, words = t[path], {}
  if entry.sbp then words[1] = sbp_text(entry.sbp) end
  if entry.placement then words[#words + 1] = "on " .. tostring(entry.placement) end
  for _, key in ipairs{"state", "gradient", "input", "output"} do
    if entry[key] then words[#words + 1] = ("%s %s"):format(key, sbp_text(entry[key])) end
  end
  for _, name in ipairs(check.sorted_keys(entry.use or {})) do
    local bytes = gathered(p, t, path, name, entry.use[name])
    words[#words + 1] = ("%s used as %s%s"):format(name, sbp_text(entry.use[name]), bytes and " " .. bytes or "")
  end
  if entry.panels then words[#words + 1] = ("in %d panels"):format(entry.panels) end
  return table.concat(words, "  ")
end

-- Replaces list positions in names by *, and removes duplicates: h.0.fc and h.1.fc become h.*.fc.
local function folded(names)
  local list, met = {}, {}
  for _, name in ipairs(names) do
    local short = ("." .. name .. "."):gsub("%.%d+%f[.]", ".*"):sub(2, -2)
    if not met[short] then list[#list + 1], met[short] = short, true end
  end
  return table.concat(list, ", ")
end

local shown = {}

-- Converts a table of layouts to text: parameters first, then module pins, both in the model's order, and then
-- entries that a user added. The decisions of a trace follow. The last lines name mesh axes that the recipe does not
-- use, and parameters that no tensor axis shards.
function shown.__tostring(t)
  local p, names, width, have = plan_of[t], {}, 0, {}
  for _, name in ipairs(p and p.order or {}) do
    if rawget(t, name) then names[#names + 1], have[name] = name, true end
  end
  for _, name in ipairs(check.sorted_keys(t)) do
    if not have[name] then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do width = math.max(width, #name) end
  for i, name in ipairs(names) do names[i] = ("%-" .. width .. "s  %s"):format(name, entry_text(p, t, name)) end
  for _, line in ipairs(p and p.found or {}) do names[#names + 1] = line end
  if p and #p.unused > 0 then
    names[#names + 1] = "the recipe uses no mesh axis " .. table.concat(p.unused, ", ") ..
      ": ranks along this axis repeat the same work"
  end
  if p and #p.unsplit > 0 then
    names[#names + 1] = ("tensor parallelism does not shard %d parameters, which have no role or fewer heads than ranks: %s"):format(#p.unsplit, folded(p.unsplit))
  end
  return table.concat(names, "\n")
end

-- ---- applying a table of layouts to a model ----

local parameter_keys = {placement = true, sbp = true, state = true, gradient = true, reshard = true}
local module_keys = {placement = true, input = true, output = true, use = true, panels = true}

local function check_keys(name, entry, known, what)
  check.that(type(entry) == "table",
    "parallel: the entry of '%s' must be a table, {placement =, sbp =}, found %s", name, check.shown(entry))
  for key in pairs(entry) do
    check.that(known[key], "parallel: the entry of '%s', a %s, may have only the keys %s; found '%s'", name, what,
      table.concat(check.sorted_keys(known), ", "), tostring(key))
  end
end

-- Returns the SBP, as text, that x has after a redistribution. Fails if x cannot have this layout. Plans the
-- redistribution only; computes no values.
local function tried(name, x, placement, sbp)
  local good, moved = check.try(function() return x:detach():to_global{placement = placement, sbp = sbp} end)
  if not good then check.fail("parallel: '%s': %s", name, (tostring(moved):gsub("^[^:]*:%d+: ", ""))) end
  return moved.sbp
end

local function read_parameter(name, t, entry)
  check_keys(name, entry, parameter_keys, "parameter")
  local placement = entry.placement or t.placement
  local sbp = entry.sbp or #placement.shape == #t.placement.shape and t.sbp or layout.replicated(placement)
  local set = {name = name, tensor = t, placement = placement, sbp = tried(name, t, placement, sbp), reshard = entry.reshard}
  if entry.reshard ~= nil then check.flag(("parallel: '%s'"):format(name), "reshard", entry.reshard) end
  for _, key in ipairs{"state", "gradient"} do
    if entry[key] then set[key] = {placement = placement, sbp = tried(name, t, placement, entry[key])} end
  end
  return set
end

-- Fails if no placement in the list accepts this SBP, whatever the number of dimensions of a tensor.
local function check_sbp(name, key, sbp, placements)
  local good, why
  for _, placement in ipairs(placements) do
    good, why = check.try(rille.empty, {0, 0, 0, 0, 0, 0, 0, 0}, {placement = placement, sbp = sbp})
    if good then return end
  end
  check.fail("parallel: '%s' cannot have this %s: %s", name, key, (tostring(why):gsub("^.-empty: ", "")))
end

-- Returns the placements of m's parameters; if m has none, those of all the model's parameters. The input of m is on
-- one of these placements.
local function placements_of(placement_of, m, model)
  local list = {}
  for _, t in ipairs(#m:parameters() > 0 and m:parameters() or model:parameters()) do list[#list + 1] = placement_of(t) end
  return list
end

-- Checks a module's entry and returns its pin. placement_of(t): the placement that t will have.
local function read_pin(name, m, entry, placement_of, model)
  check_keys(name, entry, module_keys, "module")
  if entry.panels then
    check.count("parallel", "panels", entry.panels)
    check.that(getmetatable(m) == rille.nn.Linear, "parallel: '%s' must be an nn.Linear to have panels, found %s", name, check.shown(m))
  end
  local place = entry.placement
  check.that(place == nil or layout.is_placement(place),
    "parallel: placement of '%s' must be a rille.placement, found %s", name,
    check.shown(place))
  local placements = place and {place} or placements_of(placement_of, m, model)
  for _, key in ipairs{"input", "output"} do
    if entry[key] then check_sbp(name, key, entry[key], placements) end
  end
  local set = {module = m, pin = {placement = entry.placement, input = entry.input, output = entry.output, panels = entry.panels}}
  for key, sbp in pairs(entry.use or {}) do
    local holder, field = pin.field(m, tostring(key))
    local t = rawget(holder, field)
    check.that(layout.is_tensor(t), "parallel: '%s' has no parameter '%s', which its entry 'use' names", name, tostring(key))
    set.pin.use = set.pin.use or {}
    set.pin.use[key] = tried(name .. "." .. key, t, entry.placement or placement_of(t), sbp)
  end
  return set
end

-- Returns the end of a message that suggests the nearest name in two tables.
local function nearest(name, tensors, modules)
  local near = rille._nearest(tensors, name) or rille._nearest(modules, name)
  return near and ("; the nearest name is '%s'"):format(near) or "; print(model) shows the names"
end

-- Converts the entries to lists of the parameters and the pins to set.
local function read_entries(model, entries)
  local tensors, modules, out = {}, {}, {parameters = {}, pins = {}}
  for _, found in ipairs(model:named_tensors()) do tensors[found.name] = found.tensor end
  for path, m in model:named_modules() do modules[path] = m end
  local names, goes = check.sorted_keys(entries), {}
  for _, name in ipairs(names) do
    local t = tensors[name]
    check.that(t or modules[name], "parallel: %s has no parameter and no module '%s'%s", model.__name, name, nearest(name, tensors, modules))
    if t then
      local s = read_parameter(name, t, entries[name])
      goes[t] = s.placement
      table.insert(out.parameters, s)
    end
  end
  for _, name in ipairs(names) do
    if not tensors[name] then
      table.insert(out.pins, read_pin(name, modules[name], entries[name], function(t) return goes[t] or t.placement end, model))
    end
  end
  return out
end

-- staged.model: the models with pipeline stages, numbered in the order of their recipes; staged.n: the last number
local staged = {n = 0, model = setmetatable({}, {__mode = "v"})}
local stages_of = setmetatable({}, {__mode = "k"}) -- model with pipeline stages -> their placements, in order

-- Returns the placements in the pins of the model's modules, in the order of the modules and without repetitions.
local function pinned_stages(model)
  local list = {}
  for _, m in ipairs(model:modules()) do
    local placement = pin.of[m] and pin.of[m].placement
    if placement and placement ~= list[#list] then list[#list + 1] = placement end
  end
  return list
end

-- Replaces the model's stages, and reports the stages of all models to the session. list: placements of the stages;
-- empty: no stages.
local function set_stages(model, list)
  if stages_of[model] == nil and #list > 0 then staged.n, staged.model[staged.n + 1] = staged.n + 1, model end
  stages_of[model] = #list > 0 and list or stages_of[model] and list
  local all = {}
  for k = 1, staged.n do
    for _, placement in ipairs(stages_of[staged.model[k]] or {}) do all[#all + 1] = placement end
  end
  rille._stages(all)
end

-- Sets the layouts of parameters, optimiser state and gradients, the pins and the stages. Replaces what the previous
-- recipe set. p: plan of the recipe, or nil.
local function set(model, what, p)
  local list = {}
  for _, s in ipairs(what.parameters) do
    if not layout.equal(s.tensor, s) then list[#list + 1] = {s.name, s.tensor, {placement = s.placement, sbp = s.sbp}} end
  end
  rille._lay("parallel", list)
  local zero = p and p.zero > 0 and {level = p.zero, line = check.line()} or nil
  for _, m in ipairs(model:modules()) do pin.of[m] = nil end
  for _, p in ipairs(model:parameters()) do
    layout.rest(p)
    layout.set_zero(p, zero)
  end
  for _, s in ipairs(what.parameters) do
    layout.set_apart(s.tensor, s.state, s.gradient)
    if s.reshard == false then s.tensor:_reshard(false) end
  end
  for _, s in ipairs(what.pins) do
    if next(s.pin) then pin.of[s.module] = s.pin end
  end
  local stages = p and p.stages or pinned_stages(model)
  set_stages(model, stages)
  if #stages > 0 then
    pin.of[model] = pin.of[model] or {}
    pin.of[model].whole = true
  end
  rille._generation()
end

local function copy_of(entries)
  local t = {}
  for name, entry in pairs(entries) do
    t[name] = {}
    for key, value in pairs(entry) do t[name][key] = value end
  end
  return setmetatable(t, shown)
end

-- Returns true for a table of layouts, false for a recipe. A table of layouts contains only tables with string keys.
local function is_table_of_layouts(given)
  if getmetatable(given) == shown then return true end
  for _, value in pairs(given) do
    if type(value) ~= "table" or value[1] ~= nil then return false end
  end
  for name, value in pairs(given) do
    if type(value) == "table" and type(next(value)) == "string" then return type(name) == "string" end
  end
  return false
end

local function parallel(model, given)
  check.that(Module.__is(model), "parallel: expected a module, found %s", check.shown(model))
  check.that(type(given) == "table", "parallel: expected a recipe such as {data = 0}, or a table of layouts, found %s", check.shown(given))
  local p, entries
  if is_table_of_layouts(given) then
    p, entries = plan_of[given], given
  elseif next(given) ~= nil then
    p = plan.of(model, given)
    entries = p.entries
  end
  local what = read_entries(model, entries or {})
  set(model, what, p)
  applied[model] = p
  local t = copy_of(entries or {})
  for name, tensor in model:named_parameters() do
    t[name] = t[name] or {}
    t[name].placement, t[name].sbp = tensor.placement, tensor.sbp
  end
  plan_of[t] = p
  return t
end

-- ---- recommended layouts of a model's inputs ----

local function whole_at(model)
  local first = model:parameters()[1]
  check.that(first, "parallel: the model has no parameters")
  return {placement = first.placement, sbp = sbp_text(layout.replicated(first.placement))}
end

-- Returns a function that returns the recommended layout of a model's ids or labels. which: "input" or "labels".
local function of_ids(which)
  return check.limited("parallel." .. which, function(model)
    check.that(Module.__is(model), "parallel.%s: expected a module, found %s", which,
      check.shown(model))
    local p = applied[model]
    if not p then return whole_at(model) end
    return {placement = p[which].placement, sbp = p[which].sbp}
  end)
end

return setmetatable({input = of_ids("input"), labels = of_ids("labels"),
  class = check.limited("parallel.class", classes.class), axis = check.limited("parallel.axis", axes.role)}, {
  __call = check.limited_call("parallel", function(_, model, given) return parallel(model, given) end),
  __index = function(_, name) check.fail("rille.parallel has no '%s'; there are: axis, class, input, labels", check.named(name)) end,
})
