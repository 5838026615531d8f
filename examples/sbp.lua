-- sbp.lua - tensors on four devices: two placements, and the layouts and moves that Rille derives.
--
--   rille -d cpu:4 examples/sbp.lua

local rille = require "rille"

local P0 = rille.placement("cpu", {0, 1})
local P1 = rille.placement("cpu", {2, 3})

-- A is split by rows over devices 0 and 1. Both devices store all of B.
local A0 = rille.randn({4, 5}, {placement = P0, sbp = "S(0)"})
local B0 = rille.randn({5, 8}, {placement = P0, sbp = "B"})
local Y0 = rille.matmul(A0, B0)
print("A0 " .. A0.sbp .. " times B0 " .. B0.sbp .. " gives Y0 " .. Y0.sbp)

-- The product moves to devices 2 and 3, where it is replicated. Such a move is called boxing (redistribution).
Y0 = Y0:to_global{placement = P1, sbp = "B"}
local B1 = rille.randn({8, 6}, {placement = P1, sbp = "S(1)"})
local Y2 = rille.matmul(Y0, B1)
print("Y0 " .. Y0.sbp .. " times B1 " .. B1.sbp .. " gives Y2 " .. Y2.sbp)

print(Y2)
for _, shard in ipairs(Y2:shards()) do
  print(("device %d holds %s from column %d"):format(shard.rank, table.concat(shard.shape, " x "), shard.offset[2]))
end

-- Prints the chosen layouts with reasons, the bytes moved, and the minimum of bytes.
print(rille.explain(Y2))
-- Prints the tasks that compute the result.
print(rille.plan(Y2))

-- Plans a move on a cluster that this machine does not have, and prints its bytes.
local wide = rille.boxing{shape = {1024, 4096}, dtype = "f32",
  from = {placement = rille.placement("meta", {0, 1, 2, 3}), sbp = "S(0)"},
  to = {placement = rille.placement("meta", {{0, 1}, {2, 3}}), sbp = {"S(1)", "B"}}}
print(("a 16 MiB tensor from S(0) to (S(1), B): %d bytes move, at least %d must"):format(wide.bytes, wide.bound))
