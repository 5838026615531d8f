-- models.lua - model library: models consist of rille.nn layers. Layers contain no sharding; rille.parallel adds it.

local check = require "rille.base.check"

return check.names("models", {
  gpt2 = require "rille.models.gpt2",
  llama = require "rille.models.llama",
  load = require "rille.models.loading.load",
  lora = require "rille.models.loading.lora",
  moe = require "rille.models.moe",
  resnet = require "rille.models.resnet",
})
