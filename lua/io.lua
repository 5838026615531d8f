-- io.lua - other programs' formats, and looking into files. Rille's own are rille.save and rille.load.

local rille = require "rille"
local check = require "rille.check"

local io, llmc = {}, {}

-- What is in a file, without reading values: a list of {name =, dtype =, shape =}, and a table of what else it says.
-- format: "safetensors", "npy", "npz", "gguf", "llmc" where the end of the name does not tell.
function io.contents(path, format)
  return rille._contents(path, format, "rille.io.contents")
end

-- A checkpoint of GPT-2 that llm.c wrote (version 3: f32, 5: bf16), as rille.load gives one, under llm.c's names; and its
-- sizes: max_seq_len, vocab_size, num_layers, num_heads, channels, padded_vocab_size.
function llmc.load(path, options)
  local _, says = rille._contents(path, "llmc", "rille.io.llmc.load")
  local sizes = {}
  for name, text in pairs(says) do sizes[name] = math.tointeger(tonumber(text)) end
  return rille._load(path, "llmc", options), sizes
end

-- All ids of a token file, i64. rille.data.tokens reads windows of it instead.
function llmc.tokens(path)
  check.that(type(path) == "string", "rille.io.llmc.tokens: the name of a file is wanted, not %s", check.shown(path))
  return rille._tokens("rille.io.llmc.tokens", path):all("rille.io.llmc.tokens")
end

io.llmc = check.names("rille.io.llmc", llmc)

return check.names("rille.io", io)
