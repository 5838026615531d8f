-- edges.lua - tests edge cases of models, optimisers and data: experts with equal scores, tiny top_p, results in
-- place of leaves, options of wrong types, recipes for groups of heads.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

-- ---- exactly top_k experts per entry, even if scores are equal ----

for top_k = 1, 4 do
  local moe = nn.MixtureOfExperts(8, 16, 4, {top_k = top_k})
  rille.no_grad(function() moe.router.weight:copy_(rille.zeros{4, 8}) end)
  local counts = moe:gates(rille.ones{6, 8}):gt(0):to("i64"):sum{axis = 1}
  tap.ok(counts:min():item() == top_k and counts:max():item() == top_k, top_k .. " of four equal experts")
end
do
  rille.manual_seed(tap.seed(11))
  local moe = nn.MixtureOfExperts(32, 16, 64, {top_k = 2})
  local x = rille.randn{512, 32}
  local counts = rille.autocast("bf16", function() return moe:gates(x) end):gt(0):to("i64"):sum{axis = 1}
  tap.ok(counts:min():item() == 2 and counts:max():item() == 2, "two of 64, with scores that are equal in bf16")
  local one = moe(x):to("f64")
  local P = rille.placement("cpu", {0, 1, 2, 3})
  for _, sbp in ipairs{"B", "S(0)"} do
    moe:to_global{placement = P, sbp = sbp}
    local off = (moe(x:to_global{placement = P, sbp = "S(0)"}):to_global{placement = x.placement, sbp = "B"}:to("f64") - one):abs():max():item()
    tap.ok(off < 1e-5, ("four devices, weights %s: same result, off by %g"):format(sbp, off))
  end
end

-- ---- a tiny top_p: the likeliest id is drawn ----

do
  rille.manual_seed(1)
  local g = rille.models.gpt2.new{vocab = 20, length = 40, layers = 2, heads = 2, width = 8}
  local function written(o)
    o.max_new_tokens, o.seed = 20, 1
    return table.concat(g:generate({{1, 2, 3}}, o)[1], " ")
  end
  local likeliest = written{temperature = 0}
  for _, share in ipairs{1e-20, 1e-37, 1e-38, 1e-45, 5e-324} do
    tap.is(written{top_p = share}, likeliest, ("top_p = %g writes the likeliest id"):format(share))
  end
end

-- ---- generation follows changes of the model ----

local function likeliest(m, ids, n)
  local row = table.move(ids, 1, #ids, 1, {})
  for _ = 1, n do
    local logits = rille.no_grad(function() return m(rille.tensor({row}, {dtype = "i64"})) end)
    row[#row + 1] = logits[0][#row - 1]:argmax():item()
  end
  return row
end
for _, kind in ipairs{"gpt2", "llama", "moe"} do
  rille.manual_seed(tap.seed(5))
  local m = rille.models[kind].new{vocab = 50, length = 16, layers = 2, heads = 2, width = 16}:eval()
  rille.no_grad(function()
    for _, p in ipairs(m:parameters()) do p:copy_(p + rille.randn(p.shape)) end
  end)
  local block = (m.h or m.layers)[1]
  local forward, before, changed = block.forward, "", 0
  for _, row in ipairs{{"as it was made", function() end},
    {"a layer that occurs twice", function() local list = m.h or m.layers; list[#list + 1] = list[1] end},
    {"a bias that asks for no gradient", function() m.lm_head.bias = (rille.arange(m.lm_head.weight.shape[1]):to("f32") * 0.7):sin() end},
    {"eps of a norm", function() if kind == "llama" then block.norm1.how.eps = 1e6 else block.norm1.eps = 1e6 end end},
    {"heads", function() block.attention.heads, block.attention.kv_heads = 1, 1; if block.attention.rotary then block.attention.rotary = nn.Rotary(16, 16) end end},
    {"the base of rotary positions", function() if block.attention.rotary then block.attention.rotary = nn.Rotary(16, 16, {base = 2}) end end},
    {"a function of the model's own", function() function m:logits(x) return self.lm_head(x) * -1 end end},
    {"a function of a layer's own", function() rawset(block, "forward", function(self, x, ...) return forward(self, x, ...) * -3 end) end},
    {"fewer experts", function() if kind == "moe" then block.mlp.top_k = 1 end end}} do
    row[2]()
    local text = m:generate({{1, 2, 3}}, {max_new_tokens = 8, temperature = 0})[1]
    tap.is(text, likeliest(m, {1, 2, 3}, 8), ("%s: %s"):format(kind, row[1]))
    changed, before = changed + (table.concat(text, " ") ~= before and 1 or 0), table.concat(text, " ")
  end
  tap.ok(changed >= 4, ("%s: %d of the changes alter the text"):format(kind, changed))
end

-- ---- refused arguments ----

local function refused(fn, want, what)
  local good, why = pcall(fn)
  tap.ok(not good and tostring(why):find(want, 1, true), what .. ": " .. tostring(why))
end
local p = rille.ones({2}, {requires_grad = true})
refused(function() return rille.optim.SGD({p * 2}, {lr = 1}) end, "parameters must be leaf tensors", "an optimiser of a result")
refused(function() return rille.models.resnet.new{classes = 2}(3) end, "input must be a tensor, found 3", "no image")
refused(function() return rille.data.text("t/lib/tap.lua", {tokenizer = 3}) end, "tokenizer must be a rille.tokenizer, found 3", "no tokenizer")

local train = rille.tokenizer.train
refused(function() return train({"abc"}, {size = 300, special = {"<|end|>", "x\xff"}}) end, "special token 2 is not UTF-8", "a special token of bytes")
local named = train({"abc"}, {size = 300, special = {"<|reserved_0|>", "<|reserved_7|>"}})
tap.is(named:encode("<|reserved_7|><|reserved_0|>"), {299, 298}, "special tokens with names of the filling tokens have the last ids")
tap.is(named.size, 300, "the vocabulary has the requested size")

-- Tries numbers of ranks that do not divide the number of heads: heads are split unevenly, and key and value heads
-- are replicated.
for _, heads in ipairs{{8, 4}, {8, 2}, {6, 3}, {4, 4}, {2, 1}} do
  local want
  for ranks = 1, 8 do
    rille.manual_seed(4)
    local m = rille.models.llama.new{vocab = 96, length = 16, layers = 1, heads = heads[1], kv_heads = heads[2], width = 24 * heads[1],
      hidden = 96, placement = rille.placement("cpu", tap.ranks(ranks))}
    rille.parallel(m, {tensor = 0})
    local y = m(rille.tensor({{1, 2, 3}}, {dtype = "i64"}):to_global(rille.parallel.input(m))):totable()
    want = want or y
    tap.near(y, want, ("%d heads, %d of keys and values, on %d ranks"):format(heads[1], heads[2], ranks), 1e-4, 1e-6)
  end
end

tap.fails(function()
  local m = rille.models.moe.new{vocab = 32, length = 16, layers = 1, heads = 2, width = 16, hidden = 32, experts = 4}
  rille.models.lora(m, {r = 1 << 40, targets = {"up"}})
  m(rille.randint(0, 32, {1, 4})):sum():item()
end, {"1099511627776"}, "an adapter whose rank does not fit into oneDNN's sizes is an error")

tap.done()
