-- files.lua - language models in files: Hugging Face's folders (config.json and safetensors) and llm.c's checkpoints.
--
-- A kind's rows say which of their tensors are which of ours (language.lua); what is turned there is turned here, what is
-- joined there is cut here, and the other way when saving. The head is lm_head.weight on both sides; tied, it need not
-- be there. A model that is loaded is laid out before it is read, so that each rank reads what it will hold (pieces.lua).

local rille = require "rille"
local check = require "rille.check"
local json = require "rille.json"
local described = require "rille.models.described"
local pieces = require "rille.models.pieces"

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

-- Which windows (pieces.lua) of the file's tensors ours are; complains about all that is missing or unknown.
local function pieces_of(kind, config, contents, path)
  local list, wrong, known, has = {}, {}, {}, {}
  for _, entry in ipairs(contents) do has[entry.name] = entry end
  check.that(config.layers <= #contents, "models.%s: %s has %d tensors, which are not those of %d layers", kind.name, path,
    #contents, config.layers)
  each_row(kind, config, function(theirs, ours, turn)
    local entry = has[theirs] or has[kind.prefix .. theirs]
    if not entry then
      if theirs ~= HEAD or not config.tied then wrong[#wrong + 1] = ("'%s' is missing"):format(theirs) end
      return
    end
    known[entry.name] = true
    turn = turn and #entry.shape == 2
    local axis = turn and 2 or 1
    if #entry.shape == 0 or entry.shape[axis] % #ours ~= 0 then
      wrong[#wrong + 1] = ("'%s' does not divide into %d along its %s axis"):format(entry.name, #ours, turn and "last" or "first")
      return
    end
    for k, our in ipairs(ours) do list[#list + 1] = pieces.part(our, entry, axis, k, #ours, turn) end
  end)
  for _, entry in ipairs(contents) do
    if not known[entry.name] and not is_ignored(kind, entry.name) then
      wrong[#wrong + 1] = ("'%s' is not a tensor of %s"):format(entry.name, kind.name)
    end
  end
  check.that(#wrong == 0, "models.%s: %s: %s", kind.name, path, check.told(wrong))
  return list
end

-- Fills a model from a file of Hugging Face's tensors, of whichever format.
function files.fill(model, path)
  local who = "models." .. model.kind.name
  pieces.read(model, who, path, nil, pieces_of(model.kind, model.config, (rille._contents(path, nil, who)), path))
  return model
end

-- null is a word that is not said, also within another.
local function without_nulls(theirs)
  for name, value in pairs(theirs) do
    if type(name) == "string" and value == json.null then
      theirs[name] = nil
    elseif type(value) == "table" then
      without_nulls(value)
    end
  end
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

-- What a reader gives: the config, pieces, and what they are pieces of, {path =, format =, theirs = config.json's words}.
local function read_folder(kind, path, complete)
  check_there(kind, path)
  local dir = path:match("^(.*)/[^/]*%.safetensors$") or path:find("%.safetensors$") and "." or path
  local one = dir .. "/model.safetensors"
  if dir == path and is_file(one) and not is_file(one .. ".index.json") then path = one end
  local theirs = json.load(dir .. "/config.json", ("models.%s.load"):format(kind.name))
  check.that(type(theirs) == "table" and getmetatable(theirs) == nil, "models.%s.load: %s/config.json: an object is wanted",
    kind.name, dir)
  without_nulls(theirs)
  check.that(theirs.model_type == kind.name, "models.%s.load: %s/config.json: model_type is \"%s\", not %s", kind.name, dir,
    kind.name, check.quoted(theirs.model_type))
  check_words(kind, theirs, dir .. "/config.json")
  local config = of_file(kind, dir .. "/config.json", function() return complete(kind.from_config(theirs)) end)
  config.eos_token_id = theirs.eos_token_id -- what ends a text, an id or a list of them, as the file has it
  local contents = rille._contents(path, nil, ("models.%s.load"):format(kind.name))
  return config, pieces_of(kind, config, contents, path), {path = path, theirs = theirs}
end

function files.load(kind, path, options, complete)
  local who = "models." .. kind.name .. ".load"
  check.path(who, "the name of a folder or a file", path)
  check.that(options.quantize == nil or options.quantize == "int8", "%s: quantize is \"int8\", not %s", who,
    check.shown(options.quantize))
  local read = path:find("%.bin$") and kind.read_bin or read_folder
  local config, list, from = read(kind, path, complete)
  local dtype = options.dtype or pieces.dtype(list)
  local model = of_file(kind, path, function()
    return kind.empty(config, {placement = options.placement, sbp = options.sbp, dtype = dtype})
  end)
  if options.parallel ~= nil then rille.parallel(model, options.parallel) end
  of_file(kind, path, function() pieces.read(model, who, from.path, from.format, list) end)
  model.theirs = from.theirs
  if options.quantize then
    require("rille.models.quantize")(model)
    if options.parallel ~= nil then rille.parallel(model, options.parallel) end -- its layers are others now
  end
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
