-- autocast.lua - rille.autocast("bf16", fn, ...): what fn gives, with its products in 16 bits.
--
-- Parameters stay as they are. matmul, conv2d and attention take f32 operands in bf16 and give bf16, and so do layers
-- with a bias (nn/linear.lua); norms, softmax, losses, sums and powers take what has 16 bits as f32. Casts are operators
-- of their own, so what is moved afterwards is half as large; gradients pass through them. A compiled step keeps what
-- was on when it was traced.
-- A coroutine that yields takes it along (shell/bind/coroutine.c).

local rille = require "rille"
local check = require "rille.check"

return function(dtype, fn, ...)
  check.that(dtype == "bf16" or dtype == "f16", "rille.autocast: the dtype is \"bf16\" or \"f16\", not %s", check.shown(dtype))
  local meta = debug.getmetatable(fn)
  check.that(type(fn) == "function" or meta and meta.__call, "rille.autocast takes a dtype and a function, not %s", check.shown(fn))
  local info = type(fn) == "function" and debug.getinfo(fn, "Su")
  check.that(not info or info.what == "C" or info.isvararg or select("#", ...) <= info.nparams,
    "rille.autocast: the function takes %d arguments, found %d; rille.autocast has no options", info and info.nparams, select("#", ...))
  local was = rille._autocast(dtype)
  local undo <close> = setmetatable({}, {__close = function() rille._autocast(was) end})
  local results = table.pack(fn(...))
  return table.unpack(results, 1, results.n)
end
