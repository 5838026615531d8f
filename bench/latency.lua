-- latency.lua - times the smallest operations from Lua: an operator call, and a value from a cached program.
--
--   rille -d cpu:2 bench/latency.lua      bench/latency.sh runs it beside C and the peers
--
-- Prints "what, least, median": microseconds per call, with garbage collection, over ROUNDS rounds of CALLS calls.

local rille = require "rille"
local ROUNDS, CALLS = 15, 2000

local function time(what, f)
  local times = {}
  for round = 0, ROUNDS do -- the first round warms up
    local start = rille.clock()
    for _ = 1, CALLS do f() end
    times[round] = (rille.clock() - start) / CALLS * 1e6
  end
  table.sort(times)
  print(("%s\t%.2f\t%.2f"):format(what, times[1], times[(ROUNDS + 1) // 2]))
end

-- Creates leaf tensors and computes their values, so that no later timing includes their creation.
local function leaves(shape, how)
  local x, y = rille.ones(shape, how), rille.ones(shape, how)
  x:sum():item()
  y:sum():item()
  return x, y
end

local x, y = leaves{1}
time("Lua: x + y, read", function() return (x + y):item() end)
time("Lua: x + y", function() return x + y end)
local v, w = leaves{64, 64}
time("Lua: matmul", function() return v:matmul(w) end)
time("Lua: reshape", function() return v:reshape{32, 128} end)

local pair = rille.placement("cpu", {0, 1})
local a, b = leaves({64, 64}, {placement = pair, sbp = "S(0)"})
local c, d = leaves({1}, {placement = pair, sbp = "B"})
time("Lua: S(0) + S(0) on 2 ranks", function() return a + b end)
time("Lua: S(0) matmul B on 2 ranks", function() return a:matmul(w:to_global{placement = pair, sbp = "B"}) end)
time("Lua: B + B on 2 ranks, read", function() return (c + d):item() end)
time("Lua: 1 + 2, numbers", function() return CALLS + ROUNDS end)
