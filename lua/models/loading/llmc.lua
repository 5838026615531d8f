-- llmc.lua - reads GPT-2 from an llm.c checkpoint. In a checkpoint, the parameters of all layers are joined in one
-- tensor, and the vocabulary is padded.

local rille = require "rille"
local pieces = require "rille.models.loading.pieces"

-- File name of a tensor -> names of the parameters of layer i. If there are two or more parameters, the file joins
-- them along the first axis of the layer.
local names = {
  ln1w = {"norm1.weight"}, ln1b = {"norm1.bias"}, ln2w = {"norm2.weight"}, ln2b = {"norm2.bias"},
  qkvw = {"attention.q_proj.weight", "attention.k_proj.weight", "attention.v_proj.weight"},
  qkvb = {"attention.q_proj.bias", "attention.k_proj.bias", "attention.v_proj.bias"},
  attprojw = {"attention.out_proj.weight"}, attprojb = {"attention.out_proj.bias"},
  fcw = {"fc1.weight"}, fcb = {"fc1.bias"}, fcprojw = {"fc2.weight"}, fcprojb = {"fc2.bias"},
}
local whole = {wte = "wte.weight", wpe = "wpe.weight", lnfw = "ln_f.weight", lnfb = "ln_f.bias"}

-- Reads a file. Returns the config, the pieces (pieces.lua), and their source.
return function(kind, path, complete)
  local contents, says = rille._contents(path, "llmc", ("models.%s.load"):format(kind.name))
  local function size(word) return math.tointeger(tonumber(says[word])) end
  local config = complete{vocab = size"vocab_size", length = size"max_seq_len", layers = size"num_layers", heads = size"num_heads",
    width = size"channels"}
  local list = {}
  for _, entry in ipairs(contents) do
    local ours = names[entry.name]
    if not ours then
      list[#list + 1] = pieces.part(whole[entry.name], entry, 1, 1, 1)
      if entry.name == "wte" then list[#list].to[1] = config.vocab end
    end
    for i = 0, ours and config.layers - 1 or -1 do
      for k, name in ipairs(ours) do
        list[#list + 1] = pieces.part_of_row(("h.%d.%s"):format(i, name), entry, i, k, #ours)
      end
    end
  end
  return config, list, {path = path, format = "llmc"}
end
