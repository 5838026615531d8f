-- Pins: where the input, the output and the parameters of a module lie while it runs, and their gradients.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local nn = rille.nn
local pin = require "rille.nn.pin"
local P, Q = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})

local seen
local Look = nn.Module:extend("Look")
function Look:init() self.weight = nn.Parameter(rille.tensor({{1, 2}, {3, 4}}, {placement = P, sbp = "S(0)"})) end
function Look:forward(x, fail)
  seen = {x.sbp, x.placement, self.weight.sbp}
  assert(not fail, "asked to fail")
  return rille.matmul(x, self.weight)
end

local function input() return rille.tensor({{1, 2}, {3, 4}}, {placement = P, sbp = "S(1)", requires_grad = true}) end

tap.group("a pin of all", function()
  local m, x = Look(), input()
  pin.of[m] = {input = "B", output = "B", use = {weight = "S(1)"}}
  local y = m(x)
  tap.is(seen, {"B", P, "S(1)"}, "the input comes and the parameter lies as it says")
  tap.is({y.sbp, m.weight.sbp}, {"B", "S(0)"}, "the result leaves so; afterwards the parameter is as before")
  tap.is(y:totable(), {{7, 10}, {15, 22}}, "values are the same")
  y:sum():backward()
  tap.is({x.grad.sbp, x.grad:totable()}, {"S(1)", {{3, 7}, {3, 7}}}, "the input's gradient goes back to where it came from")
  tap.is({m.weight.grad.sbp, m.weight.grad:totable()}, {"S(0)", {{4, 4}, {6, 6}}}, "the parameter's to where it lies")
end)

tap.group("partial values", function()
  local x = rille.tensor({{1, 2}, {3, 4}}, {placement = P, sbp = "S(1)", requires_grad = true})
  local w = rille.tensor({{1, 0}, {0, 1}}, {placement = P, sbp = "S(0)"})
  local y = x:matmul(w)
  tap.is(y.sbp, "P", "a product of a split contraction")
  local g = rille.grad(y:_pin{sbp = "S(0)"}:square():sum(), {y})
  tap.is({g.sbp, g:totable()}, {"B", {{2, 4}, {6, 8}}}, "has a gradient that is whole, not partial")
end)

tap.group("placements", function()
  local m, x = Look(), input()
  m.weight:to_global_{placement = Q, sbp = "B"}
  pin.of[m] = {placement = Q, input = "S(0)", output = "B"}
  local y = m(x)
  tap.is({seen[1], seen[2] == Q, y.placement == Q, y.sbp}, {"S(0)", true, true, "B"}, "a module runs where its pin says")
  y:sum():backward()
  tap.ok(x.grad.placement == P and x.grad.sbp == "S(1)", "and the gradient comes back")
end)

tap.group("failure", function()
  local mesh, m2 = rille.placement("cpu", {{0, 1}, {2, 3}}), Look()
  m2.weight = nn.Parameter(rille.tensor({{1, 2}, {3, 4}}, {placement = mesh, sbp = {"S(0)", "B"}}))
  for _, sbp in ipairs{{"S(0)", "B"}, "(S(0), B)", "(S(0), S(0)) order (1, 0)"} do
    pin.of[m2] = {input = sbp}
    tap.fails(function() m2(input()) end, {"matmul", "different placements", "cpu[0, 1]", tostring(mesh)},
      "an input that is not where the layer is: both places are told")
  end
  local m = Look()
  pin.of[m] = {use = {weight = "B"}}
  tap.fails(function() m(input(), true) end, {"asked to fail"}, "an error inside comes through")
  tap.is(m.weight.sbp, "S(0)", "and the parameter is back in its place")
end)

tap.done()
