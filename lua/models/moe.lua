-- moe.lua - GPT-2 with a mixture of experts for each feed-forward layer. Shazeer et al. 2017, Fedus et al. 2021.

local check = require "rille.base.check"
local nn = require("rille").nn
local layout = require "rille.base.layout"
local language = require "rille.models.language"

local Block = nn.Module:extend("models.moe.Block")
Block.parallel = {norm = {"norm1", "norm2"}, stream = true}

function Block:init(config)
  local d = config.width
  self.norm1 = nn.LayerNorm(d, {eps = config.eps})
  self.attention = nn.MultiheadAttention(d, config.heads, {is_causal = true})
  self.norm2 = nn.LayerNorm(d, {eps = config.eps})
  self.mlp = nn.MixtureOfExperts(d, config.hidden, config.experts, {top_k = config.top_k})
end

function Block:forward(x, mask, cache)
  local h = self.norm1(x)
  x = x + self.attention(h, h, h, mask, cache)
  return x + self.mlp(self.norm2(x))
end

local MoE = language.Model:extend("models.moe")
MoE.parallel = {embedding = "wte", positions = "wpe", norm = "ln_f", head = "lm_head"}

function MoE:init(config)
  language.Model.init(self, config)
  self.wte = nn.Embedding(config.vocab, config.width)
  self.wpe = nn.Positions(config.length, config.width)
  self.h = {}
  for i = 1, config.layers do self.h[i] = Block(config) end
  self.ln_f = nn.LayerNorm(config.width, {eps = config.eps})
  self.lm_head = nn.Linear(config.width, config.vocab, {bias = false})
  nn.tie(self.wte, "weight", self.lm_head, "weight")
end

function MoE:start()
  local std = 0.02
  for name, p in self:named_parameters() do
    if name:find("%.bias$") then nn.init.zeros_(p)
    elseif name:find("out_proj") or name:find("down$") then nn.init.normal_(p, 0, std / math.sqrt(2 * self.config.layers))
    elseif p.ndim >= 2 then nn.init.normal_(p, 0, std) end
  end
end

function MoE:features(ids, given)
  local cache = language.pass(self, ids, given)
  local x = self.wpe(self.wte(ids), cache and cache:positions())
  for _, block in ipairs(self.h) do x = block(x, nil, cache) end
  return self.ln_f(x)
end

-- Returns the load imbalance of the experts in the last forward pass, averaged over blocks; 1: equal load. Training
-- balances the experts if about 0.01 times this value is added to the loss. The result has the last block's
-- placement, like the loss.
function MoE:balance()
  local total
  for _, block in ipairs(self.h) do
    local one = block.mlp:balance()
    check.that(one, "models.moe: balance() needs a forward pass before it; call the model first, m(ids)")
    if total and total.placement ~= one.placement then
      total = total:to_global{placement = one.placement, sbp = layout.replicated(one.placement)}
    end
    total = total and total + one or one
  end
  return total * (1 / #self.h)
end

-- Naming table: files use the names of Rille's parameters.
local names = {{"wte.weight", "wte.weight"}, {"wpe.weight", "wpe.weight"}, {"ln_f.weight", "ln_f.weight"},
  {"ln_f.bias", "ln_f.bias"}}
for _, part in ipairs{"norm1", "norm2", "attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.out_proj"} do
  for _, kind in ipairs{"weight", "bias"} do
    local name = ("h.%%d.%s.%s"):format(part, kind)
    names[#names + 1] = {name, name}
  end
end
for _, part in ipairs{"router.weight", "up", "down"} do
  local name = "h.%d.mlp." .. part
  names[#names + 1] = {name, name}
end

local words = {vocab = "vocab_size", length = "n_positions", layers = "n_layer", heads = "n_head", width = "n_embd",
  hidden = "n_inner", experts = "num_experts", top_k = "top_k", eps = "layer_norm_epsilon"}

local function from_config(theirs)
  local c = {}
  for ours, word in pairs(words) do c[ours] = theirs[word] end
  return c
end

local function to_config(c)
  local theirs = {model_type = "moe"}
  for ours, word in pairs(words) do theirs[word] = c[ours] end
  return theirs
end

return language.kind{
  name = "moe", class = MoE, names = names, prefix = "", ignored = {}, from_config = from_config, to_config = to_config,
  counts = {vocab_size = true, n_positions = true, n_layer = true, n_head = true, n_embd = true, n_inner = false,
    num_experts = false, top_k = false},
  words = {layer_norm_epsilon = check.eps},
  options = {hidden = check.none, experts = 8, top_k = 2, eps = 1e-5},
  complete = function(c, who)
    language.check_heads(who, c)
    for _, name in ipairs{"experts", "top_k"} do check.count(who, name, c[name]) end
    check.that(c.top_k <= c.experts, "%s: top_k must be from 1 to %d, the number of experts, found %d", who, c.experts, c.top_k)
    c.hidden, c.tied = c.hidden or 4 * c.width, true
  end,
}
