-- quantize.lua - the linear layers of a model, in place, with a byte a weight (nn.Int8Linear). Embeddings stay as they are.

local rille = require "rille"
local nn = rille.nn

return function(model)
  local linear = getmetatable(nn.Linear(1, 1))
  for _, m in ipairs(model:modules()) do
    for name, part in pairs(m) do
      if type(part) == "table" and getmetatable(part) == linear then m[name] = rille.no_grad(nn.Int8Linear, part) end
    end
  end
  for _, p in ipairs(model:parameters()) do p.requires_grad = false end
  model.quantized = "int8"
  return model:eval()
end
