-- tensor.lua - tensors on one device: creation, arithmetic, indexing, printing.
--
--   rille examples/tensor.lua

local rille = require "rille"

-- Indices count from 0 and ranges are half-open. A shape is a Lua table.
local x = rille.arange(12):reshape{3, 4}
print(x)
print("shape", table.concat(x.shape, " x "), "dtype", x.dtype, "rows", #x)
print("row 1", table.concat(x[1]:totable(), " "))
print("rows 1 and 2, column 3", table.concat(x[{{1, 3}, 3}]:totable(), " "))

-- Operators are functions, and methods of the same name. A number may stand in place of a tensor.
local y = (x * 0.5 + 1):to("f32")
print(y:softmax(-1):sum{axis = 1})
print("largest", y:max():item(), "at", y:argmax():item())

-- A tensor is computed when its value is read, and the value is kept.
local z = y:transpose(0, 1):matmul(y)
print(z)

-- Only variables can be changed in place. Tensors computed from the old value do not change.
local v = rille.zeros{2, 3}
local before = v + 0
v[{1, {0, 2}}] = 7
print(v)
print("before", before:sum():item())

-- An error names the line, the operator, the shapes, and the part that does not fit.
print(select(2, pcall(function() return x:matmul(x) end)))
