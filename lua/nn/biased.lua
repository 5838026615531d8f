-- biased.lua - y + b of a product y: b, which may be nil, is part of the product and takes its dtype, 16 bits under
-- rille.autocast. A bias that has it already is read where it lies.

return function(y, b)
  if not b then return y end
  return y + (b.dtype == y.dtype and b or b:to(y.dtype))
end
