-- transformer.lua - a transformer block with pre-normalisation (Xiong et al. 2020):
--
--   x = x + dropout(attention(norm1(x)))
--   x = x + dropout(fc2(gelu(fc1(norm2(x)))))

local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local Linear = require "rille.nn.linear"
local LayerNorm = require "rille.nn.layer_norm"
local Dropout = require "rille.nn.dropout"
local MultiheadAttention = require "rille.nn.sequence.attention"

local TransformerBlock = Module:extend("nn.TransformerBlock")

TransformerBlock.parallel = {column = "fc1", row = "fc2", norm = {"norm1", "norm2"}, stream = true}

-- options.approximate: the form of the GELU; options.eps: the eps of the norms.
function TransformerBlock:init(d, heads, options)
  check.count("nn.TransformerBlock", "d", d)
  options = check.options("nn.TransformerBlock", options, {hidden = 4 * d, is_causal = true, dropout = 0,
    approximate = check.none, eps = 1e-5})
  self.norm1 = LayerNorm(d, {eps = options.eps})
  self.attention = MultiheadAttention(d, heads, {is_causal = options.is_causal})
  self.norm2 = LayerNorm(d, {eps = options.eps})
  self.fc1 = Linear(d, options.hidden)
  self.fc2 = Linear(options.hidden, d)
  self.dropout = Dropout(options.dropout)
  self.how = {approximate = options.approximate}
end

function TransformerBlock:forward(x, mask, cache)
  local h = self.norm1(x)
  x = x + self.dropout(self.attention(h, h, h, mask, cache))
  return x + self.dropout(self.fc2(self.fc1(self.norm2(x)):gelu(self.how)))
end

return TransformerBlock
