-- text_part.lua - the language model in a folder of a model that also reads images or sound. Such a folder is loaded as
-- a decoder for text; a saved model is one of the decoder's kind.

local check = require "rille.base.check"
local json = require "rille.json"

local text_part = {}

-- Model types whose language model is a decoder like those of folders with text alone.
text_part.kinds = {"gemma3", "got_ocr2", "idefics3", "internvl", "lighton_ocr", "llava",
  "llava_next", "llava_onevision", "mistral3", "smolvlm", "vipllava", "voxtral"}

local known = {}
for _, name in ipairs(text_part.kinds) do known[name] = true end

-- Prefix of the names in files -> prefix of the decoder's names.
local prefixes = {["language_model.model."] = "model.", ["language_model.lm_head."] = "lm_head.", ["model.language_model."] = "model.",
  ["model.text_model."] = "model.", ["lm_head."] = "lm_head."}

-- Returns the settings of the decoder in the contents of a config.json, and true; of another folder, the contents.
function text_part.config(words, who, path)
  if not known[words.model_type] then return words end
  local own, text = words.text_config, {}
  check.that(type(own) == "table" and own ~= json.null and getmetatable(own) == nil, "%s: %s: text_config must be a JSON object, found %s", who, path,
    check.shown(own))
  check.that(type(own.model_type) == "string", "%s: %s: text_config must have a model_type, found %s", who, path, check.shown(own.model_type))
  for _, key in ipairs{"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "quantization_config", "transformers_version"} do
    text[key] = words[key]
  end
  for key, value in pairs(own) do text[key] = value end
  return text, true
end

-- Returns the tensors of the decoder: entries of contents with the field `own`, the decoder's name of the tensor. The
-- decoder has a head of its own if the file has one: sets words.tie_word_embeddings.
function text_part.tensors(contents, words)
  local list = {}
  words.tie_word_embeddings = true
  for _, entry in ipairs(contents) do
    for prefix, ours in pairs(prefixes) do
      if entry.name:sub(1, #prefix) == prefix then
        entry.own = ours .. entry.name:sub(#prefix + 1)
        if ours == "lm_head." then words.tie_word_embeddings = false end
        list[#list + 1] = entry
      end
    end
  end
  return list
end

return text_part
