-- bytes.lua - tests that the memory and the moved bytes of recipes follow their formulas.
--
-- Checks local shapes, bytes of every device and collectives: of one transformer block, forward and backward; of an
-- embedding table, a head and a loss; of stages; and of an update, on meshes of up to 64 devices.
--
-- A block has T tokens, width h, hidden width 4h and W = 12 h^2 weights. The table has the elements that a device
-- receives, if gathered values are kept from forward to backward:
--
--   1D                        8 (p-1)/p Th                       4 all-reduces
--   1D with sequence          8 (p-1)/p Th                       4 pairs of reduce-scatter and all-gather
--   2D, q x r                 2 (r-1)/qr 4 Th + 2 (q-1)/qr W     q splits rows; both operands move in both passes
--   2D in panels              as 2D
--   2.5D, q x q x d           2D with T/d tokens
--   3D, i x j x k             2 (j-1)/ijk 4 Th + 2 (k-1)/ijk 12 Th + 2 (i-1)/ijk W, on a cube of side l:
--                             2 (l-1)/l^3 (16 Th + W); sums of norms add less than a twentieth
--   data, d                   2 (d-1)/d of all parameters; with zero also, by reduce-scatter and all-gather
--   1D, key heads < p         1D, and 2 (p-1)/p of the key and value weights
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local pin = require "rille.nn.base.pin"

local function mesh(kind, shape)
  local n = -1
  local function part(axis)
    if axis > #shape then n = n + 1; return n end
    return tap.list(shape[axis], function() return part(axis + 1) end)
  end
  return rille.placement(kind, part(1))
end

local function block(place, recipe, h, heads)
  local net, whole = nn.Sequential(nn.TransformerBlock(h, heads)), tap.list(#place.shape, function() return "B" end)
  net:to_global{placement = place, sbp = whole}
  rille.parallel(net, recipe)
  return net, pin.of[net[1]].output
end

-- Parses a layout text: "(P, S(0)) order (1, 0)" -> {"P", "S(0)", order = {1, 0}}.
local function entries_of(sbp)
  local list = require "rille.base.layout".entries(sbp)
  local order = sbp:match("order %((.*)%)")
  if order then
    list.order = {}
    for axis in order:gmatch("%d") do table.insert(list.order, math.tointeger(tonumber(axis))) end
  end
  return list
end

-- Returns a gradient in its stored layout: the layout of the parameter, except that P may stay on axes where the
-- parameter has B.
local function deposited(g, p)
  local want, has = entries_of(p.sbp), entries_of(g.sbp)
  for axis, e in ipairs(want) do
    if e == "B" and has[axis] == "P" then want[axis] = "P" end
  end
  return g:to_global{sbp = want}
end

-- Returns the shape of a tensor's shards; nil if shards have different shapes.
local function part_of(t)
  local parts = t:shards()
  for _, part in ipairs(parts) do
    if table.concat(part.shape, " ") ~= table.concat(parts[1].shape, " ") then return nil end
  end
  return parts[1].shape
end

-- Sums up the moves that explain() reports, each in elements. elements: activations and weights that all devices
-- receive; each: the same per device, nil if devices differ; rows: values with a few numbers per row, such as
-- statistics of norms; vectors: biases and weights of norms. count: number of moves by value. kinds: number of
-- collectives by kind.
local function tally(e, place)
  local sum, received = {elements = 0, count = {activations = 0, weights = 0}, rows = 0, vectors = 0, kinds = {}}, {}
  for _, move in ipairs(e.boxing) do
    local n, what = move.bytes // 4, #move.shape == 3 and "activations" or "weights"
    if #move.shape < 2 then sum.vectors = sum.vectors + n
    elseif move.shape[#move.shape] == 1 or move.dtype == "u8" then sum.rows = sum.rows + n
    elseif n > 0 then
      sum.elements, sum.count[what] = sum.elements + n, sum.count[what] + 1
      sum.kinds[move.name] = (sum.kinds[move.name] or 0) + 1
      for _, rank in ipairs(place.ranks) do received[rank] = (received[rank] or 0) + move.received[rank] // 4 end
    end
  end
  sum.each = received[0] or 0
  for _, n in pairs(received) do sum.each = n == sum.each and n or nil end
  return sum
end

-- Returns the gradients of params in their stored layouts, then the gradient of x.
local function gradients(y, params, x)
  local leaves = table.move(params, 1, #params, 1, {})
  leaves[#leaves + 1] = x
  local grads = {rille.grad(y, leaves)}
  for i, p in ipairs(params) do grads[i] = deposited(grads[i], p) end
  return grads
end

-- Returns the tally of one block, and the shapes of shards on a device.
local function moved(shape, recipe, b, s, h, heads)
  local place = mesh("meta", shape)
  local net, stream = block(place, recipe, h, heads)
  local x = rille.zeros({b, s, h}, {placement = place, sbp = stream, requires_grad = true})
  local y = net(x)
  local grads = gradients((y * rille.zeros({b, s, h}, {placement = place, sbp = stream})):sum(), net:parameters(), x)
  local e, m = rille.explain(y, table.unpack(grads)), net[1]
  local held = {stream = part_of(x), columns = part_of(m.fc1.weight), rows = part_of(m.fc2.weight)}
  for _, op in ipairs(e.ops) do held.wide = held.wide or op.name == "gelu" and op.results[1].part or nil end
  return tally(e, place), held
end

-- Checks one recipe. want: function that returns the elements per device by the formula, which multiplied by the
-- number of devices must be an integer. held: for four tensors, the number by which each dimension is divided: the
-- stream between blocks, a column layer's weight (h to 4h), a row layer's weight, and the value between these two
-- layers.
local function expect(what, shape, recipe, sizes, want, activations, weights, kinds, held)
  if not tap.share() then return end
  local b, s, h, heads = table.unpack(sizes)
  local devices = tap.numel(shape)
  local sum, has = moved(shape, recipe, b, s, h, heads)
  local name, formula = ("%s on %s"):format(what, table.concat(shape, " x ")), want(b * s * h, 12 * h * h) * devices
  tap.is(sum.elements, formula, name .. ": elements over all devices equal the formula")
  tap.is(sum.count, {activations = activations, weights = weights}, name .. ": number of moves")
  tap.is({sum.rows * 20 <= formula, sum.vectors}, {true, 0}, name .. ": norms and biases move little")
  tap.is({sum.each, sum.kinds}, {formula / devices, kinds}, name .. ": each device receives the same bytes, by the expected collectives")
  local function divided(of, by) return {of[1] // by[1], of[2] // by[2], of[3] and of[3] // by[3]} end
  tap.is(has, {stream = divided({b, s, h}, held[1]), columns = divided({4 * h, h}, held[2]), rows = divided({h, 4 * h}, held[3]),
    wide = divided({b, s, 4 * h}, held[4])},
    name .. ": a device holds the shapes of the formula")
end

-- Returns the expected counts of collectives: n all-gathers and n reduce-scatters.
local function pairs_of(n) return n > 0 and {["all-gather"] = n, ["reduce-scatter"] = n} or {} end

tap.group("1D", function()
  for _, p in ipairs{2, 4, 8, 9, 16, 64} do
    local heads = p == 9 and 9 or 64
    local sizes, rest = {2, 4 * p, 2 * heads, heads}, {{p, 1}, {1, p}, {1, 1, p}}
    local function formula(Th) return 8 * (p - 1) * (Th // p) end
    expect("1D", {p}, {tensor = 0}, sizes, formula, 4, 0, {["all-reduce"] = 4}, {{1, 1, 1}, table.unpack(rest)})
    expect("1D with sequence", {p}, {tensor = 0, sequence = true}, sizes, formula, 8, 0, pairs_of(4), {{1, p, 1}, table.unpack(rest)})
  end
  -- Tries numbers of heads that the ranks do not divide. Heads stay complete, so nothing else moves.
  for _, heads in ipairs{3, 5, 7, 9} do
    for p = 2, 4 do
      local sizes, rest = {2, 4 * p, 12 * heads, heads}, {{p, 1}, {1, p}, {1, 1, p}}
      local function formula(Th) return 8 * (p - 1) * (Th // p) end
      expect(heads .. " heads, 1D", {p}, {tensor = 0}, sizes, formula, 4, 0, {["all-reduce"] = 4}, {{1, 1, 1}, table.unpack(rest)})
      expect(heads .. " heads, 1D with sequence", {p}, {tensor = 0, sequence = true}, sizes, formula, 8, 0, pairs_of(4),
        {{1, p, 1}, table.unpack(rest)})
    end
  end
  -- Tries more tokens than the width. A rule that looked at each product alone would then move weights instead of
  -- activations.
  expect("1D, long", {4}, {tensor = 0}, {4, 256, 16, 4}, function(Th) return 6 * Th end, 4, 0, {["all-reduce"] = 4},
    {{1, 1, 1}, {4, 1}, {1, 4}, {1, 1, 4}})
  expect("data x 1D", {2, 4}, {data = 0, tensor = 1}, {4, 16, 32, 4}, function(Th) return 8 * 3 * (Th // 2 // 4) end, 4, 0,
    {["all-reduce"] = 4}, {{2, 1, 1}, {4, 1}, {1, 4}, {2, 1, 4}})
end)

-- Fewer key heads than ranks: the key and value weights are replicated, and their gradients, addends on all ranks, are
-- all-reduced over all p ranks. With one key head, these are the bytes of Megatron-LM, whose groups of ranks with
-- the same key head all-reduce its gradient. With k key heads, Megatron-LM's groups have p / k ranks and receive
-- 2 (p/k - 1) W bytes in place of 2 (p-1) W.
tap.group("fewer key heads than ranks", function()
  for _, c in ipairs{{8, 1, 4}, {8, 1, 8}, {8, 2, 4}, {8, 2, 8}, {8, 4, 8}, {16, 2, 8}, {8, 8, 8}, {8, 4, 4}} do
    if not tap.share() then goto next end
    local heads, kv_heads, p = table.unpack(c)
    local h, T, place = 4 * heads, 256, mesh("meta", {p})
    local net = nn.Sequential(nn.MultiheadAttention(h, heads, {kv_heads = kv_heads, bias = false})):to_global{placement = place, sbp = "B"}
    rille.parallel(net, {tensor = 0})
    local opt = optim.SGD(net:parameters(), {lr = 0.1})
    local step = rille.graph(function(x)
      local loss = net(x):square():sum()
      loss:backward()
      opt:step()
      opt:zero_grad()
      return loss
    end)
    step(rille.zeros({2, T // 2, h}, {placement = place, sbp = "B"}))
    local W, sum = 4 * 2 * h * 4 * kv_heads, {} -- bytes of both weights; bytes of moves by rank of the value
    for _, move in ipairs(step:explain().boxing) do sum[#move.shape] = (sum[#move.shape] or 0) + move.bytes end
    local name = ("%d heads, %d key heads, %d ranks: "):format(heads, kv_heads, p)
    tap.is(sum[3], 2 * (p - 1) * T * h * 4, name .. "one all-reduce of activations")
    tap.is(sum[2] or 0, kv_heads % p == 0 and 0 or 2 * (p - 1) * W, name .. "gradients of the key and value weights are all-reduced")
    ::next::
  end
end)

tap.group("2D", function()
  for _, shape in ipairs{{1, 2}, {2, 1}, {2, 2}, {3, 3}, {4, 4}, {8, 8}, {2, 4}, {4, 2}, {9, 1}, {1, 16}, {2, 32}} do
    local q, r = shape[1], shape[2]
    local a, w = r > 1 and 8 or 0, q > 1 and 12 or 0
    expect("2D", shape, {tensor = {0, 1}}, {q * r, 4, 2 * q * r, q * r}, function(Th, W)
      return (2 * (r - 1) * 4 * Th + 2 * (q - 1) * W) // (q * r)
    end, a, w, pairs_of((a + w) // 2), {{q, 1, r}, {r, q}, {q, r}, {q, 1, r}})
  end
end)

-- Checks the peak memory of a product in panels, in addition to the operands' shards. For any number of panels, the
-- peak may include two panels of each operand, the sum so far, a product, the next sum, and the kernel's scratch
-- memory.
tap.group("panels in memory", function()
  local panels = require "rille.nn.base.panels"
  local P, m, k, n = rille.placement("cpu", {{0, 1}, {2, 3}}), 512, 1024, 256
  for _, count in ipairs{1, 2, 4, 8, 16} do
    if not tap.share() then goto next end
    local x = rille.randn({4, m // 4, k}, {placement = P, sbp = {"S(0)", "S(2)"}})
    local w = rille.randn({n, k}, {placement = P, sbp = {"S(1)", "S(0)"}})
    local step = rille.graph(function(v) return panels.product(v, w, {"B", "S(0)"}, count) end)
    step(x)
    local leaves, sum, panel = (m + n) * k, m * n, (m + n) * k * 2 // count
    local most, scratch = 0, {} -- scratch memory of the products' kernels, to subtract it
    for at, bytes in tostring(step:plan{physical = true}):gmatch("\ndevice %l+:(%d+) [^\n]*scratch at %d+ %+ (%d+) B") do
      scratch[at + 1] = math.tointeger(bytes)
    end
    for i, device in ipairs(step:stats().devices) do most = math.max(most, device.peak_memory - (scratch[i] or 0)) end
    tap.ok(most <= leaves + 3 * sum + 2 * panel, ("%d panels: at most two are held at a time"):format(count), most)
    ::next::
  end
end)

-- Checks SUMMA's panels. They must move the same bytes, in more moves. q, k and v must share the panels of their
-- input. Norms must sum statistics instead of gathering rows.
tap.group("panels", function()
  for _, shape in ipairs{{2, 2}, {3, 3}, {2, 4}, {4, 4}, {8, 8}} do
    if not tap.share() then goto next end
    local q, r = shape[1], shape[2]
    local b, s, h, count = q * r, 16, 4 * q * r, 2
    local sum = moved(shape, {tensor = {0, 1}, panels = count}, b, s, h, q * r)
    local Th, W, name = b * s * h, 12 * h * h, ("%d panels on %d x %d"):format(count, q, r)
    tap.is(sum.elements, 2 * (r - 1) * 4 * Th + 2 * (q - 1) * W, name .. ": elements over all devices equal the formula")
    tap.ok((sum.rows + sum.vectors) * 5 <= sum.elements, name .. ": norms and biases move little")
    ::next::
  end
end)

tap.group("2.5D", function()
  for _, shape in ipairs{{1, 1, 2}, {2, 2, 1}, {2, 2, 2}, {2, 2, 4}, {3, 3, 1}, {1, 1, 9}, {2, 2, 16}, {4, 4, 4}} do
    local q, d = shape[1], shape[3]
    local a, w = q > 1 and 8 or 0, q > 1 and 12 or 0
    expect("2.5D", shape, {tensor = {0, 1, 2}, method = "2.5d"}, {q * q * d, 4, 2 * q * q, q * q}, function(Th, W)
      return 2 * (q - 1) * (4 * Th // d + W) // (q * q)
    end, a, w, pairs_of((a + w) // 2), {{q * d, 1, q}, {q, q}, {q, q}, {q * d, 1, q}})
  end
end)

tap.group("3D", function()
  for _, shape in ipairs{{2, 2, 2}, {4, 4, 4}, {1, 1, 2}, {1, 2, 1}, {2, 1, 1}, {1, 2, 2}, {2, 1, 2}, {2, 2, 1}, {1, 3, 3}, {2, 2, 4},
    {4, 2, 2}, {2, 4, 8}} do
    local i, j, k = table.unpack(shape)
    local a, w = (j > 1 and 8 or 0) + (k > 1 and 12 or 0), i > 1 and 12 or 0
    local h = math.max(8, 64 // (i * j * k)) * i * j * k
    expect("3D", shape, {tensor = {0, 1, 2}, method = "3d"}, {i * j * k, 2, h, j}, function(Th, W)
      return (2 * (j - 1) * 4 * Th + 2 * (k - 1) * 12 * Th + 2 * (i - 1) * W) // (i * j * k)
    end, a, w, pairs_of((a + w) // 2), {{i * j, 1, k}, {j, i * k}, {k, i * j}, {i * k, 1, j}})
  end
end)

-- Checks that the best dataflow of 2D equals fully sharded data parallelism over rows, with 1D and sequence parallelism
-- over columns.
tap.group("equivalent recipes", function()
  local sizes = {16, 8, 32, 16}
  local two = moved({4, 4}, {tensor = {0, 1}}, table.unpack(sizes))
  local zero = moved({4, 4}, {data = 0, tensor = 1, sequence = true, zero = 3}, table.unpack(sizes))
  tap.is(zero.elements, two.elements, "2D moves the bytes of ZeRO 3 with 1D and sequence, without norms and biases")
  local plain = moved({1, 1}, {tensor = {0, 1}}, 2, 4, 16, 2)
  local nothing = moved({1, 1, 1}, {tensor = {0, 1, 2}, method = "3d"}, 2, 4, 16, 2)
  tap.is({plain.elements, nothing.elements}, {0, 0}, "one device moves nothing")
end)

-- Returns two numbers: the elements that a model moves outside its blocks, and how many of them belong to vectors.
-- Both are computed as 2 m(1) - m(2), where m(n) is the number for a model of n blocks. V: size of the vocabulary.
local function beside_blocks(shape, recipe, sizes, column)
  local b, s, h, heads, V = table.unpack(sizes)
  local place, sum = mesh("meta", shape), {}
  for layers = 1, 2 do
    local m = rille.models.llama.new{vocab = V, length = s, layers = layers, heads = heads, width = h, hidden = 4 * h,
      placement = place}
    local t = rille.parallel(m, recipe)
    if column then
      t["embed_tokens.weight"].sbp = "S(1)"
      rille.parallel(m, t)
    end
    local ids = rille.zeros({b, s}, {dtype = "i64", placement = place, sbp = rille.parallel.input(m).sbp})
    local labels = rille.zeros({b, s}, {dtype = "i64", placement = place, sbp = rille.parallel.labels(m).sbp})
    local loss = m(ids):reshape{-1, V}:cross_entropy(labels:reshape{-1})
    sum[layers] = tally(rille.explain(loss, table.unpack(gradients(loss, m:parameters()))), place)
  end
  return 2 * sum[1].elements - sum[2].elements, 2 * sum[1].vectors - sum[2].vectors
end

-- Checks elements per device for tables, heads and losses. A table split by rows (ids) gives partial rows, a table split
-- by columns a shard of each row. The head is a column layer; each device keeps the logits of its ids, and the loss sums
-- three numbers per token.
--
--   1D                        rows 2 (p-1)/p Th, columns (p-1)/p Th;  head 2 (p-1)/p Th
--   2D, 2.5D                  both: 2 (r-1)/qr Th/d + 2 (q-1)/qr Vh
--   3D                        table 2 (j-1)/ijk Th + 2 (i-1)/ijk Vh;  head that + 2 (k-1)/ijk TV
tap.group("tables, heads, losses", function()
  local function expect(what, shape, recipe, sizes, want, column)
    if not tap.share() then return end
    local b, s, h, _, V = table.unpack(sizes)
    local elements, vectors = beside_blocks(shape, recipe, sizes, column)
    local name = ("%s on %s"):format(what, table.concat(shape, " x "))
    tap.is(elements, want(b * s * h, V * h, b * s * V), name .. ": a table and a head move the bytes of the formulas")
    tap.ok(vectors <= tap.numel(shape) * 2 * 4 * b * s, name .. ": a loss moves a few numbers per token", vectors)
  end
  for _, p in ipairs{2, 4, 8, 9, 16, 64} do
    local heads = p == 9 and 9 or 64
    local sizes = {2, 4, 2 * heads, heads, 4 * p}
    expect("1D, a table of rows", {p}, {tensor = 0}, sizes, function(Th) return 4 * (p - 1) * Th end)
    expect("1D, a table of columns", {p}, {tensor = 0}, sizes, function(Th) return 3 * (p - 1) * Th end, true)
  end
  for _, shape in ipairs{{1, 2}, {2, 2}, {2, 4}, {3, 3}, {4, 4}, {8, 8}} do
    local q, r = shape[1], shape[2]
    expect("2D", shape, {tensor = {0, 1}}, {q * r, 4, 2 * q * r, q * r, 4 * q * r}, function(Th, Vh)
      return 4 * (r - 1) * Th + 4 * (q - 1) * Vh
    end)
  end
  for _, shape in ipairs{{1, 1, 2}, {2, 2, 1}, {2, 2, 2}, {3, 3, 1}, {2, 2, 4}, {4, 4, 4}} do
    local q, d = shape[1], shape[3]
    expect("2.5D", shape, {tensor = {0, 1, 2}, method = "2.5d"}, {q * q * d, 4, 2 * q * q, q * q, 4 * q * q}, function(Th, Vh)
      return 4 * (q - 1) * (Th + d * Vh)
    end)
  end
  for _, shape in ipairs{{1, 1, 2}, {1, 2, 2}, {2, 2, 2}, {1, 3, 3}, {2, 2, 4}, {4, 4, 4}} do
    local i, j, k = table.unpack(shape)
    local h = math.max(8, 64 // (i * j * k)) * i * j * k
    expect("3D", shape, {tensor = {0, 1, 2}, method = "3d"}, {i * j * k, 2, h, j, 4 * i * j * k}, function(Th, Vh, TV)
      return 4 * (j - 1) * Th + 4 * (i - 1) * Vh + 2 * (k - 1) * TV
    end)
  end
end)

-- Returns the bytes of a step's moves, the bytes per device (nil if devices differ), and the number of moves of each
-- kind.
local function of_step(step, place)
  local kinds, each, e = {}, nil, step:explain()
  for _, rank in ipairs(place.ranks) do
    local n = tap.sum(e.boxing, function(move) return (move.received[rank] or 0) * move.times end)
    if each and each ~= n then return e.bytes end
    each = n
  end
  for _, move in ipairs(e.boxing) do
    if move.bytes > 0 then kinds[move.name] = (kinds[move.name] or 0) + move.times end
  end
  return e.bytes, each, kinds
end

-- Checks a complete step, whose parameters, state and gradients are sharded by zero. With zero 3, backward gathers
-- parameters a second time, except biases, because backward does not read biases.
tap.group("updates", function()
  for _, d in ipairs{2, 4, 8, 9, 16, 64} do
    for zero = 0, 3 do
      if not tap.share() then goto next end
      local place = mesh(d <= 8 and "cpu" or "meta", {d})
      local net, stream = block(place, {data = 0, zero = zero}, 2 * d, 2)
      local n, again, count, read = 0, 0, 0, 0
      for name, p in net:named_parameters() do
        n, count = n + p:numel(), count + 1
        if zero == 3 and not name:find("bias$") then again, read = again + p:numel(), read + 1 end
      end
      local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
      local x = rille.randn({d, 4, 2 * d}, {placement = place, sbp = stream})
      local step = rille.graph(function(a) net(a):square():sum():backward(); opt:step(); opt:zero_grad() end)
      step(x)
      local name, bytes, each, kinds = ("data over %d, zero %d: "):format(d, zero), of_step(step, place)
      tap.is(bytes // 4, (d - 1) * (2 * n + again), name .. "every parameter moves once each way, and once more for backward with zero 3")
      local sums = {["reduce-scatter"] = count, ["all-gather"] = count + read}
      tap.is({each, kinds}, {bytes // d, zero == 0 and {["all-reduce"] = count} or sums},
        name .. "each device receives the same bytes, by one collective per parameter")
      if place.device == "cpu" then tap.is(bytes, tap.received(step), name .. "reported bytes are those that actors count") end
      ::next::
    end
  end
end)

-- Checks moves between stages: an activation is sent forward and its gradient back, from each device to the device with
-- the same index.
tap.group("stages", function()
  for _, n in ipairs{{2, 1}, {4, 1}, {8, 1}, {9, 1}, {16, 1}, {64, 1}, {4, 2}, {8, 8}} do
    if not tap.share() then goto next end
    local stages, d = table.unpack(n)
    local places, blocks, h, T = {}, {}, 8, 4 * 8 * d
    for k = 1, stages do
      local ranks = tap.list(d, function(i) return (k - 1) * d + i - 1 end)
      places[k], blocks[k] = rille.placement("meta", ranks), nn.TransformerBlock(h, 2)
    end
    local net = nn.Sequential(table.unpack(blocks)):to_global{placement = places[1], sbp = "B"}
    rille.parallel(net, {stages = places, data = 0})
    local x = rille.zeros({4 * d, 8, h}, {placement = places[1], sbp = "S(0)", requires_grad = true})
    local y = net(x)
    local e = rille.explain(y, (rille.grad((y * 2):sum(), {x})))
    local sum, kinds = 0, {}
    for _, move in ipairs(e.boxing) do
      if move.bytes > 0 and #move.shape == 3 then sum, kinds[move.name] = sum + move.bytes // 4, (kinds[move.name] or 0) + 1 end
    end
    tap.is({sum, kinds}, {2 * (stages - 1) * T * h, {permute = 2 * (stages - 1)}},
      ("%d stages of %d: every stage boundary is crossed once each way"):format(stages, d))
    ::next::
  end
end)

tap.done()
