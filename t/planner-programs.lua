-- Tests of planned steps on real programs (actors/plan/assign.c): with layouts that the user gave as hints, and with none, a
-- plan costs no more than the greedy one, computes what one device computes, and moves the bytes that it says.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local nn, optim = rille.nn, rille.optim

local one, line, grid = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3}), rille.placement("cpu", {{0, 1}, {2, 3}})
local D = 16

-- What a recommender does: numbers and looked-up rows, and how alike they are.
local Dlrm = nn.Module:extend("Dlrm")
function Dlrm:init()
  self.users, self.things = nn.Embedding(24, D), nn.Embedding(40, D)
  self.bottom, self.top = nn.Linear(D, D), nn.Linear(D + 1, 8)
end
function Dlrm:forward(x, ids)
  local dense = self.bottom(x):relu()
  local user, thing = self.users(ids % 24), self.things(ids)
  return self.top(rille.concat({dense * user, (user * thing):sum{axis = 1, keepdim = true}}, 1))
end

local Moe = nn.Module:extend("Moe")
function Moe:init() self.mix, self.head = nn.MixtureOfExperts(D, 2 * D, 4), nn.Linear(D, 8) end
function Moe:forward(x) return self.head(x + self.mix(x)) end

local Gpt = nn.Module:extend("Gpt")
function Gpt:init()
  self.block, self.norm, self.head = nn.TransformerBlock(D, 4, {is_causal = true}), nn.LayerNorm(D), nn.Linear(D, 8)
end
-- along: a placement on which what lies between blocks is cut along the sequence (sequence parallelism).
function Gpt:forward(x)
  local n = x.shape[1]
  local function cut(y) return self.along and y:to_global{placement = self.along, sbp = "S(1)"} or y end
  return self.head(self.norm(cut(self.block(cut(x:reshape{n // 8, 8, D}))))):reshape{n, 8}
end

-- By name: the module, the shape of a row of input, and parameters that tensor parallelism cuts.
local programs = {
  mlp = {function() return nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, 8)) end, {D},
    {["0.weight"] = "S(0)", ["0.bias"] = "S(0)", ["2.weight"] = "S(1)"}},
  gpt = {Gpt, {D}, {["block.fc1.weight"] = "S(0)", ["block.fc1.bias"] = "S(0)", ["block.fc2.weight"] = "S(1)"}},
  dlrm = {Dlrm, {D}, {["users.weight"] = "S(0)", ["things.weight"] = "S(0)"}},
  moe = {Moe, {D}, {["mix.up"] = "S(0)", ["mix.down"] = "S(0)"}},
  resnet = {function() return rille.models.resnet.new{classes = 8, channels = 1, width = 4, blocks = {1}} end, {1, 8, 8}, {}},
}
-- By name: placement, the batch, parameters, on which axis of the mesh those that tensor parallelism cuts are cut, and
-- whether the sequence is cut between blocks.
local hints = {
  dp = {line, "S(0)", "B"},
  tp = {line, "B", "B", 1},
  sp = {line, "B", "B", 1, true},
  ["dp x tp"] = {grid, {"S(0)", "B"}, {"B", "B"}, 2},
  fsdp = {line, "S(0)", "S(0)"},
  free = {line, "S(0)", "auto"},
}

local function lay(net, program, hint)
  local placement, _, sbp, axis = table.unpack(hint, 1, 4)
  net:to_global{placement = placement, sbp = sbp == "S(0)" and "B" or sbp}
  net.along = hint[5] and placement or nil
  for name in pairs(program[3]) do assert(net:state_dict()[name], name) end
  for name, p in net:named_parameters() do
    if sbp == "S(0)" and p.shape[1] % 4 == 0 then p:to_global_{placement = placement, sbp = "S(0)"} end
    local cut = axis and program[3][name]
    if cut then p:to_global_{placement = placement, sbp = #placement.shape == 1 and cut or {"B", cut}} end
  end
end

-- Two losses, and the step.
local function train(program, hint, mode)
  rille.manual_seed(5)
  local net = program[1]()
  lay(net, program, hint)
  local opt = optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.9})
  local step = rille.graph(function(x, ids, y)
    local loss = net(x, ids):cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = mode, time_limit = 600}) -- what is proved depends on no clock
  local at = {placement = hint[1], sbp = hint[2]}
  local x, ids = rille.randn({16, table.unpack(program[2])}, at), rille.randint(0, 40, {16}, at)
  local y, losses = rille.randint(0, 8, {16}, at), {}
  for i = 1, 2 do losses[i] = step(x, ids, y):item() end
  return losses, step, net
end

local long = os.getenv("RILLE_LONG")
-- Is a residual added by ranks that have a part of the sequence each?
local function is_cut(e)
  for _, op in ipairs(e.ops) do
    if op.name == "add" and op.outputs[1] == "S(1)" then return true end
  end
  return false
end
local function has(name, how) return how ~= "sp" or name == "gpt" end
local shorter = {resnet = {dp = true}, moe = {dp = true, tp = true}} -- the others are for RILLE_LONG=1
for name, program in pairs(programs) do
  local want = train(program, {one, "B", "B"})
  for how, hint in pairs(hints) do
    if has(name, how) and (long or not shorter[name] or shorter[name][how]) then
      local _, greedy = train(program, hint, "greedy")
      local got, step = train(program, hint, true)
      local e, what = step:explain(), name .. ", " .. how .. ": "
      tap.near(got, want, what .. "the losses of one device", 1e-4, 1e-5)
      tap.ok(e.cost <= greedy:explain().cost, ("%sno dearer than the greedy choice (%d, %d)"):format(what, e.cost, greedy:explain().cost))
      tap.is(e.bytes, tap.received(step), what .. "the bytes that actors count")
      if how == "sp" then tap.ok(is_cut(e), what .. "the sequence is cut between blocks") end
    end
  end
end

-- Two large layers: a step on these rows, with parameters that lie so.
local function wide(rows, sbp, batch)
  rille.manual_seed(5)
  local net = nn.Sequential(nn.Linear(256, 1024, {bias = false}), nn.GELU(), nn.Linear(1024, 256, {bias = false}))
  net:to_global{placement = line, sbp = sbp}
  local opt = optim.SGD(net:parameters(), {lr = 0.05})
  local step = rille.graph(function(x)
    local loss = net(x):square():sum()
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = true, time_limit = 600})
  step(rille.randn({rows, 256}, {placement = line, sbp = batch}))
  return net, step:explain()
end

-- Data parallelism stays that: the least bytes would move if every rank computed all.
do
  local _, e = wide(512, "B", "S(0)")
  local most = 0
  for _, op in ipairs(e.ops) do
    if op.name == "matmul" or op.name == "contract" then most = math.max(most, op.candidates[1].share) end
  end
  tap.is(most, 0.25, "products of a data parallel step are computed by quarters")
end

-- Where the batch is small and weights are large, the first layer is cut by columns and the second by rows.
do
  local net, e = wide(8, "auto", "B")
  tap.is({net[1].weight.sbp, net[3].weight.sbp}, {"S(0)", "S(1)"}, "columns, then rows: found by nobody's hint")
  tap.is(e.gap, 0, "and proven")
end
tap.done()
