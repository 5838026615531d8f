-- planned.lua - small programs and their training steps, for tests of planned steps. Returns programs, place(mesh),
-- entries(mesh, sbp), train(program, mesh, sbp, batch, options) and near(losses, losses).
local nn, optim = rille.nn, rille.optim

local meshes = {one = {0}, line = {0, 1, 2, 3}, grid = {{0, 1}, {2, 3}}}

local function place(name) return rille.placement("cpu", meshes[name]) end
local function entries(name, sbp) return name == "grid" and {sbp, "B"} or sbp end

local function block(d)
  local Block = nn.Module:extend("Block")
  function Block:init() self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d) end
  function Block:forward(x) return x + self.down(self.up(self.norm(x)):gelu()) end
  return Block()
end

-- Programs by name: each function returns a module and the shape of an input batch.
local programs = {
  mlp = function() return nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 8)), {24, 16} end,
  blocks = function() return nn.Sequential(block(16), block(16), nn.Linear(16, 8)), {24, 16} end,
  tied = function()
    local net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 8))
    nn.tie(net[1], "weight", net[3], "weight")
    return net, {24, 16}
  end,
}

-- Trains a program for three steps and returns the losses, the step and the network.
local function train(program, mesh, sbp, batch, options)
  if options.auto_parallel then options.time_limit = 600 end -- long enough for every proof to end before the limit
  rille.manual_seed(11)
  local net, shape = programs[program]()
  local P = place(mesh)
  net:to_global{placement = P, sbp = sbp == "auto" and sbp or entries(mesh, sbp)}
  local opt = optim.AdamW(net:parameters(), {lr = 0.01})
  local step = dofile("t/lib/tap.lua").training(opt, function(x, y) return net(x):cross_entropy(y) end, options)
  local x = rille.randn(shape, {placement = P, sbp = entries(mesh, batch)})
  local y = rille.randint(0, 8, {shape[1]}, {placement = P, sbp = entries(mesh, batch)})
  local losses = {}
  for i = 1, 3 do losses[i] = step(x, y):item() end
  return losses, step, net
end

local function near(a, b)
  for i = 1, #b do if math.abs(a[i] - b[i]) > 1e-4 * (1 + math.abs(b[i])) then return false end end
  return #a == #b
end

return programs, place, entries, train, near
