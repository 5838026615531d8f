-- load.lua - rille.models.load: loads a model from a folder of Hugging Face, of any supported model_type.
--
-- The kinds gpt2 and moe have separate classes; all other kinds are built from descriptions (kinds.lua).

local rille = require "rille"
local check = require "rille.base.check"
local files = require "rille.models.loading.files"
local gguf = require "rille.models.loading.gguf"
local kinds = require "rille.models.loading.kinds"
local text_part = require "rille.models.loading.text_part"

local own = {gpt2 = require "rille.models.gpt2", llama = require "rille.models.llama", moe = require "rille.models.moe"}

-- Returns the names of all supported kinds as one text.
local function supported()
  local list = kinds.list()
  for name in pairs(own) do
    if not kinds.has(name) then list[#list + 1] = name end
  end
  for _, name in ipairs(text_part.kinds) do list[#list + 1] = name .. " (text)" end
  table.sort(list)
  return table.concat(list, ", ")
end

-- Loads a model. path: a folder with config.json and .safetensors files, a .safetensors file in such a folder, a
-- .gguf file, or a .bin checkpoint of llm.c. given: options of rille.models.llama.load.
return function(path, given)
  path = rille._path(check.path("models.load", "the name of a folder or a file", path))
  if path:find("%.bin$") and not files.is_torch(path) then return own.gpt2.load(path, given) end
  if path:find("%.gguf$") then return kinds.of((gguf.open("models.load", path))).load(path, given) end
  files.check_there("models.load", path, ", a .gguf or a .bin of llm.c")
  local model_type, config = files.model_type("models.load", path)
  check.that(model_type ~= nil, "models.load: %s has no model_type; expected one of: %s", config, supported())
  check.that(type(model_type) == "string" and (own[model_type] or kinds.has(model_type)),
    "models.load: %s: unknown model_type %s; expected one of: %s",
    config, check.quoted(model_type), supported())
  return (own[model_type] or kinds.of(model_type)).load(path, given)
end
