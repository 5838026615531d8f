-- nn.lua - layers: classes created with Module:extend. Each layer with parameters has its own file.

local check = require "rille.base.check"
local functions = require "rille.nn.functions"

local layers = {
  Module = require "rille.nn.base.module",
  Sequential = require "rille.nn.sequential",
  Linear = require "rille.nn.linear",
  Int8Linear = require "rille.nn.int8_linear",
  Int8Experts = require "rille.nn.int8_experts",
  BlockLinear = require "rille.nn.block_linear",
  BlockEmbedding = require "rille.nn.block_embedding",
  LoRA = require "rille.nn.lora",
  Embedding = require "rille.nn.embedding",
  Positions = require "rille.nn.sequence.positions",
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
  MultiheadAttention = require "rille.nn.sequence.attention",
  TransformerBlock = require "rille.nn.sequence.transformer",
  LSTM = require "rille.nn.sequence.lstm",
  GRU = require "rille.nn.sequence.gru",
  RNN = require "rille.nn.sequence.rnn",
  LSTMCell = require("rille.nn.sequence.recurrent_cells").LSTMCell,
  GRUCell = require("rille.nn.sequence.recurrent_cells").GRUCell,
  RNNCell = require("rille.nn.sequence.recurrent_cells").RNNCell,
  Parameter = require("rille.nn.base.start").parameter,
  Rotary = require("rille.nn.sequence.rotary").new,
  rotary_tables = require("rille.nn.sequence.rotary").tables,
  init = require "rille.nn.base.init",
  tie = require("rille.nn.base.module").tie,
}
for name, class in pairs(functions) do layers[name] = class end

return check.names("nn", layers)
