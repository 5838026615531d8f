-- cross_entropy.lua - the loss of a classifier. The options are the options of rille.cross_entropy.

local check = require "rille.check"
local Module = require "rille.nn.module"

local CrossEntropyLoss = Module:extend("nn.CrossEntropyLoss")

function CrossEntropyLoss:init(options)
  self.how = check.options("nn.CrossEntropyLoss", options,
    {reduction = check.none, ignore_index = check.none, label_smoothing = check.none})
end

function CrossEntropyLoss:forward(logits, labels) return logits:cross_entropy(labels, self.how) end

return CrossEntropyLoss
