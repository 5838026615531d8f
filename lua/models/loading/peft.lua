-- peft.lua - folders of low-rank adapters (nn.LoRA) in the format of PEFT: adapter_config.json (peft_options.lua) and
-- adapter_model.safetensors, or adapter_model.bin in old folders.
--
-- A PEFT folder uses the module names of the base model's file. If a tensor of the file joins two or more parameters,
-- PEFT has one adapter for the tensor, and Rille has one for each parameter. So loading divides B and the vectors along
-- the outputs, and the adapters share A. Saving stacks A matrices that are not shared, and makes B block diagonal.

local rille = require "rille"
local check = require "rille.base.check"
local describe = require "rille.models.loading.describe"
local experts = require "rille.models.loading.peft_experts"
local files = require "rille.models.loading.files"
local json = require "rille.json"
local layout = require "rille.base.layout"
local names = require "rille.models.loading.names"
local options = require "rille.models.loading.peft_options"
local pieces = require "rille.models.loading.pieces"
local pin = require "rille.nn.base.pin"
local nn = rille.nn

local peft = {}

local PREFIX <const> = "base_model.model."
local MODEL <const>, OLD_MODEL <const> = "/adapter_model.safetensors", "/adapter_model.bin"

-- field of nn.LoRA -> end of its name in the file, for a linear layer and for an embedding
local linear_names = {lora_A = ".lora_A.weight", lora_B = ".lora_B.weight", lora_magnitude = ".lora_magnitude_vector", lora_bias = ".lora_B.bias"}
local embedding_names = {lora_A = ".lora_embedding_A", lora_B = ".lora_embedding_B", lora_magnitude = ".lora_magnitude_vector"}

-- ---- naming ----

-- Returns the naming rows (pieces.lua) {theirs, ours, ...} of the model, with the names of a complete file.
local function rows_of(m)
  local rows = {}
  if not m.kind then
    for _, found in ipairs(m:named_tensors()) do rows[#rows + 1] = {found.name, found.name} end
    return rows
  end
  files.each_row(m.kind, m.config, function(row)
    local one = {}
    for key, value in pairs(row) do one[key] = value end
    -- adds the file's prefix: the names lack it if the kind's `names` is a table, and have it if `names` is a
    -- function
    if type(m.kind.names) == "table" and not row.head then one[1] = m.kind.prefix .. row[1] end
    rows[#rows + 1] = one
  end)
  return rows
end

local function layer_at(m, path)
  local holder, key = pin.field(m, path)
  return rawget(holder, key)
end

local function is_embedding(layer) return layer.looks_up or getmetatable(layer) == nn.Embedding end

-- Returns a site, the layers whose weights are joined in one tensor of the file: {name = the module in the file, row =
-- the naming row of a tensor along the outputs, turned =, layers =, paths =, is_linear =}. nil: one of the layers cannot
-- have an adapter.
local function site_of(m, row)
  local name = row[1]:match("^(.*)%.weight$")
  if not name or row.stack or row.view or row.plus then return nil end
  local site = {name = name, other = names.module(m.kind and m.kind.name, name), turned = row.turn, layers = {}, paths = {}, row = {name, shares = row.shares, groups = row.groups, pairs = row.pairs}}
  for k = 2, #row do
    local path = row[k]:match("^(.*)%.weight$")
    local layer = path and layer_at(m, path)
    if not layer or not (nn.LoRA.__is(layer) or nn.LoRA.__fits(layer)) then return nil end
    site.layers[k - 1], site.paths[k - 1], site.row[k] = layer, path, path
  end
  site.names = is_embedding(site.layers[1]) and embedding_names or linear_names
  site.is_router = options.matches("", {"router"}, site.paths[1])
  site.is_linear = site.names == linear_names and not site.is_router and not options.matches("", {"lm_head"}, site.paths[1])
  return site
end

-- Returns the naming row of a field of the adapters of a site.
local function row_of(site, field)
  local row = {}
  for key, value in pairs(site.row) do row[key] = key ~= 1 and type(key) == "number" and value .. "." .. field or value end
  return row
end

-- ---- loading a folder ----

local function shape_text(shape) return "{" .. table.concat(shape, ", ") .. "}" end

-- A reader is a table: m (model), c (options), prefix (of names in the file), given (name -> entry of the file), list (pieces of
-- parameters), wrong (list of problems), adapters (path of a layer -> options of its adapter), tied (paths {first, other} of
-- adapters that share A), trained (list of names of parameters that the adapter replaces).

local Reader = {}
Reader.__index = Reader

-- Returns an entry of the file and marks it as used; nil: the file has no such tensor.
function Reader:take(name)
  local entry = self.given[PREFIX .. name]
  self.given[PREFIX .. name] = nil
  return entry
end

-- Returns the entries of a site's adapter by field; nil: a tensor is missing, or the site has no adapter.
local function entries_of(self, site)
  if not self.given[PREFIX .. site.name .. site.names.lora_A] then site.name = site.other end
  local entries, any, wants = {}, false, {lora_A = true, lora_B = true, lora_magnitude = self.c.use_dora, lora_bias = self.c.lora_bias}
  for field, last in pairs(site.names) do
    entries[field] = wants[field] and self:take(site.name .. last) or nil
    any = any or entries[field] ~= nil
  end
  if not any and not options.targets(self.c, site.name, site.is_linear) then return nil end
  for _, field in ipairs(check.sorted_keys(site.names)) do
    if wants[field] and not entries[field] then
      self.wrong[#self.wrong + 1] = ("'%s' is missing"):format(PREFIX .. site.name .. site.names[field])
      any = false
    end
  end
  return any and entries or nil
end

-- Returns the name by which rank_pattern and alpha_pattern select the adapter of a site.
local function tensor_of(c, site)
  return options.targets_tensor(c, site.name .. ".weight") and site.name .. ".weight" or site.name
end

-- Returns an error text if the entries' shapes do not fit the site's layers; else nil. n_out: the
-- number of all outputs.
local function misfit(self, site, entries, n_out)
  local rank, name = options.rank(self.c, tensor_of(self.c, site)), PREFIX .. site.name
  local _, n_in = nn.LoRA.__sizes(site.layers[1])
  local shapes = {lora_A = {rank, n_in}, lora_B = {n_out, rank}, lora_magnitude = {n_out}, lora_bias = {n_out}}
  for _, field in ipairs(check.sorted_keys(entries)) do
    local entry = entries[field]
    if not layout.is_float(entry) then
      return ("'%s' must have a float dtype, found %s"):format(name .. site.names[field], entry.dtype)
    end
    if shape_text(entry.shape) ~= shape_text(shapes[field]) then
      return ("'%s' must have the shape %s, found %s"):format(name .. site.names[field], shape_text(shapes[field]), shape_text(entry.shape))
    end
  end
end

-- Adds to the reader the pieces and options of the adapters of a site.
local function read_adapter(self, site)
  local entries = entries_of(self, site)
  if not entries then return end
  local n_out = 0
  for k, layer in ipairs(site.layers) do
    check.that(not nn.LoRA.__is(layer), "%s: '%s' must be a layer without an adapter; rille.models.lora.swap(m) removes adapters", self.who, site.paths[k])
    n_out = n_out + nn.LoRA.__sizes(layer)
  end
  local why = misfit(self, site, entries, n_out)
  if why then
    self.wrong[#self.wrong + 1] = why
    return
  end
  local c = self.c
  local how = {r = entries.lora_A.shape[1], alpha = options.alpha(c, tensor_of(c, site)), dropout = c.lora_dropout or 0,
    rslora = c.use_rslora or false, dora = c.use_dora or false, bias = c.lora_bias or false}
  self.list[#self.list + 1] = pieces.part(site.paths[1] .. ".lora_A", entries.lora_A, 1, 1, 1)
  for k, path in ipairs(site.paths) do
    for field, entry in pairs(entries) do
      if field ~= "lora_A" then self.list[#self.list + 1] = pieces.of_row(row_of(site, field), entry, k) end
    end
    self.adapters[path] = how
    if k > 1 then self.tied[#self.tied + 1] = {site.paths[1], path} end
  end
end

-- Returns true if an adapter with these options must have a complete tensor of the base model. adapted: the tensor's
-- module has an adapter.
local function is_saved(c, name, adapted)
  local module, last = name:match("^(.*)%.([^.]*)$")
  if not module then return false end
  return options.saves(c, module) or last == "bias" and (c.bias == "all" or c.bias == "lora_only" and adapted)
end

-- Returns an error text if a complete tensor cannot replace the row's parameters; else nil.
local function complete_misfit(m, row, entry)
  local state = {}
  for k = 2, #row do
    local holder, key = pin.field(m, row[k])
    state[row[k]] = holder[key]
    if not layout.is_float(holder[key]) then return ("'%s' cannot replace a quantized weight"):format(entry.name) end
  end
  if not layout.is_float(entry) then return ("'%s' must have a float dtype, found %s"):format(entry.name, entry.dtype) end
  local shape = rille.no_grad(pieces.join, row, state).shape
  if shape_text(shape) ~= shape_text(entry.shape) then
    return ("'%s' must have the shape %s, found %s"):format(entry.name, shape_text(shape), shape_text(entry.shape))
  end
end

-- Adds the pieces of a complete tensor of the base model, which the adapter replaces. PEFT also stores weights of
-- adapted embeddings, which are not trained.
local function read_complete(self, m, row)
  local module, last = row[1]:match("^(.*)%.([^.]*)$")
  local adapted = module and self.adapters[row[2]:match("^(.*)%.[^.]*$")] ~= nil
  local name, saved = adapted and module .. ".base_layer." .. last or row[1], is_saved(self.c, row[1], adapted)
  local entry = self:take(name) or self:take(row[1])
  if not entry then
    if saved then self.wrong[#self.wrong + 1] = ("'%s' is missing"):format(PREFIX .. name) end
    return
  end
  local why = complete_misfit(m, row, entry)
  if why then
    self.wrong[#self.wrong + 1] = why
    return
  end
  for k = 2, #row do
    self.list[#self.list + 1] = pieces.of_row(row, entry, k - 1)
    if saved then self.trained[#self.trained + 1] = row[k] end
  end
end

-- Returns the path of a folder's tensors. Old folders have a file of torch.save.
local function path_of(dir)
  return dir .. (rille._kind(dir .. OLD_MODEL) and not rille._kind(dir .. MODEL) and OLD_MODEL or MODEL)
end

-- Reads a folder. Returns the options of adapters by path, and the names of the parameters that the folder replaces. The
-- third result is a function that reads the values; call it after the adapters have been added to the model.
function peft.read(who, m, dir)
  local path = path_of(dir)
  local self = setmetatable({m = m, who = who, c = options.read(who, dir .. "/adapter_config.json"), prefix = PREFIX, given = {}, list = {}, wrong = {},
    adapters = {}, tied = {}, trained = {}}, Reader)
  for _, entry in ipairs((rille._contents(path, nil, who))) do self.given[entry.name] = entry end
  local rows = rows_of(m)
  for _, row in ipairs(rows) do
    local site = site_of(m, row)
    if site then read_adapter(self, site) end
  end
  experts.read(self, rows)
  for _, row in ipairs(rows) do read_complete(self, m, row) end
  for _, name in ipairs(check.sorted_keys(self.given)) do
    self.wrong[#self.wrong + 1] = ("'%s' fits no module of the model, or no option of adapter_config.json"):format(name)
  end
  check.that(#self.wrong == 0, "%s: %s: %s", who, dir, check.problems(self.wrong))
  check.that(next(self.adapters) ~= nil, "%s: %s has no adapters", who, dir)
  return self.adapters, self.trained, function()
    for _, pair in ipairs(self.tied) do nn.tie(layer_at(m, pair[1]), "lora_A", layer_at(m, pair[2]), "lora_A") end
    pieces.read(m, who, path, nil, self.list, true)
  end
end

-- ---- saving a folder ----

-- Returns t replicated on every device of its placement.
local function replicated(t) return t:detach():to_global{placement = t.placement, sbp = "B"} end

-- Returns the value of a field for a layer without an adapter, if other layers of the site have adapters. The value does
-- not change the layer's result.
local function neutral(layer, field, rank, like)
  local n = nn.LoRA.__sizes(layer)
  if field == "lora_magnitude" then return replicated(nn.LoRA.__lengths(layer):to(like.dtype)) end
  return rille.zeros(field == "lora_B" and {n, rank} or {n}, {placement = like.placement, sbp = "B", dtype = like.dtype})
end

-- Returns B with zeros in the columns that belong to the adapters of other layers. before: number of zero
-- columns before B.
local function widened(b, before, rank)
  local n, r = table.unpack(b.shape)
  if r == rank then return b end
  local here = {placement = b.placement, sbp = "B", dtype = b.dtype}
  return rille.concat({rille.zeros({n, before}, here), b, rille.zeros({n, rank - before - r}, here)}, 1)
end

-- Returns the adapter of a site as {lora_A =, lora_B =, ..., rank =, scaling =}; nil: no layer has an adapter.
local function joined(where, site)
  local one, adapted, before, shared = {rank = 0}, {}, 0, true
  for _, p in ipairs(site.layers) do
    if nn.LoRA.__is(p) then adapted[#adapted + 1], one.rank = p, one.rank + p.r end
  end
  local first = adapted[1]
  if not first then return nil end
  for _, p in ipairs(site.layers) do shared = shared and rawequal(rawget(p, "lora_A"), first.lora_A) end
  if shared then one.rank = first.r end
  for _, p in ipairs(adapted) do
    check.that(p.scaling == first.scaling, "%s: adapters of '%s' must have one scaling, found %g and %g", where, site.name, first.scaling, p.scaling)
  end
  local state = {}
  for k, p in ipairs(site.layers) do
    for field in pairs(site.names) do
      local own = nn.LoRA.__is(p) and rawget(p, field)
      local value = own and replicated(own) or rawget(first, field) and neutral(p, field, one.rank, first.lora_B)
      if field == "lora_B" and own and not shared then value = widened(value, before, one.rank) end
      state[site.paths[k] .. "." .. field] = value or nil
    end
    before = before + (nn.LoRA.__is(p) and p.r or 0)
  end
  for field in pairs(site.names) do
    if field ~= "lora_A" and rawget(first, field) then one[field] = pieces.join(row_of(site, field), state) end
  end
  local as = {}
  for i, p in ipairs(shared and {first} or adapted) do as[i] = replicated(p.lora_A) end
  one.lora_A, one.scaling = #as == 1 and as[1] or rille.concat(as, 0), first.scaling
  return one
end

-- A writer is a table: m (model), where (prefix of messages), prefix (of names in the file), tensors, config
-- (adapter_config.json), first (first adapter), saved (set of adapters), adapted (set of names of modules with adapters),
-- has_experts (true for a mixture, if PEFT can adapt single tensors with these options). In a mixture, PEFT takes target_modules that end in gate_proj, up_proj or down_proj for
-- those of old folders' experts, and a router is no linear layer; so the weights of such layers are target_parameters.
local Writer = {}
Writer.__index = Writer

local names_of_experts = {gate_proj = true, up_proj = true, down_proj = true}

-- Adds a name to target_modules or target_parameters, and its rank and scaling if those of the first adapter differ.
function Writer:add_target(key, name, rank, scaling)
  local c, first = self.config, self.first
  table.insert(c[key], name)
  if rank ~= first.r then c.rank_pattern[name] = rank end
  if rank * scaling ~= first.r * first.scaling then c.alpha_pattern[name] = rank * scaling end
end

local function write_adapter(self, site)
  local one = joined(self.where, site)
  if not one then return end
  local c = self.config
  for _, layer in ipairs(site.layers) do
    self.saved[layer] = true
    check.that(not nn.LoRA.__is(layer) or (layer.lora_magnitude ~= nil) == c.use_dora and (layer.lora_bias ~= nil) == c.lora_bias
      or layer.looks_up and layer.lora_bias == nil, "%s: adapters must have the same options dora and bias, but those of '%s' differ", self.where, site.name)
  end
  for field, last in pairs(site.names) do self.tensors[PREFIX .. site.other .. last] = one[field] end
  self.adapted[site.name] = true
  c.fan_in_fan_out = c.fan_in_fan_out or site.turned or false
  if site.is_router or self.has_experts and names_of_experts[site.other:match("[^.]*$")] then
    self:add_target("target_parameters", site.other .. ".weight", one.rank, one.scaling)
  else
    self:add_target("target_modules", site.other, one.rank, one.scaling)
  end
end

-- Returns true if one of the row's parameters is trained. state: name -> tensor.
local function is_trained(row, state)
  for k = 2, #row do
    if state[row[k]] and state[row[k]].requires_grad then return true end
  end
  return false
end

-- Sets the options for the complete tensors, and returns the rows of these tensors. The option `bias` stores biases
-- alone; otherwise PEFT stores all tensors of a module. The weight of a module with an adapter is stored like that of an
-- adapted embedding.
local function complete_rows(self, rows, state)
  local list, modules, own, others = {}, {}, false, {} -- own: biases of modules with adapters; others: of other modules
  for _, row in ipairs(rows) do
    local module, last = row[1]:match("^(.*)%.([^.]*)$")
    if is_trained(row, state) then
      if self.adapted[module] then own = own or last == "bias" else (last == "bias" and others or modules)[module] = true end
    end
  end
  if next(modules) then
    for module in pairs(others) do modules[module] = true end
    others, self.config.modules_to_save = {}, check.sorted_keys(modules)
  end
  self.config.bias = next(others) and "all" or own and "lora_only" or "none"
  for _, row in ipairs(rows) do
    if is_trained(row, state) or is_saved(self.config, row[1], self.adapted[row[1]:match("^(.*)%.[^.]*$")]) then list[#list + 1] = row end
  end
  return list
end

local function write_complete(self, rows)
  local state = {}
  for _, found in ipairs(self.m:named_tensors()) do state[found.name] = found.tensor end
  for _, row in ipairs(complete_rows(self, rows, state)) do
    local module, last = row[1]:match("^(.*)%.([^.]*)$")
    local name = self.adapted[module] and module .. ".base_layer." .. last or row[1]
    local parts = {}
    for k = 2, #row do parts[row[k]] = replicated(state[row[k]]) end
    self.tensors[PREFIX .. name] = pieces.join(row, parts)
  end
end

-- Returns PEFT's name of the model's task; nil: no name, because the model does not generate text.
local function task_of(m)
  return m.kind and check.field(m, "lm_head") and not describe.is_encoder(m.kind.name) and "CAUSAL_LM" or nil
end

-- Saves the adapters and the other trained parameters of a model. list, paths: the adapters and their paths.
function peft.write(where, m, dir, list, paths)
  local first = list[1]
  local c = {peft_type = "LORA", task_type = task_of(m), r = first.r, lora_alpha = first.r * first.scaling, lora_dropout = first.dropout,
    target_modules = json.array{}, target_parameters = json.array{}, bias = "none", fan_in_fan_out = false, inference_mode = true, rank_pattern = {}, alpha_pattern = {},
    use_dora = first.lora_magnitude ~= nil, lora_bias = first.lora_bias ~= nil}
  local self = setmetatable({m = m, where = where, prefix = PREFIX, tensors = {}, config = c, first = first, saved = {}, adapted = {},
    has_experts = experts.has(m) and not (c.use_dora or c.lora_bias) and c.lora_dropout == 0}, Writer)
  local rows, unnamed, of_experts = rows_of(m), {}, {}
  for _, row in ipairs(rows) do
    local site = site_of(m, row)
    if site then write_adapter(self, site) end
  end
  for i, part in ipairs(list) do if part.of_experts then of_experts[part:__base_path(paths[i])] = part end end
  experts.write(self, of_experts)
  for i, part in ipairs(list) do if not self.saved[part] then unnamed[#unnamed + 1] = paths[i] end end
  check.that(#unnamed == 0, "%s: %d of the %d adapters, such as '%s', have no name in PEFT's format for this kind of model, so they cannot be saved",
    where, #unnamed, #list, unnamed[1])
  write_complete(self, rows)
  c.target_parameters = c.target_parameters[1] and c.target_parameters or nil
  c.rank_pattern, c.alpha_pattern = next(c.rank_pattern) and c.rank_pattern, next(c.alpha_pattern) and c.alpha_pattern
  rille._make_folder(where, dir)
  rille.save(dir .. MODEL, self.tensors)
  rille._write(where, dir .. "/adapter_config.json", json.encode(c) .. "\n")
end

return peft
