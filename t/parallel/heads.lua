-- heads.lua - tests tensor parallelism of attention if the number of ranks does not divide the numbers of heads.
--
-- A Llama with 1, 2, 3, 5 or 8 heads of keys and values, and one or two query heads for each, runs on 2, 3, 4, 6 and
-- 8 ranks. Loss and gradients must equal those of one device, and so must ids that are generated with caches. Heads
-- of keys and values are split if the number of ranks divides their number; otherwise they are replicated.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local function ranks(n)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  return rille.placement("cpu", list)
end
rille.manual_seed(tap.seed(7))
local IDS, PROMPT = rille.randint(0, 37, {2, 6}), rille.randint(0, 37, {2, 4})

local function new(kv_heads, group)
  rille.manual_seed(3)
  local heads = kv_heads * group
  return rille.models.llama.new{vocab = 37, length = 12, layers = 1, heads = heads, kv_heads = kv_heads, width = 4 * heads, hidden = 28, placement = ranks(1)}
end

-- Returns the loss and the gradients, and the generated ids.
local function results(m, P)
  local x = IDS:to_global{placement = P, sbp = "B"}
  local loss = m(x):reshape{12, 37}:cross_entropy(x:reshape{12})
  loss:backward()
  local list = {loss:item()}
  for i, p in ipairs(m:parameters()) do list[i + 1] = p.grad:totable() end
  return list, m:generate(PROMPT:to_global{placement = P, sbp = "B"}, {max_new_tokens = 5, temperature = 0}):totable()
end

local case = -1
for _, kv_heads in ipairs{1, 2, 3, 5, 8} do
  for group = 1, 2 do
    local want, ids
    for _, n in ipairs{2, 3, 4, 6, 8} do
      case = case + 1
      if tap.share(case) then
        if not want then want, ids = results(new(kv_heads, group), ranks(1)) end
        local m, name = new(kv_heads, group), ("%d x %d heads on %d ranks: "):format(kv_heads, group, n)
        local P = ranks(n)
        m:to_global{placement = P, sbp = "B"}
        local layouts = rille.parallel(m, {tensor = 0, sequence = case % 2 == 0})
        tap.is(layouts["layers.0.attention.k_proj.weight"].sbp, kv_heads % n == 0 and "S(0)" or "B", name .. "layout of keys")
        local got, new_ids = results(m, P)
        tap.near(got, want, name .. "loss and gradients", 1e-4, 1e-6)
        tap.is(new_ids, ids, name .. "generated ids")
      end
    end
  end
end
tap.done()
