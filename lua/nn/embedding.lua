-- embedding.lua - a table of vectors, looked up by id; table: (n, d), ids: (...), y: (..., d).

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local Embedding = Module:extend("nn.Embedding")

function Embedding:init(n, d, options)
  check.count("nn.Embedding", "the number of entries", n)
  check.count("nn.Embedding", "the size of an entry", d)
  options = check.options("nn.Embedding", options, {std = 1})
  check.number("nn.Embedding", "std", options.std, 0)
  self.weight = start.normal({n, d}, options.std)
end

function Embedding:forward(ids) return rille.embedding(ids, self.weight) end

function Embedding:describe() return table.concat(self.weight.shape, ", ") end

return Embedding
