-- towers.lua - stacks of blocks (decoder.lua) that read images, texts or sound, and the common parts of models that
-- consist of such stacks.
--
-- The description of a tower is that of a decoder (describe.lua). A tower consists of blocks with norms before
-- attention and before the feed-forward layer, and a last norm.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = rille.nn
local activations = require "rille.models.activations"
local bicubic = require "rille.models.towers.bicubic"
local Decoder = require "rille.models.decoder"
local describe = require "rille.models.loading.describe"
local language = require "rille.models.language"
local names = require "rille.models.loading.names"
local new_norm = require "rille.models.norms"
local prepare = require "rille.models.towers.prepare"
local words = require "rille.models.loading.words"

local towers = {}

-- ---- reading descriptions from config.json ----

-- Returns the config.json c, or its table `part`, checked and completed with defaults. counts: keys whose values must
-- be positive integers.
function towers.words(model_type, c, part, defaults, counts)
  local all, where = {}, part and part .. "." or ""
  local own = c
  if part then own = c[part] == nil and {} or c[part] end
  check.that(type(own) == "table", "%s must be a table, found %s", part, check.shown(own))
  for word, value in pairs(defaults) do all[word] = value end
  for word, value in pairs(own) do all[word] = value end
  for _, word in ipairs(counts) do check.count(model_type, where .. word, all[word]) end
  for _, word in ipairs(check.sorted_keys(part and all or {})) do
    if words[word] and all[word] ~= nil then words[word](model_type, where .. word, all[word]) end
  end
  return all
end

-- Checks the name of an activation function, and returns it.
function towers.activation(name)
  check.that(type(name) == "string" and activations[name], "unknown activation %s; expected one of: %s", check.shown(name),
    table.concat(check.sorted_keys(activations), ", "))
  return name
end

-- Fills in the fields that most towers share in a description, and returns it. most: number of tensors in the file,
-- an upper bound of the number of layers.
function towers.describe(d, most)
  check.that(d.layers <= most, "the number of layers must be at most %d, the number of tensors of the file, found %d", most, d.layers)
  check.that(d.head_dim or d.width % d.heads == 0, "a width of %d must be divisible by %d heads; %s heads would do", d.width, d.heads,
    check.divisors(d.width))
  local t = {norm = "layer", gated = false, is_causal = false, qkv_bias = true, out_bias = true, mlp_bias = true}
  for name, value in pairs(d) do t[name] = value end
  towers.activation(t.activation)
  return t
end

-- Returns a value as text for messages; a tensor is shown by its shape.
function towers.shown(t) return layout.is_tensor(t) and "{" .. table.concat(t.shape, ", ") .. "}" or check.shown(t) end

-- Returns true if the file has a tensor whose name matches the pattern.
function towers.has(contents, pattern)
  for _, entry in ipairs(contents) do
    if entry.name:find(pattern .. "$") then return true end
  end
  return false
end

-- Returns the number of classes.
function towers.classes(c)
  local count = 0
  for _ in pairs(c.id2label or {}) do count = count + 1 end
  return count > 0 and count or c.num_labels or 2
end

-- ---- layers of a tower ----

local Tower = nn.Module:extend("models.Tower")
Tower.parallel = {norm = "norm"}
towers.Tower = Tower

-- c: description of the tower. new_block(c, i): function that creates block i; nil: blocks of decoder.lua.
function Tower:init(c, new_block)
  local all = describe.complete(c)
  self.layers = {}
  for i = 1, c.layers do self.layers[i] = (new_block or Decoder.Block)(all, i) end
  self.norm = new_norm(all, c.width)
end

function Tower:blocks(x, ...)
  for _, block in ipairs(self.layers) do x = block(x, ...) end
  return x
end

function Tower:forward(x, ...) return self.norm(self:blocks(x, ...)) end

-- Creates a parameter of zeros.
function towers.parameter(shape) return nn.Parameter(rille.zeros(shape)) end

local Patches = nn.Module:extend("models.Patches")
towers.Patches = Patches

-- Creates the first layer of a vision tower, which converts patches of images to vectors with learned positions. Some
-- learned vectors, such as the class token, precede the vectors of the patches; c.tokens is their number. Further
-- fields of c: width, channels, image and patch (sizes), patch_bias. flat: the parameters lack the axis of size 1;
-- resizes: the model accepts images of any size.
function Patches:init(c)
  self.image, self.resizes = c.image, c.resizes
  self.conv = nn.Conv2d(c.channels, c.width, c.patch, {stride = c.patch, bias = c.patch_bias})
  self.tokens = {}
  for i = 1, c.tokens do self.tokens[i] = towers.parameter(c.flat and {c.width} or {1, 1, c.width}) end
  local n = (c.image // c.patch) * (c.image // c.patch)
  self.positions = towers.parameter(c.flat and {n + c.tokens, c.width} or {1, n + c.tokens, c.width})
end

-- Checks the size of images, and returns their height and width in patches.
local function size_of(self, images)
  local shape, kernel = layout.is_tensor(images) and images.shape or {}, self.conv.weight.shape
  local channels, patch = kernel[2], kernel[3]
  local whole = self.resizes and #shape == 4 and shape[3] % patch == 0 and shape[4] % patch == 0 and shape[3] * shape[4] > 0
  local fits = #shape == 4 and shape[2] == channels and (whole or shape[3] == self.image and shape[4] == self.image)
  local want = self.resizes and ("height, width), of patches of %d"):format(patch) or ("%d, %d)"):format(self.image, self.image)
  check.that(fits, "%s: images must be a tensor (batch, %d, %s, found %s", self.__name, channels, want, towers.shown(images))
  return shape[3] // patch, shape[4] // patch
end

-- Returns the position embeddings for images of this size, interpolated unless it is the model's size.
local function positions_of(self, height, width)
  local n, x, own = self.image // self.conv.weight.shape[3], self.positions, #self.tokens
  if height == n and width == n then return x end
  x = x:reshape{-1, self.conv.weight.shape[1]}
  return rille.concat({x:slice(0, 0, own), bicubic(x:slice(0, own, own + n * n), n, height, width)}, 0)
end

function Patches:forward(images)
  local height, width = size_of(self, images)
  local batch, size, parts = images.shape[1], self.conv.weight.shape[1], {}
  for i, token in ipairs(self.tokens) do parts[i] = token:reshape{1, 1, size}:expand{batch, 1, size} end
  parts[#parts + 1] = self.conv(images:to(self.conv.weight.dtype)):reshape{batch, size, -1}:transpose(1, 2)
  local x = #parts > 1 and rille.concat(parts, 1) or parts[1]
  return x + positions_of(self, height, width):reshape{1, x.shape[2], size}
end

-- Appends the tensor names of a tower's blocks and last norm, in the file and in the model, to the naming table
-- `rows`. n: names in the file (names.lua). theirs, ours: prefixes of the names in the file and in the model.
function towers.rows(rows, c, n, theirs, ours)
  local here = {}
  for key, value in pairs(n) do here[key] = value end
  here.layer, here.norm = theirs .. n.layer, theirs .. n.norm
  names.blocks(describe.complete(c), here, rows, ours)
end

-- Appends the names of a layer's weight and bias, in the file and in the model, to the naming table `rows`.
function towers.pair(rows, theirs, ours, bias)
  rows[#rows + 1] = {theirs .. ".weight", ours .. ".weight"}
  if bias then rows[#rows + 1] = {theirs .. ".bias", ours .. ".bias"} end
end

-- Fails unless t is nil or a tensor of the shape of ids.
function towers.check_like(who, what, t, ids)
  check.that(t == nil or layout.is_tensor(t) and t.ndim == 2 and t.shape[1] == ids.shape[1] and t.shape[2] == ids.shape[2],
    "%s: %s must be a tensor {%d, %d}, the shape of ids, found %s", who, what, ids.shape[1], ids.shape[2], towers.shown(t))
end

-- Checks the option mask and returns it as bool; nil: none. given: options; any other option is an error.
function towers.mask_of(who, ids, given)
  local mask = check.options(who, given, {mask = check.none}).mask
  towers.check_like(who, "mask", mask, ids)
  return mask and (mask.dtype == "bool" and mask or mask:ne(0)) or nil
end

-- ---- common parts of models of towers ----

local Model = language.Model:extend("models.TowerModel")
towers.Model = Model

-- Sets initial values: small random matrices, and tables of vectors.
function Model:start() Decoder.start(self) end

-- Converts logits to f32.
function towers.wide(y) return y.dtype == "f32" and y or y:to("f32") end

for _, name in ipairs{"generate", "scheduler"} do
  Model[name] = function(self) check.fail("%s: %s is not supported, because an encoder does not generate tokens", self.__name, name) end
end

-- Returns the kind (language.lua) of a model_type. class(config) creates the model. of(c, contents, model_type, dir)
-- converts the config.json c to the config. rows(config) returns the naming table. more: other fields of the kind. If
-- the class has a method prepare, the config also holds the folder's description of images (prepare.lua).
function towers.kind(model_type, class, of, rows, more)
  local kind = {
    name = model_type, class = class:extend("models." .. model_type), names = rows, prefix = "", ignored = {},
    from_config = function(c, contents, dir)
      local d = of(c, contents, model_type, dir)
      d.pixels = class.prepare and dir and prepare.read(dir)
      return d
    end,
    after_save = class.prepare and prepare.write,
    to_config = function() return {model_type = model_type} end,
    counts = {}, words = words, options = {}, is_complete = true,
  }
  for name, value in pairs(more or {}) do kind[name] = value end
  return kind
end

return towers
