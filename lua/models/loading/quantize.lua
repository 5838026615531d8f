-- quantize.lua - replaces the layers of a model, in place, by layers with weights of few bits. Routers are unchanged.
--
--   int8   linear layers have int8 weights (nn.Int8Linear); experts, too (nn.Int8Experts), or gated ones blocks of 32 numbers of 8
--          bits with a scale each (Q8_0)
--   int4   linear layers and experts have blocks of 32 numbers of 4 bits with a scale each (nn.BlockLinear, Q4_0)
--   keep   linear layers, embeddings and experts keep the blocks of a GGUF file (nn.BlockLinear, nn.BlockEmbedding)

local rille = require "rille"
local check = require "rille.base.check"
local latent = require "rille.models.latent"
local nn = rille.nn

local quantize = {}

local blocked = {[nn.Linear] = nn.BlockLinear, [nn.Embedding] = nn.BlockEmbedding}
local weights_of_experts = {"gate", "up", "down"}

-- Returns the replacement of a layer for a method; nil: the layer is not replaced. layer: {weight =, bias =}, or for
-- experts their fields.
local classes = {}
classes[nn.Linear] = {
  int8 = nn.Int8Linear,
  int4 = function(layer) return layer.weight.shape[2] % 32 == 0 and nn.BlockLinear(layer, {kind = "Q4_0"}) or nil end,
}
classes[nn.MixtureOfExperts] = {int8 = nn.Int8Experts}

local function replacement(method, class, layer)
  local make = classes[class] and classes[class][method]
  return make and rille.no_grad(make, layer)
end

-- Returns the type of the blocks in which a method stores the weights of a mixture's experts; nil: not in blocks.
local function blocks_of_experts(method, m)
  if method == "int4" then return "Q4_0" end
  return getmetatable(m) ~= nn.MixtureOfExperts and getmetatable(m) ~= nn.Int8Experts and "Q8_0" or nil
end

-- Replaces the weight `name` of a mixture's experts by blocks with the values w, if 32 divides the length of their rows.
-- Returns true if the weight was replaced.
local function round_expert(m, name, kind, w)
  if w.shape[2] % 32 ~= 0 then return false end
  m:_take_blocks(name, kind, rille.no_grad(rille.to_blocks, w:transpose(1, 2), {kind = kind}):detach())
  return true
end

local function join(path, name) return path == "" and name or path .. "." .. name end

-- Calls visit(part, path, module, key) for each member of the model's modules, except the members of a mixture of experts. If
-- visit returns a module, this module replaces the member module[key].
local function each_layer(model, visit)
  local paths = {}
  for path, m in model:named_modules() do paths[m] = path end
  for _, m in ipairs(model:modules()) do
    for name, part in pairs(m) do
      local other = type(part) == "table" and not rawget(m, "router") and visit(part, join(paths[m], name), m, name)
      if other then m[name] = other end
    end
  end
end

-- Marks a model as quantized by a method.
local function finish(model, method)
  for _, p in ipairs(model:parameters()) do p.requires_grad = false end
  model.quantized = method
  return model:eval()
end

-- Calls visit(m, name, path) for each weight `name` of the experts of a mixture m.
local function each_expert(model, visit)
  for path, m in model:named_modules() do
    for _, name in ipairs(rawget(m, "router") and weights_of_experts or {}) do
      if m[name] then visit(m, name, join(path, name)) end
    end
  end
end

-- Quantizes the weights of a model that are not quantized yet. method: "int8" or "int4".
function quantize.round(model, method)
  each_expert(model, function(m, name)
    local kind = blocks_of_experts(method, m)
    if kind and not (m.kinds and m.kinds[name]) then round_expert(m, name, kind, m[name]) end
  end)
  each_layer(model, function(part) return replacement(method, getmetatable(part), part) end)
  return finish(model, method)
end

-- Computes the buffers of a module, and frees the float values from which they are computed. Intermediate results refer to
-- the values until Lua's collector frees them; after that, closing a value frees its memory at once.
local function settle(m, ...)
  local list = {}
  for _, t in m:named_buffers() do list[#list + 1] = t end
  rille.eval(table.unpack(list))
  collectgarbage()
  for _, value in ipairs{...} do local _ <close> = value end
  return true
end

-- Adds to `consumers` the function that quantizes a mixture's experts with nn.Int8Experts, which needs both weights.
local function add_experts(consumers, mixture, path, holder, key)
  local parts = {experts = mixture.experts, top_k = mixture.top_k, router = mixture.router}
  for _, name in ipairs{"up", "down"} do
    consumers[join(path, name)] = function(value)
      parts[name] = value
      if not (parts.up and parts.down) then return true end
      holder[key] = replacement("int8", nn.MixtureOfExperts, parts)
      return settle(holder[key], parts.up, parts.down)
    end
  end
end

-- Returns a function(name, value) that quantizes the value of a weight, frees the value, and puts the quantized layer into
-- the model; it returns false if the weight stays as it is. So loading needs no memory for the complete float model.
function quantize.consumer(model, method)
  local uses, consumers = {}, {}
  for _, found in ipairs(model:named_tensors()) do uses[found.tensor] = (uses[found.tensor] or 0) + 1 end
  each_layer(model, function(part, path, holder, key)
    local class = getmetatable(part)
    if class == nn.MixtureOfExperts and method == "int8" then add_experts(consumers, part, path, holder, key) end
    if class ~= nn.Linear or uses[part.weight] > 1 then return end
    consumers[path .. ".weight"] = function(value)
      local new = replacement(method, class, {weight = value, bias = part.bias})
      if not new then return false end
      holder[key] = new
      return settle(new, value)
    end
  end)
  each_expert(model, function(m, name, path)
    local kind = blocks_of_experts(method, m)
    if kind then consumers[path] = function(value) return round_expert(m, name, kind, value) and settle(m, value) end end
  end)
  return function(name, value) return consumers[name] and consumers[name](value) end
end

-- Replaces weights by quantised blocks. new[weight], or new[name of the weight]: {kind =, weight = the tensor for the
-- blocks, filled later}, or the parts {k =, v =} of a projection to keys and values (latent.lua).
local function take_blocks(model, new)
  each_layer(model, function(m, path)
    local class, by = blocked[getmetatable(m)], new[m.weight] or new[path .. ".weight"]
    if class and by then return rille.no_grad(by.k and latent.Blocks or class, m, by) end
  end)
  each_expert(model, function(m, name, path)
    local by = new[m[name]] or new[path]
    if by then m:_take_blocks(name, by.kind, by.weight) end
  end)
  return finish(model, "blocks")
end

local function named(model)
  local tensors = {}
  for _, found in ipairs(model:named_tensors()) do tensors[found.name] = found.tensor end
  return tensors
end

-- Creates a tensor for blocks, of this shape, in the layout of the weight t.
local function blocks_like(t, shape)
  local sbp = t.sbp:find("unit", 1, true) and layout.entries_for(t, shape) or t.sbp
  return rille.zeros(shape, {dtype = "u8", placement = t.placement, sbp = sbp})
end

-- Changes a piece (pieces.lua) so that it reads the file's blocks b themselves.
local function read_blocks(piece, b)
  piece.theirs, piece.dtype = b.name, "u8"
  for axis = #b.shape - 1, #b.shape do piece.from[axis], piece.to[axis] = 0, b.shape[axis] end
end

-- Makes the parts k and v of a projection to keys and values (gguf.lua, with_split_latent) read the file's blocks.
-- Returns the blocks for take_blocks(); nil: the file does not store both parts in blocks.
local function keep_latent(parts, blocks, t)
  local new = {}
  for name, piece in pairs(parts) do
    local b = blocks[piece.theirs]
    if not b then return nil end
    new[name] = {kind = piece.stored, weight = blocks_like(t, b.shape)}
  end
  for name, piece in pairs(parts) do
    read_blocks(piece, blocks[piece.theirs])
    piece.ours, piece.stack, piece.join, piece.make = piece.ours:gsub("weight$", name), nil, nil, nil
  end
  return new
end

-- Replaces the weights that a GGUF file stores in quantised blocks, and changes their pieces (pieces.lua) so that the
-- blocks themselves are read. blocks: the file's entries NAME.blocks, by NAME.
function quantize.keep(model, list, blocks)
  local tensors, new, holders, experts, split = named(model), {}, {}, {}, {}
  each_layer(model, function(part)
    if blocked[getmetatable(part)] then holders[part.weight] = true end
  end)
  each_expert(model, function(m, name) experts[m[name]] = true end)
  for _, piece in ipairs(list) do
    local b, t = blocks[piece.theirs], tensors[piece.ours]
    if b and experts[t] and piece.by_columns then
      new[t] = {kind = piece.stored, weight = blocks_like(t, b.shape)}
      read_blocks(piece, b)
      piece.make = nil
    elseif b and holders[t] and piece.by_rows then
      new[t] = {kind = piece.stored, weight = blocks_like(t, {t.shape[1], b.shape[2], b.shape[3]})}
      read_blocks(piece, b)
    elseif piece.join then
      split[t] = split[t] or {}
      split[t][piece.stack == 0 and "k" or "v"] = piece
    end
  end
  for t, parts in pairs(split) do new[t] = keep_latent(parts, blocks, t) end
  return take_blocks(model, new)
end

-- Returns the value of quantization_config for a model to be saved.
function quantize.config(model)
  if model.quantized == "int8" then return {quant_method = "rille", bits = 8} end
  local kinds, blocks, tensors = {}, {}, named(model)
  for _, m in ipairs(model:modules()) do
    local class = getmetatable(m)
    if class == nn.BlockLinear or class == nn.BlockEmbedding then kinds[m.weight] = m.kind end
    for name, kind in pairs(rawget(m, "kinds") or {}) do kinds[m[name]] = kind end
  end
  for name in model:named_buffers() do blocks[name] = kinds[tensors[name]] end
  return {quant_method = "rille", blocks = blocks}
end

-- Returns the shape of the weight whose blocks of the type `kind` have this shape; nil: the blocks are invalid.
local function shape_of(kind, shape)
  local one = {}
  for i = 1, #shape do one[i] = i > #shape - 2 and shape[i] or 1 end
  local good, value = check.try(rille.from_blocks, rille.zeros(one, {dtype = "u8"}), {kind = kind})
  if not good then return nil end
  local whole = table.move(shape, 1, #shape - 2, 1, {})
  whole[#whole + 1] = value.shape[value.ndim]
  return whole
end

-- Returns the shape in which blocks store the rows of a weight t. t.ndim == 3: the weights of experts, whose blocks are
-- transposed.
local function stored_shape(t)
  local shape = t.shape
  if #shape == 3 then shape[2], shape[3] = shape[3], shape[2] end
  return shape
end

local function text(shape) return shape and table.concat(shape, ", ") end

-- Returns the name of the weight that the blocks `name` replace, and "k" or "v" for a part of a projection to keys and
-- values (latent.lua).
local function weight_of(name)
  local at, part = name:match("^(.*%.kv_proj%.)([kv])$")
  return at and at .. "weight" or name, part
end

-- Returns the blocks {kind =, weight =} that replace a weight t, or a part of t, and the shape of their values. name,
-- shape: name and shape of the blocks in a folder.
local function blocks_of(t, name, part, kind, shape)
  check.that(t and shape and #shape == (part and 3 or t.ndim) + 1,
    "quantization_config: blocks: '%s' must name a weight that the folder stores in blocks", check.named(name))
  local whole = shape_of(kind, shape)
  check.that(whole and (part or text(whole) == text(stored_shape(t))),
    "quantization_config: blocks: '%s' must have the shape of %s blocks of a weight {%s}, found {%s}", name, check.shown(kind),
    text(stored_shape(t)), text(shape))
  return {kind = kind, weight = blocks_like(t, shape)}, whole
end

-- Checks the shapes of the parts k and v of a projection t to keys and values; nil: the part is missing.
local function check_parts(t, name, k, v)
  check.that(k and v and k[1] == v[1] and k[2] == t.shape[2] and v[3] == t.shape[2] and k[1] * (k[3] + v[2]) == t.shape[1],
    "quantization_config: blocks: '%s' {%s} must have the parts k {heads, rank, keys} and v {heads, values, rank}, found {%s} and {%s}", name,
    text(t.shape), text(k) or "none", text(v) or "none")
end

-- Replaces the layers of a model by quantized layers that match a saved folder. config: quantization_config;
-- contents: the list of the folder's tensors.
function quantize.restore(model, config, contents)
  if config.bits == 8 then return quantize.round(model, "int8") end
  local tensors, shapes, new, tied = named(model), {}, {}, {} -- tied: weight -> its blocks
  local split = {} -- name of a projection to keys and values -> shapes of its parts
  for _, entry in ipairs(contents) do shapes[entry.name] = entry.shape end
  for _, name in ipairs(check.sorted_keys(config.blocks)) do
    local weight, part = weight_of(name)
    local t = tensors[weight]
    local by, shape = blocks_of(t, name, part, config.blocks[name], shapes[name])
    if part then
      new[weight], split[weight] = new[weight] or {}, split[weight] or {}
      new[weight][part], split[weight][part] = by, shape
    else
      new[weight], tied[t] = by, by
    end
  end
  for name, t in pairs(tensors) do
    if split[name] then check_parts(t, name, split[name].k, split[name].v) end
    if not shapes[name] and tied[t] then new[name] = tied[t] end -- the folder has only one of the names of a tied weight
  end
  return take_blocks(model, new)
end

return quantize
