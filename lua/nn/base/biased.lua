-- biased.lua - adds a bias b to a product y; b nil: returns y. The bias is cast to the product's dtype (16 bits under
-- rille.autocast); no copy is made if the bias has that dtype already.

return function(y, b)
  if not b then return y end
  return y + (b.dtype == y.dtype and b or b:to(y.dtype))
end
