-- convnets.lua - convolutional networks for images from Hugging Face folders: ResNet (He et al. 2016), ConvNeXt and
-- ConvNeXt V2 (Liu et al. 2022, Woo et al. 2023).
--
--   m(images)          logits of classes (batch, classes), or features (batch, channels, height, width) of a base model
--   m:embed(images)    a vector for each image: the mean of the features (ConvNeXt: then a norm)
--   m:prepare(pixels)  images for m, as the folder describes (prepare.lua)

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = rille.nn
local activations = require "rille.models.activations"
local prepare = require "rille.models.towers.prepare"
local towers = require "rille.models.towers.towers"

local Net = towers.Model:extend("models.convnet")
Net.prepare = prepare.images

function Net:start()
  for _, m in ipairs(self:modules()) do
    if m.__name == "nn.Conv2d" then nn.init.kaiming_normal_(m.weight) end
  end
end

function Net:logits(x)
  return self.classifier and towers.wide(self.classifier(self:pool(x))) or x
end

function Net:features(images)
  local channels = self.config.channels
  check.that(layout.is_tensor(images) and images.ndim == 4 and images.shape[2] == channels,
    "%s: images must be a tensor (batch, %d, height, width), found %s", self.__name, channels, towers.shown(images))
  local x = self:stem(images:to(self:parameters()[1].dtype))
  for s, stage in ipairs(self.stages) do
    if self.between then x = self:between(x, s) end
    for _, block in ipairs(stage) do x = block(x) end
  end
  return x
end

function Net:forward(images) return self:logits(self:features(images)) end
function Net:embed(images) return towers.wide(self:pool(self:features(images))) end

function Net:describe()
  local c = self.config
  return ("stages of %s blocks, %s channels"):format(table.concat(c.depths, ", "), table.concat(c.widths, ", "))
end

-- Checks and returns the sizes of the stages. most: number of tensors in the file, an upper bound for the number of
-- blocks.
local function stages_of(model_type, w, most)
  local d = {widths = {}, depths = {}, layers = 0, channels = w.num_channels, activation = towers.activation(w.hidden_act)}
  for name, word in pairs{widths = "hidden_sizes", depths = "depths"} do
    check.that(type(w[word]) == "table" and #w[word] > 0, "%s must be a list of positive integers, found %s", word,
      check.shown(w[word]))
    for i, size in ipairs(w[word]) do d[name][i] = check.count(model_type, word, size) end
  end
  check.that(#d.widths == #d.depths, "hidden_sizes and depths must have one number for each stage, found %d and %d", #d.widths,
    #d.depths)
  for _, depth in ipairs(d.depths) do d.layers = d.layers + depth end
  check.that(d.layers <= most, "the sum of depths must be at most %d, the number of tensors of the file, found %d", most, d.layers)
  return d
end

-- Calls visit(theirs, ours, stage, i) for each block. theirs, ours: prefixes of the block's names in the file and in
-- the model.
local function each_block(c, visit)
  for s, depth in ipairs(c.depths) do
    for i = 0, depth - 1 do
      visit(("encoder.stages.%d.layers.%d."):format(s - 1, i), ("stages.%d.%d."):format(s - 1, i), s, i)
    end
  end
end

-- ---- layers and loading of ResNet ----

-- A convolution without bias, and a norm.
local Conv = nn.Module:extend("models.ConvNorm")

function Conv:init(n_in, n_out, size, stride)
  self.conv = nn.Conv2d(n_in, n_out, size, {stride = stride, padding = size // 2, bias = false})
  self.norm = nn.BatchNorm2d(n_out)
  self:buffer("batches", rille.zeros({}, {dtype = "i64"})) -- a tensor that other programs expect in the file
end

function Conv:forward(x) return self.norm(self.conv(x)) end

local Residual = nn.Module:extend("models.Residual")

-- c: description of the model; stride: stride of the block.
function Residual:init(c, n_in, n_out, stride)
  local inner = c.bottleneck and n_out // 4 or n_out
  self.activation = c.activation
  if c.bottleneck then
    local first = c.early and stride or 1
    self.layers = {Conv(n_in, inner, 1, first), Conv(inner, inner, 3, stride // first), Conv(inner, n_out, 1, 1)}
  else
    self.layers = {Conv(n_in, inner, 3, stride), Conv(inner, n_out, 3, 1)}
  end
  if n_in ~= n_out or stride ~= 1 then self.shortcut = Conv(n_in, n_out, 1, stride) end
end

-- Applies the activation of the config to the sum alone; between the layers is a ReLU, as in transformers.
function Residual:forward(x)
  local y = x
  for i, layer in ipairs(self.layers) do y = i == 1 and layer(y) or layer(y:relu()) end
  return activations[self.activation](y + (self.shortcut and self.shortcut(x) or x))
end

local ResNet = Net:extend("models.resnet.net")

function ResNet:init(c)
  towers.Model.init(self, c)
  self.embedder, self.stages = Conv(c.channels, c.first, 7, 2), {}
  local n = c.first
  for s, depth in ipairs(c.depths) do
    self.stages[s] = {}
    for i = 1, depth do
      self.stages[s][i] = Residual(c, n, c.widths[s], i == 1 and (s > 1 or c.halves) and 2 or 1)
      n = c.widths[s]
    end
  end
  if c.classes then self.classifier = nn.Linear(n, c.classes) end
end

function ResNet:stem(images)
  return activations[self.config.activation](self.embedder(images)):max_pool2d{kernel_size = 3, stride = 2, padding = 1}
end

function ResNet:pool(x) return x:mean{axis = {2, 3}} end

local resnet_defaults = {num_channels = 3, embedding_size = 64, hidden_sizes = {256, 512, 1024, 2048}, depths = {3, 4, 6, 3},
  layer_type = "bottleneck", hidden_act = "relu"}

local function of_resnet(c, contents, model_type)
  local w = towers.words(model_type, c, nil, resnet_defaults, {"num_channels", "embedding_size"})
  local d = stages_of(model_type, w, #contents)
  check.that(w.layer_type == "bottleneck" or w.layer_type == "basic", 'layer_type must be "bottleneck" or "basic", found %s',
    check.shown(w.layer_type))
  d.first, d.bottleneck, d.halves, d.early = w.embedding_size, w.layer_type == "bottleneck", c.downsample_in_first_stage or false,
    c.downsample_in_bottleneck or false
  for _, width in ipairs(d.bottleneck and d.widths or {}) do
    check.that(width % 4 == 0, "hidden_sizes must be multiples of 4, found %d", width)
  end
  if towers.has(contents, "^classifier%.[1.]*weight") then d.classes = towers.classes(w) end
  return d
end

-- Appends the tensor names of a convolution and its norm to the naming table `list`. theirs, ours: prefixes of the
-- names in the file and in the model.
local function conv_rows(list, theirs, ours)
  list[#list + 1] = {theirs .. "convolution.weight", ours .. "conv.weight"}
  for _, part in ipairs{"weight", "bias", "running_mean", "running_var"} do
    list[#list + 1] = {theirs .. "normalization." .. part, ours .. "norm." .. part}
  end
  list[#list + 1] = {theirs .. "normalization.num_batches_tracked", ours .. "batches", scalar = true, f32 = true}
end

local function resnet_rows(c)
  local list, at = {}, c.classes and "resnet." or ""
  conv_rows(list, at .. "embedder.embedder.", "embedder.")
  local n = c.first
  each_block(c, function(theirs, ours, s, i)
    for k = 0, c.bottleneck and 2 or 1 do
      conv_rows(list, ("%s%slayer.%d."):format(at, theirs, k), ("%slayers.%d."):format(ours, k))
    end
    if n ~= c.widths[s] or i == 0 and (s > 1 or c.halves) then conv_rows(list, at .. theirs .. "shortcut.", ours .. "shortcut.") end
    n = c.widths[s]
  end)
  if c.classes then towers.pair(list, "classifier.1", "classifier", true) end
  return list
end

-- ---- layers and loading of ConvNeXt ----

-- Applies a module that works on the last axis, such as a norm, to the channels of x (batch, channels, height,
-- width).
local function by_channel(norm, x) return norm(x:permute{0, 2, 3, 1}):permute{0, 3, 1, 2} end

-- Global response normalisation: compares each channel's norm over the image with the mean norm of all channels (Woo
-- et al. 2023). x: (batch, height, width, channels).
local Response = nn.Module:extend("models.Response")

function Response:init(n)
  self.weight, self.bias = towers.parameter{1, 1, 1, n}, towers.parameter{1, 1, 1, n}
end

function Response:forward(x)
  local size = x:square():sum{axis = {1, 2}, keepdim = true}:sqrt()
  return self.weight * (x * (size / (size:mean{axis = -1, keepdim = true} + 1e-6))) + self.bias + x
end

local Block = nn.Module:extend("models.ConvNeXtBlock")
Block.parallel = {column = "up_proj", row = "down_proj"}

function Block:init(c, n)
  self.activation = c.activation
  self.conv = nn.Conv2d(n, n, 7, {padding = 3, groups = n})
  self.norm = nn.LayerNorm(n, {eps = 1e-6})
  self.up_proj = nn.Linear(n, 4 * n)
  if c.response then self.response = Response(4 * n) end
  self.down_proj = nn.Linear(4 * n, n)
  if c.scale then self.scale = nn.Parameter(rille.ones{n}) end
end

local function feed_forward(self, x)
  local h = activations[self.activation](self.up_proj(self.norm(x)))
  local y = self.down_proj(self.response and self.response(h) or h)
  return self.scale and y * self.scale or y
end

function Block:forward(x)
  return x + by_channel(function(y) return feed_forward(self, y) end, self.conv(x))
end

-- Downsampling: a norm, and a convolution that halves height and width of the image.
local Smaller = nn.Module:extend("models.Smaller")

function Smaller:init(n_in, n_out)
  self.norm, self.conv = nn.LayerNorm(n_in, {eps = 1e-6}), nn.Conv2d(n_in, n_out, 2, {stride = 2})
end

function Smaller:forward(x) return self.conv(by_channel(self.norm, x)) end

local ConvNeXt = Net:extend("models.convnext.net")

function ConvNeXt:init(c)
  towers.Model.init(self, c)
  local n = c.widths[1]
  self.patches = nn.Conv2d(c.channels, n, c.patch, {stride = c.patch})
  self.norm, self.stages = nn.LayerNorm(n, {eps = 1e-6}), {}
  self.smaller = {}
  for s, depth in ipairs(c.depths) do
    self.stages[s] = {}
    if s > 1 then self.smaller[s - 1] = Smaller(n, c.widths[s]) end
    n = c.widths[s]
    for i = 1, depth do self.stages[s][i] = Block(c, n) end
  end
  self.last_norm = nn.LayerNorm(n, {eps = c.eps})
  if c.classes then self.classifier = nn.Linear(n, c.classes) end
end

function ConvNeXt:stem(images) return by_channel(self.norm, self.patches(images)) end
function ConvNeXt:between(x, s) return s > 1 and self.smaller[s - 1](x) or x end
function ConvNeXt:pool(x) return self.last_norm(x:mean{axis = {2, 3}}) end

local convnext_defaults = {num_channels = 3, patch_size = 4, hidden_sizes = {96, 192, 384, 768}, depths = {3, 3, 9, 3},
  hidden_act = "gelu", layer_norm_eps = 1e-12, layer_scale_init_value = 1e-6}

local function of_convnext(c, contents, model_type)
  local w = towers.words(model_type, c, nil, convnext_defaults, {"num_channels", "patch_size"})
  local d = stages_of(model_type, w, #contents)
  d.patch, d.eps, d.response = w.patch_size, w.layer_norm_eps, model_type == "convnextv2"
  d.scale = not d.response and w.layer_scale_init_value > 0
  if towers.has(contents, "^classifier%.weight") then d.classes = towers.classes(w) end
  return d
end

local function convnext_rows(stem)
  return function(c)
    local list, at = {}, c.classes and stem .. "." or ""
    towers.pair(list, at .. "embeddings.patch_embeddings", "patches", true)
    towers.pair(list, at .. "embeddings.layernorm", "norm", true)
    each_block(c, function(theirs, ours, s, i)
      local down = ("%sencoder.stages.%d.downsampling_layer."):format(at, s - 1)
      for k, name in ipairs(i == 0 and s > 1 and {"norm", "conv"} or {}) do
        towers.pair(list, down .. k - 1, ("smaller.%d.%s"):format(s - 2, name), true)
      end
      for name, their in pairs{conv = "dwconv", norm = "layernorm", up_proj = "pwconv1", down_proj = "pwconv2"} do
        towers.pair(list, at .. theirs .. their, ours .. name, true)
      end
      if c.response then towers.pair(list, at .. theirs .. "grn", ours .. "response", true) end
      if c.scale then list[#list + 1] = {at .. theirs .. "layer_scale_parameter", ours .. "scale"} end
    end)
    towers.pair(list, at .. "layernorm", "last_norm", true)
    if c.classes then towers.pair(list, "classifier", "classifier", true) end
    return list
  end
end

return {kinds = {
  resnet = towers.kind("resnet", ResNet, of_resnet, resnet_rows, {prefix = "resnet."}),
  convnext = towers.kind("convnext", ConvNeXt, of_convnext, convnext_rows "convnext", {prefix = "convnext."}),
  convnextv2 = towers.kind("convnextv2", ConvNeXt, of_convnext, convnext_rows "convnextv2", {prefix = "convnextv2."}),
}}
