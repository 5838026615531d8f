-- biased.lua - adds a bias b, or nil, to a product y. The bias is cast to the product's dtype, 16 bits under
-- rille.autocast; a bias of that dtype is not copied.

return function(y, b)
  if not b then return y end
  return y + (b.dtype == y.dtype and b or b:to(y.dtype))
end
