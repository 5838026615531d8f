-- llama.lua - Llama: RMSNorm, rotary positions, SwiGLU, and fewer heads for keys and values than for queries. Touvron
-- et al. 2023, Llama 3 2024.
--
--   x = embed[ids];  x = x + attention(norm1(x)), x = x + mlp(norm2(x)) for each block;  logits = lm_head(norm(x))
--
-- The model is decoder.lua with its default choices.

local check = require "rille.base.check"
local kinds = require "rille.models.loading.kinds"

-- Converts the factors of a scaling to floats, because some readers of config.json require a decimal point.
local function with_points(scaling)
  local t = {}
  for word, value in pairs(scaling or {}) do
    t[word] = type(value) == "number" and (word:find("factor") or word == "rope_theta") and value + 0.0 or value
  end
  return scaling and t
end

local function to_config(c)
  local bias, size = c.qkv_bias or false, c.head_dim or c.width // c.heads
  return {model_type = "llama", architectures = {"LlamaForCausalLM"}, vocab_size = c.vocab, max_position_embeddings = c.length,
    hidden_size = c.width, intermediate_size = c.hidden, num_hidden_layers = c.layers, num_attention_heads = c.heads,
    num_key_value_heads = c.kv_heads, head_dim = c.head_dim, rms_norm_eps = c.eps, rope_theta = c.theta + 0.0,
    hidden_act = c.activation or "silu", tie_word_embeddings = c.tied, rope_scaling = with_points(c.rope_scaling),
      attention_bias = bias,
    mlp_bias = c.mlp_bias or false, partial_rotary_factor = c.rotary_size and c.rotary_size / size}
end

return kinds.of("llama", {
  to_config = to_config,
  options = {kv_heads = check.none, hidden = check.none, theta = 10000, eps = 1e-5, tied = false, rope_scaling = check.none,
    head_dim = check.none, rotary_size = check.none, qkv_bias = check.none, out_bias = check.none, mlp_bias = check.none,
    activation = check.none},
  complete = function(c, who)
    local function pairs_fit(heads) return c.width % heads == 0 and c.width // heads % 2 == 0 end
    if not c.head_dim and not pairs_fit(c.heads) then
      check.fail(
        "%s: width = %d must divide into heads = %d heads of even size, for rotary positions; heads = %s would do", who, c.width,
        c.heads, check.divisors(c.width, pairs_fit))
    end
    c.kv_heads = c.kv_heads or c.heads
    check.that(c.heads % c.kv_heads == 0,
      "%s: heads = %d must be divisible by kv_heads = %d; kv_heads = %s would do", who, c.heads, c.kv_heads,
      check.divisors(c.heads))
    check.that((c.qkv_bias or false) == (c.out_bias or false), "%s: qkv_bias and out_bias must be equal, found %s and %s", who,
      check.shown(c.qkv_bias), check.shown(c.out_bias))
    c.hidden = c.hidden or (8 * c.width // 3 + 255) // 256 * 256
    kinds.check_choices(c, who)
  end,
})
