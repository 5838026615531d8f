-- pipeline.lua - two stages on two devices each: micro-batches, schedules, and how busy the devices are.
--
--   rille -d cpu:4 examples/pipeline.lua

local rille = require "rille"
local nn, optim = rille.nn, rille.optim

-- Each stage has a placement. to_global moves a tensor from one stage to the next.
local first, second = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})

local Net = nn.Module:extend("Net")
function Net:init(d)
  self.blocks = {nn.TransformerBlock(d, 4), nn.TransformerBlock(d, 4)}
  self.blocks[1]:to_global{placement = first, sbp = "B"}
  self.blocks[2]:to_global{placement = second, sbp = "B"}
end
function Net:forward(x)
  local h = self.blocks[1](x)
  return self.blocks[2](h:to_global{placement = second, sbp = h.sbp})
end

local x = rille.randn({8, 16, 32}, {placement = first, sbp = "S(0)"})
local y = rille.randn({8, 16, 32}, {placement = second, sbp = "S(0)"})

for _, schedule in ipairs{"gpipe", "1f1b"} do
  rille.manual_seed(1)
  local net = Net(32)
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = rille.graph(function(a, b)
    local loss = net(a):mse_loss(b)
    loss:backward()
    optim.clip_grad_norm(net:parameters(), 1)
    opt:step()
    opt:zero_grad()
    return loss
  end, {micro_batches = 4, schedule = schedule})

  local loss
  for _ = 1, 5 do loss = step(x, y):item() end
  local stats = step:stats()
  local peak = 0
  for _, device in ipairs(stats.devices) do peak = math.max(peak, device.peak_memory) end
  print(("%-5s  loss %.5f  step %.2f ms  idle %.0f %%  at most %d KiB per device"):format(schedule, loss,
    stats.step_time * 1e3, stats.bubble * 100, peak // 1024))
end
