-- traced.lua - tests rille.parallel with input = x: roles of layers that a trace of the model finds.
--
-- A step must move the bytes of the all-reduces that the roles need: one of each row layer's result, and one of the
-- gradient of each column layer's input. An all-reduce of n bytes over p ranks moves 2 (p - 1) n bytes.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local function mesh(p) return rille.placement("meta", tap.ranks(p)) end


-- Returns the bytes that forward and backward move between devices, with each gradient converted to the layout of its
-- parameter.
local function bytes_of(m, place, ...)
  local y = m(...)
  local weights = m:parameters()
  local grads = table.pack(rille.grad(y:square():sum(), weights))
  for k, g in ipairs(grads) do grads[k] = g:to_global{placement = place, sbp = weights[k].sbp} end
  return rille.explain{y, table.unpack(grads)}.bytes
end

local function laid(m, p) return m:to_global{placement = mesh(p), sbp = "B"} end
local function sbp_of(t, names) return tap.list(names, function(name) return t[name].sbp end) end

tap.group("a stack of layers", function()
  for n = 1, 5 do
    for _, p in ipairs{2, 4, 8} do
      local layers, want, names, rows, h = {}, {}, {}, 4, 32
      for k = 1, n do
        layers[2 * k - 1], layers[2 * k], names[k] = nn.Linear(h, h), nn.ReLU(), ("%d.weight"):format(2 * k - 2)
        want[k] = k % 2 == 1 and "S(0)" or "S(1)"
      end
      local m = laid(nn.Sequential(table.unpack(layers)), p)
      local t = rille.parallel(m, {tensor = 0, input = rille.zeros{rows, h}})
      if n % 2 == 1 then want[n] = t[names[n]].sbp end -- a last layer without a partner may be a row layer, too
      tap.is(sbp_of(t, names), want, ("%d layers over %d ranks are columns and rows by turns"):format(n, p))
      -- number of all-reduces: one for each row layer (n / 2), and one for the input of each column layer except the
      -- first, whose input needs no gradient
      local rings = n // 2 + math.max(0, n // 2 - 1)
      if n % 2 == 0 then
        tap.is(bytes_of(m, mesh(p), rille.zeros({rows, h}, {placement = mesh(p)})), rings * 2 * (p - 1) * 4 * rows * h,
          ("%d layers over %d ranks move the bytes of %d rings"):format(n, p, rings))
      end
    end
  end
end)

local Attention = tap.class("Attention", function(self, d, heads)
  self.heads, self.q, self.k, self.v, self.o = heads, nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
end, function(self, x)
  local n, t, d = table.unpack(x.shape)
  local function split(y) return y:reshape{n, t, self.heads, d // self.heads}:permute{0, 2, 1, 3} end
  local scores = split(self.q(x)):matmul(split(self.k(x)):transpose(2, 3)):softmax(-1)
  return self.o(scores:matmul(split(self.v(x))):permute{0, 2, 1, 3}:reshape{n, t, d})
end)
local Block = tap.class("Block", function(self, d, heads)
  self.norm1, self.norm2, self.attention = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, heads)
  self.mlp = {gate = nn.Linear(d, 2 * d), up = nn.Linear(d, 2 * d), down = nn.Linear(2 * d, d)}
end, function(self, x)
  x = x + self.attention(self.norm1(x))
  local h = self.norm2(x)
  return x + self.mlp.down(self.mlp.gate(h):silu() * self.mlp.up(h))
end)
local Stack = tap.class("Stack", function(self, n, d, heads)
  self.groups = {{}, {}}
  for k = 1, n do table.insert(self.groups[k % 2 + 1], Block(d, heads)) end
end, function(self, x)
  for _, group in ipairs(self.groups) do
    for _, block in ipairs(group) do x = block(x) end
  end
  return x
end)

tap.group("blocks", function()
  for _, case in ipairs{{1, 2}, {3, 2}, {3, 4}, {24, 8}} do -- the model of 24 blocks has 432 parameters
    local n, p = table.unpack(case)
    local m, rows, length, d = laid(Stack(n, 16, 8), p), 2, 4, 16
    local t = rille.parallel(m, {tensor = 0, input = rille.zeros{rows, length, d}})
    local good = true
    for path in m:named_modules() do
      local name = path:match("%.(%a+)$")
      local entry, want = t[path .. ".weight"], ({q = "S(0)", k = "S(0)", v = "S(0)", gate = "S(0)", up = "S(0)", o = "S(1)", down = "S(1)"})[name]
      good = good and (not want or entry.sbp == want)
    end
    tap.ok(good, ("%d blocks over %d ranks: each block has the same columns and rows"):format(n, p), t)
    tap.is(bytes_of(m, mesh(p), rille.zeros({rows, length, d}, {placement = mesh(p)})), n * 4 * 2 * (p - 1) * 4 * rows * length * d,
      ("%d blocks over %d ranks move the bytes of four rings each"):format(n, p))
    local lines = select(2, tostring(t):gsub("found in the trace", ""))
    tap.is(lines, 2, "the table reports the chain of attention and that of the MLP once")
  end
end)

-- A user's layer stores its weight as (in, out).
local Dense = tap.class("Dense", function(self, n_in, n_out)
  self.w, self.b = rille.randn({n_in, n_out}, {requires_grad = true}), rille.zeros({n_out}, {requires_grad = true})
end,
  function(self, x) return x:matmul(self.w) + self.b end)

tap.group("layers of one's own", function()
  local m = laid(nn.Sequential(Dense(16, 64), nn.ReLU(), Dense(64, 16)), 2)
  local t = rille.parallel(m, {tensor = 0, input = rille.zeros{4, 16}})
  tap.is(sbp_of(t, {"0.w", "0.b", "2.w"}), {"S(1)", "S(0)", "S(0)"}, "parameters are sharded along the dimensions that the trace uses", t)
  tap.is(bytes_of(m, mesh(2), rille.zeros({4, 16}, {placement = mesh(2)})), 2 * 4 * 4 * 16, "and move the bytes of one ring")
end)

-- A model whose forward has an option table and returns two results.
local Pair = tap.class("Pair", function(self) self.fc1, self.fc2 = nn.Linear(16, 64), nn.Linear(64, 16) end,
  function(self, x, options) return self.fc2(self.fc1(x):relu()) * (options and options.scale or 1), 5 end)

tap.group("calls of forward", function()
  local line, x = "found in the trace: fc1 column, fc2 row", rille.zeros{4, 16}
  local function finds(name, m, input)
    tap.ok(tap.has(tostring(rille.parallel(laid(m, 2), {tensor = 0, input = input})), line), name)
  end
  finds("several results", Pair(), x)
  finds("arguments that are no tensors", Pair(), {x, {scale = 2}})
  local again = Pair()
  again.fc1:recompute()
  finds("a layer that is recomputed", again, x)
  local hooked = Pair()
  hooked.fc1:register_forward_hook(function(_, _, y) return y * 2 end)
  finds("a layer with a hook", hooked, x)
  finds("16 bits", Pair():to("bf16"), rille.zeros({4, 16}, {dtype = "bf16"}))
  finds("a loss of one element", tap.class("Loss", Pair.init, function(self, v, y) return (Pair.forward(self, v)):cross_entropy(y) end)(),
    {x, rille.zeros({4}, {dtype = "i64"})})
  finds("a model that calls its layers twice", tap.class("Twice", Pair.init, function(self, v) return (Pair.forward(self, (Pair.forward(self, v)))) end)(), x)
end)

local MLP = tap.class("MLP", function(self) self.fc1, self.fc2, self.drop, self.out = nn.Linear(16, 64), nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 2) end,
  function(self, x) return self.out(self.drop(self.fc2(self.fc1(x):relu()))) end)

tap.group("the user's choice", function()
  local x = rille.zeros{4, 16}
  local m = laid(MLP(), 2)
  local t = rille.parallel(m, {tensor = 0, input = x, layers = {fc1 = "row", fc2 = "column"}})
  tap.is(sbp_of(t, {"fc1.weight", "fc2.weight"}), {"S(1)", "S(0)"}, "names in layers come before the trace")
  t["fc1.weight"].sbp = "B"
  tap.is(rille.parallel(m, t)["fc1.weight"].sbp, "B", "an entry of the table comes before both")
  MLP.parallel = {column = "fc2"}
  t = rille.parallel(m, {tensor = 0, input = x})
  tap.is(t["fc2.weight"].sbp, "S(0)", "roles of the class come before the trace")
  MLP.parallel = {column = {"fc1", "fc_2"}}
  tap.fails(function() rille.parallel(m, {tensor = 0}) end, {"MLP.parallel names 'fc_2'", "nearest name is 'fc2'"}, "a name that no module of the class has is an error")
  MLP.parallel = {column = {"fc1", "gate"}, row = "fc2"}
  local gated = tap.class("Gated", function(self) self.parts = {MLP(), MLP()}; self.parts[2].gate = nn.Linear(16, 64) end,
    function(self, v) return self.parts[1](v) + self.parts[2](v) end)()
  t = rille.parallel(laid(gated, 2), {tensor = 0})
  tap.is(sbp_of(t, {"parts.1.gate.weight", "parts.0.fc1.weight"}), {"S(0)", "S(0)"}, "a part that only some modules of the class have is none")
  MLP.parallel = nil
  tap.ok(tap.has(tostring(rille.parallel(m, {tensor = 0, input = x})), "found in the trace: fc1 column, fc2 row; moves 512 B per step",
    "replicated by the trace: out, because sharding would move "), "the table reports each decision with its bytes")
end)

tap.group("tables of tensors", function()
  -- a module of the model and the model itself return tables; the model's argument is a table, too
  local Inner = tap.class("Inner", function(self) self.mlp = MLP() end, function(self, x) return {y = self.mlp(x), all = {x}} end)
  local m = laid(tap.class("Tables", function(self) self.inner = Inner() end, function(self, batch)
    local out = self.inner(batch.x)
    return {rows = batch.x.shape[1], logits = out.y * batch.scale[1], out.all}
  end)(), 2)
  local t = rille.parallel(m, {tensor = 0, input = {{x = rille.zeros{4, 16}, scale = {rille.ones{}}}}})
  tap.is(sbp_of(t, {"inner.mlp.fc1.weight", "inner.mlp.fc2.weight"}), {"S(0)", "S(1)"}, "a model with tables gets the roles of its layers")
end)

tap.group("a trace changes nothing", function()
  local function after(trace)
    rille.manual_seed(5)
    local m = MLP():to_global{placement = rille.placement("cpu", {0, 1}), sbp = "B"}
    if trace then rille.parallel(rille.parallel(m, {tensor = 0, input = rille.zeros{4, 16}}) and m, {}) end
    for _, p in ipairs(m:parameters()) do p:to_global_{sbp = "B"} end
    return {m(rille.ones({4, 16}, {placement = m.fc1.weight.placement})):totable(), rille.randn{3}:totable()}
  end
  tap.near(after(true), after(false), "parameters and random numbers")
end)

tap.group("mistakes", function()
  local m = laid(MLP(), 2)
  local function refused(recipe, words, name, model) tap.fails(function() rille.parallel(model or m, recipe) end, words, name) end
  refused({tensor = 0}, {"no parameter of MLP is sharded", "pass an example of the model's input, input = x", "layers ="}, "no roles and no input")
  refused({data = 0, input = rille.zeros{4, 16}}, {"input is for tensor axes", "blocks = {input = x}"}, "an input without a tensor axis")
  refused({tensor = 0, input = 5}, {"input must be a tensor, or the list of the arguments", "found 5"}, "a number as input")
  refused({tensor = 0, input = {}}, {"input must be a tensor", "found a table"}, "an empty list")
  refused({tensor = 0, input = rille.zeros{4, 3}}, {"the model failed on meta devices", "nn.Linear: the last dimension of the input must be", "pass another input"}, "an input of another shape")
  tap.fails(function() rille.no_grad(rille.parallel, m, {tensor = 0, input = rille.zeros{4, 16}}) end, {"outside of rille.no_grad"}, "no gradients")
  local shape = laid(tap.class("Shape", function(self) self.fc = nn.Linear(4, 4) end, function(self, x) return {self.fc(x).shape, x:to("i64")} end)(), 2)
  refused({tensor = 0, input = rille.zeros{4, 4}}, {"the model must return a tensor of a float dtype, or a table with such tensors, found a table"},
    "a model that returns no tensor of a float dtype", shape)
  local frozen = laid(MLP(), 2)
  for _, p in ipairs(frozen:parameters()) do p:requires_grad_(false) end
  refused({tensor = 0, input = rille.zeros{4, 16}}, {"must return a tensor that depends on a parameter with requires_grad"}, "a frozen model", frozen)
  local reads = laid(tap.class("Reads", function(self) self.fc = nn.Linear(4, 4) end, function(self, x) return x * self.fc(x):sum():item() end)(), 2)
  refused({tensor = 0, input = rille.zeros{4, 4}}, {"no values", "name the layers"}, "a model that reads values", reads)
end)

local Tagger = tap.class("Tagger", function(self, vocab, width)
  self.embed, self.lstm, self.head = nn.Embedding(vocab, width), nn.LSTM(width, width, {num_layers = 2, bidirectional = true}), nn.Linear(2 * width, 5)
end, function(self, ids) return self.head((self.lstm(self.embed(ids)))) end)

tap.group("recurrent layers", function()
  local p, rows, length, width = 2, 2, 4, 64
  local ids = rille.zeros({rows, length}, {dtype = "i64"})
  local m = laid(Tagger(8, width), p)
  local t = rille.parallel(m, {tensor = 0, input = ids})
  for _, at in ipairs{"l0", "l0_reverse", "l1", "l1_reverse"} do
    tap.is(sbp_of(t, {"lstm.weight_ih_" .. at, "lstm.bias_ih_" .. at, "lstm.weight_hh_" .. at}), {"S(0)", "S(0)", "B"},
      at .. ": the products with the inputs are sharded, the recurrence is replicated")
  end
  -- each direction gathers its gates, and each layer all-reduces the gradient of its input once
  local gates, inputs = 4 * 4 * width, width + 2 * width
  tap.is(bytes_of(m, mesh(p), rille.zeros({rows, length}, {dtype = "i64", placement = mesh(p)})), (p - 1) * rows * length * 4 * (gates + 2 * inputs),
    "a step moves the gates once, and the gradients of the inputs")
end)

tap.group("models of which no layer pays", function()
  local m = laid(Tagger(8, 4), 2)
  local stderr, said = io.stderr, ""
  io.stderr = {write = function(_, ...) said = said .. table.concat{...} end}
  local t = rille.parallel(m, {tensor = 0, input = rille.zeros({8, 4}, {dtype = "i64"})})
  io.stderr = stderr
  tap.ok(tap.has(said, "no parameter of Tagger is sharded over mesh axis 0", "sharding would move more than it saves", "use a data axis"),
    "a warning names the axis, the reason and the remedy", said)
  tap.ok(tap.has(tostring(t), "replicated by the trace: head, because sharding would move"), "the table says why each layer is replicated")
  tap.is(t["lstm.weight_ih_l0"].sbp, "B", "the layers are replicated")
end)

tap.done()
