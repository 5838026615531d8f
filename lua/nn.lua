-- nn.lua - layers. One file per layer; each layer is a class created with Module:extend.

local check = require "rille.check"

return check.names("rille.nn", {
  Module = require "rille.nn.module",
  Sequential = require "rille.nn.sequential",
  Linear = require "rille.nn.linear",
  Int8Linear = require "rille.nn.int8_linear",
  Int8Experts = require "rille.nn.int8_experts",
  Embedding = require "rille.nn.embedding",
  Positions = require "rille.nn.positions",
  Conv2d = require "rille.nn.conv2d",
  BatchNorm2d = require "rille.nn.batch_norm2d",
  LayerNorm = require "rille.nn.layer_norm",
  RMSNorm = require "rille.nn.rms_norm",
  Dropout = require "rille.nn.dropout",
  ReLU = require "rille.nn.relu",
  GELU = require "rille.nn.gelu",
  SiLU = require "rille.nn.silu",
  SwiGLU = require "rille.nn.swiglu",
  MixtureOfExperts = require "rille.nn.experts",
  MultiheadAttention = require "rille.nn.attention",
  TransformerBlock = require "rille.nn.transformer",
  CrossEntropyLoss = require "rille.nn.cross_entropy",
  MSELoss = require "rille.nn.mse",
  Parameter = require("rille.nn.start").parameter,
  Rotary = require("rille.nn.rotary").new,
  rotary_tables = require("rille.nn.rotary").tables,
  init = require "rille.nn.init",
  tie = require("rille.nn.module").tie,
})
