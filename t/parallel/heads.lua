-- heads.lua - tests tensor parallelism of attention if the number of ranks does not divide the numbers of heads.
--
-- A Llama with 1, 2, 3, 5 or 8 heads of keys and values, and one or two query heads for each, runs on 2, 3, 4, 6 and
-- 8 ranks. Loss and gradients must equal those of one device, and so must ids that are generated with caches. No head
-- is divided. Heads of keys and values are replicated if the ranks divide the number of query heads but not theirs, or if
-- there are fewer of them than ranks and than query heads.
-- The same holds for an attention module of a user's class, whose roles come from the class, from the class with its
-- numbers of heads, from a table of names, or from a trace.
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
        local uneven, few = kv_heads * group % n ~= 0, kv_heads < n and group > 1
        local cut = kv_heads * group > 1 and uneven and not few
        local keys = kv_heads % n == 0 and "S(0)" or cut and "S(0, unit 4)" or "B"
        tap.is(layouts["layers.0.attention.k_proj.weight"].sbp, keys, name .. "layout of keys")
        local got, new_ids = results(m, P)
        tap.near(got, want, name .. "loss and gradients", 1e-4, 1e-6)
        tap.is(new_ids, ids, name .. "generated ids")
      end
    end
  end
end

-- ---- attention of a user's class ----

-- Returns a model of a class with these roles (Class.parallel).
local function own(heads, kv_heads, roles)
  local nn = rille.nn
  local Attention, Model = nn.Module:extend("Attention"), nn.Module:extend("Model")
  function Attention:init(size)
    self.heads, self.kv_heads = heads, kv_heads
    self.q, self.o = nn.Linear(size * heads, size * heads), nn.Linear(size * heads, size * heads)
    self.k, self.v = nn.Linear(size * heads, size * kv_heads), nn.Linear(size * heads, size * kv_heads)
  end
  function Attention:forward(x)
    local b, t, d = table.unpack(x.shape)
    local function split(y, n) return y:reshape{b, t, n, -1}:transpose(1, 2) end
    local function repeated(y) return y:unsqueeze(2):expand{-1, -1, heads // kv_heads, -1, -1}:reshape{b, heads, t, -1} end
    local k, v = repeated(split(self.k(x), kv_heads)), repeated(split(self.v(x), kv_heads))
    local y = split(self.q(x), heads):scaled_dot_product_attention(k, v, {is_causal = true})
    return x + self.o(y:transpose(1, 2):reshape{b, t, d})
  end
  Attention.parallel = roles
  function Model:init() self.a, self.b = Attention(4), Attention(4) end
  function Model:forward(x) return self.b(self.a(x)) end
  rille.manual_seed(3)
  return Model():to("f64")
end

-- Returns the loss and the gradients of a compiled step.
local function trained(m, P, x)
  x = x:to_global{placement = P, sbp = "B"}
  local step = rille.graph(function(a)
    local loss = m(a):square():mean()
    return loss, rille.grad(loss, m:parameters())
  end)
  local list = {step(x)}
  for i, t in ipairs(list) do list[i] = t:totable() end
  return list
end

local columns = {"q", "k", "v"}
local ways = {
  {"class", {column = columns, row = "o"}, {}},
  {"class with heads", {column = columns, row = "o", heads = {q = "heads", k = "kv_heads", v = "kv_heads"}}, {}},
  {"table", nil, {layers = {["*.q"] = "column", ["*.k"] = "column", ["*.v"] = "column", ["*.o"] = "row"}}},
  {"trace", nil, {input = true}},
}
for _, h in ipairs{{3, 1}, {3, 3}, {5, 1}, {5, 5}, {6, 3}, {7, 7}, {9, 3}} do
  for _, n in ipairs{2, 4} do
    for _, way in ipairs(ways) do
      case = case + 1
      if tap.share(case) then
        local x, m, P = rille.randn({2, 5, 4 * h[1]}, {dtype = "f64"}), own(h[1], h[2], way[2]), ranks(n)
        local want = trained(own(h[1], h[2]), ranks(1), x)
        m:to_global{placement = P, sbp = "B"}
        local layouts = rille.parallel(m, tap.with({tensor = 0}, {layers = way[3].layers, input = way[3].input and x}))
        if way[3].input and h[1] % n ~= 0 then
          tap.ok(layouts["a.o.weight"].sbp:find("^S%(1, unit %d+%)$"), ("%d, %d heads on %d ranks: a trace finds the heads"):format(h[1], h[2], n), layouts["a.o.weight"].sbp)
        end
        tap.near(trained(m, P, x), want, ("%d, %d heads of a user's class on %d ranks, roles by %s"):format(h[1], h[2], n, way[1]), 1e-9, 1e-12)
      end
    end
  end
end
tap.done()
