-- cache.lua - tests that a loop finds the plan of a repeated step in the cache, even before Lua collects old graphs.
-- The cache limits the total bytes of its plans.

local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local function step_of(place, batch_sbp)
  local net = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 3))
  net:to_global{placement = place, sbp = "B"}
  local opt = optim.AdamW(net:parameters(), {lr = 1e-2})
  local how = {placement = place, sbp = batch_sbp}
  local x, y = rille.randn({8, 4}, how), rille.tensor({0, 1, 2, 0, 1, 2, 0, 1}, {dtype = "i64"}):to_global(how)
  return function() return tap_update(opt, net(x):cross_entropy(y)):item() end
end

local function compiles(step, n)
  local before = rille.counters().compiles
  for _ = 1, n do step() end
  return rille.counters().compiles - before
end

for _, case in ipairs{{"one device", {0}, "B"}, {"two devices", {0, 1}, "S(0)"}} do
  local name, step = case[1], step_of(rille.placement("cpu", case[2]), case[3])
  local first = compiles(step, 20)
  tap.ok(first > 0 and first <= 5, name .. ": the first 20 steps compile 1 to 5 plans")
  tap.is(compiles(step, 300), 0, name .. ": 300 further steps compile none")
end
tap.group("the plan cache is limited by bytes", function()
  local p = rille.placement("cpu", {0, 1, 2, 3, 4, 5, 6, 7})
  local w = rille.eye(8, {placement = p, sbp = "B"})
  local most = 0
  for i = 1, 300 do
    local y = rille.ones({8 * i, 8}, {placement = p, sbp = "S(0)"})
    for _ = 1, 40 do y = y:matmul(w) end
    y:sum():item()
    most = math.max(most, rille.counters().plan_bytes)
  end
  tap.ok(most > 0 and most <= 64 << 20, "300 plans of 320 tasks keep at most 64 MiB in the cache", most .. " bytes")
end)

tap.done()
