-- activations.lua - activation functions by the names that config.json files use.

local function gelu(x) return x:gelu() end
local function gelu_tanh(x) return x:gelu{approximate = "tanh"} end
local function gelu_sigmoid(x) return x * (x * 1.702):sigmoid() end
local function silu(x) return x:silu() end

return {
  silu = silu, swish = silu, gelu = gelu, gelu_python = gelu, gelu_new = gelu_tanh, gelu_pytorch_tanh = gelu_tanh,
  gelu_fast = gelu_tanh, quick_gelu = gelu_sigmoid,
  relu = function(x) return x:relu() end,
  tanh = function(x) return x:tanh() end,
  relu2 = function(x) return x:relu():square() end,
}
