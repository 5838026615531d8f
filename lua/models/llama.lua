-- llama.lua - Llama: RMSNorm, rotary positions, SwiGLU, fewer heads for keys and values. Touvron et al. 2023, Llama 3 2024.
--
--   x = embed[ids];  x = x + attention(norm1(x)), x = x + mlp(norm2(x)) for each block;  logits = lm_head(norm(x))

local check = require "rille.check"
local nn = require("rille").nn
local language = require "rille.models.language"
local check_scaling = require("rille.nn.rotary").check_scaling

local Block = nn.Module:extend("models.llama.Block")

function Block:init(config, rotary)
  local d = config.width
  self.norm1 = nn.RMSNorm(d, {eps = config.eps})
  self.attention = nn.MultiheadAttention(d, config.heads,
    {is_causal = true, bias = false, kv_heads = config.kv_heads, rotary = rotary})
  self.norm2 = nn.RMSNorm(d, {eps = config.eps})
  self.mlp = nn.SwiGLU(d, config.hidden)
end

function Block:forward(x, mask, cache)
  local h = self.norm1(x)
  x = x + self.attention(h, h, h, mask, cache)
  return x + self.mlp(self.norm2(x))
end

local Llama = language.Model:extend("models.llama")

function Llama:init(config)
  language.Model.init(self, config)
  local d = config.width
  local function pairs_fit(heads) return d % heads == 0 and d // heads % 2 == 0 end
  if not pairs_fit(config.heads) then
    check.fail("models.llama: a width of %d does not divide into %d heads of pairs, which rotary positions turn; %s would do", d,
      config.heads, check.divisors(d, pairs_fit))
  end
  local rotary = nn.Rotary(config.length, d // config.heads, {base = config.theta, scaling = config.rope_scaling})
  self.embed_tokens = nn.Embedding(config.vocab, d)
  self.layers = {}
  for i = 1, config.layers do self.layers[i] = Block(config, rotary) end
  self.norm = nn.RMSNorm(d, {eps = config.eps})
  self.lm_head = nn.Linear(d, config.vocab, {bias = false})
  if config.tied then nn.tie(self.embed_tokens, "weight", self.lm_head, "weight") end
end

function Llama:start()
  for _, p in self:named_parameters() do
    if p.ndim == 2 then nn.init.normal_(p, 0, 0.02) end
  end
end

function Llama:features(ids, cache)
  self:check_ids(ids)
  local x = self.embed_tokens(ids)
  for _, block in ipairs(self.layers) do x = block(x, nil, cache) end
  return self.norm(x)
end

-- ---- files ----

local names = {{"model.embed_tokens.weight", "embed_tokens.weight"}, {"model.norm.weight", "norm.weight"}}
for theirs, ours in pairs{input_layernorm = "norm1", post_attention_layernorm = "norm2",
  ["self_attn.q_proj"] = "attention.q_proj", ["self_attn.k_proj"] = "attention.k_proj",
  ["self_attn.v_proj"] = "attention.v_proj", ["self_attn.o_proj"] = "attention.out_proj",
  ["mlp.gate_proj"] = "mlp.gate_proj", ["mlp.up_proj"] = "mlp.up_proj", ["mlp.down_proj"] = "mlp.down_proj"} do
  names[#names + 1] = {("model.layers.%%d.%s.weight"):format(theirs), ("layers.%%d.%s.weight"):format(ours)}
end

local function check_turned(who, what, part)
  check.that(part == 1, "%s: %s is 1, since Llama turns all of a head, not %s", who, what, check.shown(part))
end

local function check_rope(who, what, rope)
  check.that(type(rope) == "table", "%s: %s is a table, not %s", who, what, check.shown(rope))
  if rope.rope_theta ~= nil then check.positive(who, what .. ".rope_theta", rope.rope_theta) end
  if rope.partial_rotary_factor ~= nil then check_turned(who, what .. ".partial_rotary_factor", rope.partial_rotary_factor) end
  if rope.rope_type ~= nil then check_scaling(who, what, rope) end
end

-- Returns the theta of the config; newer files have it in a table. Fails if two differ.
local function theta_of(c, ...)
  local theta = c.rope_theta
  for _, rope in ipairs{...} do
    local another = rope.rope_theta or theta
    check.that(theta == nil or another == theta, "models.llama: a rope_theta of %s, and another of %s", check.shown(theta),
      check.shown(another))
    theta = another
  end
  return theta
end

local function from_config(c)
  check.that(not c.attention_bias and not c.mlp_bias, "models.llama: attention_bias and mlp_bias are not Llama's")
  check.that(c.hidden_act == nil or c.hidden_act == "silu", "models.llama: hidden_act is silu, not %s", check.shown(c.hidden_act))
  local size = c.hidden_size // c.num_attention_heads
  check.that(c.head_dim == nil or c.head_dim == size, "models.llama: a head_dim of %s is not hidden_size / heads, %d",
    check.shown(c.head_dim), size)
  local rope = c.rope_parameters or {} -- newer files have theta and scaling here
  local scaling = c.rope_scaling or (rope.rope_type and rope.rope_type ~= "default" and rope) or nil
  return {vocab = c.vocab_size, length = c.max_position_embeddings, layers = c.num_hidden_layers, heads = c.num_attention_heads,
    kv_heads = c.num_key_value_heads, width = c.hidden_size, hidden = c.intermediate_size, eps = c.rms_norm_eps or 1e-6,
    theta = theta_of(c, rope, scaling or {}), tied = c.tie_word_embeddings, rope_scaling = scaling}
end

-- Converts factors to floats, because some readers of config.json require a decimal point.
local function with_points(scaling)
  local t = {}
  for word, value in pairs(scaling or {}) do
    t[word] = type(value) == "number" and (word:find("factor") or word == "rope_theta") and value + 0.0 or value
  end
  return scaling and t
end

local function to_config(c)
  return {model_type = "llama", architectures = {"LlamaForCausalLM"}, vocab_size = c.vocab, max_position_embeddings = c.length,
    hidden_size = c.width, intermediate_size = c.hidden, num_hidden_layers = c.layers, num_attention_heads = c.heads,
    num_key_value_heads = c.kv_heads, rms_norm_eps = c.eps, rope_theta = c.theta + 0.0, hidden_act = "silu",
    tie_word_embeddings = c.tied, rope_scaling = with_points(c.rope_scaling), attention_bias = false, mlp_bias = false}
end

return language.kind{
  name = "llama", class = Llama, names = names, prefix = "", from_config = from_config, to_config = to_config,
  ignored = {"rotary_emb%.inv_freq$"},
  counts = {vocab_size = true, max_position_embeddings = true, num_hidden_layers = true, num_attention_heads = true,
    num_key_value_heads = false, hidden_size = true, intermediate_size = true},
  words = {rms_norm_eps = check.eps, rope_theta = check.positive, rope_scaling = check_scaling,
    rope_parameters = check_rope, partial_rotary_factor = check_turned, tie_word_embeddings = check.flag},
  options = {kv_heads = check.none, hidden = check.none, theta = 10000, eps = 1e-5, tied = false, rope_scaling = check.none},
  complete = function(c)
    c.kv_heads = c.kv_heads or c.heads
    c.hidden = c.hidden or (8 * c.width // 3 + 255) // 256 * 256
  end,
}
