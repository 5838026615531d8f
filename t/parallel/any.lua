-- any.lua - tests rille.parallel on models that users write: eleven kinds, none of which uses a model class of Rille.
--
-- Each model trains three steps by each recipe, and by the planner. All values are f64. Losses must equal those of
-- one device within 1e-9, because sums over shards are added in another order. Recipes with stages must give the same
-- bits. For each model and recipe, the test prints two numbers: the bytes that a step moves, and the bytes by the
-- recipe's formula.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local function mesh(ranks) return rille.placement("cpu", ranks) end
local P1, Q1, P2, Q2, P4 = mesh{0}, mesh{1}, mesh{0, 1}, mesh{2, 3}, mesh{0, 1, 2, 3}
local P22, P24 = mesh{{0, 1}, {2, 3}}, mesh{{0, 1, 2, 3}, {4, 5, 6, 7}}
local P222 = mesh{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}
local B = 8 -- number of rows of a batch

local function normal(...) return rille.randn({...}, {dtype = "f64"}) end
local function parameter(...) return rille.randn({...}, {dtype = "f64"}):mul(0.3):detach():requires_grad_(true) end
local function label(n) return rille.randint(0, n, {B}) end
local function mean_square(y) return y:square():mean() end

-- ---- the models ----

local MLP = tap.class("MLP", function(self)
  self.fc1 = nn.Linear(12, 24)
  self.fc2 = nn.Linear(24, 12)
  self.out = nn.Linear(12, 5)
end, function(self, x) return self.out(self.fc2(self.fc1(x):relu()):relu()) end)

local CNN = tap.class("CNN", function(self)
  self.features = nn.Sequential(nn.Conv2d(2, 8, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(8, 4, 3, {padding = 1}), nn.ReLU())
  self.scale = parameter()
  self.head = nn.Linear(4 * 36, 5)
end, function(self, x) return self.head((self.features(x) * self.scale):reshape{-1, 4 * 36}) end)

local Attention = tap.class("Attention", function(self, d, heads)
  self.heads = heads
  self.q = nn.Linear(d, d)
  self.k = nn.Linear(d, d)
  self.v = nn.Linear(d, d)
  self.o = nn.Linear(d, d)
end, function(self, x)
  local n, t, d = table.unpack(x.shape)
  local function split(y) return y:reshape{n, t, self.heads, d // self.heads}:permute{0, 2, 1, 3} end
  local q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
  local scores = (q:matmul(k:transpose(2, 3)) * (d // self.heads) ^ -0.5):softmax(-1)
  return self.o(scores:matmul(v):permute{0, 2, 1, 3}:reshape{n, t, d})
end)
local roles_of = {[Attention] = {column = {"q", "k", "v"}, row = "o"}}

local Layer = tap.class("Layer", function(self, d, heads)
  self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
  self.attention = Attention(d, heads)
  self.mlp = {up = nn.Linear(d, 2 * d), down = nn.Linear(2 * d, d)}
end, function(self, x)
  x = x + self.attention(self.norm1(x))
  return x + self.mlp.down(self.mlp.up(self.norm2(x)):gelu())
end)
roles_of[Layer] = {column = "mlp.up", row = "mlp.down", norm = {"norm1", "norm2"}, stream = true}

local Transformer = tap.class("Transformer", function(self)
  self.embed = nn.Embedding(17, 8)
  self.layers = {Layer(8, 4), Layer(8, 4), Layer(8, 4)}
  self.head = nn.Linear(8, 17)
end, function(self, ids)
  local x = self.embed(ids)
  for _, layer in ipairs(self.layers) do x = layer(x) end
  return self.head(x)
end)

local GATLayer = tap.class("GATLayer", function(self, n_in, n_out)
  self.project = nn.Linear(n_in, n_out, {bias = false})
  self.left = parameter(n_out, 1)
  self.right = parameter(n_out, 1)
end, function(self, x, adjacency)
  local h = self.project(x)
  local scores = h:matmul(self.left) + h:matmul(self.right):transpose(-1, -2)
  return adjacency:where(scores:maximum(scores * 0.2), -1e9):softmax(-1):matmul(h):relu()
end)
local GAT = tap.class("GAT", function(self) self.layers = {GATLayer(6, 8), GATLayer(8, 8), GATLayer(8, 5)} end,
  function(self, x, adjacency)
    for _, layer in ipairs(self.layers) do x = layer(x, adjacency) end
    return x
  end)

local VAE = tap.class("VAE", function(self)
  self.encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU())
  self.mean = nn.Linear(16, 4)
  self.log_variance = nn.Linear(16, 4)
  self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
end, function(self, x, noise)
  local h = self.encoder(x)
  return self.decoder(self.mean(h) + (self.log_variance(h) * 0.5):exp() * noise)
end)

local Up = tap.class("Up", function(self, n_in, n_out) self.conv = nn.Conv2d(n_in, n_out, 3, {padding = 1}) end,
  function(self, x, skip)
    local n, c, h, w = table.unpack(x.shape)
    x = x:reshape{n, c, h, 1, w, 1}:expand{n, c, h, 2, w, 2}:reshape{n, c, 2 * h, 2 * w}
    return self.conv(rille.concat({x, skip}, {axis = 1})):relu()
  end)
local UNet = tap.class("UNet", function(self)
  self.down = {nn.Conv2d(1, 4, 3, {padding = 1}), nn.Conv2d(4, 8, 3, {padding = 1})}
  self.mid = nn.Conv2d(8, 8, 3, {padding = 1})
  self.up = {Up(16, 4), Up(8, 1)}
end, function(self, x)
  local skips = {}
  for i, conv in ipairs(self.down) do
    skips[i] = conv(x):relu()
    x = skips[i]:avg_pool2d(2)
  end
  x = self.mid(x):relu()
  for i, up in ipairs(self.up) do x = up(x, skips[3 - i]) end
  return x
end)

local ViT = tap.class("ViT", function(self)
  self.patch = nn.Conv2d(1, 8, 4, {stride = 4})
  self.token = parameter(1, 1, 8)
  self.places = parameter(1, 5, 8)
  -- stages are formed from blocks in a list of lists of layers
  self.blocks = {{Layer(8, 2)}, {Layer(8, 2), Layer(8, 2)}}
  self.head = nn.Linear(8, 5)
end, function(self, x)
  local patches = self.patch(x):reshape{-1, 8, 4}:transpose(1, 2)
  x = rille.concat({self.token:expand{x.shape[1], 1, 8}, patches}, {axis = 1}) + self.places
  for _, group in ipairs(self.blocks) do
    for _, block in ipairs(group) do x = block(x) end
  end
  return self.head(x:mean{axis = 1})
end)

local Experts = tap.class("Experts", function(self, d, n)
  self.router = nn.Linear(d, n)
  self.up = {parameter(n, d, 2 * d)}
  self.down = {parameter(n, 2 * d, d)}
end, function(self, x)
  local gates = self.router(x):softmax(-1):transpose(0, 1):unsqueeze(2)
  return x + (x:unsqueeze(0):matmul(self.up[1]):gelu():matmul(self.down[1]) * gates):sum{axis = 0}
end)
local MoE = tap.class("MoE", function(self)
  self.blocks = {Experts(6, 4), Experts(6, 4)}
  self.head = nn.Linear(6, 5)
end, function(self, x)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(x)
end)

local DLRM = tap.class("DLRM", function(self)
  self.tables = {nn.Embedding(11, 4), nn.Embedding(7, 4), nn.Embedding(5, 4)}
  self.bottom = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
  self.top = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
end, function(self, x, ids)
  local rows = {self.bottom(x)}
  for i, t in ipairs(self.tables) do rows[i + 1] = t(ids[{{}, i - 1}]) end
  local pairs_of = {}
  for i = 1, 4 do
    for j = i + 1, 4 do pairs_of[#pairs_of + 1] = (rows[i] * rows[j]):sum{axis = 1} end
  end
  return self.top(rille.stack(pairs_of, {axis = 1}))
end)

local Recurrent = tap.class("Recurrent", function(self)
  self.lstm = nn.LSTM(5, 6, {num_layers = 2, bidirectional = true})
  self.gru = nn.GRU(12, 6)
  self.head = nn.Linear(6, 5)
end, function(self, x, lengths) return self.head((self.gru((self.lstm(x, {lengths = lengths}))))) end)

local Translator = tap.class("Translator", function(self)
  self.embed = nn.Embedding(9, 72) -- so wide that a trace shards the products with the inputs
  self.encoder = nn.LSTM(72, 72)
  self.decoder = nn.LSTM(72, 72)
  self.head = nn.Linear(72, 9)
end, function(self, source, target)
  local _, h, c = self.encoder(self.embed(source))
  return self.head((self.decoder(self.embed(target), {h0 = h, c0 = c})))
end)

-- Models by name. Fields: make() returns the model; inputs() returns the model's arguments, and labels; layers: roles
-- by layer name; members: names of the modules that a recipe divides into two stages; rings: true if only row and
-- column layers communicate over a tensor axis; blocks: true if the layers are mostly transformer blocks; cells: true if the model has recurrent layers; joined: true if each
-- row of the batch reads all other rows. Then inputs(pieces) returns a batch of graphs for recipes with micro-batches.
local function cross_entropy(y, labels) return y:reshape{-1, y.shape[y.ndim]}:cross_entropy(labels:reshape{-1}) end
local models = {
  MLP = {rings = true, make = MLP, inputs = function() return {normal(B, 12), label(5)} end, layers = {["*.fc1"] = "column", ["*.fc2"] = "row"}},
  CNN = {rings = true, make = CNN, inputs = function() return {normal(B, 2, 6, 6), label(5)} end,
    layers = {["features.0"] = "column", ["features.2"] = "row", head = "column"}, members = {"features", "head"}},
  transformer = {rings = true, blocks = true, make = Transformer, inputs = function() return {rille.randint(0, 17, {B, 4}), rille.randint(0, 17, {B, 4})} end,
    layers = {embed = "embedding", head = "head"}},
  GAT = {joined = true, make = GAT, layers = {["layers.*.project"] = "column"}, inputs = function(pieces)
    local n = pieces and 4 or B -- nodes of a graph
    local function shape(...) return pieces and {B, ...} or {...} end
    local edges = rille.randint(0, 2, shape(n, n)):add(rille.eye(n):to("i64")):gt(0)
    return {normal(table.unpack(shape(n, 6))), edges, rille.randint(0, 5, shape(n))}
  end},
  VAE = {rings = true, make = VAE, inputs = function() return {normal(B, 10), normal(B, 4)} end,
    layers = {["decoder.0"] = "column", ["decoder.2"] = "row"}},
  ["U-Net"] = {make = UNet, inputs = function() return {normal(B, 1, 8, 8)} end, members = {"down.*", "mid", "up.*"},
    layers = {["down.*"] = "column", ["*.conv"] = "row"}},
  ViT = {rings = true, blocks = true, make = ViT, inputs = function() return {normal(B, 1, 8, 8), label(5)} end, layers = {}},
  MoE = {make = MoE, inputs = function() return {normal(B, 6), label(5)} end, layers = {["*.up.0"] = "expert", ["*.down.0"] = "expert", head = "column"}},
  LSTM = {cells = true, make = Recurrent, inputs = function() return {normal(B, 4, 5), rille.randint(0, 5, {B}), rille.randint(0, 5, {B, 4})} end,
    layers = {head = "column"}, members = {"lstm", "gru", "head"}},
  seq2seq = {cells = true, make = Translator, inputs = function() return {rille.randint(0, 9, {B, 5}), rille.randint(0, 9, {B, 4}), rille.randint(0, 9, {B, 4})} end,
    layers = {embed = "embedding", head = "column"}, members = {"encoder", "decoder", "head"}},
  DLRM = {rings = true, make = DLRM, inputs = function() return {normal(B, 6), rille.randint(0, 5, {B, 3}), label(2)} end,
    layers = {["tables.*"] = "embedding", ["top.0"] = "column", ["top.2"] = "row"}, members = {"bottom.*", "top.*"}},
}

-- ---- training ----

local function make(kind, place, sbp)
  rille.manual_seed(7)
  local m, whole = models[kind].make():to("f64"), tap.list(#place.shape, function() return "B" end)
  return m:to_global{placement = place, sbp = sbp or whole}
end

-- Returns the SBP of a mesh axis, counted from 0: "(B, S(0))", 1 -> "S(0)".
local function on_axis(sbp, axis)
  for entry in sbp:gmatch("[SBP]%(?%d?%)?") do
    if axis == 0 then return entry end
    axis = axis - 1
  end
end

-- Returns the bytes by the formula of two stages: the second stage receives the values that its modules use and do not
-- compute, and returns a gradient for each value that has one.
local function bytes_between(m, t, inputs, second)
  local sum, met = 0, {}
  local function visit(v)
    if type(v) == "table" then for _, x in pairs(v) do visit(x) end end
    if type(v) ~= "userdata" or met[v] or v.placement == second then return end
    met[v], sum = true, sum + (v.requires_grad and 2 or 1) * v:numel() * (v.dtype == "bool" and 1 or 8)
  end
  for path, layer in m:named_modules() do
    if t[path] and t[path].placement == second then layer:register_forward_pre_hook(function(_, args) visit(args) end) end
  end
  m(table.unpack(inputs))
  return sum
end

-- Returns the layers with a role: {role = "column", "row" or "table" (an embedding), w, x and y: bytes of the weight, the
-- input and the output, back: 1 if the input has a gradient that no other layer has counted, else 0}. axis: the mesh
-- axis that shards the outputs of column layers.
local function layers_of(m, t, inputs, axis)
  local list, met = {}, {}
  for path, layer in m:named_modules() do
    local entry, is_table = t[path .. ".weight"], getmetatable(layer) == nn.Embedding
    local cut = entry and axis and on_axis(entry.sbp, axis)
    local role = is_table and (cut == "S(0)" and "row" or cut == "S(1)" and "table") or cut == "S(0)" and "column" or cut == "S(1)" and "row"
    if role then
      layer:register_forward_hook(function(_, args, y)
        local x = args[1]
        local new = not met[x]
        met[x] = true
        list[#list + 1] = {role = role, w = 8 * layer.weight:numel(), x = 8 * x:numel(), y = 8 * y:numel(), new = new,
          back = role == "column" and new and x.requires_grad and 1 or 0}
      end)
    end
  end
  m(table.unpack(inputs))
  return list
end

-- Bytes that the layers of a recipe move, by method. n: sizes of the tensor axes; l: a layer (layers_of). A gather and a
-- reduce-scatter of b bytes over n ranks move (n - 1) b each, an all-reduce both.
local methods = {
  -- a row layer's result and the gradient of a column layer's input are all-reduced
  ["1d"] = function(l, p) return (p - 1) * (l.role == "table" and l.y or l.role == "row" and 2 * l.y or 2 * l.back * l.x) end,
  -- the same all-reduces as pairs of a reduce-scatter and a gather; a column layer gathers its input, also of data
  sequence = function(l, p) return (p - 1) * (l.role ~= "column" and 2 * l.y or l.new and (1 + l.back) * l.x or 0) end,
  -- weights are gathered, and their gradients reduced, over the q rows; activations over the r columns
  ["2d"] = function(l, q, r)
    return 2 * (q - 1) * l.w + (r - 1) * (l.role ~= "column" and 2 * l.y or l.new and (1 + l.back) * l.x or 0)
  end,
  -- weights over i; column layers gather inputs over j and reduce results over k, row layers exchange j and k
  ["3d"] = function(l, i, j, k)
    if l.role ~= "column" then return 2 * (i - 1) * l.w + 2 * (j - 1) * l.y + 2 * (k - 1) * l.x end
    return 2 * (i - 1) * l.w + 2 * (k - 1) * l.y + (l.new and (j - 1) * (1 + l.back) * l.x or 0)
  end,
}
methods["2.5d"] = function(l, q, r, depth) return methods["2d"](l, q, r) + 2 * (q - 1) * (depth - 1) * l.w + 2 * (depth - 1) * l.w end

-- Returns the bytes of the gradients, which are reduced over d data ranks by each of p tensor ranks, and with zero = 3
-- of the gathered weights. A weight that the tensor axis shards has 1 / p of its bytes on each rank.
local function bytes_of_weights(m, t, recipe, p, d)
  local sum = 0
  for name, w in m:named_parameters() do
    local sharded = recipe.tensor and on_axis(t[name].sbp, recipe.tensor):sub(1, 1) == "S"
    sum = sum + 2 * (d - 1) * 8 * w:numel() * (sharded and 1 or p)
  end
  return sum
end

-- Returns the bytes by the recipe's formula; nil: the recipe has none. Bytes of layers without a role, and weights
-- that ZeRO 3 gathers again for backward, are left out.
local function formula_of(m, t, inputs, recipe, place)
  if recipe.stages then return not recipe.data and not recipe.tensor and bytes_between(m, t, inputs, recipe.stages[2]) or nil end
  if type(recipe.data) == "table" then return nil end
  local list = type(recipe.tensor) == "table" and recipe.tensor or {recipe.tensor}
  local sizes = tap.list(list, function(a) return place.shape[a + 1] end)
  local method = recipe.sequence and "sequence" or recipe.method or ({[0] = "1d", "1d", "2d"})[#list]
  local outputs = list[({["2d"] = 2, ["2.5d"] = 2, ["3d"] = 2})[method] or 1]
  local sum = #list < 2 and bytes_of_weights(m, t, recipe, sizes[1] or 1, recipe.data and place.shape[recipe.data + 1] or 1) or 0
  for _, l in ipairs(layers_of(m, t, inputs, outputs)) do sum = sum + methods[method](l, table.unpack(sizes)) end
  return sum
end

-- Trains three steps. Returns four values: the losses, the result of explain(), the model, and the bytes by the
-- formula. recipe: a recipe of rille.parallel; "plan": the planner chooses. If the recipe has an input, a trace must
-- find the roles of layers, so classes state no roles.
local function train(kind, place, recipe, pieces)
  local plan = recipe == "plan"
  local m = make(kind, place, plan and "auto" or nil)
  for c, roles in pairs(roles_of) do c.parallel = not (recipe and recipe.input) and roles or nil end
  local t = not plan and recipe and rille.parallel(m, recipe)
  local opt = optim.AdamW(m:parameters(), {lr = 1e-2})
  local step = tap.training(opt, function(...)
    local given = {...}
    local labels = #given > 1 and given[#given].dtype == "i64" and table.remove(given)
    local y = m(table.unpack(given))
    return labels and cross_entropy(y, labels) or mean_square(y)
  end, {micro_batches = pieces, auto_parallel = plan, time_limit = plan and 0.05 or nil})
  rille.manual_seed(3)
  local inputs, losses = models[kind].inputs(pieces), {}
  for i, x in ipairs(inputs) do
    inputs[i] = x:to_global(i == #inputs and i > 1 and x.dtype == "i64" and rille.parallel.labels(m) or rille.parallel.input(m))
  end
  for i = 1, 3 do losses[i] = step(table.unpack(inputs)):item() end
  return losses, step:explain(), m, t and formula_of(m, t, inputs, recipe, place)
end

-- Columns: name, mesh, recipe ("layers" is replaced by the model's own), true if the bits are those of one device.
-- pieces: number of micro-batches. traced: roles are found in a trace.
-- products: the recipe needs models with column and row layers, because it splits their products in 2D or 3D.
-- bytes: least and most bytes that all ranks receive, as a multiple of the parameters' bytes, without the all-reduce
-- of the loss:
--
--   recipe, p ranks                 bytes
--   data, zero 1, zero 2            2 (p - 1): gradients and updated parameters
--   zero 3                          2 (p - 1) to 3 (p - 1): gathers weights again if backward reads them
--   zero 3, reshard = false         2 (p - 1)
--   HSDP, r replicas of s shards    r times the bytes for p = s, and 2 (r - 1) for the sum over replicas
local recipes = {
  {"data", P4, {data = 0}, bytes = {6, 6}},
  {"data over two axes", P22, {data = {0, 1}}, bytes = {6, 6}},
  {"zero 1", P4, {data = 0, zero = 1}, bytes = {6, 6}},
  {"zero 2", P4, {data = 0, zero = 2}, bytes = {6, 6}},
  {"zero 3", P4, {data = 0, zero = 3}, bytes = {6, 9}},
  {"HSDP, zero 1", P22, {data = {0, 1}, zero = 1, zero_axes = 1}, bytes = {6, 6}},
  {"HSDP, zero 2", P22, {data = {0, 1}, zero = 2, zero_axes = 0}, bytes = {6, 6}},
  {"HSDP, zero 3", P24, {data = {0, 1}, zero = 3, zero_axes = {1}}, bytes = {14, 20}},
  {"zero 3, gathers kept", P4, {data = 0, zero = 3, reshard = false}, bytes = {6, 6}},
  {"HSDP, gathers kept", P24, {data = {0, 1}, zero = 3, zero_axes = {1}, reshard = false}, bytes = {14, 14}},
  {"tensor", P2, {tensor = 0, layers = true}},
  {"data x tensor", P22, {data = 0, tensor = 1, layers = true}},
  {"tensor with sequence", P2, {tensor = 0, sequence = true, layers = true}},
  {"2D", P22, {tensor = {0, 1}, layers = true}, products = true},
  {"2.5D", P222, {tensor = {0, 1, 2}, method = "2.5d", layers = true}, products = true},
  {"3D", P222, {tensor = {0, 1, 2}, method = "3d", layers = true}, products = true},
  {"zero 3 x tensor", P22, {data = 1, tensor = 0, zero = 3, layers = true}},
  {"tensor by trace", P2, {tensor = 0, input = true}, traced = true},
  {"data x tensor by trace", P22, {data = 0, tensor = 1, input = true}, traced = true},
  {"zero 3 x tensor by trace", P22, {data = 1, tensor = 0, zero = 3, input = true}, traced = true},
  {"sequence by trace", P2, {tensor = 0, sequence = true, input = true}, traced = true},
  {"2D by trace", P22, {tensor = {0, 1}, input = true}, traced = true, products = true},
  {"3D by trace", P222, {tensor = {0, 1, 2}, method = "3d", input = true}, traced = true, products = true},
  {"tensor by trace, two micro-batches", P2, {tensor = 0, input = true}, traced = true, pieces = 2},
  {"stages x tensor by trace", P2, {stages = {P2, Q2}, tensor = 0, input = true}, traced = true},
  {"plan", P4, "plan"},
  {"stages", P1, {stages = {P1, Q1}}, true},
  {"stages x zero 2", P2, {stages = {P2, Q2}, data = 0, zero = 2}},
  {"stages x tensor", P2, {stages = {P2, Q2}, tensor = 0, layers = true}},
  {"data, two micro-batches", P2, {data = 0}, pieces = 2},
  {"zero 3, two micro-batches", P4, {data = 0, zero = 3}, pieces = 2},
  {"stages, two micro-batches", P1, {stages = {P1, Q1}}, pieces = 2},
}

local function recipe_for(kind, r)
  if r[3] == "plan" then return r[3] end
  local recipe = tap.with(r[3])
  if recipe.layers then recipe.layers = models[kind].layers end
  if recipe.stages then recipe.members = models[kind].members end
  if recipe.input then
    recipe.input = models[kind].inputs(r.pieces)
    local last = recipe.input[#recipe.input]
    if #recipe.input > 1 and last.dtype == "i64" then table.remove(recipe.input) end -- labels
  end
  return recipe
end

-- Compares the bytes of a recipe with tensor axes with its formula. The loss may add a few numbers per token, and ZeRO 3
-- may gather each weight again for backward. Methods that shard activations and weights add the norms, biases, and
-- layers without a role. held: bytes of the parameters.
local function check_tensor_bytes(name, kind, r, moved, formula, held)
  local loss <const>, gathers = 64 + 40 * 32, r[3].zero == 3 and 2 * held or 0
  local whole = type(r[3].tensor) == "number" and not r[3].sequence
  if whole and models[kind].rings then
    tap.ok(moved >= formula and moved <= formula + gathers + loss, name .. ": bytes are those of the formula", {moved, formula})
  elseif not whole and models[kind].blocks and not r.traced then
    tap.ok(moved >= formula and moved <= 1.6 * formula, name .. ": bytes are about those of the formula", {moved, formula})
  end
end

-- Prints the bytes of a step beside the bytes by the recipe's formula, and checks that both agree. by_formula: result
-- of formula_of().
local function check_bytes(name, kind, r, e, m, by_formula)
  local held, moved, plan = 0, e.bytes, r[3] == "plan"
  for _, p in ipairs(m:parameters()) do held = held + 8 * p:numel() end
  local formula = r.bytes and ("formula %d to %d"):format(r.bytes[1] * held, r.bytes[2] * held) or
    plan and ("cost %d ns, at least %d ns"):format(e.cost, e.bound) or
    by_formula and ("formula %d"):format(by_formula) or "no formula"
  tap.diag(("%s: %d bytes per step, %s"):format(name, moved, formula))
  if by_formula and r[3].tensor then check_tensor_bytes(name, kind, r, moved, by_formula, held) end
  if by_formula and r[3].stages then tap.is(moved, by_formula, name .. ": bytes are those of the formula") end
  if plan then tap.ok(e.bound <= e.cost, name .. ": no plan costs less than the bound") end
  if not r.bytes or models[kind].joined then return end
  -- Subtracts the bytes of cross-entropy, which sums over all ranks. VAE and U-Net have other losses.
  local labelled = kind ~= "VAE" and kind ~= "U-Net"
  local ratio = (moved - (labelled and 2 * (r[2].size - 1) * 8 or 0)) / held
  -- In recurrent cells, the two biases of a gate have a common gradient. The gradient is reduced once, so fewer bytes
  -- move than the formula counts.
  local least = r.bytes[1] * (models[kind].cells and 0.94 or 1)
  tap.ok(ratio >= least and ratio <= r.bytes[2], name .. ": bytes are those of the formula", ratio)
end

local kinds = tap.all(pairs(models))
table.sort(kinds)
for _, kind in ipairs(kinds) do
  tap.group(kind, function()
    local whole, in_pieces
    for _, r in ipairs(recipes) do
      if tap.share() then
        if not whole then
          whole = train(kind, P1)
          in_pieces = models[kind].joined and train(kind, P1, nil, 1) or whole
          tap.ok(whole[3] < whole[1], kind .. ": the loss falls on one device")
        end
        local want = r.pieces and in_pieces or whole
        local name = ("%s: %s"):format(kind, r[1])
        local got, e, m, by_formula = train(kind, r[2], recipe_for(kind, r), r.pieces)
        if r[4] then tap.is(got, want, name .. ": the bits of one device")
        else tap.near(got, want, name .. ": losses of one device", 1e-9, 1e-9) end
        check_bytes(name, kind, r, e, m, by_formula)
      end
    end
  end)
end

tap.group("one graph in micro-batches", function()
  local m = make("GAT", P1)
  local step = rille.graph(function(x, edges) return m(x, edges):sum() end, {micro_batches = 2})
  local x, edges = table.unpack(models.GAT.inputs())
  tap.fails(function() step(x, edges) end, {"combines rows of the batch", "micro_batches = 2"}, "each row reads all other rows")
end)

tap.done()
