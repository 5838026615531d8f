-- written.lua - tests rille.parallel on models written without a thought of devices.
--
-- Forward functions create masks, positions and states without a placement, add and concatenate values of several
-- stages, share parameters among stages, and keep parameters in tables and at the root. Losses read inputs and
-- results of several stages. Each model trains three steps eagerly and as a compiled step, by each recipe; all values
-- are f64. Losses must equal those of one device within 1e-9, because sums over shards are added in another order.
-- With stages alone, the bits must be equal. The bytes of data parallel steps must be those of the recipe's formula,
-- so tensors created in forward must move no bytes.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local function mesh(ranks) return rille.placement("cpu", ranks) end
local P1, Q1, P2, Q2, P4 = mesh{0}, mesh{1}, mesh{0, 1}, mesh{2, 3}, mesh{0, 1, 2, 3}
local P22 = mesh{{0, 1}, {2, 3}}
local B = 8         -- number of rows of a batch
-- limit of the bytes that a step moves for scalars: sums of the loss, and tensors made from numbers
local SCALARS = 256

local function normal(...) return rille.randn({...}, {dtype = "f64"}) end
local function parameter(...) return nn.Parameter(normal(...) * 0.3) end
local function ids(n, ...) return rille.randint(0, n, {...}) end
local function cross_entropy(y, labels) return y:reshape{-1, y.shape[y.ndim]}:cross_entropy(labels:reshape{-1}) end

local function causal_mask(n) return rille.ones({n, n}):tril():to("bool") end
local Attention = tap.class("Attention", function(self, d, heads)
  self.heads = heads
  self.qkv = nn.Linear(d, 3 * d)
  self.proj = nn.Linear(d, d)
end, function(self, x, memory)
  local t, d = x.shape[2], x.shape[3]
  local parts = self.qkv(x):reshape{-1, t, 3, self.heads, d // self.heads}:permute{2, 0, 3, 1, 4}
  local q, k, v = parts[0], parts[1], parts[2]
  local scores = causal_mask(t):where(q:matmul(k:transpose(2, 3)) * (d // self.heads) ^ -0.5, -1e9)
  local y = self.proj(scores:softmax(-1):matmul(v):permute{0, 2, 1, 3}:reshape{-1, t, d})
  return memory and y + y:matmul(memory:transpose(1, 2)):softmax(-1):matmul(memory) or y
end)
local function feed_forward(d) return nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) end

-- An LSTM cell of two linear layers.
local function cell(layers, x, h, c)
  local gates = (layers.input(x) + layers.state(h)):chunk(4, 1)
  c = gates[1]:sigmoid() * c + gates[2]:sigmoid() * gates[3]:tanh()
  return gates[4]:sigmoid() * c:tanh(), c
end
local function upsampled(x)
  local c, h, w = x.shape[2], x.shape[3], x.shape[4]
  return x:reshape{-1, c, h, 1, w, 1}:expand{-1, c, h, 2, w, 2}:reshape{-1, c, 2 * h, 2 * w}
end

-- Models by name. Fields: make() returns the model; inputs() returns arguments of a step; loss(m, ...) returns the
-- loss; members: names of the modules that a recipe divides into stages; layers: roles by layer name.
-- without: keys of recipes that the model skips. GAT skips `pieces` and `bytes`, because its rows read all other
-- rows; models skip `input` if sharding does not pay.
local models = {
  MLP = {make = tap.class("MLP", function(self)
    self.fc = {nn.Linear(12, 24), nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 5)}
    self.scale = parameter(24)
  end, function(self, x)
    local h = self.fc[1](x):relu()
    for i = 2, 3 do
      if i % 2 == 1 then h = h * self.scale end
      h = h + self.fc[i](h):relu() * rille.tensor(0.5)
    end
    return self.fc[4](h)
  end), inputs = function() return normal(B, 12), ids(5, B) end,
    loss = function(m, x, labels) return cross_entropy(m(x), labels) + m.fc[1].weight:square():mean() * 1e-2 end,
    layers = {["fc.1"] = "column", ["fc.2"] = "row"}},
  CNN = {make = tap.class("CNN", function(self)
    self.stem = nn.Conv2d(2, 4, 3, {padding = 1})
    self.stages = nn.Sequential(nn.Sequential(nn.Conv2d(4, 4, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(4, 4, 3, {padding = 1})),
      nn.Sequential(nn.Conv2d(4, 4, 3, {padding = 1}), nn.ReLU()))
    self.head = nn.Linear(8, 5)
    self:buffer("mean", normal(1, 2, 1, 1))
  end, function(self, x)
    local s = self.stem(x - self.mean)
    local y = self.stages(s)
    return self.head(rille.concat({y, s}, {axis = 1}):mean{axis = {2, 3}})
  end), inputs = function() return normal(B, 2, 6, 6), ids(5, B) end,
    loss = function(m, x, labels) return cross_entropy(m(x), labels) end, members = {"stem", "stages.*.*", "head"},
    layers = {["stages.0.0"] = "column", ["stages.0.2"] = "row"}},
  GPT = {make = tap.class("GPT", function(self)
    self.embed = nn.Embedding(17, 8)
    self.places = nn.Embedding(6, 8)
    self.blocks = {}
    for i = 1, 3 do self.blocks[i] = {norm = nn.LayerNorm(8), attention = Attention(8, 2), mlp = feed_forward(8)} end
    self.norm = nn.LayerNorm(8)
  end, function(self, x)
    x = self.embed(x) + self.places(rille.arange(x.shape[2]))
    for _, block in ipairs(self.blocks) do
      x = x + block.attention(block.norm(x))
      x = x + block.mlp(x)
    end
    return self.norm(x):matmul(self.embed.weight:transpose(0, 1)) -- the embedding's table is also the output layer
  end), inputs = function() return ids(17, B, 5), ids(17, B, 5) end,
    loss = function(m, x, labels) return cross_entropy(m(x), labels) end, members = {"blocks.*"},
    layers = {["*.mlp.0"] = "column", ["*.mlp.2"] = "row"}},
  bare = {make = tap.class("Bare", function(self)
    self.w1 = parameter(6, 8)
    self.b1 = parameter(8)
    self.w2 = parameter(8, 5)
    self.b2 = parameter(5)
  end, function(self, x) return (x:matmul(self.w1) + self.b1):tanh():matmul(self.w2) + self.b2 end),
    inputs = function() return normal(B, 6), ids(5, B) end,
    loss = function(m, x, labels) return cross_entropy(m(x), labels) end, layers = {w1 = "column", w2 = "row"},
    without = {input = true}},
  ["U-Net"] = {make = tap.class("UNet", function(self)
    self.down1 = nn.Conv2d(1, 4, 3, {padding = 1})
    self.down2 = nn.Conv2d(4, 8, 3, {padding = 1})
    self.mid = nn.Conv2d(8, 8, 3, {padding = 1})
    self.up2 = nn.Conv2d(16, 4, 3, {padding = 1})
    self.up1 = nn.Conv2d(8, 1, 3, {padding = 1})
  end, function(self, x)
    local a = self.down1(x):relu()
    local b = self.down2(a:avg_pool2d(2)):relu()
    local y = self.mid(b:avg_pool2d(2)):relu()
    y = self.up2(rille.concat({upsampled(y), b}, {axis = 1})):relu()
    return self.up1(rille.concat({upsampled(y), a}, {axis = 1}))
  end), inputs = function() return normal(B, 1, 8, 8), normal(B, 1, 8, 8) end,
    loss = function(m, x, noise) return (m(x + noise) - x):square():mean() end},
  VAE = {make = tap.class("VAE", function(self)
    self.encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU())
    self.mean = nn.Linear(16, 4)
    self.spread = nn.Linear(16, 4)
    self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
  end, function(self, x)
    local h = self.encoder(x)
    local mean, spread = self.mean(h), self.spread(h)
    return self.decoder(mean + (spread * 0.5):exp() * rille.linspace(-1, 1, 4):to("f64")), mean, spread
  end), inputs = function() return normal(B, 10) end,
    loss = function(m, x)
      local y, mean, spread = m(x)
      return (y - x):square():mean() + (mean:square() + spread:exp() - spread - 1):mean()
    end, members = {"encoder.*", "mean", "spread", "decoder.*"}},
  ["LSTM seq2seq"] = {make = tap.class("Seq2Seq", function(self)
    self.embed = nn.Embedding(9, 6)
    self.encoder = {input = nn.Linear(6, 32), state = nn.Linear(8, 32)}
    self.decoder = {input = nn.Linear(6, 32), state = nn.Linear(8, 32)}
    self.head = nn.Linear(8, 9)
  end, function(self, source, target)
    local h = rille.zeros({source.shape[1], 8}, {dtype = "f64"})
    local c, list = h, {}
    local x, y = self.embed(source), self.embed(target)
    for t = 0, 2 do h, c = cell(self.encoder, x[{{}, t}], h, c) end
    for t = 0, 2 do
      h, c = cell(self.decoder, y[{{}, t}], h, c)
      list[t + 1] = self.head(h)
    end
    return rille.stack(list, {axis = 1})
  end), inputs = function() return ids(9, B, 3), ids(9, B, 3), ids(9, B, 3) end,
    loss = function(m, x, y, labels) return cross_entropy(m(x, y), labels) end, members = {"encoder.*", "decoder.*"}},
  ["encoder-decoder"] = {make = tap.class("EncoderDecoder", function(self)
    self.embed = nn.Embedding(9, 8)
    self.encoder = {Attention(8, 2), Attention(8, 2)}
    self.decoder = {Attention(8, 2), Attention(8, 2)}
    self.out = nn.Linear(8, 9)
    self.out.weight = self.embed.weight -- the embedding's table is also the output layer
  end, function(self, source, target)
    local memory, y = self.embed(source), self.embed(target)
    for _, block in ipairs(self.encoder) do memory = memory + block(memory) end
    for _, block in ipairs(self.decoder) do y = y + block(y, memory) end
    return self.out(y)
  end), inputs = function() return ids(9, B, 3), ids(9, B, 4), ids(9, B, 4) end,
    loss = function(m, x, y, labels) return cross_entropy(m(x, y), labels) end, members = {"encoder.*", "decoder.*"}},
  GAT = {make = tap.class("GAT", function(self)
    self.layers = {}
    for i = 1, 2 do self.layers[i] = {project = nn.Linear(i == 1 and 6 or 8, 8), left = parameter(8, 1), right = parameter(8, 1)} end
    self.out = nn.Linear(8, 5)
  end, function(self, x, edges)
    local seen = edges:logical_or(rille.eye(x.shape[1]):gt(0)) -- each node has an edge to itself
    for _, layer in ipairs(self.layers) do
      local h = layer.project(x)
      local scores = h:matmul(layer.left) + h:matmul(layer.right):transpose(0, 1)
      x = seen:where(scores:maximum(scores * 0.2), -1e9):softmax(-1):matmul(h):relu()
    end
    return self.out(x)
  end), inputs = function() return normal(B, 6), ids(2, B, B):gt(0), ids(5, B) end, without = {pieces = true, chunks = true, bytes = true},
    loss = function(m, x, edges, labels) return cross_entropy(m(x, edges), labels) end},
  ViT = {make = tap.class("ViT", function(self)
    self.patch = nn.Conv2d(1, 8, 4, {stride = 4})
    self.token = parameter(1, 1, 8)
    self.places = parameter(1, 5, 8)
    self.blocks = {{Attention(8, 2), feed_forward(8)}, {Attention(8, 2), feed_forward(8)}}
    self.head = nn.Linear(8, 5)
  end, function(self, x)
    local patches = self.patch(x):reshape{-1, 8, 4}:transpose(1, 2)
    local token = self.token + rille.zeros({x.shape[1], 1, 8}, {dtype = "f64"})
    x = rille.concat({token, patches}, {axis = 1}) + self.places
    for _, block in ipairs(self.blocks) do
      x = x + block[1](x)
      x = x + block[2](x)
    end
    return self.head(x[{{}, 0}])
  end), inputs = function() return normal(B, 1, 8, 8), ids(5, B) end,
    loss = function(m, x, labels) return cross_entropy(m(x), labels) end, layers = {["blocks.*.1.0"] = "column", ["blocks.*.1.2"] = "row"}},
  DLRM = {make = tap.class("DLRM", function(self)
    self.tables = {user = nn.Embedding(11, 4), item = nn.Embedding(7, 4)}
    self.bottom = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    self.top = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 2))
  end, function(self, x, which)
    local dense = self.bottom(x)
    local rows = rille.stack({dense, self.tables.user(which[{{}, 0}]), self.tables.item(which[{{}, 1}])}, {axis = 1})
    local products = rows:matmul(rows:transpose(1, 2))
    local upper = rille.ones({3, 3}):triu(1):gt(0)
    return self.top(rille.concat({dense, upper:where(products, 0):sum{axis = 2}}, {axis = 1}))
  end), inputs = function() return normal(B, 6), ids(7, B, 2), ids(2, B) end,
    loss = function(m, x, which, labels) return cross_entropy(m(x, which), labels) end, members = {"tables.*", "bottom.*", "top.*"},
    layers = {["tables.*"] = "embedding", ["top.0"] = "column", ["top.2"] = "row"}},
  MoE = {make = tap.class("MoE", function(self)
    self.experts = {}
    self.routers = {}
    for i = 1, 2 do
      self.routers[i] = nn.Linear(6, 3)
      self.experts[i] = {}
      for k = 1, 3 do self.experts[i][k] = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) end
    end
    self.head = nn.Linear(6, 5)
  end, function(self, x)
    local balance = rille.zeros({}, {dtype = "f64"})
    for i, router in ipairs(self.routers) do
      local gates = router(x):softmax(-1)
      local kept = gates:ge(gates:topk(2)[{{}, {1, 2}}]) -- the best two experts of each row
      local y = rille.zeros({x.shape[1], 6}, {dtype = "f64"})
      for k, expert in ipairs(self.experts[i]) do y = y + expert(x) * kept:where(gates, 0)[{{}, {k - 1, k}}] end
      x, balance = x + y, balance + gates:square():mean()
    end
    return self.head(x), balance
  end), inputs = function() return normal(B, 6), ids(5, B) end,
    loss = function(m, x, labels)
      local y, balance = m(x)
      return cross_entropy(y, labels) + balance * 0.1
    end, members = {"routers.*", "experts.*.*"}},
}

-- Columns: name, mesh, recipe, number of micro-batches; exact: the bits of one device. "plan": the planner chooses. bytes:
-- least and most bytes that all ranks receive, as a multiple of the parameters' bytes (t/parallel/any.lua).
local recipes = {
  {"data", P4, {data = 0}, bytes = {6, 6}},
  {"zero 1", P4, {data = 0, zero = 1}, bytes = {6, 6}},
  {"zero 2", P4, {data = 0, zero = 2}, bytes = {6, 6}},
  {"zero 3", P4, {data = 0, zero = 3}, bytes = {6, 9}},
  {"HSDP", P22, {data = {0, 1}, zero = 3, zero_axes = 1}, bytes = {6, 9}},
  {"tensor by table", P2, {tensor = 0, layers = true}},
  {"data x tensor by table", P22, {data = 0, tensor = 1, layers = true}},
  {"tensor by trace", P2, {tensor = 0, input = true}},
  {"plan", P4, "plan"},
  {"stages", P1, {stages = {P1, Q1}}, exact = true},
  {"interleaved stages", P1, {stages = {P1, Q1}, chunks = 2}, exact = true},
  {"stages x data", P2, {stages = {P2, Q2}, data = 0}},
  {"stages x zero 3", P2, {stages = {P2, Q2}, data = 0, zero = 3}},
  {"data, two micro-batches", P2, {data = 0}, 2},
  {"stages, two micro-batches", P1, {stages = {P1, Q1}}, 2},
  {"data, one row per micro-batch", P2, {data = 0}, 4},
  {"stages, one row per micro-batch", P1, {stages = {P1, Q1}}, 8},
}

-- Returns the losses of three steps, and the bytes per step as a multiple of the parameters' bytes. eager: the step
-- is not compiled. schedule: schedule of the compiled step.
local function train(of, place, given, pieces, eager, schedule)
  local plan, recipe = given == "plan", {}
  for key, value in pairs(type(given) == "table" and given or {}) do recipe[key] = value end
  rille.manual_seed(7)
  local m = of.make():to("f64")
  m:to_global{placement = place, sbp = plan and "auto" or "B"}
  rille.manual_seed(3)
  local inputs, losses = {of.inputs()}, {}
  if recipe.layers then recipe.layers = of.layers end
  if recipe.stages then recipe.members = of.members end
  if recipe.input then recipe.input = #inputs > 1 and {table.unpack(inputs, 1, #inputs - 1)} or inputs[1] end
  if next(recipe) then rille.parallel(m, recipe) end
  local opt = optim.AdamW(m:parameters(), {lr = 1e-2})
  local function step(...)
    opt:zero_grad()
    local loss = of.loss(m, ...)
    loss:backward()
    opt:step()
    return loss
  end
  local call = eager and step or rille.graph(step, {micro_batches = pieces, schedule = schedule, auto_parallel = plan, time_limit = plan and 0.05 or nil})
  for i, x in ipairs(inputs) do
    inputs[i] = x:to_global(x.shape[1] ~= B and {placement = place, sbp = "B"} or
      i > 1 and i == #inputs and rille.parallel.labels(m) or rille.parallel.input(m))
  end
  for i = 1, 3 do losses[i] = call(table.unpack(inputs)):item() end
  local held = tap.sum(m:parameters(), function(p) return 8 * p:numel() end)
  rille.parallel(m, {})
  return losses, not eager and call:explain().bytes / held, held
end

local function applies(of, r, eager)
  if r[3] == "plan" then return not eager end
  for key in pairs(of.without or {}) do
    if r[3][key] or key == "pieces" and r[4] then return false end
  end
  return not (r[3].layers and not of.layers) and not (r[4] and eager)
end

local kinds = tap.all(pairs(models))
table.sort(kinds)
for _, kind in ipairs(kinds) do
  local of = models[kind]
  tap.group(kind, function()
    local want
    for _, r in ipairs(recipes) do
      for _, eager in ipairs{false, true} do
        local recipe, name = r[3], ("%s: %s%s"):format(kind, r[1], eager and ", eager" or "")
        if applies(of, r, eager) and tap.share() then
          want = want or train(of, P1)
          local got, ratio, held = train(of, r[2], recipe, r[4], eager)
          if r.bytes and ratio and not (of.without or {}).bytes then
            -- In recurrent cells, the two biases of a gate are added, so they have a common gradient. It is reduced
            -- once, although the formula counts both biases. So 6 % fewer bytes are accepted.
            tap.ok(ratio >= 0.94 * r.bytes[1] and ratio <= r.bytes[2] + SCALARS / held, name .. ": bytes are those of the formula", ratio)
          end
          if r.exact and not r[4] then tap.is(got, want, name .. ": the bits of one device")
          else tap.near(got, want, name .. ": losses of one device", 1e-9, 1e-9) end
        end
      end
    end
  end)
end

-- Tests parameters that belong to no module, on stages of which some share a placement. A parameter must be used
-- where it is stored, so that only values and their gradients move.
tap.group("parameters in folded and interleaved stages", function()
  local WIDTH <const> = 6
  local forms = { -- functions of a list of weights and x
    chain = function(w, x) for i = 1, 4 do x = x:matmul(w[i]):tanh() end return x end,
    skip = function(w, x) local y = x:matmul(w[1]):tanh(); return (y:matmul(w[2]):tanh():matmul(w[3]):tanh() + y):matmul(w[4]) end,
    ["a weight of the first stage at the end"] = function(w, x) for i = 1, 4 do x = x:matmul(w[i]):tanh() end return x:matmul(w[1]:transpose(0, 1)) end,
  }
  -- Number of tensors of B x WIDTH elements (values and gradients) that move per step. Columns: stages in folded
  -- order (A B B A), in interleaved order (A B A B). nil: not compared, because a parameter moves, too.
  local moves = {chain = {4, 6}, skip = {5, 8}, ["a weight of the first stage at the end"] = {4, nil}}
  for name, form in pairs(forms) do
    local Chain = tap.class("Chain", function(self)
      self.w = {}
      for i = 1, 4 do self.w[i] = parameter(WIDTH, WIDTH) end
    end, function(self, x) return form(self.w, x) end)
    local of = {make = Chain, inputs = function() return normal(B, WIDTH), normal(B, WIDTH) end, loss = function(m, x, y) return m(x):mse_loss(y) end}
    local want = train(of, P1, {}, 4)
    for _, r in ipairs{{"zb-v", {P1, Q1, Q1, P1}, 1}, {"v-half", {P1, Q1, Q1, P1}, 1}, {"v-min", {P1, Q1, Q1, P1}, 1}, {"1f1b", {P1, Q1, Q1, P1}, 1},
      {"interleaved", {P1, Q1, P1, Q1}, 2}} do
      local got, ratio, held = train(of, P1, {stages = r[2]}, 4, false, r[1])
      local what = ("%s, %s: "):format(name, r[1])
      tap.is(got, want, what .. "the bits of one device")
      local most = moves[name][r[3]]
      if most then tap.ok(ratio * held <= most * B * WIDTH * 8 + SCALARS, what .. "no parameter moves", ratio * held) end
    end
  end
end)

tap.done()
