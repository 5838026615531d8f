-- llmc.lua - GPT-2 from a checkpoint of llm.c: all layers of each tensor after another, ids padded to a round number.

local rille = require "rille"

-- Their name, ours in layer i; several of ours are joined along the first axis of a layer.
local names = {
  ln1w = {"norm1.weight"}, ln1b = {"norm1.bias"}, ln2w = {"norm2.weight"}, ln2b = {"norm2.bias"},
  qkvw = {"attention.q_proj.weight", "attention.k_proj.weight", "attention.v_proj.weight"},
  qkvb = {"attention.q_proj.bias", "attention.k_proj.bias", "attention.v_proj.bias"},
  attprojw = {"attention.out_proj.weight"}, attprojb = {"attention.out_proj.bias"},
  fcw = {"fc1.weight"}, fcb = {"fc1.bias"}, fcprojw = {"fc2.weight"}, fcprojb = {"fc2.bias"},
}

-- Config and state of the model in the file.
return function(_, path, options, complete)
  local tensors, size = rille.io.llmc.load(path, options.placement and {placement = options.placement,
    sbp = require("rille.layout").whole(options.placement)} or nil)
  local config = complete{vocab = size.vocab_size, length = size.max_seq_len, layers = size.num_layers, heads = size.num_heads,
    width = size.channels}
  local state = {["wte.weight"] = tensors.wte:slice(0, 0, config.vocab), ["wpe.weight"] = tensors.wpe,
    ["ln_f.weight"] = tensors.lnfw, ["ln_f.bias"] = tensors.lnfb}
  for theirs, ours in pairs(names) do
    for i = 0, config.layers - 1 do
      local layer = tensors[theirs][i]
      local parts = #ours == 1 and {layer} or layer:chunk(#ours, 0)
      for k, name in ipairs(ours) do state[("h.%d.%s"):format(i, name)] = parts[k] end
    end
  end
  return config, state
end
