-- stop.lua plain|compiled TRIALS DIR - runs steps that signals interrupt at random moments. After each interrupt the
-- script checks that every element of every parameter has the same number of updates, and that the optimiser counted
-- as many steps. The script prints "go" when the next signal may arrive, prints "bad ..." on an error, and reads a
-- line after each interrupt. At the end it writes a checkpoint, runs five more steps and prints their losses. With 0
-- trials the script loads this checkpoint instead, and runs the same five steps without interrupts.
local P = rille.placement("cpu", {0, 1, 2, 3})
local options = {placement = P, sbp = "B", requires_grad = true}
local params = {}
for k = 1, 6 do params[k] = rille.zeros({256, 256}, options) end
local counted = rille.zeros({4}, options)
local Net = rille.nn.Module:extend("Net")
function Net:init() self.params, self.counted = params, counted end
local net = Net()
local opt, adam = rille.optim.SGD(params, {lr = 1}), rille.optim.Adam({counted}, {lr = 1e-3})
local x = rille.ones({64, 256}, {placement = P, sbp = "S(0)"})

-- Runs a step in which every element of every gradient is -1, so that an update is exact.
local function run()
  local loss = x:sum() * 0
  for _, p in ipairs(params) do loss = loss - p:sum() end
  (loss + counted:sum()):backward()
  opt:step()
  adam:step()
  opt:zero_grad()
  adam:zero_grad()
  return loss + rille.rand({1}, {placement = P}):sum()
end
local step = arg[1] == "compiled" and rille.graph(run) or run

-- Returns an error text if some element of a parameter lacks an update; nil if all updates are complete. A plain loop
-- can be stopped between the steps of its two optimisers, so the first optimiser may be one update ahead.
local function whole()
  local first = params[1]:max():item()
  for k, p in ipairs(params) do
    local low, high = p:min():item(), p:max():item()
    if low ~= first or high ~= first then return ("parameter %d is %g to %g, the first is %g"):format(k, low, high, first) end
  end
  local ahead = first - adam.steps
  if ahead ~= 0 and (arg[1] == "compiled" or ahead ~= 1) then return ("%g updates, %d steps"):format(first, adam.steps) end
end

local trials, parts = tonumber(arg[2]), {model = net, optimizer = adam}
if trials > 0 then step() else rille.checkpoint.load(arg[3], parts) end
io.stdout:setvbuf("line")
for trial = 1, trials do
  local ok, why = pcall(function()
    print("go")
    while true do step() end
  end)
  while not pcall(io.read) do end
  rille._forget_presses()
  if ok or not tostring(why):find("interrupted") then print("bad", why) end
  opt:zero_grad()
  adam:zero_grad()
  local wrong = whole()
  if wrong then print("bad", wrong) break end
  if arg[1] == "plain" and params[1]:max():item() > adam.steps then adam.steps = adam.steps + 1 end
end
if trials > 0 then rille.checkpoint.save(arg[3], parts) end
local losses = {}
for k = 1, 5 do losses[k] = ("%.17g"):format(step():item()) end
print("losses", table.concat(losses, " "))
print("done", adam.steps)
