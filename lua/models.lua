-- models.lua - model library: each model is a file in models/ and consists of rille.nn layers. Layers contain no
-- sharding; rille.parallel adds it.

local check = require "rille.check"

return check.names("rille.models", {
  gpt2 = require "rille.models.gpt2",
  llama = require "rille.models.llama",
  moe = require "rille.models.moe",
  resnet = require "rille.models.resnet",
})
