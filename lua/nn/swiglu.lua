-- swiglu.lua - a gated feed-forward layer: down(silu(gate(x)) * up(x)); x: (..., d). Shazeer 2020.

local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local Linear = require "rille.nn.linear"

local SwiGLU = Module:extend("nn.SwiGLU")

SwiGLU.parallel = {column = {"gate_proj", "up_proj"}, row = "down_proj"}

function SwiGLU:init(d, hidden, options)
  check.count("nn.SwiGLU", "d", d)
  check.count("nn.SwiGLU", "hidden", hidden)
  options = check.options("nn.SwiGLU", options, {bias = false})
  self.gate_proj = Linear(d, hidden, {bias = options.bias})
  self.up_proj = Linear(d, hidden, {bias = options.bias})
  self.down_proj = Linear(hidden, d, {bias = options.bias})
end

function SwiGLU:forward(x) return self.down_proj(self.gate_proj(x):silu() * self.up_proj(x)) end

return SwiGLU
