-- autocast.lua - rille.autocast("bf16", fn, ...): calls fn with matrix products in 16 bits, and returns its results.
--
-- Parameters keep their dtype. matmul, conv2d, attention and layers with a bias (nn/linear.lua) cast f32 operands to
-- the given 16-bit dtype and return that dtype. Norms, softmax, losses, sums and powers cast 16-bit operands to f32.
-- A cast is a separate operator, so a redistribution after a cast to 16 bits transfers half the bytes. Gradients pass
-- through casts. A compiled step has a trace for each autocast mode in which it is called. Each coroutine has
-- its own mode (shell/bind/base/coroutine.c).

local rille = require "rille"
local check = require "rille.base.check"

return function(dtype, fn, ...)
  check.that(dtype == "bf16" or dtype == "f16", "autocast: dtype must be \"bf16\" or \"f16\", found %s", check.shown(dtype))
  check.that(rille._is_callable(fn), "autocast: the second argument must be a function, found %s", check.shown(fn))
  local info = type(fn) == "function" and debug.getinfo(fn, "Su")
  check.that(not info or info.what == "C" or info.isvararg or select("#", ...) <= info.nparams,
    "autocast: the function has %d parameters, found %d arguments; rille.autocast has no options", info and info.nparams, select("#", ...))
  local was = rille._autocast(dtype)
  local undo <close> = setmetatable({}, {__close = function() rille._autocast(was) end})
  local results = table.pack(fn(...))
  return table.unpack(results, 1, results.n)
end
