-- autograd.lua - gradients of a formula, of a gradient, and of a network on two devices.
--
--   rille examples/autograd.lua

local rille = require "rille"

-- The derivative of x^3 is 3 x^2; the second derivative is 6 x.
local x = rille.tensor({2, -1}, {requires_grad = true})
local first = rille.grad((x ^ 3):sum(), {x})
local second = rille.grad(first:sum(), {x})
print("3 x^2", table.concat(first:totable(), " "))
print("6 x", table.concat(second:totable(), " "))

-- A gradient has a layout that fits its parameter. If the weight is replicated and the batch is split, the gradient
-- is partial (P): each rank has an addend.
local P = rille.placement("cpu", {0, 1})
local batch = rille.randn({8, 4}, {placement = P, sbp = "S(0)"})
local weight = rille.randn({4, 3}, {placement = P, sbp = "B", requires_grad = true})
batch:matmul(weight):square():mean():backward()
print("batch " .. batch.sbp .. ", weight " .. weight.sbp .. ": the gradient has layout " .. weight.grad.sbp)

-- Compares gradients with finite differences: the slope of a network in one direction.
local function network(w) return batch:matmul(w):gelu():square():mean() end
local direction = rille.randn({4, 3}, {placement = P, sbp = "B"})
local slope = (rille.grad(network(weight), {weight}) * direction):sum():item()
local h = 1e-2
local difference = rille.no_grad(function()
  return ((network(weight + direction * h) - network(weight - direction * h)) / (2 * h)):item()
end)
print(("slope %.4f, by finite differences %.4f"):format(slope, difference))

-- Newton's method on cos, with the second derivative.
local t = rille.tensor(2.0, {requires_grad = true})
for _ = 1, 5 do
  local slope1 = rille.grad(t:cos(), {t})
  local slope2 = rille.grad(slope1, {t})
  rille.no_grad(function() t:copy_(t - slope1 / slope2) end)
end
print(("cos is least at %.6f"):format(t:item()))
