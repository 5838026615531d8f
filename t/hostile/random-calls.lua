-- Tests that a random value depends only on the seed, the call and the element: loops, graphs and layouts must give equal values.
local tap = dofile("t/lib/tap.lua")

local P1 = rille.placement("cpu", {0})
local P3 = rille.placement("cpu", {2, 0, 1})
local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})
local methods = {
  {P1, "B"}, {P3, "S(0)"}, {P3, "S(1)"}, {P3, "B"}, {P3, "P"},
  {P22, {"S(0)", "S(1)"}}, {P22, {"S(0)", "S(0)"}}, {P22, {"S(0)", "S(0)", order = {1, 0}}}, {P22, {"B", "S(1)"}},
}

local function draw(place, sbp)
  local how = {placement = place, sbp = sbp}
  rille.manual_seed(7)
  return {rille.rand({5, 6}, how):totable(), rille.randn({5, 6}, how):totable(),
    rille.randint(0, 100, {5, 6}, how):totable(),
    rille.ones({5, 6}, {placement = place}):to_global{placement = place, sbp = sbp}:dropout(0.5):totable()}
end

tap.group("layouts", function()
  local want = draw(P1, "B")
  for i, method in ipairs(methods) do tap.is(draw(table.unpack(method)), want, ("layout %d draws the same values as one device"):format(i)) end
end)

tap.group("graphs", function()
  local x = rille.ones({4, 3})
  -- calls the dropout before another call that uses random numbers, but uses its result after that call's
  local function f(a)
    local late, early = a:dropout(0.5), rille.rand({4, 3})
    return (early * 2 + late):dropout(0.3) + rille.randn({4, 3})
  end
  local want = {}
  rille.manual_seed(3)
  for i = 1, 4 do want[i] = f(x):totable() end
  rille.manual_seed(3)
  local g = rille.graph(f)
  for i = 1, 4 do tap.is(g(x):totable(), want[i], ("call %d of a graph draws the same values as the loop"):format(i)) end
  tap.ok(want[1][1][1] ~= want[2][1][1], "each call draws new values")
end)

tap.group("gradients", function()
  rille.manual_seed(5)
  local x = rille.tensor({1, 1, 1, 1, 1, 1, 1, 1}, {requires_grad = true})
  local y = x:dropout(0.5)
  y:sum():backward()
  tap.is(x.grad:totable(), y:totable(), "the gradient of dropout uses the same mask")
end)

tap.done()
