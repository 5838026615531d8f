-- block_linear.lua - nn.Linear for inference with weights in quantised blocks, in a format of GGUF; weight: u8 (out,
-- blocks, bytes of a block).
--
-- If a recipe shards a weight by input features, each shard consists of complete blocks.

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local biased = require "rille.nn.base.biased"

local BlockLinear = Module:extend("nn.BlockLinear")

-- Quantises the weight of an nn.Linear to blocks, and shares the bias of the nn.Linear. options.weight (for internal
-- use): existing blocks, which are used instead.
function BlockLinear:init(linear, options)
  local who = "nn.BlockLinear"
  check.that(type(linear) == "table" and linear.weight, "%s: expected an nn.Linear, found %s", who, check.shown(linear))
  options = check.options(who, options, {kind = "Q8_0", weight = check.none})
  self.kind = options.kind
  self:buffer("weight", options.weight or rille.to_blocks(linear.weight:detach(), {kind = options.kind}):detach())
  if linear.bias then self.bias = linear.bias end
end

function BlockLinear:forward(x)
  return biased(rille.linear_blocks(x, self.weight, {kind = self.kind}), self.bias)
end

function BlockLinear:describe()
  local shape = self.weight.shape
  return ("%d blocks, %d, %s"):format(shape[2], shape[1], self.kind)
end

return BlockLinear
