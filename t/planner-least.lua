-- Tests of what a planner says of memory on random chains of operators (actors/plan/together.c, sbp/lowest.c): where nothing meets
-- a limit the least is told, with it there is a plan, and with less there is none; what is accepted fits.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local SEED <const> = tonumber(os.getenv("SEED") or 1)
local CHAINS <const> = os.getenv("RILLE_LONG") and 200 or 10
local UNARY <const> = {"neg", "exp", "tanh", "relu", "square", "sigmoid"}
local BINARY <const> = {"add", "sub", "mul", "maximum"}
local LAYOUT <const> = {"S(0)", "S(1)", "B"}

-- Applies to the values so far, the first at 0.
local make = {
  function(v, i) local f = UNARY[math.random(#UNARY)]; return function() return rille[f](v[i - 1]) end end,
  function(v, i) local f, k = BINARY[math.random(#BINARY)], math.random(0, i - 1); return function() return rille[f](v[i - 1], v[k]) end end,
  function(v, i, w) local f, k = BINARY[math.random(#BINARY)], math.random(2); return function() return rille[f](v[i - 1], w[k]) end end,
  function(v, i, w) return function() return v[i - 1]:matmul(w.square) end end,
  function(v, i) return function() return v[i - 1]:softmax(-1) end end,
}
local SHARE <const> = {9, 15, 17, 18, 20} -- of twenty, up to each

local function chain(seed)
  math.randomseed(seed)
  local rows, cols = 16 * math.random(8), 16 * math.random(8)
  local place = rille.placement("cpu", {0, 1, 2, 3})
  local function leaf(n) return rille.randn({n, cols}, {placement = place, sbp = LAYOUT[math.random(3)]}) end
  local v, w, call = {}, {leaf(rows), leaf(rows), square = leaf(cols)}, {}
  local x = leaf(rows)
  for i = 1, math.random(3, 8) do
    local draw, kind = math.random(20), 1
    while SHARE[kind] < draw do kind = kind + 1 end
    call[i] = make[kind](v, i, w)
  end
  -- What the fullest device holds, and what of it was counted; or an error.
  return function(limit)
    local step = rille.graph(function(y)
      v[0] = y
      for i, f in ipairs(call) do v[i] = f() end
      local last = v[#call]
      for i in pairs(v) do v[i] = nil end
      return last
    end, {auto_parallel = true, memory_limit = limit, time_limit = 0.5})
    step(x)
    local held = 0
    for _, d in ipairs(step:stats().devices) do held = math.max(held, d.peak_memory) end
    return held, step:explain().memory
  end
end

for seed = SEED, SEED + CHAINS - 1 do
  local run = chain(seed)
  local held, counted = run()
  tap.ok(counted >= 0.98 * held and counted <= 1.12 * held, ("seed %d: counted are %d bytes, held %d"):format(seed, counted, held))
  local good, why = pcall(run, 1)
  local least = not good and math.tointeger(tostring(why):match("found is (%d+)$"))
  tap.ok(least and least <= held, "one byte is too little, and the least is told: " .. tostring(why))
  local fits, most = pcall(run, least)
  tap.ok(fits and most <= least, ("with the least, %d bytes, there is a plan of %s"):format(least, tostring(most)))
  local low, high = 1, least -- refused, accepted
  while high - low > 1 + least // 64 do
    local half = (low + high) // 2
    local accepted, bytes = pcall(run, half)
    if accepted then high = bytes else low = half end
    if accepted and bytes > half then break end
  end
  tap.is(high, least, "and with less there is none")
end
tap.done()
