-- checkpoint.lua - saves and loads the state of a training run; a resumed run continues exactly as the saved one would.
--
--   rille.checkpoint.save(dir, {model = net, optimizer = opt, data = loader, step = n, note = {...}}, {async = true, keep = 3})
--   local step, note = rille.checkpoint.load(dir, {model = net, optimizer = opt, data = loader})
--   rille.checkpoint.save(dir, {model = both, optimizer = {generator = a, critic = b}})
--
-- A checkpoint is one file, dir/checkpoint-00000007-step-400.safetensors, with a digest of its bytes. The file is
-- written under a temporary name and then renamed, so a checkpoint is either complete or absent. In a folder that
-- workers write (--root), the file refers to the workers' shard files, checkpoint-00000007-step-400.RANK.shard, which
-- are written first. dir may be a URL of an object store (runtime/file/disk/store.h).
--
-- Tensors are named model.NAME, parameter.NAME (a parameter that only an optimiser has), optimizer.NAME.SLOT and
-- gradient.NAME; with several optimisers, optimizer.KEY.NAME.SLOT. All other state is JSON in the metadata: step, note, random state, options, model settings
-- and data position. Values are stored unsharded, so layouts and meshes may differ between save and load; dtypes may
-- not. A session owns a folder that it saves into until the session ends.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local settings = require "rille.nn.base.settings"
local state_text = require "rille.base.state_text"

local checkpoint = {}

local PATTERN, SHARD = "^(checkpoint%-(%d+)%-step%-%d+)%.safetensors$", "^(checkpoint%-(%d+)%-step%-%d+)%.%d+%.shard$"
local LAST <const> = 1000000000000000 -- upper bound of checkpoint numbers; a save never uses larger numbers
local METADATA = "rille.checkpoint"

-- ---- listing the checkpoints in a folder ----

-- Returns true if a temporary file is still being written: the process that the file's name contains
-- (runtime/file/disk/save.c) runs on this machine. A file with the id of this process was left by an earlier process,
-- because containers reuse ids.
local function is_written(name)
  local process = name:match("%.(%d+)%.tmp$")
  local status <close> = process and io.open("/proc/" .. process .. "/stat")
  local own <close> = status and io.open("/proc/self/stat")
  return own and own:read("n") ~= tonumber(process)
end

-- Lists the checkpoints of a folder. Returns three values: the list {{number, path, shards = {path, ...}}, ...},
-- newest first; the paths that interrupted saves left; the highest number found.
local function list(dir, names)
  local found, torn, by_name, last = {}, {}, {}, 0
  local function add(name, pattern, visit)
    local stem, number = name:match(pattern)
    number = stem and math.tointeger(tonumber(number))
    if not number or number >= LAST then return end
    last = math.max(last, number)
    visit(stem, number, dir .. "/" .. name)
  end
  for _, name in ipairs(names) do
    add(name, PATTERN, function(stem, number, path)
      found[#found + 1] = {number, path, shards = {}}
      by_name[stem] = found[#found]
    end)
    if name:find("^checkpoint%-.*%.tmp$") and not is_written(name) then torn[#torn + 1] = dir .. "/" .. name end
  end
  for _, name in ipairs(names) do
    add(name, SHARD, function(stem, _, path)
      local of = by_name[stem] and by_name[stem].shards or torn
      of[#of + 1] = path
    end)
  end
  table.sort(found, function(a, b) return a[1] > b[1] end)
  return found, torn, last
end

-- ---- naming and comparing the parts to save ----

local function is_optimizer(v) return type(v) == "table" and check.field(v, "zero_grad") ~= nil end

-- Returns true if v is a plain table of optimisers: by name, {generator = a, critic = b}, or a list, {a, b}.
local function are_optimizers(v)
  if type(v) ~= "table" or getmetatable(v) ~= nil or next(v) == nil then return false end
  local listed, named = 0, 0
  for key, opt in pairs(v) do
    if not is_optimizer(opt) then return false end
    if type(key) == "string" and key:find("^[%w_]+$") then named = named + 1 else listed = listed + 1 end
  end
  return listed == (named == 0 and #v or 0)
end

-- Returns the optimisers among the parts to save, as a list of {opt =, path =, key =}. path: prefix of the
-- optimiser's tensor names; key: name of the optimiser if there is more than one.
local function optimizers(parts)
  local list, given = {}, parts.optimizer
  if given == nil or is_optimizer(given) then return {given and {opt = given, path = "optimizer"}} end
  for key, opt in pairs(given) do
    key = math.type(key) == "integer" and tostring(key - 1) or key
    list[#list + 1] = {opt = opt, path = "optimizer." .. key, key = key}
  end
  table.sort(list, function(a, b) return a.key < b.key end)
  return list
end

local function check_parts(who, parts, more)
  local known = {model = check.none, optimizer = check.none, data = check.none}
  for name in pairs(more) do known[name] = check.none end
  check.that(type(parts) == "table", "%s: expected a table {model =, optimizer =, data =}, found %s", who, check.shown(parts))
  local kinds = {model = "a module", optimizer = "an optimizer, or a table of optimizers", data = "a loader of rille.data"}
  local methods = {model = "named_parameters", optimizer = "zero_grad", data = "load_state"}
  for name, method in pairs(methods) do
    check.that(check.field(parts, method) == nil, "%s: expected a table {model =, optimizer =, data =}, found %s; write {%s = ...}", who,
      check.shown(parts), name)
  end
  check.options(who, parts, known)
  for name, method in pairs(methods) do
    local part = parts[name]
    local good = part == nil or type(part) == "table" and check.field(part, method) or name == "optimizer" and are_optimizers(part)
    check.that(good, "%s: %s must be %s, found %s", who, name, kinds[name], check.shown(part))
  end
end

-- Returns a table from parameter to name, and the list of the parameters of the model and the optimisers. A parameter
-- outside the model is named by its index in the optimiser.
local function names_of(parts)
  local name_of, params = {}, {}
  local function know(name, p)
    if not name_of[p] then
      name_of[p] = name
      params[#params + 1] = p
    end
  end
  if parts.model then
    for name, p in parts.model:named_parameters() do know(name, p) end
  end
  for _, one in ipairs(optimizers(parts)) do
    for i, p in ipairs(one.opt.params) do know(one.key and ("%s.%d"):format(one.key, i - 1) or tostring(i - 1), p) end
  end
  return name_of, params
end

-- Returns {class =, with =} for each module, by module path. class: name of the module's Rille class; nil: the
-- forward is the user's. with: settings of the module, the values besides tensors with which it computes
-- (lua/nn/base/settings.lua); nil: none. Settings are saved because tensor shapes do not show, for example, the
-- number of heads.
local function settings_of(model)
  local all = {}
  for path, m in (model.named_modules or function() return pairs{} end)(model) do
    local class, named = settings.class_of(m), settings.named(m)
    local with = class and settings.of(m) or named
    for name, value in pairs(class and named or {}) do with[name] = value end
    all[path] = {class = class, with = with}
  end
  return all
end

-- Returns the sorted union of the keys of two tables.
local function either(a, b)
  local names = {}
  for _, t in ipairs{a, b} do
    for name in pairs(t) do names[name] = true end
  end
  return check.sorted_keys(names)
end

-- Compares a module with the saved one and appends differences to wrong. Returns true if the modules differ.
local function differs(name, here, saved, wrong)
  local before = #wrong
  if here.class ~= saved.class then
    wrong[before + 1] = ("'%s' is %s here, %s in the checkpoint"):format(name, here.class, tostring(saved.class))
    return true
  end
  for _, field in ipairs(either(here.with, saved.with)) do
    local ours, theirs = here.with[field], saved.with[field]
    if ours ~= theirs and (ours == ours or theirs == theirs) then
      wrong[#wrong + 1] = ("'%s.%s' is %s here, %s in the checkpoint"):format(name, field, check.shown(ours), check.shown(theirs))
    end
  end
  return #wrong > before
end

-- Reports a module with settings that only the model or only the checkpoint has. If the module has no tensors, no
-- other check finds the difference, but the model would compute something else. Dropout is exempt.
local function is_missing(name, ours, theirs, wrong)
  local one = ours or theirs
  if not one.with or one.class == rille.nn.Dropout.__name then return false end
  local called = one.class or "a module with settings"
  wrong[#wrong + 1] = ("'%s' is %s here, %s in the checkpoint"):format(name, ours and called or "nothing",
    theirs and called or "nothing")
  return true
end

-- Compares module settings with the checkpoint's, for Rille's modules and for modules that name their settings.
-- Modules that only the model or only the checkpoint has are reported, too. If a module differs, its submodules are
-- skipped, because its settings determine them. root: compares only the settings of the model itself; other
-- differences then show as differences of tensors.
local function check_settings(model, saved, wrong, root)
  if type(saved) ~= "table" then return end -- a checkpoint of an older version has no settings
  local here, reported = settings_of(model), {}
  for _, path in ipairs(root and {""} or either(here, saved)) do
    local ours, theirs = here[path], type(saved[path]) == "table" and saved[path] or nil
    local name = path == "" and "model" or "model." .. path
    local within = false
    for above in pairs(reported) do within = within or above == "" or path:sub(1, #above + 1) == above .. "." end
    if not within and ours and theirs then
      local alike = ours.with and type(theirs.with) == "table" and not ours.class == not theirs.class
      reported[path] = alike and differs(name, ours, theirs, wrong) or nil
    elseif not within then
      reported[path] = is_missing(name, ours, theirs, wrong) or nil
    end
  end
end

-- Returns the parts with the field `parameter`, which makes the parameters that only an optimiser has a part of the state.
-- optional: a saved state may lack some of these parameters.
local function complete(parts, optional)
  return {model = parts.model, optimizer = parts.optimizer, data = parts.data, parameter = parts.optimizer and {optional = optional}}
end

-- Calls visit for each parameter that an optimiser has and the model does not have.
local function each_other_parameter(parts, name_of, visit)
  local seen = {}
  if parts.model then
    for _, p in parts.model:named_parameters() do seen[p] = true end
  end
  for _, one in ipairs(optimizers(parts)) do
    for _, p in ipairs(one.opt.params) do
      if not seen[p] then visit("parameter." .. name_of[p], p) end
      seen[p] = true
    end
  end
end

-- Calls visit(name in the file, tensor) for each parameter, buffer and optimiser state tensor of the parts.
local function each_tensor(parts, name_of, visit)
  if parts.model then
    for name, t in parts.model:named_parameters() do visit("model." .. name, t) end
    for name, t in parts.model:named_buffers() do visit("model." .. name, t) end
  end
  if parts.parameter then each_other_parameter(parts, name_of, visit) end
  for _, one in ipairs(optimizers(parts)) do
    one.opt:__follow()
    for i, p in ipairs(one.opt.params) do
      for slot, t in pairs(one.opt.slots[i]) do visit(("%s.%s.%s"):format(one.path, name_of[p], slot), t) end
    end
  end
end

-- Returns the options in a table as they are saved. Functions are not saved, because the program sets them again; a
-- schedule is saved as its present rate.
local function saved_options(opt, has)
  local saved = {}
  for name in pairs(opt.kind.options) do
    local value = has(name)
    if type(value) ~= "function" then saved[name] = value elseif name == "lr" then saved[name] = value(opt.steps) end
  end
  return saved
end

-- Returns an optimiser's options and step counts; and for each group, its own options, the names of its parameters,
-- and their step counts.
local function optimizer_numbers(opt, name_of)
  local numbers, n = {kind = opt.kind.name, steps = opt.steps, groups = {}}, 0
  numbers.options = saved_options(opt, function(name) return opt[name] end)
  for i, group in ipairs(opt.groups) do
    local params, steps = {}, {}
    local own = saved_options(opt, function(name) return rawget(group.own, name) end)
    for k, p in ipairs(group.params) do
      n = n + 1
      params[k], steps[k] = name_of[p], opt.counts[n].steps
    end
    numbers.groups[i] = {own = own, params = params, steps = steps}
  end
  return numbers
end

-- Returns the options and step counts to save (optimizer_numbers) of the only optimiser; nil: there is none. If there
-- are two or more optimisers, returns {several = {[name of the optimiser] = its options and step counts}}.
local function all_numbers(parts, name_of)
  local numbers
  for _, one in ipairs(optimizers(parts)) do
    local own = optimizer_numbers(one.opt, name_of)
    if not one.key then return own end
    numbers = numbers or {several = {}}
    numbers.several[one.key] = own
  end
  return numbers
end

-- ---- accumulated gradients ----
--
-- A gradient with a pending reduction (P) is saved as its addends, with its placement. A gradient that is restored on
-- an equal placement is bit-identical.

local function place_text(t)
  return ("%s %s %s"):format(t.device, table.concat(t.placement.shape, "x"), table.concat(t.placement.ranks, ","))
end

local function is_partial(t) return t.sbp:find("P", 1, true) ~= nil end

local function take_gradients(params, name_of, tensors)
  local partial = {}
  for _, p in ipairs(params) do
    local g, name = p.grad, name_of[p]
    if g and is_partial(g) and g.ndim < 8 then
      tensors["gradient." .. name] = rille._parts(g)
      partial[name] = {sbp = g.sbp, place = place_text(g), dtype = g.dtype}
    else
      tensors["gradient." .. name] = g
    end
  end
  return partial
end

local function gradient_of(p, value, partial)
  if not partial then return value end
  if place_text(p) == partial.place and partial.dtype == p.dtype then
    return rille._of_parts(value, {placement = p.placement, sbp = partial.sbp}, p.dtype)
  end
  return value:sum(0):to(partial.dtype)
end

-- Returns the state of the parts apart from tensors, and the tensors by name.
local function state_of(parts)
  local name_of, params = names_of(parts)
  local tensors = {}
  each_tensor(parts, name_of, function(name, t) tensors[name] = t end)
  local partial = take_gradients(params, name_of, tensors)
  local seed, count = rille._random()
  return {random = {seed = seed, count = count}, partial = partial, settings = parts.model and settings_of(parts.model),
    optimizer = all_numbers(parts, name_of), data = parts.data and parts.data:state()}, tensors
end

-- ---- saving a checkpoint ----

-- Folder -> number of the last checkpoint that this session saved there. No other session saves into the folder, so
-- later saves need not list it; listing takes longer with each checkpoint.
local last_in = {}

function checkpoint.save(dir, parts, options)
  local who = "checkpoint.save"
  dir = rille._path(check.path(who, "the name of a folder", dir), true)
  check_parts(who, parts, {step = true, note = true})
  local o = check.options(who, options, {async = false, keep = check.none})
  if o.keep then check.count(who, "keep", o.keep) end
  local step = math.tointeger(check.whole(who, "step", parts.step or 0, 0))
  local state, tensors = state_of(complete(parts))
  state.step, state.note = step, parts.note
  local text, why = state_text.encode(state, "checkpoint")
  check.that(text, "%s: %s", who, why)
  rille._finish() -- waits for a save in progress, so that list() sees its file
  local found, torn, last = {}, {}, last_in[dir]
  if o.keep or not last then
    found, torn, last = list(dir, rille._list(dir, true))
  else
    rille._may_save(who, dir, "checkpoints")
  end
  for i = o.keep or #found + 1, #found do
    torn[#torn + 1] = found[i][2]
    table.move(found[i].shards, 1, #found[i].shards, #torn + 1, torn)
  end
  check.that(last + 1 < LAST, "%s: %s: no number follows checkpoint %d", who, dir, last)
  local path = ("%s/checkpoint-%08d-step-%d.safetensors"):format(dir, last + 1, step)
  last_in[dir] = nil
  rille._checkpoint(path, tensors, {METADATA, text}, torn, o.async)
  last_in[dir] = last + 1
  if rille._log then rille._log("checkpoint", path) end
end

-- ---- loading a checkpoint ----

local function shape_text(shape) return "{" .. table.concat(shape, ", ") .. "}" end

-- Returns two functions that collect the differences between the program and a checkpoint. report(part, kind, text)
-- adds a difference; kind is "missing", "unexpected" or "other". reported(part) returns the first few differences of
-- each kind.
local FEW <const> = 3
local function reports()
  local lists = {}
  local function report(part, kind, text)
    lists[part] = lists[part] or {}
    lists[part][kind] = lists[part][kind] or {}
    table.insert(lists[part][kind], text)
  end
  return report, function(part)
    local reported = {}
    for _, kind in ipairs{"missing", "unexpected", "other"} do
      local list = lists[part] and lists[part][kind] or {}
      table.move(list, 1, math.min(#list, FEW), #reported + 1, reported)
      local more = #list - FEW
      if more > 0 then reported[#reported + 1] = ("and %d more %s"):format(more, kind ~= "other" and kind or "that do not fit") end
    end
    return reported
  end
end

-- Returns the target tensor for each tensor of the file, by name; reports mismatches.
local function targets_of(contents, parts, name_of, params, partial, report)
  local targets, has = {}, {}
  for _, entry in ipairs(contents) do has[entry.name] = entry end
  local function want(name, t, first)
    local entry, part = has[name], name:match("^%a+")
    local shape = entry and table.move(entry.shape, first or 1, #entry.shape, 1, {})
    if not entry then
      report(part, "missing", ("'%s' is missing"):format(name))
    elseif shape_text(shape) ~= shape_text(t.shape) then
      report(part, "other", ("'%s' is %s here, %s in the checkpoint"):format(name, shape_text(t.shape), shape_text(shape)))
    elseif entry.dtype ~= t.dtype and not first then -- addends of 16-bit gradients are stored as f32
      report(part, "other", ("'%s' is %s here, %s in the checkpoint"):format(name, t.dtype, entry.dtype))
    end
    targets[name] = t
  end
  each_tensor(parts, name_of, function(name, t)
    if has[name] or not (name:find("^parameter%.") and parts.parameter.optional) then want(name, t) end
  end)
  for _, p in ipairs(params) do
    local name = name_of[p]
    if has["gradient." .. name] then want("gradient." .. name, p, partial[name] and 2) end
  end
  for _, entry in ipairs(contents) do
    local part = entry.name:match("^%a+")
    if parts[part] and not targets[entry.name] then
      report(part, "unexpected", ("'%s' of the checkpoint is not in the %s"):format(entry.name, part == "parameter" and "optimizer" or part))
    end
  end
  return targets
end

local function is_count(v) return math.type(v) == "integer" and v >= 0 end

-- Returns true if the value has the form of a result of optimizer_numbers(). Groups of older checkpoints have no step
-- counts.
local function are_numbers(saved)
  if not is_count(saved.steps) or type(saved.options) ~= "table" or type(saved.groups) ~= "table" then
    return false
  end
  for _, group in pairs(saved.groups) do
    if type(group) ~= "table" or type(group.own) ~= "table" or type(group.params) ~= "table" then return false end
    if group.steps ~= nil and (type(group.steps) ~= "table" or #group.steps ~= #group.params) then return false end
    for k, name in pairs(group.params) do
      if type(name) ~= "string" or group.steps and not is_count(group.steps[k]) then return false end
    end
  end
  return true
end

-- Returns a text that describes the first difference between the groups of an optimiser and the saved groups; nil:
-- they match.
local function groups_differ(path, here, saved)
  if #here ~= #saved then return ("the %s has %d groups here, %d in the checkpoint"):format(path, #here, #saved) end
  for i, group in ipairs(here) do
    local ours, theirs = group.params, saved[i].params
    if #ours ~= #theirs then
      return ("%s.groups[%d] has %d parameters here, %d in the checkpoint"):format(path, i, #ours, #theirs)
    end
    for k, name in ipairs(ours) do
      if name ~= theirs[k] then
        return ("%s.groups[%d].params[%d] is '%s' here, '%s' in the checkpoint"):format(path, i, k, name, theirs[k])
      end
    end
  end
end

-- Returns a text about a saved option that the optimiser lacks; nil: it has all.
local function unknown_option(one, options)
  for _, name in ipairs(check.sorted_keys(options)) do
    if one.opt.kind.options[name] == nil then return ("the %s in the checkpoint has an option '%s', unknown here"):format(one.path, name) end
  end
end

-- Returns true if the optimiser matches the saved one; otherwise reports the difference.
local function check_optimizer(one, name_of, report)
  local saved, why = one.saved, nil
  if saved == nil then
    why = ("the checkpoint has no %s"):format(one.path)
  elseif type(saved) ~= "table" or not are_numbers(saved) then
    why = ("the checkpoint's state of the %s is malformed"):format(one.path)
  elseif saved.kind ~= one.opt.kind.name then
    why = ("the %s is %s here, %s in the checkpoint"):format(one.path, one.opt.kind.name, tostring(saved.kind))
  else
    why = groups_differ(one.path, optimizer_numbers(one.opt, name_of).groups, saved.groups) or unknown_option(one, saved.options)
  end
  if why then report("numbers", "other", why) end
  return not why
end

-- Sets the field `saved` of each optimiser to its options and step counts in the checkpoint. Reports an optimiser
-- that the caller has and the checkpoint lacks, or the reverse.
local function pair_optimizers(list, saved, report)
  if not list[1] then return true end
  local several = type(saved) == "table" and type(saved.several) == "table" and saved.several or nil
  if saved ~= nil and not list[1].key ~= not several then
    local keys = several and "optimizers {" .. table.concat(check.sorted_keys(several), ", ") .. "}" or "one optimizer"
    report("numbers", "other", ("the checkpoint has %s, here %s"):format(keys, list[1].key and "are several" or "is one"))
    return false
  end
  local here = {}
  for _, one in ipairs(list) do
    if one.key then
      here[one.key], one.saved = true, several and several[one.key]
    else
      one.saved = saved
    end
  end
  for _, key in ipairs(check.sorted_keys(several or {})) do
    if not here[key] then
      report("numbers", "other", ("the checkpoint has an optimizer '%s', which is missing here"):format(tostring(key)))
    end
  end
  return true
end

-- Names the parameters of an optimiser that is loaded without its model: a parameter gets the name that the
-- checkpoint has at its position in the groups. If the checkpoint holds the parameters' values, their shapes are
-- compared.
local function name_by_places(one, contents, name_of, report)
  local opt, saved = one.opt, one.saved
  if type(saved) ~= "table" or not are_numbers(saved) then return end
  local shapes = {}
  for _, entry in ipairs(contents) do shapes[entry.name] = shape_text(entry.shape) end
  for i, group in ipairs(opt.groups) do
    local names = saved.groups[i] and saved.groups[i].params or {}
    for k, p in ipairs(group.params) do
      local theirs = shapes["model." .. tostring(names[k])]
      if theirs and theirs ~= shape_text(p.shape) then
        report("numbers", "other", ("%s.groups[%d].params[%d] is %s here, '%s' %s in the checkpoint; pass model = to identify parameters by name"):format(one.path, i, k, shape_text(p.shape), names[k], theirs))
      end
      name_of[p] = names[k] or name_of[p]
    end
  end
end

-- Gives an optimiser the state tensors that it had when it was saved: the state tensors in the file, and those that
-- its saved options require. Returns a function that undoes the change.
local function reslot(one, contents, name_of)
  local has, wants, n = {}, {}, 0
  for _, entry in ipairs(contents) do has[entry.name] = true end
  for _, group in ipairs(one.saved.groups) do
    local options, names = setmetatable({}, {__index = one.saved.options}), {}
    for name, value in pairs(group.own) do options[name] = value end
    for _, name in ipairs(one.opt.kind.slots(options)) do names[name] = true end
    for _ = 1, #group.params do
      n = n + 1
      wants[n] = names
    end
  end
  return one.opt:__reslot(function(i, p, name) return wants[i][name] or has[("%s.%s.%s"):format(one.path, name_of[p], name)] end)
end

local function load_optimizer(opt, saved)
  local counts = {}
  for _, group in ipairs(saved.groups) do
    for k = 1, #group.params do counts[#counts + 1] = group.steps and group.steps[k] or saved.steps end
  end
  opt:__count(saved.steps, counts)
  local all = {[0] = {}}
  -- Returns the value of an option after loading: `value`, the saved one. If the option is now a schedule (a
  -- function), returns the schedule, which continues with the saved step count.
  local function kept(own, name, value)
    local present = rawget(own, name)
    if type(present) == "function" then return present end
    return value
  end
  for name in pairs(opt.kind.options) do
    local value = saved.options[name]
    all[0][name] = kept(opt.own, name, value == nil and opt[name] or value)
    for i, group in ipairs(opt.groups) do
      all[i] = all[i] or {}
      all[i][name] = kept(group.own, name, saved.groups[i].own[name])
    end
  end
  opt:__set_options(all)
end

-- Returns true if the metadata of the file has the form that checkpoint.save writes.
local function is_ours(saved)
  local random = type(saved) == "table" and saved.random
  if not (type(random) == "table" and math.type(random.seed) == "integer" and math.type(random.count) == "integer"
    and type(saved.partial) == "table" and type(saved.step) == "number" and math.tointeger(saved.step)) then
    return false
  end
  for _, gradient in pairs(saved.partial) do
    if type(gradient) ~= "table" then return false end
  end
  return true
end

-- Returns all mismatches as short messages: first the mismatches of the model (only its settings, if these differ),
-- then the mismatches of the optimiser. Optimiser tensors are reported only if nothing else is wrong, and gradients
-- only if the optimiser tensors match.
local function all_wrong(parts, contents, saved, reported)
  local wrong, of_model = {}, reported("model")
  local function add(list) table.move(list, 1, #list, #wrong + 1, wrong) end
  local has_model = false
  for _, entry in ipairs(contents) do has_model = has_model or entry.name:find("^model%.") ~= nil end
  if parts.model and not has_model and #of_model > 0 then
    wrong[1] = "the checkpoint has no model"
  elseif parts.model then
    local settings_wrong = {}
    check_settings(parts.model, saved.settings, settings_wrong, #of_model > 0)
    if #settings_wrong > 0 then wrong[1] = check.problems(settings_wrong) end
    add(of_model)
  end
  add(reported("parameter"))
  add(reported("numbers"))
  if #wrong == 0 then add(reported("optimizer")) end
  if #wrong == 0 then add(reported("gradient")) end
  local why = parts.data and parts.data:refuses(saved.data)
  if why then wrong[#wrong + 1] = "data: " .. why end
  return wrong
end

-- Restores the parts from a saved state. Reads and checks all values before it changes any tensor. Returns true; nil
-- and the reason if the values are damaged.
-- source: {path =, contents =, saved =}: the state's name for messages, its tensors, and its other state. read(names,
-- placement, sbp) returns the tensors with these names; placement(name) and sbp(name) return the layout in which a
-- tensor is read.
local function restore(who, source, parts, read)
  local path, contents, saved = source.path, source.contents, source.saved
  local name_of, params = names_of(parts)
  local report, reported = reports()
  local opts, undone = optimizers(parts), {}
  local undo <close> = setmetatable({}, {__close = function()
    for _, put_back in ipairs(undone) do put_back() end
  end})
  for _, one in ipairs(pair_optimizers(opts, saved.optimizer, report) and opts or {}) do
    if not parts.model then name_by_places(one, contents, name_of, report) end
    if check_optimizer(one, name_of, report) then undone[#undone + 1] = reslot(one, contents, name_of) end
  end
  local targets = targets_of(contents, parts, name_of, params, saved.partial, report)
  local wrong = all_wrong(parts, contents, saved, reported)
  check.that(#wrong == 0, "%s: %s: %s", who, path, table.concat(wrong, "; "))
  local values, why = read(check.sorted_keys(targets), function(name) return targets[name].placement end, function(name)
    local partial = saved.partial[name:match("^gradient%.(.*)")]
    return partial and layout.replicated(targets[name].placement) or targets[name].sbp
  end)
  if not values then return nil, why end
  local gradients, list = {}, {}
  for _, p in ipairs(params) do
    local value = values["gradient." .. name_of[p]]
    gradients[p] = value and gradient_of(p, value, saved.partial[name_of[p]])
  end
  for _, name in ipairs(check.sorted_keys(targets)) do
    if not name:find("^gradient%.") then list[#list + 1] = {name, targets[name], values[name]} end
  end
  rille._take(("%s: %s"):format(who, path), list)
  for _, p in ipairs(params) do p.grad = gradients[p] end
  undone = {}
  for _, one in ipairs(opts) do load_optimizer(one.opt, one.saved) end
  if parts.data then parts.data:load_state(saved.data) end
  rille._random(saved.random.seed, saved.random.count)
  return true
end

-- Loads one checkpoint file. The file of a model and an optimiser may be loaded without the model, and older files lack
-- the parameters that only an optimiser has; these parameters keep their values. Returns step and note; nil and the reason if the values are damaged.
local function load_file(who, path, parts)
  local contents, says = rille._contents(path, nil, who)
  local saved = state_text.decode(says[METADATA] or "")
  check.that(is_ours(saved), "%s: %s is not a checkpoint of rille.checkpoint.save", who, path)
  local good, why = restore(who, {path = path, contents = contents, saved = saved}, complete(parts, true), function(names, placement, sbp)
    local whole, values = check.try(rille._load, path, nil, {names = names, placement = placement, sbp = sbp})
    if whole then return values end
    if not tostring(values):find("damaged", 1, true) then error(values, 0) end
    return nil, tostring(values)
  end)
  if not good then return nil, why end
  return math.tointeger(saved.step), saved.note
end

-- Returns the state of the parts and a note as text, and the tensors by name, without pending reductions.
function checkpoint._state(who, parts, note)
  local state, tensors = state_of(complete(parts))
  state.step, state.note = 0, note
  local text, why = state_text.encode(state, "note")
  check.that(text, "%s: %s", who, why)
  for name, t in pairs(tensors) do
    if is_partial(t) then
      tensors[name] = rille.no_grad(t.to_global, t, {placement = t.placement, sbp = layout.replicated(t.placement)})
    end
  end
  return text, tensors
end

-- Restores the parts from a text and tensors of checkpoint._state(); contents and read: as for restore(). Returns true
-- and the note; nil and the reason if the values are damaged.
function checkpoint._restore(who, path, text, contents, parts, read)
  local saved = state_text.decode(text)
  check.that(is_ours(saved), "%s: %s is not a state of rille.snapshot", who, path)
  local good, why = rille.no_grad(restore, who, {path = path, contents = contents, saved = saved}, complete(parts), read)
  return good, good and saved.note or why
end

function checkpoint._check_parts(who, parts) check_parts(who, parts, {}) end

-- Copies the state of a training run from parts to other parts of the same form, whose layouts and placements may
-- differ.
function checkpoint._copy(who, from, to)
  check_parts(who, from, {})
  check_parts(who, to, {})
  local saved, tensors = state_of(complete(from))
  local source = {path = "the training so far", contents = {}, saved = saved}
  for name, t in pairs(tensors) do table.insert(source.contents, {name = name, shape = t.shape, dtype = t.dtype}) end
  rille.no_grad(restore, who, source, complete(to), function(names, placement, sbp)
    local values = {}
    for _, name in ipairs(names) do
      values[name] = tensors[name]:detach():to_global{placement = placement(name), sbp = sbp(name)}
    end
    return values
  end)
end

-- Loads the newest checkpoint found, and returns its step and note. If the checkpoint is damaged, loads the next
-- older one if `fallback` is true, else fails.
local function load_found(who, found, parts, fallback)
  local damaged = {}
  for _, entry in ipairs(found) do
    local why, step, note = rille._verify(entry[2])
    if not why then
      step, note = load_file(who, entry[2], parts)
      if step then return step, note end
      why = note
    end
    damaged[#damaged + 1] = why
    if not fallback then break end
  end
  check.fail("%s: %s%s", who, table.concat(damaged, "; "),
    not fallback and found[2] and "; {fallback = true} loads the one before it" or "")
end

-- Loads the newest checkpoint. Another run may remove old checkpoints during the read: if the file has
-- disappeared, the folder is listed again.
function checkpoint.load(dir, parts, options)
  local who = "checkpoint.load"
  dir = rille._path(check.path(who, "the name of a folder", dir), true)
  check_parts(who, parts, {})
  local o = check.options(who, options, {fallback = false})
  rille._finish()
  local found = list(dir, rille._list(dir, false))
  while true do
    check.that(#found > 0, "%s: %s: no checkpoint in this folder", who, dir)
    local good, step, note = check.try(load_found, who, found, parts, o.fallback)
    if good then return step, note end
    local read = found[1][2]
    found = list(dir, rille._list(dir, false))
    for _, entry in ipairs(found) do
      if entry[2] == read then error(step, 0) end
    end
  end
end

return check.names("checkpoint", checkpoint)
