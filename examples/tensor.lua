-- tensor.lua - tensors on one device: making, computing, indexing, printing.
--
--   rille examples/tensor.lua

local rille = require "rille"

-- Positions in tensors count from 0 and ranges are half-open; a shape is a Lua table.
local x = rille.arange(12):reshape{3, 4}
print(x)
print("shape", table.concat(x.shape, " x "), "dtype", x.dtype, "rows", #x)
print("row 1", table.concat(x[1]:totable(), " "))
print("rows 1 and 2, column 3", table.concat(x[{{1, 3}, 3}]:totable(), " "))

-- Operators are functions and methods of the same name; numbers may stand where tensors do.
local y = (x * 0.5 + 1):to("f32")
print(y:softmax(-1):sum{axis = 1})
print("largest", y:max():item(), "at", y:argmax():item())

-- Nothing is computed before it is asked for; what was asked for is kept.
local z = y:transpose(0, 1):matmul(y)
print(z)

-- In place: only variables can be written, and what was computed from the old value keeps it.
local v = rille.zeros{2, 3}
local before = v + 0
v[{1, {0, 2}}] = 7
print(v)
print("before", before:sum():item())

-- A mistake is an error at this line. It names the operator, the shapes and what does not fit.
print(select(2, pcall(function() return x:matmul(x) end)))
