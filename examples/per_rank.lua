-- per_rank.lua - attention over a sequence that is split over ranks, written per rank: a ring, and a balanced causal ring.
--
--   rille examples/per_rank.lua
--
-- Each rank keeps its queries. Keys and values travel around the ring, so each rank receives (n - 1) / n of both. The
-- softmax is updated block by block (Liu, Zaharia & Abbeel 2023). In a causal ring with contiguous shards the last rank has
-- the most work. In the zigzag order rank r has chunks r and 2n - 1 - r of 2n chunks, and all ranks have equal work.

local rille = require "rille"

-- Adds keys and values to a running softmax {top, sum, y}. mask: which keys a query sees; nil: all.
local function attend(state, q, k, v, mask)
  local scores = q:matmul(k:transpose(-1, -2)) * q.shape[4] ^ -0.5
  if mask then scores = mask:where(scores, -1e30) end
  local top = scores:max(-1, true):detach()
  if state then top = top:maximum(state.top) end
  local weights = (scores - top):exp()
  local new = {top = top, sum = weights:sum(-1, true), y = weights:matmul(v)}
  if not state then return new end
  local old = (state.top - top):exp()
  return {top = top, sum = new.sum + state.sum * old, y = new.y + state.y * old}
end

-- Returns ring attention of (batch, heads, length, size), with the length split over mesh axis 0.
local function ring(causal)
  return rille.per_rank(function(mesh, q, k, v)
    local n, length, state = mesh.placement.shape[1], q.shape[3], nil
    local here = mesh:replicated(rille.arange(length, {placement = mesh.placement}))
    local rows = (mesh:rank() * length + here):unsqueeze(1)
    for step = 0, n - 1 do
      local source = (mesh:rank() + (n - step)) % n -- the rank from which these keys come
      state = attend(state, q, k, v, causal and (source * length + here):le(rows) or nil)
      if step < n - 1 then k, v = mesh:shift(k), mesh:shift(v) end
    end
    return state.y / state.sum
  end, {inputs = {"S(2)", "S(2)", "S(2)"}, outputs = {"S(2)"}})
end

-- Returns the order of chunks in which causal work is balanced: 0, 2n - 1, 1, 2n - 2, ...
local function zigzag_order(n)
  local order = {}
  for r = 0, n - 1 do
    order[#order + 1] = r
    order[#order + 1] = 2 * n - 1 - r
  end
  return order
end

-- Returns causal ring attention of tensors in zigzag order. Per step, each rank computes 2 of 4 blocks of two chunks.
local function zigzag()
  return rille.per_rank(function(mesh, q, k, v)
    local n, half = mesh.placement.shape[1], q.shape[3] // 2
    local function both(x) return x:slice(2, 0, half), x:slice(2, half, 2 * half) end
    local q1, q2 = both(q)
    local seen = mesh:replicated(rille.ones({half, half}, {placement = mesh.placement}):tril():gt(0))
    local first, second
    for step = 0, n - 1 do
      local k1, k2 = both(k)
      local v1, v2 = both(v)
      second = attend(second, q2, k1, v1) -- an early chunk of keys: every late query sees all of it
      if step == 0 then
        first, second = attend(nil, q1, k1, v1, seen), attend(second, q2, k2, v2, seen)
      else
        -- true if the keys come from a lower rank. Then the early queries q1 see the early keys k1; otherwise the
        -- late queries q2 see the late keys k2.
        local before = mesh:rank():ge(step)
        local function pick(a, b) return before:where(a, b) end
        local old = {top = pick(first.top, second.top), sum = pick(first.sum, second.sum), y = pick(first.y, second.y)}
        local new = attend(old, pick(q1, q2), pick(k1, k2), pick(v1, v2))
        for _, key in ipairs{"top", "sum", "y"} do
          first[key], second[key] = before:where(new[key], first[key]), before:where(second[key], new[key])
        end
      end
      if step < n - 1 then k, v = mesh:shift(k), mesh:shift(v) end
    end
    return (first.y / first.sum):concat(second.y / second.sum, 2)
  end, {inputs = {"S(2)", "S(2)", "S(2)"}, outputs = {"S(2)"}})
end

if arg[0]:match("per_rank%.lua$") then -- run as a script, not by dofile
  rille.manual_seed(1)
  local P, n, x = rille.placement("cpu", {0, 1, 2, 3}), 4, {}
  for i = 1, 3 do x[i] = rille.randn({1, 2, 32, 8}, {placement = P, sbp = "S(2)"}) end
  local want = rille.scaled_dot_product_attention(x[1], x[2], x[3], {is_causal = true})
  local y = ring(true)(table.unpack(x))
  print("ring: difference from one device below 1e-5:", (y - want):abs():max():item() < 1e-5)
  print("bytes received:", rille.explain(ring(true)(table.unpack(x))).bytes, "(n - 1)/n of k and v per rank:", 2 * (n - 1) * 2 * 32 * 8 * 4)
end

return {ring = ring, zigzag = zigzag, zigzag_order = zigzag_order}
