-- lora.lua - a linear layer with a low-rank adapter: y = x w^T + b + scaling (x A^T) B^T; A: (r, in), B: (out, r). Hu
-- et al. 2021. With an nn.Int8Linear or nn.BlockLinear as base, this is QLoRA (Dettmers et al. 2023).
--
-- The weight and bias of the base are frozen. An nn.LoRA has the tensors of its base under the base's names. So names
-- in files, and roles in recipes, are the same for both classes.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local start = require "rille.nn.base.start"
local BlockLinear = require "rille.nn.block_linear"
local Int8Linear = require "rille.nn.int8_linear"
local Linear = require "rille.nn.linear"

local LoRA = Linear:extend("nn.LoRA")

local who = "nn.LoRA"

-- Returns the layout of A or B from the SBP of the weight: S(axis) stays, and every other entry becomes B
-- (broadcast). axis: 0 for the factor B, 1 for the factor A. shape: {outputs, inputs}.
local function layout_of(weight, axis, shape)
  local sbp = layout.entries_for(weight, shape)
  for i, entry in ipairs(sbp) do sbp[i] = layout.split_of(entry) == axis and entry or "B" end
  return {placement = weight.placement, sbp = sbp}
end

-- Makes the base layer's weight and bias the frozen weight and bias of the adapter.
local function take_base(self, layer)
  self.kind = layer.kind
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

-- Returns the class of the base layer, whose forward computes x w^T + b.
local function base_of(self) return self.kind and BlockLinear or self.scale and Int8Linear or Linear end

-- Returns the number of inputs of a layer, and the dtype of its adapter.
local function inputs_of(layer)
  local shape = layer.weight.shape
  if not layer.kind then return shape[2], (layer.scale or layer.weight).dtype end
  return rille.from_blocks(rille.zeros({1, shape[2], shape[3]}, {dtype = "u8"}), {kind = layer.kind}).shape[2], "f32"
end

-- Returns true if the layer can be the base of an adapter.
function LoRA.__fits(layer)
  local class = getmetatable(layer)
  return class == Linear or class == Int8Linear or class == BlockLinear
end

function LoRA:init(layer, options)
  local class = type(layer) == "table" and getmetatable(layer)
  check.that(class and LoRA.__fits(layer), "%s: expected an nn.Linear, nn.Int8Linear or nn.BlockLinear, found %s", who,
    class and rawget(class, "__name") or check.shown(layer))
  options = check.options(who, options, {r = 8, alpha = check.none, dropout = 0, rslora = false})
  check.count(who, "r", options.r)
  local alpha = options.alpha or options.r
  check.number(who, "alpha", alpha, 0)
  self.r, self.dropout, self.merged = options.r, check.share(who, "dropout", options.dropout), false
  self.scaling = alpha / (check.flag(who, "rslora", options.rslora) and options.r ^ 0.5 or options.r)
  take_base(self, layer)
  local n_out, n_in, dtype = layer.weight.shape[1], inputs_of(layer)
  local a, b, bound = layout_of(layer.weight, 1, {n_out, n_in}), layout_of(layer.weight, 0, {n_out, n_in}), n_in ^ -0.5
  self.lora_A = start.parameter((rille.rand({options.r, n_in}, a) * (2 * bound) - bound):to(dtype):to_global(a))
  self.lora_B = start.parameter(rille.zeros({n_out, options.r}, {placement = b.placement, sbp = b.sbp, dtype = dtype}))
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

function LoRA:forward(x)
  local y = base_of(self).forward(self, x)
  if off[self] or self.merged then return y end
  if self.training and self.dropout > 0 then x = x:dropout(self.dropout, true) end
  local low = rille.matmul(x, self.lora_A:transpose(0, 1))
  return y + rille.matmul(low, self.lora_B:transpose(0, 1)) * self.scaling
end

-- Returns the weight plus the adapter's update, in the weight's layout.
function LoRA:merged_weight()
  check.that(base_of(self) == Linear, "%s:merged_weight: a quantized weight cannot hold an adapter; merge into the float model", who)
  if self.merged then return self.weight:detach() end
  return rille.no_grad(function()
    return (self.weight + rille.matmul(self.lora_B, self.lora_A) * self.scaling):to_global(layout.of(self.weight)):detach()
  end)
end

-- Adds the adapter's update to the weight, or subtracts the update if `on` is false.
function LoRA:merge(on)
  on = check.flag(who .. ":merge", "the argument", on == nil or on)
  if on == self.merged then return self end
  local value = on and self:merged_weight() or rille.no_grad(function()
    return (self.weight - rille.matmul(self.lora_B, self.lora_A) * self.scaling):to_global(layout.of(self.weight)):detach()
  end)
  rille._take(who .. ":merge", {{"weight", self.weight, value}})
  self.merged = on
  return self
end

function LoRA:describe() return ("%s, r = %d"):format(base_of(self).describe(self), self.r) end

return LoRA
