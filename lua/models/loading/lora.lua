-- lora.lua - low-rank adapters (nn.LoRA) for the linear layers of a model, and their folders in the format of PEFT.
--
--   rille.models.lora(m, {r = 8, alpha = 16, targets = {"q_proj", "v_proj"}})     adds adapters, freezes all others
--   rille.models.lora.save(m, dir)        rille.models.lora(m, dir)
--
-- A PEFT folder uses the module names of the base model's file. If a tensor of the file joins two or more parameters,
-- PEFT has one adapter for the tensor, and Rille has one for each parameter. So loading divides B. Saving stacks the
-- A matrices, and makes B block diagonal.

local rille = require "rille"
local check = require "rille.base.check"
local files = require "rille.models.loading.files"
local json = require "rille.json"
local pieces = require "rille.models.loading.pieces"
local pin = require "rille.nn.base.pin"
local nn = rille.nn

local lora = {}

local who = "models.lora"
local PREFIX <const> = "base_model.model."

local function check_model(where, m)
  check.that(nn.Module.__is(m), "%s: expected a module, found %s", where, check.shown(m))
end

local is_linear = nn.LoRA.__fits

-- Returns the adapters of a model, and a list of their paths.
local function adapters(where, m)
  check_model(where, m)
  local list, paths = {}, {}
  for path, part in m:named_modules() do
    if getmetatable(part) == nn.LoRA then list[#list + 1], paths[#paths + 1] = part, path end
  end
  check.that(#list > 0, "%s: the model has no adapters; rille.models.lora(m, {r = 8}) adds them", where)
  return list, paths
end

-- ---- adding adapters to a model ----

-- Replaces linear layers by nn.LoRA, and freezes all other parameters. options: path of a layer -> options of its
-- nn.LoRA.
local function add(m, options)
  local tied = {}
  for _, found in ipairs(m:named_tensors()) do tied[found.tensor] = (tied[found.tensor] or 0) + 1 end
  local paths = check.sorted_keys(options)
  for _, path in ipairs(paths) do
    local holder, key = pin.field(m, path)
    check.that(tied[holder[key].weight] == 1, "%s: the weight of '%s' is tied to another parameter; choose other targets", who, path)
  end
  for _, p in ipairs(m:parameters()) do p.requires_grad = false end
  for _, path in ipairs(paths) do
    local holder, key = pin.field(m, path)
    local layer = holder[key]
    holder[key] = nn.LoRA(layer, options[path])
    holder[key].training, pin.of[holder[key]] = layer.training, pin.of[layer]
  end
  return m
end

local function ends_with(path, name) return path == name or path:sub(-#name - 1) == "." .. name end

-- Returns the paths of the linear layers whose names match the targets.
local function targeted(m, targets)
  local all = targets == "all-linear"
  check.that(all or type(targets) == "table" and #targets > 0,
    "%s: targets must be a list of names of linear layers, or \"all-linear\", found %s", who, check.shown(targets))
  local list, last, used, adapted = {}, {}, {}, {}
  for path, part in m:named_modules() do
    if getmetatable(part) == nn.LoRA then adapted[path:match("[^.]*$")] = true end
    if is_linear(part) then
      last[path:match("[^.]*$")] = true
      for _, name in ipairs(all and {not ends_with(path, "lm_head") and path or nil} or targets) do
        check.that(type(name) == "string", "%s: targets must be a list of strings, found %s", who, check.shown(name))
        if ends_with(path, name) then list[#list + 1], used[name] = path, true end
      end
    end
  end
  check.that(next(last) or next(adapted), "%s: the model must have linear layers; found none", who)
  for _, name in ipairs(all and {} or targets) do
    check.that(used[name] or not adapted[name], "%s: the target '%s' has an adapter already; a layer can have one", who, name)
    check.that(used[name], "%s: the target '%s' names no linear layer; the names are: %s", who, name,
      table.concat(check.sorted_keys(last), ", "))
  end
  return list
end

-- ---- loading and saving folders of PEFT ----

-- Returns the naming rows (pieces.lua) {theirs, ours, ...} of the model's linear layers. The names are those of
-- layers, without ".weight". turned: the weight is transposed in the file.
local function rows_of(m)
  local rows = {}
  if not m.kind then
    for path, part in m:named_modules() do rows[#rows + 1] = rawget(part, "weight") and {path, path} or nil end
    return rows
  end
  files.each_row(m.kind, m.config, function(row)
    local theirs = row[1]:match("^(.*)%.weight$")
    if not theirs or row.stack or row.view or row.plus then return end
    -- adds the file's prefix: the names lack it if the kind's `names` is a table, and have it if `names` is a
    -- function
    if type(m.kind.names) == "table" and not row.head then theirs = m.kind.prefix .. theirs end
    local one = {theirs, turned = row.turn, shares = row.shares, groups = row.groups, pairs = row.pairs}
    for k = 2, #row do one[k] = row[k]:match("^(.*)%.weight$") end
    rows[#rows + 1] = one
  end)
  return rows
end

-- Features of PEFT that change the result and are not supported: key of adapter_config.json -> the only accepted
-- value.
local plain = {bias = "none", use_dora = false, lora_bias = false, use_qalora = false, use_bdlora = false}
local absent = {"modules_to_save", "layer_replication", "trainable_token_indices", "target_parameters", "alora_invocation_tokens",
  "kasa_config", "monteclora_config", "arrow_config"}
-- initialisations of PEFT that leave the base model's weights unchanged; others, such as "pissa", subtract the initial
-- adapter from the weights
local inits = {gaussian = true, orthogonal = true, eva = true, mica = true}

-- Checks that alpha_pattern is an object whose keys are names of modules, optionally with the signs ^, $ and \. of
-- regular expressions.
local function check_alphas(where, pattern)
  check.that(type(pattern) == "table" and pattern[1] == nil, "%s: alpha_pattern must be an object {\"name\": number}, found %s", where,
    type(pattern) == "table" and "an array" or check.shown(pattern))
  for key, alpha in pairs(pattern) do
    check.that(not key:gsub("\\%.", "."):find("[%[%]()*+?{}|\\]"),
      "%s: alpha_pattern must have names of modules as keys, because other regular expressions are not supported; found %s", where, check.quoted(key))
    check.number(where, "alpha_pattern." .. key, alpha, 0)
  end
end

local function check_config(path, c)
  check.that(type(c) == "table" and c.peft_type == "LORA", "%s: %s: peft_type must be \"LORA\", found %s", who, path,
    type(c) == "table" and check.quoted(c.peft_type) or check.shown(c))
  for key, value in pairs(plain) do
    check.that(c[key] == nil or c[key] == json.null or c[key] == value, "%s: %s: %s must be %s, found %s", who, path, key,
      check.shown(value), check.shown(c[key]))
  end
  for _, key in ipairs(absent) do
    local v = c[key]
    check.that(v == nil or v == json.null or type(v) == "table" and next(v) == nil, "%s: %s: %s is not supported", who, path, key)
  end
  check.number(who .. ": " .. path, "lora_alpha", c.lora_alpha, 0)
  if c.use_rslora ~= nil and c.use_rslora ~= json.null then check.flag(who .. ": " .. path, "use_rslora", c.use_rslora) end
  local init = c.init_lora_weights
  check.that(type(init) ~= "string" or inits[init],
    "%s: %s: init_lora_weights = %s is not supported, because it changes the base model's weights; convert the adapter with PEFT's path_initial_model_for_weight_conversion",
    who, path, check.quoted(init))
  if c.alpha_pattern ~= nil and c.alpha_pattern ~= json.null then check_alphas(who .. ": " .. path, c.alpha_pattern) end
end

-- Returns alpha of a module: the entry of alpha_pattern whose key ends the module's name, or with ^ is that name;
-- without such an entry, lora_alpha.
local function alpha_of(c, name)
  local pattern, alpha = c.alpha_pattern ~= json.null and c.alpha_pattern or {}, nil
  for _, key in ipairs(check.sorted_keys(pattern)) do
    local plain_key = key:gsub("^%^", ""):gsub("%$$", ""):gsub("\\", "")
    if name == plain_key or key:sub(1, 1) ~= "^" and ends_with(name, plain_key) then
      check.that(not alpha or alpha == pattern[key], "%s: two keys of alpha_pattern match the module '%s', with different values", who, name)
      alpha = pattern[key]
    end
  end
  return alpha or c.lora_alpha
end

-- Adds to `options` and `values` the adapters for one tensor of the base model's file. If the tensor joins several
-- layers' weights, divides the adapter among the layers. The keys of `options` and `values` are paths of layers. a,
-- b: the adapter's tensors A and B.
local function divide(m, row, c, a, b, options, values)
  local rank, entry = a.shape[1], {name = row[1], shape = b.shape, dtype = b.dtype}
  for k = 2, #row do
    local holder, key = pin.field(m, row[k])
    local layer = holder[key]
    check.that(is_linear(layer), "%s: '%s' must be a linear layer without an adapter", who, row[k])
    local n_out, n_in = layer.weight.shape[1], layer.weight.shape[2]
    local piece = pieces.of_row(row, entry, k - 1)
    local part = piece.make and piece.make(b) or b:slice(0, piece.from[1], piece.to[1])
    check.that(a.shape[2] == n_in and b.shape[2] == rank and part.shape[1] == n_out,
      "%s: the adapter of '%s' has shapes {%s} and {%s}, which do not fit a weight of {%d, %d}", who, row[1],
      table.concat(a.shape, ", "), table.concat(b.shape, ", "), n_out, n_in)
    local dropout = type(c.lora_dropout) == "number" and c.lora_dropout or 0
    options[row[k]] = {r = rank, alpha = alpha_of(c, row[1]), dropout = dropout, rslora = c.use_rslora == true}
    values[row[k]] = {a, part}
  end
end

-- Adds the adapters in a PEFT folder to a model.
local function load(m, dir)
  dir = rille._path(check.path(who, "the name of a folder", dir))
  local path = dir .. "/adapter_config.json"
  local c = json.load(path, who)
  check_config(path, c)
  local given, options, values, wrong = rille.load(dir .. "/adapter_model.safetensors"), {}, {}, {}
  for _, row in ipairs(rows_of(m)) do
    local name = PREFIX .. row[1]
    local a, b = given[name .. ".lora_A.weight"], given[name .. ".lora_B.weight"]
    if a and b then
      divide(m, row, c, a, b, options, values)
      given[name .. ".lora_A.weight"], given[name .. ".lora_B.weight"] = nil, nil
    end
  end
  for _, name in ipairs(check.sorted_keys(given)) do wrong[#wrong + 1] = ("'%s' fits no linear layer of the model"):format(name) end
  check.that(#wrong == 0, "%s: %s: %s", who, dir, check.problems(wrong))
  check.that(next(values) ~= nil, "%s: %s has no adapters", who, dir)
  add(m, options)
  local state = {}
  for ours, value in pairs(values) do state[ours .. ".lora_A"], state[ours .. ".lora_B"] = value[1], value[2] end
  m:load_state_dict(state, {strict = false})
  return m
end

-- Returns t replicated on every device of its placement.
local function replicated(t) return t:detach():to_global{placement = t.placement, sbp = "B"} end

-- Returns A, B and the scaling of one adapter for a PEFT folder; nil if none of the parts has an adapter. parts: the
-- linear layers whose weights one tensor of the file joins.
local function joined(row, parts)
  local as, bs, rank, scaling = {}, {}, 0, nil
  for _, p in ipairs(parts) do rank = rank + (getmetatable(p) == nn.LoRA and p.r or 0) end
  if rank == 0 then return nil end
  local before = 0
  for _, p in ipairs(parts) do
    if getmetatable(p) == nn.LoRA then
      check.that(scaling == nil or scaling == p.scaling, "%s.save: adapters of '%s' must have one scaling, found %g and %g", who, row[1],
        scaling or 0, p.scaling)
      local b, n = replicated(p.lora_B), p.weight.shape[1]
      local here = {placement = b.placement, sbp = "B", dtype = b.dtype}
      scaling, as[#as + 1] = p.scaling, replicated(p.lora_A)
      bs[#bs + 1] = #parts == 1 and b or rille.concat({rille.zeros({n, before}, here), b, rille.zeros({n, rank - before - p.r}, here)}, 1)
      before = before + p.r
    else
      bs[#bs + 1] = rille.zeros{p.weight.shape[1], rank}
    end
  end
  local state = {}
  for k, b in ipairs(bs) do state[row[k + 1]] = b end
  return #as == 1 and as[1] or rille.concat(as, 0), pieces.join(row, state), scaling
end

-- Saves the adapters of a model as a PEFT folder.
function lora.save(m, dir)
  local where = who .. ".save"
  local list, paths = adapters(where, m)
  dir = rille._path(check.path(where, "the name of a folder", dir), true)
  local tensors, targets, ranks, alphas, turn, saved, unnamed = {}, {}, {}, {}, false, {}, {}
  local first = list[1]
  for _, row in ipairs(rows_of(m)) do
    local parts = {}
    for k = 2, #row do
      local holder, key = pin.field(m, row[k])
      parts[#parts + 1] = holder[key]
      saved[holder[key]] = true
    end
    local a, b, scaling = joined(row, parts)
    if a then
      local name, rank = row[1], a.shape[1]
      tensors[PREFIX .. name .. ".lora_A.weight"], tensors[PREFIX .. name .. ".lora_B.weight"] = a, b
      targets[#targets + 1], turn = name, turn or row.turned or false
      if rank ~= first.r then ranks[name] = rank end
      if rank * scaling ~= first.r * first.scaling then alphas[name] = rank * scaling end
    end
  end
  for i, part in ipairs(list) do if not saved[part] then unnamed[#unnamed + 1] = paths[i] end end
  check.that(#unnamed == 0, "%s: %d of the %d adapters, such as '%s', have no name in PEFT's format for this kind of model, so they cannot be saved",
    where, #unnamed, #list, unnamed[1])
  rille.save(dir, tensors, {max_shard_size = "1000GB"})
  os.rename(dir .. "/model.safetensors", dir .. "/adapter_model.safetensors")
  rille._write(where, dir .. "/adapter_config.json", json.encode{peft_type = "LORA", task_type = "CAUSAL_LM", r = first.r,
    lora_alpha = first.r * first.scaling, lora_dropout = first.dropout, target_modules = targets, bias = "none",
    fan_in_fan_out = turn, inference_mode = true, rank_pattern = next(ranks) and ranks or nil,
    alpha_pattern = next(alphas) and alphas or nil} .. "\n")
end

-- ---- merging adapters and switching them off ----

-- Adds the adapters to the weights (on = true, the default), or subtracts the adapters again.
function lora.merge(m, on)
  for _, part in ipairs((adapters(who .. ".merge", m))) do part:merge(on) end
  return m
end

-- Calls fn(...) with all adapters switched off, and returns its results.
function lora.without(m, fn, ...)
  local list = adapters(who .. ".without", m)
  check.that(rille._is_callable(fn), "%s.without: the second argument must be a function, found %s", who, check.shown(fn))
  return nn.LoRA.__without(list, fn, ...)
end

local known = {r = 8, alpha = check.none, dropout = 0, rslora = false, targets = {"q_proj", "v_proj"}}

return setmetatable(check.strict(who, lora), {
  __call = check.limited_call(who, function(_, m, given)
    check_model(who, m)
    if type(given) == "string" then return load(m, given) end
    local o, options = check.options(who, given, known), {}
    for _, path in ipairs(targeted(m, o.targets)) do
      options[path] = {r = o.r, alpha = o.alpha, dropout = o.dropout, rslora = o.rslora}
    end
    return add(m, options)
  end),
  __index = function(_, name) check.fail("rille.models.lora has no '%s'; it has save, merge and without, and can be called", check.named(name)) end,
})
