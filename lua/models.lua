-- models.lua - known models, each a file in models/, made of rille.nn. No layer knows how it is split: rille.parallel does.

local check = require "rille.check"

return check.names("rille.models", {
  gpt2 = require "rille.models.gpt2",
  llama = require "rille.models.llama",
  moe = require "rille.models.moe",
  resnet = require "rille.models.resnet",
})
