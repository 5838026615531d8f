-- ranks.lua - tests that a network trains equally on one rank and on many, in every layout, eager and compiled.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

local P1 = rille.placement("cpu", {0})
local P2 = rille.placement("cpu", {0, 1})
local P3 = rille.placement("cpu", {0, 1, 2})
local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})

-- Layouts of a two-layer network. Columns: the batch, the first layer (split by rows), the second layer (split by
-- columns), the other parameters.
local methods = {
  {"data parallel on 2", P2, "S(0)", "B", "B", "B"},
  {"data parallel on 3, unevenly", P3, "S(0)", "B", "B", "B"},
  {"tensor parallel on 2", P2, "B", "S(0)", "S(1)", "B"},
  {"tensor parallel on 3, unevenly", P3, "B", "S(0)", "S(1)", "B"},
  {"everything split on 2", P2, "S(0)", "S(0)", "S(0)", "S(0)"},
  {"2 x 2: data and tensor parallel", P22, {"S(0)", "B"}, {"B", "S(0)"}, {"B", "S(1)"}, {"B", "B"}},
  {"2 x 2: tensor parallel twice", P22, {"B", "B"}, {"S(0)", "S(0)"}, {"S(1)", "S(1)"}, {"B", "B"}},
}

local Mlp = nn.Module:extend("Mlp")
function Mlp:init() self.fc1, self.fc2, self.norm = nn.Linear(6, 8), nn.Linear(8, 4), nn.LayerNorm(4) end
function Mlp:forward(x) return self.norm(self.fc2(self.fc1(x):gelu())) end
function Mlp:lay(place, rows, columns, rest)
  self:to_global{placement = place, sbp = rest}
  self.fc1.weight:to_global_{placement = place, sbp = rows}
  self.fc1.bias:to_global_{placement = place, sbp = rows}
  self.fc2.weight:to_global_{placement = place, sbp = columns}
end

local Former = nn.Module:extend("Former")
function Former:init()
  self.embed, self.block, self.head = nn.Embedding(5, 6), nn.TransformerBlock(6, 3, {hidden = 12}), nn.Linear(6, 4)
end
function Former:forward(ids) return self.head(self.block(self.embed(ids)):mean{axis = 1}) end
function Former:lay(place, rows, columns, rest)
  self:to_global{placement = place, sbp = rest}
  for _, part in ipairs{self.block.attention.q_proj, self.block.attention.k_proj, self.block.attention.v_proj, self.block.fc1} do
    part.weight:to_global_{placement = place, sbp = rows}
    part.bias:to_global_{placement = place, sbp = rows}
  end
  for _, part in ipairs{self.block.attention.out_proj, self.block.fc2} do
    part.weight:to_global_{placement = place, sbp = columns}
  end
end

-- Returns the losses of four steps, then each parameter's sum of squares, except that of the keys' bias. This bias
-- shifts all scores of a query equally, so its gradient is only rounding noise, which Adam amplifies.
local function train(Net, x, compiled, place, batch, rows, columns, rest)
  rille.manual_seed(11)
  local net = Net()
  net:lay(place, rows, columns, rest)
  local opt = optim.AdamW(net:parameters(), {lr = 0.05})
  local function step(a, b)
    local loss = net(a):cross_entropy(b)
    loss:backward()
    optim.clip_grad_norm(net:parameters(), 0.5)
    opt:step(); opt:zero_grad()
    return loss
  end
  local run, out = compiled and rille.graph(step) or step, {}
  local y = rille.tensor({0, 1, 2, 3, 3, 1}, {dtype = "i64"})
  x, y = x:to_global{placement = place, sbp = batch}, y:to_global{placement = place, sbp = batch}
  for i = 1, 4 do out[i] = run(x, y):item() end
  for name, p in net:named_parameters() do
    if not name:find("k_proj.bias", 1, true) then out[#out + 1] = p:square():sum():item() end
  end
  return out
end

rille.manual_seed(5)
for _, case in ipairs{{"Mlp", Mlp, rille.randn{6, 6}}, {"Former", Former, rille.randint(0, 5, {6, 3})}} do
  local name, Net, x = table.unpack(case)
  tap.group(name, function()
    local want = train(Net, x, false, P1, "B", "B", "B", "B")
    tap.ok(want[4] < want[1], name .. ": the loss falls on one device")
    tap.near(train(Net, x, true, P1, "B", "B", "B", "B"), want, name .. ": compiled as eager", 1e-4, 1e-5)
    for _, method in ipairs(methods) do
      for _, compiled in ipairs{false, true} do
        tap.near(train(Net, x, compiled, table.unpack(method, 2)), want,
          name .. ": " .. method[1] .. (compiled and ", compiled" or ""), 1e-3, 1e-5)
      end
    end
  end)
end

tap.done()
