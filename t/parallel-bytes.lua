-- Recipes hold and move what their formulas say: local shapes, bytes of every device and collectives of one transformer
-- block, forward and backward, and of an update, on meshes of up to 64 devices.
--
-- T tokens, width h, hidden 4h; W = 12 h^2 weights. Elements that a device receives, with what is gathered forward kept for
-- the backward pass:
--
--   1D                        8 (p-1)/p Th                       4 all-reduces
--   1D with sequence          8 (p-1)/p Th                       each of them a reduce-scatter and an all-gather
--   2D, q x r                 2 (r-1)/qr 4 Th + 2 (q-1)/qr W     q cuts rows; each side that moves does so once each way
--   2D in panels              the same
--   2.5D, q x q x d           2D with T/d tokens
--   3D, i x j x k             2 (j-1)/ijk 4 Th + 2 (k-1)/ijk 12 Th + 2 (i-1)/ijk W, on a cube of side l that is
--                             2 (l-1)/l^3 (16 Th + W); norms sum numbers a row, less than a twentieth of that here
--   data, d                   2 (d-1)/d of all parameters; with zero the same, as reduce-scatter and all-gather
local tap = dofile("t/tap.lua")
local rille = require "rille"
local nn, optim = rille.nn, rille.optim
local pin = require "rille.nn.pin"

local function mesh(kind, shape)
  local n = -1
  local function part(axis)
    if axis > #shape then n = n + 1; return n end
    local list = {}
    for k = 1, shape[axis] do list[k] = part(axis + 1) end
    return list
  end
  return rille.placement(kind, part(1))
end

local function block(place, recipe, h, heads)
  local net, whole = nn.Sequential(nn.TransformerBlock(h, heads)), {}
  for axis = 1, #place.shape do whole[axis] = "B" end
  net:to_global{placement = place, sbp = whole}
  rille.parallel(net, recipe)
  return net, pin.of[net[1]].output
end

-- "(P, S(0)) order (1, 0)" -> {"P", "S(0)", order = {1, 0}}
local function entries_of(sbp)
  local list = {}
  for letter, axis in sbp:gsub(" order.*", ""):gmatch("([SBP])%(?(%d?)") do
    list[#list + 1] = axis ~= "" and ("%s(%s)"):format(letter, axis) or letter
  end
  local order = sbp:match("order %((.*)%)")
  if order then
    list.order = {}
    for axis in order:gmatch("%d") do table.insert(list.order, math.tointeger(tonumber(axis))) end
  end
  return list
end

-- A gradient where it is deposited: as its parameter, but partial may stay where that is whole.
local function deposited(g, p)
  local want, has = entries_of(p.sbp), entries_of(g.sbp)
  for axis, e in ipairs(want) do
    if e == "B" and has[axis] == "P" then want[axis] = "P" end
  end
  return g:to_global{sbp = want}
end

-- The shape of a tensor's part on every rank of its mesh; nil where they are not alike.
local function part_of(t)
  local parts = t:shards()
  for _, part in ipairs(parts) do
    if table.concat(part.shape, " ") ~= table.concat(parts[1].shape, " ") then return nil end
  end
  return parts[1].shape
end

-- Elements that all devices receive of activations and weights, how many such moves there are; then those of numbers a row
-- (statistics of norms, floats or bytes), and of vectors (biases, weights of norms). Then of activations and weights what each device
-- receives, nil where they are not alike, and how many collectives of each kind there are; at last what a device holds.
local function moved(shape, recipe, b, s, h, heads)
  local place = mesh("meta", shape)
  local net, stream = block(place, recipe, h, heads)
  local x = rille.zeros({b, s, h}, {placement = place, sbp = stream, requires_grad = true})
  local y = net(x)
  local params = net:parameters()
  local grads = {rille.grad((y * rille.zeros({b, s, h}, {placement = place, sbp = stream})):sum(), {x, table.unpack(params)})}
  for i, p in ipairs(params) do grads[i + 1] = deposited(grads[i + 1], p) end
  local elements, count, rows, vectors, received, kinds = 0, {activations = 0, weights = 0}, 0, 0, {}, {}
  local e = rille.explain(y, table.unpack(grads))
  for _, move in ipairs(e.boxing) do
    local n, what = move.bytes // 4, #move.shape == 3 and "activations" or "weights"
    if #move.shape == 1 then vectors = vectors + n
    elseif move.shape[#move.shape] == 1 or move.dtype == "u8" then rows = rows + n
    elseif n > 0 then
      elements, count[what] = elements + n, count[what] + 1
      kinds[move.name] = (kinds[move.name] or 0) + 1
      if not move.received[0] then print("#", move.text, move.from, move.to) end
      for _, rank in ipairs(place.ranks) do received[rank] = (received[rank] or 0) + move.received[rank] // 4 end
    end
  end
  local each = received[0] or 0
  for _, n in pairs(received) do each = n == each and n or nil end
  local m = net[1]
  local held = {stream = part_of(x), columns = part_of(m.fc1.weight), rows = part_of(m.fc2.weight)}
  for _, op in ipairs(e.ops) do held.wide = held.wide or op.name == "gelu" and op.results[1].part or nil end
  return elements, count, rows, vectors, each, kinds, held
end

-- want: of one device; over all devices it is a whole number. held: what a device holds of the stream between blocks, of a
-- column layer's weight, h to 4h, of a row layer's, and of what stands between these two, as divisors of their dimensions.
local function expect(what, shape, recipe, sizes, want, activations, weights, kinds, held)
  local b, s, h, heads = table.unpack(sizes)
  local devices = 1
  for _, n in ipairs(shape) do devices = devices * n end
  local elements, count, rows, vectors, each, found, has = moved(shape, recipe, b, s, h, heads)
  local name, formula = ("%s on %s"):format(what, table.concat(shape, " x ")), want(b * s * h, 12 * h * h) * devices
  tap.is(elements, formula, name .. ": elements over all devices are the formula's")
  tap.is(count, {activations = activations, weights = weights}, name .. ": in so many moves")
  tap.is({rows * 20 <= formula, vectors}, {true, 0}, name .. ": norms and biases move next to nothing")
  tap.is({each, found}, {formula / devices, kinds}, name .. ": each device receives as much, by these collectives")
  local function divided(of, by) return {of[1] // by[1], of[2] // by[2], of[3] and of[3] // by[3]} end
  tap.is(has, {stream = divided({b, s, h}, held[1]), columns = divided({4 * h, h}, held[2]), rows = divided({h, 4 * h}, held[3]),
    wide = divided({b, s, 4 * h}, held[4])},
    name .. ": and holds the formula's share")
end

-- As many all-gathers as reduce-scatters.
local function pairs_of(n) return n > 0 and {["all-gather"] = n, ["reduce-scatter"] = n} or {} end

tap.group("1D", function()
  for _, p in ipairs{2, 4, 8, 9, 16, 64} do
    local heads = p == 9 and 9 or 64
    local sizes, rest = {2, 4 * p, 2 * heads, heads}, {{p, 1}, {1, p}, {1, 1, p}}
    local function formula(Th) return 8 * (p - 1) * (Th // p) end
    expect("1D", {p}, {tensor = 0}, sizes, formula, 4, 0, {["all-reduce"] = 4}, {{1, 1, 1}, table.unpack(rest)})
    expect("1D with sequence", {p}, {tensor = 0, sequence = true}, sizes, formula, 8, 0, pairs_of(4), {{1, p, 1}, table.unpack(rest)})
  end
  -- more tokens than the width: a rule that looks at one product alone would move the weights
  expect("1D, long", {4}, {tensor = 0}, {4, 256, 16, 4}, function(Th) return 6 * Th end, 4, 0, {["all-reduce"] = 4},
    {{1, 1, 1}, {4, 1}, {1, 4}, {1, 1, 4}})
  expect("data x 1D", {2, 4}, {data = 0, tensor = 1}, {4, 16, 32, 4}, function(Th) return 8 * 3 * (Th // 2 // 4) end, 4, 0,
    {["all-reduce"] = 4}, {{2, 1, 1}, {4, 1}, {1, 4}, {2, 1, 4}})
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

-- What a device needs beside its parts of the operands: never more than two panels of them, whatever their number, a sum so
-- far, a product and the next sum.
tap.group("panels in memory", function()
  local panels = require "rille.nn.panels"
  local P, m, k, n = rille.placement("cpu", {{0, 1}, {2, 3}}), 512, 1024, 256
  for _, count in ipairs{1, 2, 4, 8, 16} do
    local x = rille.randn({4, m // 4, k}, {placement = P, sbp = {"S(0)", "S(2)"}})
    local w = rille.randn({n, k}, {placement = P, sbp = {"S(1)", "S(0)"}})
    local step = rille.graph(function(v) return panels.product(v, w, {"B", "S(0)"}, count) end)
    step(x)
    local leaves, sum, panel = (m + n) * k, m * n, (m + n) * k * 2 // count
    local most = 0
    for _, device in ipairs(step:stats().devices) do most = math.max(most, device.peak_memory) end
    tap.ok(most <= leaves + 3 * sum + 2 * panel, ("%d panels: two at a time at most"):format(count), most)
  end
end)

-- SUMMA's panels: the same bytes in more moves; q, k and v share their input's. Norms sum statistics instead of gathering.
tap.group("panels", function()
  for _, shape in ipairs{{2, 2}, {3, 3}, {2, 4}, {4, 4}, {8, 8}} do
    local q, r = shape[1], shape[2]
    local b, s, h, count = q * r, 16, 4 * q * r, 2
    local elements, _, rows, vectors = moved(shape, {tensor = {0, 1}, panels = count}, b, s, h, q * r)
    local Th, W, name = b * s * h, 12 * h * h, ("%d panels on %d x %d"):format(count, q, r)
    tap.is(elements, 2 * (r - 1) * 4 * Th + 2 * (q - 1) * W, name .. ": elements over all devices are the formula's")
    tap.ok((rows + vectors) * 5 <= elements, name .. ": norms and biases move little")
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

-- The best dataflow of 2D is fully sharded data parallel over rows and 1D with sequence over columns.
tap.group("equal ways", function()
  local sizes = {16, 8, 32, 16}
  local two = moved({4, 4}, {tensor = {0, 1}}, table.unpack(sizes))
  local zero = moved({4, 4}, {data = 0, tensor = 1, sequence = true, zero = 3}, table.unpack(sizes))
  tap.is(zero, two, "2D moves what ZeRO 3 over 1D with sequence does, norms and biases apart")
  local plain, nothing = (moved({1, 1}, {tensor = {0, 1}}, 2, 4, 16, 2)), moved({1, 1, 1}, {tensor = {0, 1, 2}, method = "3d"}, 2, 4, 16, 2)
  tap.is({plain, nothing}, {0, 0}, "one device moves nothing")
end)

-- A whole step: what parameters cost, with state and gradients as zero has them. Backward gathers again what it reads: no biases.
tap.group("updates", function()
  for _, d in ipairs{2, 4, 8} do
    for zero = 0, 3 do
      local place = mesh("cpu", {d})
      local net, stream = block(place, {data = 0, zero = zero}, 16, 2)
      local n, again = 0, 0
      for name, p in net:named_parameters() do
        n = n + p:numel()
        again = again + (zero == 3 and not name:find("bias$") and p:numel() or 0)
      end
      local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
      local x = rille.randn({d, 4, 16}, {placement = place, sbp = stream})
      local step = rille.graph(function(a) net(a):square():sum():backward(); opt:step(); opt:zero_grad() end)
      step(x)
      local name, bytes = ("data over %d, zero %d: "):format(d, zero), step:explain().bytes
      tap.is(bytes // 4, (d - 1) * (2 * n + again), name .. "every parameter goes each way once, and once more for backward with 3")
      tap.is(bytes, tap.received(step), name .. "which actors count")
    end
  end
end)

tap.done()
