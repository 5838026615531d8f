-- uneven.lua - tests recipes of tensor parallelism if the number of ranks does not divide the number of heads.
--
-- A block with 3, 5, 7 or 9 heads, and as many heads of keys and values, or 1 or 3, is trained on 2, 3 and 4 ranks of
-- tensor axes, with sequence, data, 2D, 2.5D, 3D and ZeRO 3 recipes. Losses of three steps must equal those of one
-- device. With a tensor axis alone, attention must send the bytes of two all-reduces, and no rank may hold a part of a
-- head. Adapters, quantised weights and 16-bit products must have the values of one device, too.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"

local SIZE = 4 -- features of a head

-- Returns the placement of a mesh of this shape.
local function mesh(shape)
  local n = -1
  local function part(axis)
    if axis > #shape then n = n + 1; return n end
    return tap.list(shape[axis], function() return part(axis + 1) end)
  end
  return rille.placement("cpu", part(1))
end

local IDS = rille.randint(0, 23, {4, 6})

local function new(heads, kv_heads)
  rille.manual_seed(5)
  return rille.models.llama.new{vocab = 23, length = 12, layers = 1, heads = heads, kv_heads = kv_heads, width = SIZE * heads,
    hidden = 24, placement = mesh{1}}
end

-- Returns the losses of three compiled training steps.
local function losses(m, ids, labels)
  local optimizer = rille.optim.AdamW(m:parameters(), {lr = 0.01})
  local step = rille.graph(function(x, y)
    local loss = m(x):reshape{24, 23}:cross_entropy(y:reshape{24})
    loss:backward()
    optimizer:step()
    optimizer:zero_grad()
    return loss
  end)
  return tap.list(3, function() return step(IDS:to_global(ids), IDS:to_global(labels)):item() end)
end

local recipes = {
  {"tensor", function(n) return {n}, {tensor = 0} end},
  {"sequence", function(n) return {n}, {tensor = 0, sequence = true} end},
  {"tensor and data", function(n) return {2, n}, {data = 0, tensor = 1} end},
  {"2D", function(n) return {2, n}, {tensor = {0, 1}} end},
  {"2.5D", function() return {2, 2, 2}, {tensor = {0, 1, 2}, method = "2.5d"} end},
  {"3D", function(n) return {1, n, 2}, {tensor = {0, 1, 2}, method = "3d"} end},
  {"ZeRO 3", function(n) return {2, n}, {data = 0, tensor = 1, zero = 3} end},
}

-- ---- losses ----

local case = -1
for _, h in ipairs{{3, 3}, {3, 1}, {5, 5}, {7, 7}, {9, 9}, {9, 3}} do
  local want
  for n = 2, 4 do
    for _, recipe in ipairs(recipes) do
      case = case + 1
      if tap.share(case) then
        local here = {placement = mesh{1}, sbp = "B"}
        want = want or losses(new(h[1], h[2]), here, here)
        local shape, options = recipe[2](n)
        local m, P = new(h[1], h[2]), mesh(shape)
        m:to_global{placement = P, sbp = tap.list(#shape, function() return "B" end)}
        rille.parallel(m, options)
        tap.near(losses(m, rille.parallel.input(m), rille.parallel.labels(m)), want,
          ("%d and %d heads, %s on %d ranks: losses of one device"):format(h[1], h[2], recipe[1], n), 2e-4, 1e-5)
      end
    end
  end
end

-- ---- bytes ----

-- Returns the bytes that attention moves, forward and backward, and the shards of its weights.
local function moved(attention, P, heads)
  local x = rille.zeros({2, 6, SIZE * heads}, {placement = P, requires_grad = true})
  local y, leaves, bytes = attention(x):to_global{placement = P, sbp = "B"}, {x}, 0
  for _, p in ipairs(attention:parameters()) do leaves[#leaves + 1] = p end
  local grads = {rille.grad((y * y):sum(), leaves)}
  for i, p in ipairs(leaves) do grads[i] = grads[i]:to_global{placement = P, sbp = p.sbp} end
  for _, move in ipairs(rille.explain(y, table.unpack(grads)).boxing) do bytes = bytes + move.bytes end
  return bytes
end

local function cuts_heads(attention)
  for _, shard in ipairs(attention.q_proj.weight:shards()) do
    if shard.shape[1] % SIZE ~= 0 then return true end
  end
  return false
end

for _, h in ipairs{{3, 3}, {5, 5}, {7, 7}, {9, 9}, {9, 3}} do
  for n = 2, math.min(4, h[2]) do
    local m, P = new(h[1], h[2]), mesh{n}
    m:to_global{placement = P, sbp = "B"}
    rille.parallel(m, {tensor = 0})
    local attention, name = m.layers[1].attention, ("%d and %d heads on %d ranks: "):format(h[1], h[2], n)
    tap.is(moved(attention, P, h[1]), 2 * 2 * (n - 1) * 2 * 6 * SIZE * h[1] * 4, name .. "the bytes of two all-reduces")
    tap.ok(not cuts_heads(attention), name .. "no head is divided")
  end
end

-- ---- adapters, quantised weights, 16-bit products ----

do
  rille.manual_seed(2)
  local model = rille.models.llama.new{vocab = 23, length = 12, layers = 1, heads = 3, kv_heads = 3, width = 192, hidden = 64,
    placement = mesh{1}}
  local folder, one, two = tap.folder() .. "/model", mesh{1}, mesh{2}
  model:save(folder)
  local function result(P, quantize)
    local m = rille.models.load(folder, {placement = P, parallel = #P.ranks > 1 and {tensor = 0} or nil, quantize = quantize})
    return m(IDS:to_global{placement = P, sbp = "B"}):totable(), m
  end
  for _, quantize in ipairs{"none", "int8", "int4"} do
    local how = quantize ~= "none" and quantize or nil
    local got, m = result(two, how)
    tap.near(got, (result(one, how)), "3 heads on 2 ranks, quantize " .. quantize .. ": values of one device", 1e-3, 1e-4)
    if not how then
      local adapter = rille.nn.LoRA(m.layers[1].attention.q_proj, {r = 2})
      tap.is(adapter.lora_B.sbp, "S(0, unit 64)", "an adapter is split by heads like its layer")
    end
  end
  rille.autocast("bf16", function()
    tap.near((result(two)), (result(one)), "3 heads on 2 ranks in bf16: values of one device", 2e-2, 2e-2)
  end)
end
tap.done()
