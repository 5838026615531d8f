-- lora.lua - low-rank adapters (nn.LoRA) for the linear layers, embeddings and experts of a model.
--
--   rille.models.lora(m, {r = 8, alpha = 16, targets = {"q_proj", "v_proj"}})   adds adapters, freezes all else
--   rille.models.lora.save(m, dir)   saves a folder of PEFT (peft.lua)
--   rille.models.lora(m, dir)        adds the adapters of such a folder

local rille = require "rille"
local check = require "rille.base.check"
local ExpertLoRA = require "rille.models.expert_lora"
local layout = require "rille.base.layout"
local options = require "rille.models.loading.peft_options"
local peft = require "rille.models.loading.peft"
local pin = require "rille.nn.base.pin"
local start = require "rille.nn.base.start"
local nn = rille.nn

local lora = {}

local who = "models.lora"

local function check_model(where, m)
  check.that(nn.Module.__is(m), "%s: expected a module, found %s", where, check.shown(m))
end

local is_base, is_adapter = nn.LoRA.__fits, nn.LoRA.__is

-- Returns the adapters of a model, and a list of their paths.
local function adapters(where, m)
  check_model(where, m)
  local list, paths = {}, {}
  for path, part in m:named_modules() do
    if is_adapter(part) then list[#list + 1], paths[#paths + 1] = part, path end
  end
  check.that(#list > 0, "%s: the model has no adapters; rille.models.lora(m, {r = 8}) adds them", where)
  return list, paths
end

-- ---- adding adapters to a model ----

-- model -> list of parameters that are trained completely: {name =, holder =, key =, base = the base model's tensor}
local replaced = setmetatable({}, {__mode = "k"})
local base_of = setmetatable({}, {__mode = "k"}) -- adapter -> its base layer, which is no longer in the model, or the mixture of experts

-- Freezes all parameters except those of adapters and those that are trained completely.
local function freeze(m)
  local kept = {}
  for _, part in ipairs(m:modules()) do
    if is_adapter(part) then
      for name, p in part:named_parameters() do kept[p] = name:find("^lora_") ~= nil end
    end
  end
  for _, one in ipairs(replaced[m] or {}) do kept[one.holder[one.key]] = true end
  for _, p in ipairs(m:parameters()) do
    if not kept[p] then p.requires_grad = false end
  end
end

-- Adds adapters to a model. Linear layers and embeddings are replaced by nn.LoRA; mixtures of experts get further modules.
-- adapted: path of a layer, or of a weight of experts -> options of its adapter.
local function add(m, adapted)
  local uses, added = {}, {}
  for _, found in ipairs(m:named_tensors()) do uses[found.tensor] = (uses[found.tensor] or 0) + 1 end
  for _, path in ipairs(check.sorted_keys(adapted)) do
    local holder, key = pin.field(m, path)
    local layer = holder[key]
    local of_experts = layout.is_tensor(layer)
    local part = of_experts and ExpertLoRA(holder, key, adapted[path]) or nn.LoRA(layer, adapted[path])
    if of_experts then layer, key = holder, key .. "_lora" end
    part.training, pin.of[part], base_of[part] = layer.training, not of_experts and pin.of[layer] or nil, layer
    part.tied = not of_experts and uses[layer.weight] > 1 or nil
    added[#added + 1] = {holder, key, part}
  end
  for _, one in ipairs(added) do one[1][one[2]] = one[3] end
end

-- Replaces a parameter by t, which is trained completely.
local function replace(m, name, t)
  local holder, key = pin.field(m, name)
  replaced[m] = replaced[m] or {}
  table.insert(replaced[m], {name = name, holder = holder, key = key, base = holder[key]})
  holder[key] = t
end

-- Gives the named parameters a copy of their own, which is trained.
local function train_completely(m, names)
  for _, name in ipairs(names) do
    local holder, key = pin.field(m, name)
    replace(m, name, start.parameter(holder[key]))
  end
end

-- Returns the names, sorted, of a table's keys as text.
local function listed(set) return table.concat(check.sorted_keys(set), ", ") end

-- Returns the names of the weights of a mixture's experts that can have adapters.
local function expert_weights(part)
  local list = {}
  for _, name in ipairs{"gate", "up", "down"} do
    if ExpertLoRA.__fits(part, name) then list[#list + 1] = name end
  end
  return list
end

-- Returns the paths of the layers and of the experts' weights that the targets select: "all-linear", a regular expression
-- of paths, or a list of names.
local function targeted(m, targets)
  check.that(type(targets) == "string" or type(targets) == "table" and #targets > 0,
    "%s: targets must be a list of names of layers, a regular expression, or \"all-linear\", found %s", who, check.shown(targets))
  for _, name in ipairs(type(targets) == "table" and targets or {}) do
    check.that(type(name) == "string", "%s: targets must be a list of strings, found %s", who, check.shown(name))
  end
  local list, last, adapted, c = {}, {}, {}, {where = who, target_modules = targets}
  for path, part in m:named_modules() do
    if is_adapter(part) then adapted[(path:match("[^.]*$"):gsub("_lora$", ""))] = true end
    for _, name in ipairs(expert_weights(part)) do
      last[name] = true
      local of_expert = path .. "." .. name
      if targets ~= "all-linear" and options.targets(c, of_expert, false) and not rawget(part, name .. "_lora") then list[#list + 1] = of_expert end
    end
    if is_base(part) then
      last[path:match("[^.]*$")] = true
      local is_linear = getmetatable(part) ~= nn.Embedding and not options.matches(who, {"lm_head", "router"}, path)
      if options.targets(c, path, is_linear) then list[#list + 1] = path end
    end
  end
  check.that(next(last) or next(adapted), "%s: the model must have linear layers; found none", who)
  for _, name in ipairs(type(targets) == "table" and targets or {}) do
    local used = false
    for _, path in ipairs(list) do used = used or options.ends_with(path, name) end
    check.that(used or not adapted[name], "%s: the target '%s' has an adapter already; a layer can have one", who, name)
    check.that(used, "%s: the target '%s' names no linear layer; the names are: %s", who, name, listed(last))
  end
  check.that(#list > 0, "%s: the targets %s select no linear layer; the names are: %s", who, check.shown(targets), listed(last))
  return list
end

-- Returns the names of the parameters of the modules, or of the single parameters, that `train` names.
local function named_parameters(m, train)
  check.that(type(train) == "table", "%s: train must be a list of names of modules or parameters, found %s", who, check.shown(train))
  local list, used = {}, {}
  for _, found in ipairs(m:named_tensors()) do
    local module = found.name:match("^(.*)%.[^.]*$") or ""
    for _, name in ipairs(train) do
      check.that(type(name) == "string", "%s: train must be a list of strings, found %s", who, check.shown(name))
      if options.ends_with(module, name) or options.ends_with(found.name, name) then
        check.that(found.kind == "parameter", "%s: train: '%s' is quantized, so it cannot be trained", who, found.name)
        list[#list + 1], used[name] = not used[found.name] and found.name or nil, true
        used[found.name] = true
        break
      end
    end
  end
  for _, name in ipairs(train) do check.that(used[name], "%s: train: '%s' names no module or parameter of the model", who, name) end
  return list
end

local known = {r = 8, alpha = check.none, dropout = 0, rslora = false, dora = false, bias = false, targets = {"q_proj", "v_proj"}, train = {}}

-- Adds new adapters to a model.
local function create(m, given)
  local o, adapted = check.options(who, given, known), {}
  local train = named_parameters(m, o.train)
  for _, path in ipairs(targeted(m, o.targets)) do
    adapted[path] = {r = o.r, alpha = o.alpha, dropout = o.dropout, rslora = o.rslora, dora = o.dora, bias = o.bias}
  end
  add(m, adapted)
  train_completely(m, train)
  freeze(m)
  return m
end

-- Adds the adapters in a PEFT folder to a model.
local function load(m, dir)
  local adapted, trained, read = peft.read(who, m, rille._path(check.path(who, "the name of a folder", dir)))
  add(m, adapted)
  train_completely(m, trained)
  read()
  freeze(m)
  return m
end

-- Saves the adapters, and the parameters that are trained completely, as a PEFT folder.
function lora.save(m, dir)
  local where = who .. ".save"
  local list, paths = adapters(where, m)
  peft.write(where, m, rille._path(check.path(where, "the name of a folder", dir), true), list, paths)
end

-- ---- merging adapters and switching them off ----

-- Adds the adapters to the weights (on = true, the default), or subtracts the adapters again.
function lora.merge(m, on)
  local list = adapters(who .. ".merge", m)
  for _, part in ipairs(list) do part:__check_merge() end
  for _, part in ipairs(list) do part:merge(on) end
  return m
end

-- Returns t in the layout and dtype of another tensor.
local function in_layout_of(like, t)
  local where = layout.of(like)
  if t.dtype ~= like.dtype then t = t:to(like.dtype) end
  return layout.equal(t, where) and t or t:to_global(where)
end

-- Calls fn(...) while the parameters that are trained completely have the base model's values.
local function with_base(m, fn, ...)
  local own = {}
  local undo <close> = setmetatable({}, {__close = function()
    for one, t in pairs(own) do rawset(one.holder, one.key, t) end
  end})
  for _, one in ipairs(replaced[m] or {}) do
    local t = one.holder[one.key]
    own[one] = t
    rawset(one.holder, one.key, in_layout_of(t, one.base))
  end
  return (function(...) return ... end)(fn(...))
end

-- Calls fn(...) with all adapters switched off, and returns its results.
function lora.without(m, fn, ...)
  local list = adapters(who .. ".without", m)
  check.that(rille._is_callable(fn), "%s.without: the second argument must be a function, found %s", who, check.shown(fn))
  return nn.LoRA.__without(list, with_base, m, fn, ...)
end

-- ---- several sets of adapters for one model ----

-- A set of adapters that are not in a model: layers (path -> nn.LoRA), trained (name -> parameter that is trained
-- completely).
local Set = {__name = "adapters"}

local function check_set(where, set)
  check.that(getmetatable(set) == Set, "%s: expected adapters, a result of rille.models.lora.swap, found %s", where, check.shown(set))
  return set
end

local function is_like(a, b) return a.dtype == b.dtype and table.concat(a.shape, " ") == table.concat(b.shape, " ") end

-- Returns true if an adapter of a set has the shape and layout of a base layer, or of a weight of experts.
local function is_for(part, base)
  for _, name in ipairs{"weight", "scale"} do
    local old, new = part[name], base[name]
    if (old == nil) ~= (new == nil) or old and not (layout.equal(old, layout.of(new)) and is_like(old, new)) then return false end
  end
  return true
end

-- Checks that the layers of a set are in the model.
local function check_fits(where, m, set)
  for _, path in ipairs(check.sorted_keys(set.layers)) do
    local holder, key = pin.field(m, path)
    local part, layer, name = set.layers[path], rawget(holder, key), path
    if part.of_experts then
      name = part:__base_path(path)
      local weight = ExpertLoRA.__fits(holder, part.of_experts) and rawget(holder, part.of_experts)
      check.that(weight, "%s: the model must have experts with the weight '%s'", where, name)
      layer = {weight = weight}
    else
      check.that(type(layer) == "table" and (is_adapter(layer) or is_base(layer)), "%s: the model must have a layer '%s'", where, name)
    end
    check.that(is_for(part.of_experts and part:__base_tensors() or part, layer),
      "%s: the layer '%s' must have the shape and layout for which its adapter was made", where, name)
  end
end

-- Takes all adapters off a model, and returns them as a set.
local function take_off(where, m)
  local set = setmetatable({layers = {}, trained = {}}, Set)
  for path, part in m:named_modules() do
    if is_adapter(part) then
      check.that(not part.merged, "%s: the adapter of '%s' must not be merged; call rille.models.lora.merge(m, false) first", where, path)
      set.layers[path] = part
    end
  end
  for _, one in ipairs(replaced[m] or {}) do
    set.trained[one.name] = one.holder[one.key]
    one.holder[one.key] = in_layout_of(one.holder[one.key], one.base)
  end
  replaced[m] = nil
  for path, part in pairs(set.layers) do
    local holder, key = pin.field(m, path)
    local layer = base_of[part]
    if part.of_experts then
      holder[key] = nil
    else
      layer.weight, layer.bias, layer.scale = part.weight, part.bias, part.scale
      layer.training, pin.of[layer] = part.training, pin.of[part]
      holder[key] = layer
    end
  end
  return set
end

-- Puts the adapters of a set on a model that has none.
local function put_on(m, set)
  for path, part in pairs(set.layers) do
    local holder, key = pin.field(m, path)
    local layer = holder[key]
    if part.of_experts then
      part:__put_on(holder)
      part.training, base_of[part] = holder.training, holder
    else
      part.weight, part.bias, part.scale = layer.weight, layer.bias, layer.scale
      part.training, pin.of[part], base_of[part] = layer.training, pin.of[part] or pin.of[layer], layer
    end
    holder[key] = part
  end
  for _, name in ipairs(check.sorted_keys(set.trained)) do replace(m, name, set.trained[name]) end
end

-- Replaces the adapters of a model by a set (none: removes them). Returns the adapters that the model had.
function lora.swap(m, set)
  local where = who .. ".swap"
  check_model(where, m)
  check.that(not rille._tracing(), "%s: adapters cannot be replaced within a compiled step", where)
  if set ~= nil then check_fits(where, m, check_set(where, set)) end
  local before = take_off(where, m)
  if set then put_on(m, set) end
  rille._generation()
  return before
end

-- Returns an adapter whose update is the weighted sum of other adapters' updates. parts: list of {adapter, weight}.
local function weighted_sum(where, path, parts)
  local rank, as, bs, first = 0, {}, {}, parts[1][1]
  for i, one in ipairs(parts) do
    local part, weight = table.unpack(one)
    check.that(not part.lora_magnitude and not part.lora_bias, "%s: the adapter of '%s' must have neither dora nor bias", where, path)
    rank, as[i], bs[i] = rank + part.r, part.lora_A, part.lora_B * (weight * part.scaling)
  end
  local sum = first.of_experts and ExpertLoRA(base_of[first], first.of_experts, {r = rank}) or nn.LoRA(base_of[first], {r = rank})
  local axis = first.__rank_axis
  rille.no_grad(sum.load_state_dict, sum, {lora_A = rille.concat(as, axis.lora_A), lora_B = rille.concat(bs, axis.lora_B)}, {strict = false})
  sum.tied, sum.dropout, pin.of[sum], base_of[sum] = first.tied, first.dropout, pin.of[first], base_of[first]
  return sum
end

-- Returns a set of adapters whose updates are the weighted sums of the updates of other sets. list: list of {set, weight}.
function lora.mix(list)
  local where, parts, set = who .. ".mix", {}, setmetatable({layers = {}, trained = {}}, Set)
  check.that(type(list) == "table" and #list > 0, "%s: expected a list of {adapters, weight}, found %s", where, check.shown(list))
  for _, one in ipairs(list) do
    check.that(type(one) == "table", "%s: expected a list of {adapters, weight}, found %s in it", where, check.shown(one))
    check.finite(where, "a weight", one[2])
    check.that(next(check_set(where, one[1]).trained) == nil, "%s: adapters with parameters that are trained completely have no weighted sum", where)
    for path, part in pairs(one[1].layers) do
      parts[path] = parts[path] or {}
      table.insert(parts[path], {part, one[2]})
    end
  end
  for path, of_path in pairs(parts) do set.layers[path] = weighted_sum(where, path, of_path) end
  return set
end

return setmetatable(check.strict(who, lora), {
  __call = check.limited_call(who, function(_, m, given)
    check_model(who, m)
    return type(given) == "string" and load(m, given) or create(m, given)
  end),
  __index = function(_, name) check.fail("rille.models.lora has no '%s'; it has save, merge, without, swap and mix, and can be called", check.named(name)) end,
})
