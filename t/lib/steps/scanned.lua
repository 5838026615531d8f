-- scanned.lua - trains a cell with rille.scan on all four cpu devices, by a data parallel recipe with micro-batches and ZeRO.
-- Prints losses and parameters, bit by bit.
local rille = require "rille"
local nn <const> = rille.nn

local Reader = nn.Module:extend("Reader")
function Reader:init() self.cell, self.head = nn.LSTMCell(3, 8), nn.Linear(8, 2) end
function Reader:forward(x)
  local zero = (x[{{}, 0}]:sum(1) * 0):unsqueeze(1) + rille.zeros({1, 8}, {placement = x.placement})
  local _, ys = rille.scan(function(s, t)
    local h, c = self.cell(t, s.h, s.c)
    return {h = h, c = c}, h
  end, {h = zero, c = zero}, x, {axis = 1})
  return self.head(ys)
end

for _, options in ipairs{{}, {zero = 2}, {micro_batches = 2}} do
  rille.manual_seed(1)
  local place = rille.placement("cpu", {0, 1, 2, 3})
  local net = nn.Sequential(Reader()):to_global{placement = place, sbp = "B"}
  rille.parallel(net, {data = 0})
  local opt = rille.optim.AdamW(net:parameters(), {lr = 0.05})
  local step = rille.graph(function(x)
    local loss = net(x):square():mean()
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end, options)
  local x = rille.randn({16, 9, 3}, {placement = place, sbp = "S(0)"})
  for _ = 1, 3 do print(("%a"):format(step(x):item())) end
  for _, p in ipairs(net:parameters()) do print(("%a"):format(p:square():sum():item())) end
  assert(tostring(step:plan()):find("scan"), "the plan must have a scan")
end
