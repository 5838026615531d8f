-- block_embedding.lua - nn.Embedding whose table is stored in quantised blocks, in a format of GGUF; weight: u8 (n,
-- blocks, bytes of a block). Only the rows that are looked up are converted to f32.

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"

local BlockEmbedding = Module:extend("nn.BlockEmbedding")

-- Quantises the table of an nn.Embedding to blocks. options.weight (for internal use): existing blocks, which are
-- used instead.
function BlockEmbedding:init(embedding, options)
  local who = "nn.BlockEmbedding"
  check.that(type(embedding) == "table" and embedding.weight, "%s: expected an nn.Embedding, found %s", who, check.shown(embedding))
  options = check.options(who, options, {kind = "Q8_0", weight = check.none})
  self.kind = options.kind
  self:buffer("weight", options.weight or rille.to_blocks(embedding.weight:detach(), {kind = options.kind}):detach())
end

function BlockEmbedding:forward(ids)
  local n, blocks, bytes = table.unpack(self.weight.shape)
  local rows, shape = rille.embedding(ids, self.weight:reshape{n, blocks * bytes}), ids.shape
  shape[#shape + 1], shape[#shape + 2] = blocks, bytes
  return rille.from_blocks(rows:reshape(shape), {kind = self.kind})
end

function BlockEmbedding:describe()
  local shape = self.weight.shape
  return ("%d, %d blocks, %s"):format(shape[1], shape[2], self.kind)
end

return BlockEmbedding
