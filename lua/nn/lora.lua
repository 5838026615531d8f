-- lora.lua - a linear layer with a low-rank adapter: y = x w^T + b + scaling (x A^T) B^T; A: (r, in), B: (out, r). Hu
-- et al. 2021. With an nn.Int8Linear or nn.BlockLinear as base, this is QLoRA (Dettmers et al. 2023).
--
-- With an nn.Embedding as base, the adapted table is w + scaling (B A)^T; A: (r, n), B: (d, r). With dora = true, the
-- rows of w + scaling B A (an embedding's columns) are scaled to the lengths in lora_magnitude, which are trained (Liu
-- et al. 2024).
--
-- The weight and bias of the base are frozen. An nn.LoRA has the tensors of its base under the base's names. So names
-- in files, and roles in recipes, are the same for both classes.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local start = require "rille.nn.base.start"
local BlockLinear = require "rille.nn.block_linear"
local Embedding = require "rille.nn.embedding"
local Int8Linear = require "rille.nn.int8_linear"
local Linear = require "rille.nn.linear"

local LoRA = Linear:extend("nn.LoRA")

local who = "nn.LoRA"

-- Makes the base layer's weight and bias the frozen weight and bias of the adapter.
local function take_base(self, layer)
  self.kind = layer.kind
  self.looks_up = getmetatable(layer) == Embedding or nil
  if layer.scale or layer.kind then
    self:buffer("weight", layer.weight)
    if layer.scale then self:buffer("scale", layer.scale) end
  else
    layer.weight.requires_grad = false
    self.weight = layer.weight
  end
  if not layer.bias then return end
  layer.bias.requires_grad = false
  self.bias = layer.bias
end

-- Returns the class of the base layer.
local function base_of(self)
  return self.looks_up and Embedding or self.kind and BlockLinear or self.scale and Int8Linear or Linear
end

-- Returns the numbers of outputs and inputs of a layer, and the dtype of its adapter. layer: an nn.LoRA or its base.
local function sizes_of(layer)
  local shape = layer.weight.shape
  if layer.looks_up or getmetatable(layer) == Embedding then return shape[2], shape[1], layer.weight.dtype end
  if not layer.kind then return shape[1], shape[2], (layer.scale or layer.weight).dtype end
  return shape[1], rille.from_blocks(rille.zeros({1, shape[2], shape[3]}, {dtype = "u8"}), {kind = layer.kind}).shape[2], "f32"
end

-- Returns the layout of A or B, whose axis `to` has the features of the weight's axis `from`, or of a vector with these
-- features (to = 0). A split of `from` becomes a split of `to`; every other entry becomes B (broadcast).
local function layout_of(self, from, to)
  local n_out, n_in = sizes_of(self)
  local sbp = layout.entries_for(self.weight, self.looks_up and {n_in, n_out} or {n_out, n_in})
  for i, entry in ipairs(sbp) do sbp[i] = layout.split_of(entry) == from and entry:gsub("^S%(%d+", "S(" .. to) or "B" end
  return {placement = self.weight.placement, sbp = sbp}
end
LoRA.__sizes = sizes_of

-- Returns the base layer's weight as a float tensor.
local function float_weight(self)
  if self.kind then return rille.from_blocks(self.weight, {kind = self.kind}) end
  if self.scale then return (self.weight:to(self.scale.dtype) - 128) * self.scale:unsqueeze(1) end
  return self.weight
end

-- Returns the weight plus the low-rank update.
local function updated(self)
  local update = rille.matmul(self.lora_B, self.lora_A) * self.scaling
  return float_weight(self) + (self.looks_up and update:transpose(0, 1) or update)
end

-- Returns the lengths of the rows, or of an embedding's columns, of a weight.
local function lengths(self, weight) return (weight * weight):sum{axis = self.looks_up and 0 or 1}:sqrt() end

-- Returns DoRA's initial lengths, those of the layer's weight. With a zero update the lengths do
-- not change the layer's result.
function LoRA.__lengths(layer)
  return rille.no_grad(function() return lengths(layer, float_weight(layer)):detach() end)
end

-- Returns the factors by which DoRA scales the rows, or an embedding's columns, of the weight plus the low-rank update.
-- As in PEFT, the gradient treats the lengths as constants.
local function factors(self)
  return self.lora_magnitude / rille.no_grad(function() return lengths(self, updated(self)):detach() end)
end

LoRA.__adapts = true -- true for subclasses, too
LoRA.__rank_axis = {lora_A = 0, lora_B = 1} -- axis of the rank, from 0

-- Returns true if v is an adapter.
function LoRA.__is(v)
  local class = type(v) == "table" and getmetatable(v)
  return type(class) == "table" and rawget(class, "__adapts") or false
end

-- Returns true if the layer can be the base of an adapter.
function LoRA.__fits(layer)
  local class = getmetatable(layer)
  return class == Linear or class == Int8Linear or class == BlockLinear or class == Embedding
end

-- Makes A and B. One of the two, A for an embedding and else B, is zero, so the layer's result does not change.
local function make_factors(self, r)
  local n_out, n_in, dtype = sizes_of(self)
  local out_axis = self.looks_up and 1 or 0
  local a, b, bound = layout_of(self, 1 - out_axis, 1), layout_of(self, out_axis, 0), n_in ^ -0.5
  local function zeros(shape, where) return start.parameter(rille.zeros(shape, {placement = where.placement, sbp = where.sbp, dtype = dtype})) end
  if self.looks_up then
    self.lora_A = zeros({r, n_in}, a)
    self.lora_B = start.parameter(rille.randn({n_out, r}, b):to(dtype):to_global(b))
    return
  end
  self.lora_A = start.parameter((rille.rand({r, n_in}, a) * (2 * bound) - bound):to(dtype):to_global(a))
  self.lora_B = zeros({n_out, r}, b)
end

-- Makes DoRA's lengths and the bias of the low-rank update, vectors along the outputs.
local function make_vectors(self, options)
  local n_out, _, dtype = sizes_of(self)
  local where = layout_of(self, self.looks_up and 1 or 0, 0)
  if options.dora then
    self.lora_magnitude = start.parameter(rille.no_grad(function() return lengths(self, updated(self)):to(dtype):to_global(where) end))
  end
  if options.bias then
    self.lora_bias = start.parameter(rille.zeros({n_out}, {placement = where.placement, sbp = where.sbp, dtype = dtype}))
  end
end

function LoRA:init(layer, options)
  local class = type(layer) == "table" and getmetatable(layer)
  check.that(class and LoRA.__fits(layer), "%s: expected an nn.Linear, nn.Int8Linear, nn.BlockLinear or nn.Embedding, found %s", who,
    class and rawget(class, "__name") or check.shown(layer))
  options = check.options(who, options, {r = 8, alpha = check.none, dropout = 0, rslora = false, dora = false, bias = false})
  check.count(who, "r", options.r)
  local alpha = options.alpha or options.r
  check.number(who, "alpha", alpha, 0)
  check.that(not options.bias or class ~= Embedding, "%s: bias must be false for an nn.Embedding, found true", who)
  check.that(not options.bias or not options.dora, "%s: bias must be false if dora is true, found true", who)
  self.r, self.dropout, self.merged = options.r, check.share(who, "dropout", options.dropout), false
  self.scaling = alpha / (options.rslora and options.r ^ 0.5 or options.r)
  take_base(self, layer)
  make_factors(self, options.r)
  make_vectors(self, options)
end

local off = setmetatable({}, {__mode = "k"}) -- set of the adapters that are switched off

-- Calls fn(...) with the adapters in the list switched off. A compiled step that was traced with one of these
-- adapters is traced again.
function LoRA.__without(list, fn, ...)
  local function switch(on)
    for _, m in ipairs(list) do off[m] = not on or nil end
    if not rille._tracing() then rille._generation() end
  end
  switch(false)
  local undo <close> = setmetatable({}, {__close = function() switch(true) end})
  return (function(...) return ... end)(fn(...))
end

function LoRA:__is_off() return off[self] or false end

-- Returns the low-rank update of the layer's result.
local function low_rank(self, x)
  local low = self.looks_up and rille.embedding(x, self.lora_A:transpose(0, 1)) or rille.matmul(x, self.lora_A:transpose(0, 1))
  local y = rille.matmul(low, self.lora_B:transpose(0, 1))
  return (self.lora_bias and y + self.lora_bias or y) * self.scaling
end

function LoRA:forward(x)
  local base = base_of(self)
  local y = base.forward(self, x)
  if off[self] or self.merged then return y end
  local drops = self.training and self.dropout > 0 and not self.looks_up
  if drops then x = x:dropout(self.dropout, true) end
  local update = low_rank(self, x)
  if not self.lora_magnitude then return y + update end
  local plain, factor = drops and base.forward(self, x) or y, factors(self)
  if self.bias then plain = plain - self.bias end
  return y + (factor - 1) * plain + factor * update
end

-- ---- merging the adapter into the weight ----
--
-- A merged adapter has the buffer lora_factor (out): the factors by which DoRA scaled the rows of the weight, or ones.
-- So a checkpoint has all that unmerging needs, and only a merged adapter can load the checkpoint of a merged adapter.

local function in_layout_of(t, value) return value:to_global(layout.of(t)):detach() end

-- Reshapes DoRA's factors to a column, or for an embedding to a row, by which the weight can be multiplied.
local function along_weight(self, factor) return factor:unsqueeze(self.looks_up and 0 or 1) end

-- Checks that the base layer's tensors can contain the adapter.
function LoRA:__check_merge()
  check.that(not self.kind and not self.scale, "%s:merged_weight: a quantized weight cannot hold an adapter; merge into the float model", who)
  check.that(not self.tied, "%s:merged_weight: the weight is tied to another layer's, so it cannot hold an adapter; save the adapter alone", who)
  check.that(not self.lora_bias or self.bias, "%s:merged_weight: the adapter has a bias, so the layer must have one", who)
end

-- Returns the tensors of the base layer that change when the adapter is merged.
function LoRA:__base_tensors() return {weight = self.weight, bias = self.bias} end

-- Returns the name of a base tensor in the model. path: of the adapter.
function LoRA:__base_path(path, name) return path .. "." .. name end

-- Returns the tensors that contain the adapter, by name: weight, and bias if the adapter has a bias.
function LoRA:__merged_tensors()
  self:__check_merge()
  if self.merged then return self:__base_tensors() end
  return rille.no_grad(function()
    local weight = updated(self)
    if self.lora_magnitude then weight = weight * along_weight(self, factors(self)) end
    return {weight = in_layout_of(self, weight),
      bias = self.lora_bias and in_layout_of(self.bias, self.bias + self.lora_bias * self.scaling) or nil}
  end)
end

-- Returns the weight plus the adapter's update, in the weight's layout.
function LoRA:merged_weight() return self:__merged_tensors().weight end

-- Returns the tensors without the adapter, the reverse of __merged_tensors().
function LoRA:__unmerged_tensors()
  return rille.no_grad(function()
    local weight = self.weight
    if self.lora_magnitude then weight = weight / along_weight(self, self.lora_factor) end
    weight = weight - (updated(self) - self.weight)
    return {weight = in_layout_of(self, weight),
      bias = self.lora_bias and in_layout_of(self.bias, self.bias - self.lora_bias * self.scaling) or nil}
  end)
end

-- Returns the factors by which the merge scales the weight's rows, or an embedding's columns; ones without DoRA.
function LoRA:__factor()
  local n_out = sizes_of(self)
  local where = layout_of(self, self.looks_up and 1 or 0, 0)
  local factor = self.lora_magnitude and rille.no_grad(factors, self) or rille.ones({n_out}, {dtype = self.weight.dtype, placement = where.placement})
  return factor:to_global(where):detach()
end

-- Adds the adapter's update to the weight, or subtracts the update if `on` is false.
function LoRA:merge(on)
  on = check.flag(who .. ":merge", "the argument", on == nil or on)
  if on == self.merged then return self end
  local old, new, list = self:__base_tensors(), on and self:__merged_tensors() or self:__unmerged_tensors(), {}
  local factor = on and self:__factor() or nil
  for _, name in ipairs{"weight", "bias"} do list[#list + 1] = new[name] and {name, old[name], new[name]} or nil end
  rille._take(who .. ":merge", list)
  self.merged = on
  if on then self:buffer("lora_factor", factor) else self:__drop("lora_factor") end
  return self
end

function LoRA:describe()
  return ("%s, r = %d%s"):format(base_of(self).describe(self), self.r, self.lora_magnitude and ", dora" or "")
end

return LoRA
