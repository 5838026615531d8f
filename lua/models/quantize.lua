-- quantize.lua - quantizes the linear layers and experts of a model in place, to int8 weights (nn.Int8Linear,
-- nn.Int8Experts). Embeddings and routers are unchanged.

local rille = require "rille"
local nn = rille.nn

local smaller = {[nn.Linear] = nn.Int8Linear, [nn.MixtureOfExperts] = nn.Int8Experts}

return function(model)
  for _, m in ipairs(model:modules()) do
    for name, part in pairs(m) do
      local class = type(part) == "table" and not rawget(m, "router") and smaller[getmetatable(part)]
      if class then m[name] = rille.no_grad(class, part) end
    end
  end
  for _, p in ipairs(model:parameters()) do p.requires_grad = false end
  model.quantized = "int8"
  return model:eval()
end
