-- files.lua - reads and writes language models: Hugging Face folders (config.json and safetensors), llm.c checkpoints.
--
-- The naming table of a kind of model maps tensors of the file to Rille's parameters (language.lua, pieces.lua).
-- Loading transposes and splits tensors as the rows require; saving does the reverse. The head is lm_head.weight on
-- both sides and is optional if it is tied. The model is moved to its layout before values are read, so each rank
-- reads only its own shards (pieces.lua).

local rille = require "rille"
local check = require "rille.base.check"
local add_defaults = require "rille.models.loading.defaults"
local json = require "rille.json"
local gguf = require "rille.models.loading.gguf"
local low_bits = require "rille.models.loading.low_bits"
local described = require "rille.models.loading.described"
local pieces = require "rille.models.loading.pieces"
local quantize = require "rille.models.loading.quantize"
local text_part = require "rille.models.loading.text_part"

local files = {}

local HEAD = "lm_head.weight"

-- Calls visit(row) for each row of the kind's naming table, which maps a tensor of the file to parameters of Rille:
-- {theirs, ours, ours..., turn =, ...}. Replaces %d in names by the number of each layer. rows: the naming table, if
-- the file's names are not Hugging Face's.
function files.each_row(kind, config, visit, rows)
  if rows or type(kind.names) == "function" then
    for _, row in ipairs(rows or kind.names(config)) do visit(row) end
    return
  end
  for _, row in ipairs(kind.names) do
    for i = 0, row[1]:find("%d", 1, true) and config.layers - 1 or 0 do
      local here = {turn = row.turn}
      for k, name in ipairs(row) do here[k] = name:gsub("%%d", i) end
      visit(here)
    end
  end
  visit{HEAD, HEAD, head = true}
end

-- ---- loading a model from a file ----

local function is_ignored(kind, name)
  for _, pattern in ipairs(kind.ignored) do
    if name:find(pattern) then return true end
  end
end

-- Returns an error text if the file's tensor `entry` does not fit the row of the naming table; else nil. For a row
-- with `scalar`, the tensor may be a scalar.
local function misfit(row, entry)
  local axis, sum = pieces.axis(row, entry), 0
  for _, share in ipairs(row.shares or {}) do sum = sum + share end
  if not row.shares then sum = #row - 1 end
  if row.scalar or sum * (row.groups or 1) == 1 and #entry.shape > 0 then return nil end
  if #entry.shape < axis or entry.shape[axis] % (sum * (row.groups or 1)) ~= 0 then
    return ("the size of '%s' along its %s axis must be divisible by %d, found %s"):format(entry.name,
      axis == #entry.shape and axis > 1 and "last" or "first", sum * (row.groups or 1), entry.shape[axis] or "no such axis")
  end
end

-- Returns the pieces (pieces.lua): for each parameter of Rille, the window of the file's tensor that contains it.
-- Missing and unknown tensors are appended to report.missing and report.unexpected; without `report` they are an
-- error.
local function pieces_of(kind, config, contents, path, report, rows)
  local list, wrong, known, has = {}, {}, {}, {}
  for _, entry in ipairs(contents) do has[entry.own or entry.name] = entry end
  check.that(config.layers <= #contents, "models.%s: %s has %d tensors, which are not those of %d layers", kind.name, path,
    #contents, config.layers)
  files.each_row(kind, config, function(row)
    local theirs = row[1]
    local bare = kind.prefix ~= "" and theirs:sub(1, #kind.prefix) == kind.prefix and theirs:sub(#kind.prefix + 1)
    local entry = has[theirs] or has[kind.prefix .. theirs] or bare and has[bare] or row.old and has[row.old]
    if not entry then
      if row.head and config.tied then return end
      local to, text = report and report.missing or wrong, report and theirs or ("'%s' is missing"):format(theirs)
      to[#to + 1] = text
      return
    end
    known[entry.name] = true
    local why = misfit(row, entry)
    if why then
      wrong[#wrong + 1] = why
      return
    end
    for k = 1, #row - 1 do list[#list + 1] = pieces.of_row(row, entry, k) end
  end, rows)
  for _, entry in ipairs(contents) do
    if not known[entry.name] and not is_ignored(rows and gguf or kind, entry.name) then
      local to, name = report and report.unexpected or wrong, entry.name
      to[#to + 1] = report and name or ("'%s' is not a tensor of %s"):format(name, kind.name)
    end
  end
  check.that(#wrong == 0, "models.%s: %s: %s", kind.name, path, check.problems(wrong))
  return list
end

-- Reads the parameters of a model from a file of any format that has Hugging Face's tensor names.
function files.fill(model, path)
  local who = "models." .. model.kind.name
  pieces.read(model, who, path, nil, pieces_of(model.kind, model.config, (rille._contents(path, nil, who)), path))
  return model
end

-- Removes nulls, also in nested tables, because in config.json null means "not set".
local function without_nulls(theirs)
  for name, value in pairs(theirs) do
    if type(name) == "string" and value == json.null then
      theirs[name] = nil
    elseif type(value) == "table" then
      without_nulls(value)
    end
  end
end

-- Checks the keys of config.json: counts must be positive integers; other keys have checks of their own.
local function check_words(kind, theirs, path)
  local who = ("models.%s: %s"):format(kind.name, path)
  for _, word in ipairs(check.sorted_keys(kind.counts)) do
    if theirs[word] ~= nil or kind.counts[word] then check.count(who, word, theirs[word]) end
  end
  for _, word in ipairs(check.sorted_keys(kind.words)) do
    if theirs[word] ~= nil then kind.words[word](who, word, theirs[word]) end
  end
end

-- Returns fn's result. If fn fails, raises its error with the file's name added.
local function of_file(kind, path, fn)
  local good, result = check.try(fn)
  if good then return result end
  if type(result) ~= "string" or result:find(path, 1, true) then error(result, 0) end
  local why = result:gsub("^[^:]*:%d+: ", "")
  local own = "models." .. kind.name
  if why:sub(1, #own) == own then why = why:sub(#own + 1):gsub("^:[%a_]*:? ?", "") end
  check.fail("%s: %s: %s", own, path, why)
end

-- Returns true if the path is a file of torch.save, and not a .bin checkpoint of llm.c.
function files.is_torch(path)
  local file = path:find("%.bin$") and rille._kind(path) == "file" and io.open(path, "rb")
  local first = file and file:read(2)
  if file then file:close() end
  return first == "PK"
end

-- Checks, before reading, that path is a folder or a file of a supported format. others: text for the message that
-- lists the formats of other files.
function files.check_there(who, path, others)
  local what, why = rille._kind(path)
  check.that(what, "%s: %s", who, why)
  check.that(path:find("%.safetensors$") or files.is_torch(path) or what == "folder",
    "%s: %s is a file; expected a folder with config.json and its safetensors%s",
    who, path, others and ", a .safetensors of such a folder" .. others or ", or a .safetensors of such a folder")
end

-- Returns a folder's config.json as a table, the path of config.json, the path of the tensors, and true if the table is a
-- part of config.json (text_part.lua). path: a folder, or a .safetensors file in it.
local function read_config(who, path)
  local file = path:find("%.safetensors$") or files.is_torch(path)
  local dir = file and (path:match("^(.*)/[^/]*$") or ".") or path
  local one = dir .. "/model.safetensors"
  if dir == path and rille._kind(one) and not rille._kind(one .. ".index.json") then path = one end
  local read, theirs = check.try(json.load, dir .. "/config.json", who)
  if not read then
    error(theirs .. (theirs:find("No such file", 1, true) and "; expected a folder with config.json and its safetensors" or ""), 0)
  end
  check.that(type(theirs) == "table" and getmetatable(theirs) == nil, "%s: %s/config.json: expected a JSON object, found %s", who, dir,
    theirs == json.null and "null" or type(theirs) == "table" and "an array" or check.shown(theirs))
  local is_part
  theirs, is_part = text_part.config(theirs, who, dir .. "/config.json")
  add_defaults(theirs)
  without_nulls(theirs)
  return theirs, dir .. "/config.json", path, is_part
end

-- Returns the model_type of a folder, and the path of its config.json.
function files.model_type(who, path)
  local theirs, config = read_config(who, path)
  return theirs.model_type, config
end

-- Reads a folder's config. Returns the config, the pieces, and their source {path =, format =, theirs = config.json
-- as a table}. If the folder has int8 weights in Rille's format (own =), the second value is the list of the file's
-- tensors. llmc.lua returns the same three values for files of llm.c.
local function read_folder(kind, path, complete, report, keep)
  local who = ("models.%s.load"):format(kind.name)
  check.that(not keep, "%s: %s: quantize = \"keep\" needs a .gguf file; expected \"int8\" or \"int4\"", who, path)
  files.check_there(who, path, kind.read_bin and " or a .bin of llm.c")
  local theirs, config_path, tensors, is_part = read_config(who, path)
  check.that(theirs.model_type == kind.name, "%s: %s: model_type must be \"%s\", found %s", who, config_path, kind.name,
    check.quoted(theirs.model_type))
  check_words(kind, theirs, config_path)
  local own = low_bits.is_own(theirs.quantization_config) and theirs.quantization_config
  local format = not own and low_bits.format(who, config_path, theirs.quantization_config) or nil
  local contents = low_bits.mark(format, (rille._contents(tensors, format, who)))
  theirs.quantization_config = nil
  if is_part then contents = text_part.tensors(contents, theirs) end
  local layers, extra = theirs.num_hidden_layers, theirs.num_nextn_predict_layers
  local all = math.type(layers) == "integer" and math.type(extra) == "integer" and layers + extra or nil
  contents = gguf.without_layers(contents, "^model%.layers%.(%d+)%.", all, extra)
  local config = of_file(kind, config_path, function() return complete(kind.from_config(theirs, contents, (config_path:match("^(.*)/")))) end)
  config.eos_token_id = theirs.eos_token_id -- id, or list of ids, that ends a text
  if own then return config, contents, {path = tensors, own = own, theirs = theirs} end
  return config, pieces_of(kind, config, contents, tensors, report), {path = tensors, format = format, theirs = theirs}
end

-- Reads the config of a .gguf file; returns the values of read_folder. keep: the source gets the field blocks, which
-- lists the weights that the file stores in quantised blocks.
local function read_gguf(kind, path, complete, report, keep)
  local who, format = ("models.%s.load"):format(kind.name), keep and {method = "blocks"} or "gguf"
  local model_type, file = gguf.open(who, path, format)
  check.that(model_type == kind.name, "%s: %s: the model in the file must be of the kind \"%s\", found \"%s\"; rille.models.load reads all kinds", who, path, kind.name, model_type)
  local config = of_file(kind, path, function() return complete(kind.from_config(file.words, file.contents)) end)
  config.eos_token_id = file.words.eos_token_id
  return config, pieces_of(kind, config, file.contents, path, report, gguf.rows(file, config)), {path = path, format = format, blocks = file.blocks,
    theirs = file.words}
end

-- Loads a model. Returns the model and, if options.strict is false, the names of missing and unexpected tensors of the file.
function files.load(kind, path, options, complete)
  local who = "models." .. kind.name .. ".load"
  path = rille._path(check.path(who, "the name of a folder or a file", path))
  local how = options.quantize
  check.that(how == nil or how == "int8" or how == "int4" or how == "keep",
    "%s: quantize must be \"int8\", \"int4\" or \"keep\", found %s", who, check.shown(how))
  check.that(how ~= "keep" or options.dtype == nil or options.dtype == "f32", "%s: with quantize = \"keep\", dtype must be f32, found %s",
    who, check.shown(options.dtype))
  local read = path:find("%.gguf$") and read_gguf or path:find("%.bin$") and not files.is_torch(path) and kind.read_bin or read_folder
  local report = not options.strict and {missing = {}, unexpected = {}} or nil
  local config, list, from = read(kind, path, complete, report, how == "keep")
  local dtype = options.dtype or how == "keep" and "f32" or pieces.dtype(list)
  local model = of_file(kind, path, function()
    return kind.empty(config, {placement = options.placement, sbp = options.sbp, dtype = dtype})
  end)
  if report then model:start() end -- initial values for parameters that are missing in the file
  local function lay_out()
    if options.parallel ~= nil then rille.parallel(model, options.parallel) end
  end
  if how == "keep" then quantize.keep(model, list, from.blocks) end
  lay_out()
  local rounds = how == "int8" or how == "int4"
  if not from.own then
    local consume = rounds and quantize.consumer(model, how) or nil
    of_file(kind, path, function() pieces.read(model, who, from.path, from.format, list, report, consume) end)
  end
  model.theirs = from.theirs
  if from.own then
    of_file(kind, path, function() quantize.restore(model, from.own, list) end)
  elseif rounds then
    quantize.round(model, how)
  end
  if model.quantized then lay_out() end -- applies the recipe of rille.parallel to the replaced layers
  if from.own then of_file(kind, path, function() model:load(from.path) end) end
  if report then return model, report end
  return model
end

-- ---- saving a model to a folder ----

local torch_dtypes = {f32 = "float32", bf16 = "bfloat16", f16 = "float16", f64 = "float64"}

-- Returns the model's tensors under Hugging Face's names. Adapters are merged into the weights.
local function tensors_of(kind, model)
  local state, tensors = model:state_dict(), {}
  for path, m in model:named_modules() do
    for name, t in pairs(rille.nn.LoRA.__is(m) and m:__merged_tensors() or {}) do state[m:__base_path(path, name)] = t:detach() end
  end
  files.each_row(kind, model.config, function(row)
    if not (row.head and model.config.tied) then tensors[row[1]] = pieces.join(row, state) end
  end)
  return tensors
end

-- Saves a model. max_shard_size: as in rille.save. The folder is created if needed. A model with quantized weights is
-- saved under Rille's names, because no other program reads this format.
function files.save(kind, model, dir, given)
  dir = rille._path(check.path(("models.%s:save"):format(kind.name), "the name of a folder", dir), true)
  check.that((rille._kind(dir) or "folder") == "folder", "models.%s:save: '%s' is a file; expected a folder", kind.name, dir)
  local options = check.options("models." .. kind.name .. ":save", given, {max_shard_size = "5GB"})
  for path, m in model:named_modules() do
    check.that(not model.quantized or not rille.nn.LoRA.__is(m),
      "models.%s:save: the quantized weight of '%s' cannot hold its adapter; rille.models.lora.save(m, dir) saves the adapters", kind.name, path)
  end
  if not model.quantized then described(("models.%s:save"):format(kind.name), kind, model) end
  local words, config = {}, model.config
  for name, value in pairs(model.theirs or kind.unsaid or {}) do words[name] = value end
  for name, value in pairs(kind.to_config(config)) do words[name] = value end
  words.eos_token_id = config.eos_token_id
  words.torch_dtype = torch_dtypes[model:parameters()[1].dtype]
  words.dtype = words.dtype and words.torch_dtype -- name of this key in newer files
  words.quantization_config = model.quantized and quantize.config(model) or nil
  rille.save(dir, model.quantized and model or tensors_of(kind, model), options)
  rille._write("models." .. kind.name, dir .. "/config.json", json.encode(words) .. "\n")
  if kind.after_save then kind.after_save(kind.name, dir, config) end
end

return files
