-- nn.lua - layers: classes created with Module:extend. Each layer with parameters has its own file.

local check = require "rille.check"
local functions = require "rille.nn.functions"

local layers = {
  Module = require "rille.nn.module",
  Sequential = require "rille.nn.sequential",
  Linear = require "rille.nn.linear",
  Int8Linear = require "rille.nn.int8_linear",
  Int8Experts = require "rille.nn.int8_experts",
  BlockLinear = require "rille.nn.block_linear",
  BlockEmbedding = require "rille.nn.block_embedding",
  LoRA = require "rille.nn.lora",
  Embedding = require "rille.nn.embedding",
  Positions = require "rille.nn.positions",
  Conv1d = require("rille.nn.conv").Conv1d,
  Conv2d = require("rille.nn.conv").Conv2d,
  BatchNorm1d = require("rille.nn.batch_norm").BatchNorm1d,
  BatchNorm2d = require("rille.nn.batch_norm").BatchNorm2d,
  GroupNorm = require "rille.nn.group_norm",
  LayerNorm = require "rille.nn.layer_norm",
  RMSNorm = require "rille.nn.rms_norm",
  Dropout = require "rille.nn.dropout",
  SwiGLU = require "rille.nn.swiglu",
  MixtureOfExperts = require "rille.nn.experts",
  MultiheadAttention = require "rille.nn.attention",
  TransformerBlock = require "rille.nn.transformer",
  LSTM = require "rille.nn.lstm",
  GRU = require "rille.nn.gru",
  RNN = require "rille.nn.rnn",
  LSTMCell = require("rille.nn.recurrent_cells").LSTMCell,
  GRUCell = require("rille.nn.recurrent_cells").GRUCell,
  RNNCell = require("rille.nn.recurrent_cells").RNNCell,
  Parameter = require("rille.nn.start").parameter,
  Rotary = require("rille.nn.rotary").new,
  rotary_tables = require("rille.nn.rotary").tables,
  init = require "rille.nn.init",
  tie = require("rille.nn.module").tie,
}
for name, class in pairs(functions) do layers[name] = class end

return check.names("nn", layers)
