-- files.lua - language models in files: Hugging Face's folders (config.json and safetensors) and llm.c's checkpoints.
--
-- A kind's rows say which of their tensors are which of ours (language.lua); what is turned there is turned here, what is
-- joined there is cut here, and the other way when saving. The head is lm_head.weight on both sides; tied, it need not
-- be there.

local rille = require "rille"
local check = require "rille.check"
local json = require "rille.json"
local layout = require "rille.layout"
local described = require "rille.models.described"

local files = {}

local HEAD = "lm_head.weight"

-- Calls visit(theirs, ours, turn) for each row of the kind, ours a list of names.
local function each_row(kind, config, visit)
  for _, row in ipairs(kind.names) do
    for i = 0, row[1]:find("%d", 1, true) and config.layers - 1 or 0 do
      local ours = {}
      for k = 2, #row do ours[k - 1] = row[k]:gsub("%%d", i) end
      visit(row[1]:gsub("%%d", i), ours, row.turn)
    end
  end
  visit(HEAD, {HEAD})
end

-- ---- theirs to ours ----

local function is_ignored(kind, name)
  for _, pattern in ipairs(kind.ignored) do
    if name:find(pattern) then return true end
  end
end

-- Our state from their tensors; complains about all that is missing or unknown.
function files.state(kind, config, tensors, path)
  local state, wrong, known, names = {}, {}, {}, check.sorted_keys(tensors)
  check.that(config.layers <= #names, "models.%s: %s has %d tensors, which are not those of %d layers", kind.name, path, #names,
    config.layers)
  each_row(kind, config, function(theirs, ours, turn)
    local name = tensors[theirs] and theirs or kind.prefix .. theirs
    local value = tensors[name]
    known[name] = true
    if not value then
      if theirs ~= HEAD or not config.tied then wrong[#wrong + 1] = ("'%s' is missing"):format(theirs) end
      return
    end
    if turn and value.ndim == 2 then value = value:transpose(0, 1) end
    if value.ndim == 0 or value.shape[1] % #ours ~= 0 then
      wrong[#wrong + 1] = ("'%s' does not divide into %d along its %s axis"):format(name, #ours, turn and "last" or "first")
      return
    end
    local parts = #ours == 1 and {value} or value:chunk(#ours, 0)
    for i, our in ipairs(ours) do state[our] = parts[i] end
  end)
  for _, name in ipairs(names) do
    if not known[name] and not is_ignored(kind, name) then
      wrong[#wrong + 1] = ("'%s' is not a tensor of %s"):format(name, kind.name)
    end
  end
  check.that(#wrong == 0, "models.%s: %s: %s", kind.name, path, check.told(wrong))
  return state
end

-- A turned tensor is split along its other axis. sbp: text, a table for an N-D mesh, or nil.
local function turned(sbp)
  if type(sbp) == "string" then
    return (sbp:gsub("S%((%-?%d)%)", function(d) return ("S(%d)"):format((d == "0" or d == "-2") and 1 or 0) end))
  end
  if type(sbp) ~= "table" then return sbp end
  local t = {order = sbp.order}
  for i, one in ipairs(sbp) do t[i] = turned(one) end
  return t
end

-- How their tensors are read: where ours will lie, so that each rank reads its own bytes.
local function read_options(kind, options)
  if not options.placement and not options.sbp then return nil end
  local turns = {}
  for _, row in ipairs(kind.names) do turns[row[1]], turns[kind.prefix .. row[1]] = row.turn, row.turn end
  local sbp = options.sbp or layout.whole(options.placement)
  return {placement = options.placement, sbp = function(name) return turns[name:gsub("%.%d+%.", ".%%d.")] and turned(sbp) or sbp end}
end

-- The words of config.json that count something do, and others hold what they may.
local function check_words(kind, theirs, path)
  local who = ("models.%s: %s"):format(kind.name, path)
  for _, word in ipairs(check.sorted_keys(kind.counts)) do
    if theirs[word] ~= nil or kind.counts[word] then check.count(who, word, theirs[word]) end
  end
  for _, word in ipairs(check.sorted_keys(kind.words)) do
    if theirs[word] ~= nil then kind.words[word](who, word, theirs[word]) end
  end
end

-- Something that can be read, and no folder.
local function is_file(path)
  local file = io.open(path, "rb")
  if not file then return false end
  local first, why = file:read(1)
  file:close()
  return first ~= nil or why == nil
end

-- What fn gives; its complaints name the file, of which what they are about was read.
local function of_file(kind, path, fn)
  local good, result = check.try(fn)
  if good then return result end
  if type(result) ~= "string" or result:find(path, 1, true) then error(result, 0) end
  local why = result:gsub("^[^:]*:%d+: ", "")
  local own = "models." .. kind.name
  if why:sub(1, #own) == own then why = why:sub(#own + 1):gsub("^:[%a_]*:? ?", "") end
  check.fail("%s: %s: %s", own, path, why)
end

-- Complains of a path that is neither a folder nor a file of a kind that is read, before one looks into it.
local function check_there(kind, path)
  local who = ("models.%s.load"):format(kind.name)
  local file, why = io.open(path, "rb")
  check.that(file, "%s: %s", who, why)
  file:close()
  check.that(path:find("%.safetensors$") or not is_file(path), "%s: %s is a file; a folder with config.json and its safetensors%s is wanted",
    who, path, kind.read_bin and ", a .safetensors of such a folder or a .bin of llm.c" or ", or a .safetensors of such a folder,")
end

local function read_folder(kind, path, options, complete)
  check_there(kind, path)
  local dir = path:match("^(.*)/[^/]*%.safetensors$") or path:find("%.safetensors$") and "." or path
  local one = dir .. "/model.safetensors"
  if dir == path and is_file(one) and not is_file(one .. ".index.json") then path = one end
  local theirs = json.load(dir .. "/config.json")
  check.that(type(theirs) == "table" and theirs.model_type == kind.name,
    "models.%s: %s/config.json is of a '%s' model", kind.name, dir, type(theirs) == "table" and tostring(theirs.model_type) or "?")
  for name, value in pairs(theirs) do
    if value == json.null then theirs[name] = nil end
  end
  check_words(kind, theirs, dir .. "/config.json")
  local config = of_file(kind, dir .. "/config.json", function() return complete(kind.from_config(theirs)) end)
  config.eos_token_id = theirs.eos_token_id -- what ends a text, an id or a list of them, as the file has it
  return config, files.state(kind, config, rille.load(path, read_options(kind, options)), path), theirs
end

-- The dtype of a model: that of its tensors; f32, or f64, where some have another.
local function dtype_of(state)
  local dtype
  for _, value in pairs(state) do
    if dtype and dtype ~= value.dtype then dtype = (dtype == "f64" or value.dtype == "f64") and "f64" or "f32" end
    dtype = dtype or value.dtype
  end
  return dtype
end

function files.load(kind, path, options, complete)
  local who = "models." .. kind.name .. ".load"
  check.path(who, "the name of a folder or a file", path)
  check.that(options.quantize == nil or options.quantize == "int8", "%s: quantize is \"int8\", not %s", who,
    check.shown(options.quantize))
  local read = path:find("%.bin$") and kind.read_bin or read_folder
  local config, state, theirs = read(kind, path, options, complete)
  local model = of_file(kind, path, function()
    local where = {placement = options.placement, sbp = options.sbp, dtype = options.dtype or dtype_of(state)}
    local made = kind.empty(config, where)
    made:load_state_dict(state)
    return made
  end)
  model.theirs = theirs
  if options.quantize then require("rille.models.quantize")(model) end
  return model
end

-- ---- ours to theirs ----

local torch_dtypes = {f32 = "float32", bf16 = "bfloat16", f16 = "float16", f64 = "float64"}

-- max_shard_size: as rille.save's. The folder is made where there is none.
function files.save(kind, model, dir, given)
  check.path(("models.%s: save"):format(kind.name), "the name of a folder", dir)
  check.that(not is_file(dir), "models.%s: save: '%s' is a file; a folder is wanted", kind.name, dir)
  local options = check.options("models." .. kind.name .. ": save", given, {max_shard_size = "5GB"})
  check.that(not model.quantized, "models.%s: a model of int8 weights is not saved; save the one it was made of", kind.name)
  described(("models.%s: save"):format(kind.name), kind, model)
  local state, tensors, config = model:state_dict(), {}, model.config
  each_row(kind, config, function(theirs, ours, turn)
    if theirs == HEAD and config.tied then return end
    local parts = {}
    for i, name in ipairs(ours) do parts[i] = state[name] end
    local value = #parts == 1 and parts[1] or rille.concat(parts, 0)
    tensors[theirs] = turn and value.ndim == 2 and value:transpose(0, 1) or value
  end)
  local words = {}
  for name, value in pairs(model.theirs or kind.unsaid or {}) do words[name] = value end
  for name, value in pairs(kind.to_config(config)) do words[name] = value end
  words.eos_token_id = config.eos_token_id
  words.torch_dtype = torch_dtypes[model:parameters()[1].dtype]
  words.dtype = words.dtype and words.torch_dtype -- the newer word, where a file has it
  rille.save(dir, tensors, options)
  rille._write("models." .. kind.name, dir .. "/config.json", json.encode(words) .. "\n")
end

return files
