-- io.lua - file formats of other programs, and inspection of files. Rille's own format is rille.save and rille.load.

local rille = require "rille"
local check = require "rille.base.check"

local io, llmc = {}, {}

-- Lists the contents of a file without reading values. Returns a list of {name =, dtype =, shape =}, and a table of
-- the file's metadata. format: "safetensors", "npy", "npz", "gguf", "llmc"; needed only if the ending of the file
-- name does not show the format.
function io.contents(path, format)
  if format ~= nil then check.text("io.contents", "format", format) end
  return rille._contents(path, format, "io.contents")
end

-- Returns the vocabulary of a GGUF file, for a tokenizer (models/loading/gguf.lua).
function io.vocabulary(path) return require("rille.models.loading.gguf").vocabulary(path) end

-- Loads a GPT-2 checkpoint of llm.c (version 3: f32, 5: bf16). Returns its tensors under llm.c's names, like
-- rille.load, and its sizes: max_seq_len, vocab_size, num_layers, num_heads, channels, padded_vocab_size.
function llmc.load(path, options)
  local _, says = rille._contents(path, "llmc", "io.llmc.load")
  local sizes = {}
  for name, text in pairs(says) do sizes[name] = math.tointeger(tonumber(text)) end
  return rille._load(path, "llmc", options), sizes
end

-- Returns all ids of a token file, as i64. rille.data.tokens reads windows instead.
function llmc.tokens(path)
  check.that(type(path) == "string", "io.llmc.tokens: expected the name of a file, found %s", check.shown(path))
  return rille._tokens("io.llmc.tokens", rille._path(path)):all("io.llmc.tokens")
end

io.llmc = check.names("io.llmc", llmc)

return check.names("io", io)
