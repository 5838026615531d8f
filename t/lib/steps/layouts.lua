-- layouts.lua - small versions of real programs for tests of planned steps. Parameters are sharded by data, tensor
-- and sequence parallelism, or the planner chooses their layouts. Returns a table of programs by name, a table of
-- hints by name, and lay(net, program, hint), which gives the network's parameters the layouts of the hint.
local nn = rille.nn

local line, grid = rille.placement("cpu", {0, 1, 2, 3}), rille.placement("cpu", {{0, 1}, {2, 3}})
local D = 16

-- A recommender (DLRM). It combines dense features and embedding rows by their dot products.
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
-- Field `along`: the placement whose devices split the activations between blocks along the sequence (sequence
-- parallelism); nil: activations are not split.
function Gpt:forward(x)
  local n = x.shape[1]
  local function cut(y) return self.along and y:to_global{placement = self.along, sbp = "S(1)"} or y end
  return self.head(self.norm(cut(self.block(cut(x:reshape{n // 8, 8, D}))))):reshape{n, 8}
end

-- Programs by name: the module, the shape of an input row, and the parameters that tensor parallelism splits.
local programs = {
  mlp = {function() return nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, 8)) end, {D},
    {["0.weight"] = "S(0)", ["0.bias"] = "S(0)", ["2.weight"] = "S(1)"}},
  gpt = {Gpt, {D}, {["block.fc1.weight"] = "S(0)", ["block.fc1.bias"] = "S(0)", ["block.fc2.weight"] = "S(1)"}},
  dlrm = {Dlrm, {D}, {["users.weight"] = "S(0)", ["things.weight"] = "S(0)"}, reads_ids = true},
  moe = {Moe, {D}, {["mix.up"] = "S(0)", ["mix.down"] = "S(0)"}},
  resnet = {function() return rille.models.resnet.new{classes = 8, channels = 1, width = 4, blocks = {1}} end, {1, 8, 8}, {}},
}
-- Hints by name: placement; sbp of the batch; sbp of the parameters; mesh axis of tensor parallelism; true if
-- activations are split along the sequence between blocks.
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

return programs, hints, lay
