-- generate.lua - continues a text with a language model from a folder (config.json, model.safetensors, tokenizer.json).
--
--   rille examples/generate.lua gpt2 --prompt "A rille is"            a folder in the form of Hugging Face's hub
--   rille examples/generate.lua gpt2 --ids 464,3290 --greedy          ids instead of text: needs no tokenizer
--   rille examples/generate.lua gpt2 --prompt "A rille" --stop 13     stops at id 13; --stop none: writes --count ids
--   rille examples/generate.lua llama --devices 2 --quantize int8     heads and hidden units split over two devices, int8 weights

local rille = require "rille"

local o = rille.args(arg, {"folder", prompt = "", ids = "", count = 40, temperature = 0.8, greedy = false, ["top-k"] = 0,
  ["top-p"] = 0.95, seed = 1, devices = 1, quantize = "", dtype = "", stop = ""})
local dir = o.folder

local function wanted(good, text, ...) if not good then error(text:format(...), 0) end end
wanted(o.count >= 0, "--count must be at least 0, found %d", o.count)
wanted(o.devices >= 1, "--devices must be at least 1, found %d", o.devices)
wanted(o.temperature >= 0, "--temperature must be at least 0, found %g", o.temperature)
wanted(o["top-k"] >= 0, "--top-k must be a number of ids, or 0 for all ids, found %d", o["top-k"])
wanted(o["top-p"] > 0 and o["top-p"] <= 1, "--top-p must be above 0 and at most 1, found %g", o["top-p"])
wanted(o.prompt == "" or o.ids == "", "expected --prompt or --ids, found both")

-- ---- the model, of the kind that config.json names; a device reads only its own shards ----

local ranks = {}
for i = 1, o.devices do ranks[i] = i - 1 end
local function given(text) return text ~= "" and text or nil end
local model = rille.models.load(dir, {placement = rille.placement("cpu", ranks), quantize = given(o.quantize),
  parallel = o.devices > 1 and {tensor = 0} or nil, dtype = given(o.dtype)})

-- ---- from text to ids and back ----

local function ids_of(option, text)
  local list = {}
  for word in text:gmatch("[^%s,]+") do
    list[#list + 1] = math.tointeger(tonumber(word)) or error(("%s: an id must be an integer, found '%s'"):format(option, word), 0)
  end
  return list
end

-- The tokenizer's template may add ids around the text. Models are trained on texts with these ids.
local tokens = o.ids == "" and rille.tokenizer(dir:find("%.gguf$") and dir or dir .. "/tokenizer.json")
local prompt = tokens and tokens:encode(o.prompt, {add_special_tokens = true}) or ids_of("--ids", o.ids)
wanted(#prompt > 0, "expected a prompt: --prompt or --ids")
local function say(ids)
  io.write(tokens and tokens:decode(ids, {skip_special_tokens = true}) or " " .. table.concat(ids, " "))
  io.flush()
end

-- Returns the ids that end a text: the ids given by --stop, or else by the folder. Ids outside the model's vocabulary
-- are left out. generation_config.json takes precedence over config.json.
local function stops()
  if o.stop ~= "" then return o.stop ~= "none" and ids_of("--stop", o.stop) or nil end
  local path, writing = dir .. "/generation_config.json", nil
  local there = io.open(path)
  if there then
    there:close()
    writing = require("rille.json").load(path)
    wanted(type(writing) == "table", "%s: expected a JSON object", path)
  end
  local theirs, list = writing and writing.eos_token_id or model.config.eos_token_id, {}
  for _, id in ipairs(type(theirs) == "table" and theirs or {theirs}) do
    if math.type(id) == "integer" and id >= 0 and id < model.config.vocab then list[#list + 1] = id end
  end
  return list
end

local n, start = 0, nil
model:generate({prompt}, {max_new_tokens = o.count, temperature = o.greedy and 0 or o.temperature, seed = o.seed,
  top_k = o["top-k"] > 0 and o["top-k"] or nil, top_p = o["top-p"] < 1 and o["top-p"] or nil, stop = stops(),
  on_token = function(ids)
    if n == 0 then
      start = rille.clock() -- the measured time excludes the pass over the prompt and the compilation
      say(prompt)
    end
    n = n + 1
    say(ids)
  end})
if n == 0 then say(prompt) end
print()
if n > 1 then io.stderr:write(("%.1f ids/s\n"):format((n - 1) / (rille.clock() - start))) end
