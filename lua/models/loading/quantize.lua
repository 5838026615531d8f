-- quantize.lua - replaces the layers of a model, in place, by layers with weights of few bits. Routers are unchanged.
--
--   int8   linear layers and experts have int8 weights (nn.Int8Linear, nn.Int8Experts)
--   int4   linear layers have blocks of 32 numbers of 4 bits with a scale each (nn.BlockLinear, Q4_0)
--   keep   linear layers and embeddings keep the blocks of a GGUF file (nn.BlockLinear, nn.BlockEmbedding)

local rille = require "rille"
local check = require "rille.base.check"
local nn = rille.nn

local quantize = {}

local blocked = {[nn.Linear] = nn.BlockLinear, [nn.Embedding] = nn.BlockEmbedding}

-- method -> function that returns the replacement of a layer; nil: the layer is not replaced.
local methods = {}

function methods.int8(m)
  local class = ({[nn.Linear] = nn.Int8Linear, [nn.MixtureOfExperts] = nn.Int8Experts})[getmetatable(m)]
  return class and rille.no_grad(class, m)
end

function methods.int4(m)
  if getmetatable(m) ~= nn.Linear or m.weight.shape[2] % 32 ~= 0 then return nil end
  return rille.no_grad(nn.BlockLinear, m, {kind = "Q4_0"})
end

-- Calls visit(part) for each member of the model's modules, except the members of a mixture of experts. If visit
-- returns a module, this module replaces the member.
local function each_layer(model, visit)
  for _, m in ipairs(model:modules()) do
    for name, part in pairs(m) do
      local other = type(part) == "table" and not rawget(m, "router") and visit(part)
      if other then m[name] = other end
    end
  end
end

-- Replaces each layer for which replace(layer) returns a new layer.
local function replace_layers(model, method, replace)
  each_layer(model, replace)
  for _, p in ipairs(model:parameters()) do p.requires_grad = false end
  model.quantized = method
  return model:eval()
end

-- Quantizes the weights of a model. method: "int8" or "int4".
function quantize.round(model, method) return replace_layers(model, method, methods[method]) end

-- Replaces linear layers and embeddings by layers with quantised blocks. new[weight]: {kind =, weight = the tensor
-- for the blocks, filled later}.
local function take_blocks(model, new)
  return replace_layers(model, "blocks", function(m)
    local class = blocked[getmetatable(m)]
    return class and new[m.weight] and rille.no_grad(class, m, new[m.weight])
  end)
end

local function named(model)
  local tensors = {}
  for _, found in ipairs(model:named_tensors()) do tensors[found.name] = found.tensor end
  return tensors
end

-- Creates a tensor for blocks, of this shape, in the layout of the weight t.
local function blocks_like(t, shape) return rille.zeros(shape, {dtype = "u8", placement = t.placement, sbp = t.sbp}) end

-- Replaces the layers whose weights a GGUF file stores in quantised blocks, and changes their pieces (pieces.lua) so
-- that the blocks themselves are read. blocks: the file's entries NAME.blocks, by NAME.
function quantize.keep(model, list, blocks)
  local tensors, new, kept, holders = named(model), {}, {}, {}
  each_layer(model, function(part)
    if blocked[getmetatable(part)] then holders[part.weight] = true end
  end)
  for _, piece in ipairs(list) do
    local b, t = blocks[piece.theirs], tensors[piece.ours]
    if b and piece.by_rows and holders[t] then
      new[t] = {kind = piece.stored, weight = blocks_like(t, {t.shape[1], b.shape[2], b.shape[3]})}
      piece.theirs, piece.dtype = b.name, "u8"
      for axis = 2, 3 do piece.from[axis], piece.to[axis] = 0, b.shape[axis] end
    end
  end
  return take_blocks(model, new)
end

-- Returns the value of quantization_config for a model to be saved.
function quantize.config(model)
  if model.quantized == "int8" then return {quant_method = "rille", bits = 8} end
  local kinds, blocks, tensors = {}, {}, named(model)
  for _, m in ipairs(model:modules()) do
    local class = getmetatable(m)
    if class == nn.BlockLinear or class == nn.BlockEmbedding then kinds[m.weight] = m.kind end
  end
  for name in model:named_buffers() do blocks[name] = kinds[tensors[name]] end
  return {quant_method = "rille", blocks = blocks}
end

-- Replaces the layers of a model by quantized layers that match a saved folder. config: quantization_config;
-- contents: the list of the folder's tensors.
function quantize.restore(model, config, contents)
  if config.bits == 8 then return quantize.round(model, "int8") end
  local tensors, shapes, new = named(model), {}, {}
  for _, entry in ipairs(contents) do shapes[entry.name] = entry.shape end
  for _, name in ipairs(check.sorted_keys(config.blocks)) do
    local kind = config.blocks[name]
    local t, shape = tensors[name], shapes[name]
    check.that(t and t.ndim == 2 and shape and #shape == 3,
      "quantization_config: blocks: '%s' must name a weight that the folder stores in blocks", check.named(name))
    local good, one = check.try(rille.from_blocks, rille.zeros({1, shape[2], shape[3]}, {dtype = "u8"}), {kind = kind})
    check.that(good and shape[1] == t.shape[1] and one.shape[2] == t.shape[2],
      "quantization_config: blocks: '%s' must have the shape of %s blocks of a weight {%s}, found {%s}", name, check.shown(kind),
      table.concat(t.shape, ", "), table.concat(shape, ", "))
    new[t] = {kind = kind, weight = blocks_like(t, shape)}
  end
  return take_blocks(model, new)
end

return quantize
