-- small.lua - a small network for tests of several processes: one layer on four devices. Returns the network, its
-- optimiser, a compiled step, and a function that draws the step's arguments.
local P = rille.placement("cpu", {0, 1, 2, 3})
rille.manual_seed(3)
local net = rille.nn.Linear(8, 4)
net:to_global{placement = P, sbp = "B"}
local opt = rille.optim.AdamW(net:parameters(), {lr = 0.1})
local step = rille.graph(function(x, y)
  local loss = net(x):cross_entropy(y)
  loss:backward() opt:step() opt:zero_grad()
  return loss
end)
local y = rille.tensor({0, 1, 2, 3}, {dtype = "i64", placement = P, sbp = "S(0)"})
return net, opt, step, function() return rille.randn({4, 8}, {placement = P, sbp = "S(0)"}), y end
