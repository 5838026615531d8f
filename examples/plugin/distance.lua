-- distance.lua - k-means by gradient descent on four devices, with the operator of libdistance.so.
--
--   make && rille -d cpu:4 distance.lua
--
-- The points are split over the devices, and the centres are replicated. The rule of the operator says that the distances
-- are then split, too, and that the gradient of the centres is a sum over the devices. Prints the loss.
local folder = arg[0]:match("^(.*)/") or "."
rille.load_operators(folder .. "/libdistance.so")
rille.manual_seed(1)
local four = rille.placement("cpu", {0, 1, 2, 3})
local points = rille.randn({64, 3}, {placement = four, sbp = "S(0)"})
local centres = rille.randn({5, 3}, {placement = four, sbp = "B", requires_grad = true})
local opt = rille.optim.SGD({centres}, {lr = 0.5})
local step = rille.graph(function(x)
  local loss = -(-x:distance(centres)):max(1):mean() -- the distance to the nearest centre
  loss:backward()
  opt:step()
  opt:zero_grad()
  return loss
end)
print("layout of the distances: " .. points:distance(centres).sbp)
local first = step(points):item()
for _ = 1, 30 do step(points) end
print(("mean squared distance: %.3f, then %.3f"):format(first, step(points):item()))
