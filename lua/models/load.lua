-- load.lua - rille.models.load: loads a language model from a folder of Hugging Face, of any supported model_type.
--
-- gpt2 and moe have classes of their own. All other kinds are decoder.lua with a description (describe.lua).

local check = require "rille.check"
local Decoder = require "rille.models.decoder"
local describe = require "rille.models.describe"
local files = require "rille.models.files"
local language = require "rille.models.language"
local names = require "rille.models.names"
local check_scaling = require("rille.nn.rotary").check_scaling

local own = {gpt2 = require "rille.models.gpt2", moe = require "rille.models.moe"}

-- ---- words of config.json ----

local function check_rope(who, what, rope)
  check.that(type(rope) == "table", "%s: %s must be a table, not %s", who, what, check.shown(rope))
  for _, word in ipairs{"full_attention", "sliding_attention"} do
    if rope[word] ~= nil then check_rope(who, what .. "." .. word, rope[word]) end
  end
  for _, word in ipairs{"rope_theta", "factor", "partial_rotary_factor", "original_max_position_embeddings"} do
    if rope[word] ~= nil then check.positive(who, what .. "." .. word, rope[word]) end
  end
end

local function check_list(of)
  return function(who, what, list)
    check.that(type(list) == "table", "%s: %s must be a list, not %s", who, what, check.shown(list))
    for i, value in ipairs(list) do
      check.that(type(value) == of, "%s: %s[%d] must be a %s, not %s", who, what, i - 1, of, check.shown(value))
    end
  end
end

local function check_table(who, what, value)
  check.that(type(value) == "table", "%s: %s must be a table, not %s", who, what, check.shown(value))
end

local function check_whole(who, what, value) check.whole(who, what, value, 0) end

local words = {
  [check.flag] = {"tie_word_embeddings", "attention_bias", "mlp_bias", "use_bias", "qkv_bias", "use_qkv_bias", "attention_out_bias", "bias",
    "enable_bias", "use_sliding_window", "norm_topk_prob", "rope_interleave", "parallel_attn", "multi_query", "alibi", "use_qk_norm",
    "new_decoder_architecture", "use_parallel_residual", "qk_layernorm", "do_layer_norm_before", "layer_norm_elementwise_affine"},
  [check.eps] = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"},
  [check.positive] = {"rope_theta", "rotary_emb_base", "rope_local_base_freq", "partial_rotary_factor", "rotary_pct", "query_pre_attn_scalar",
    "attn_logit_softcapping", "final_logit_softcapping", "embedding_multiplier", "residual_multiplier", "attention_multiplier",
    "logits_scaling", "logit_scale", "clip_qkv", "swiglu_limit", "routed_scaling_factor"},
  [check.count] = {"original_max_position_embeddings", "num_kv_heads", "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts",
    "num_experts_per_tok", "moe_k", "moe_intermediate_size", "decoder_sparse_step", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim",
    "qk_rope_head_dim", "v_head_dim", "n_group", "topk_group", "no_rope_layer_interval", "rotary_dim", "word_embed_proj_dim",
    "moe_layer_interval", "num_ln_in_parallel_attn", "_sliding_window_pattern"},
  [check_whole] = {"sliding_window", "max_window_layers", "first_k_dense_replace", "n_shared_experts", "moe_num_shared_experts",
    "moe_layer_start_index", "moe_layer_end_index", "shared_intermediate_size"},
  [check_rope] = {"rope_parameters", "rope_scaling"},
  [check_list("string")] = {"layer_types"},
  [check_list("number")] = {"no_rope_layers", "mlp_only_layers"},
  [check_table] = {"attn_config"},
}

local checks, options = {}, {}
for fn, list in pairs(words) do
  for _, word in ipairs(list) do checks[word] = fn end
end
for _, name in ipairs(describe.fields) do options[name] = check.none end

-- ---- kinds ----

local function check_rotary(config)
  for i, r in ipairs(config.rotary or {}) do
    check.that(config.rotary_size > 0 and config.rotary_size % 2 == 0 and config.rotary_size <= config.head_dim,
      "the rotated size of a head must be even and at most head_dim, %d, not %d", config.head_dim, config.rotary_size)
    if r and r.scaling then check_scaling("models.load", ("rotary positions of layer %d"):format(i - 1), r.scaling, config.rotary_size) end
  end
end

local kinds = {}

-- Returns {new =, load =} of a model_type.
local function kind_of(model_type)
  kinds[model_type] = kinds[model_type] or own[model_type] or language.kind{
    name = model_type, class = Decoder:extend("models." .. model_type), prefix = names.prefix[model_type] or "model.",
    names = function(config) return names.rows(model_type, config) end,
    ignored = {"rotary_emb%.inv_freq$", "attention%.bias$", "attention%.masked_bias$", "attn%.bias$", "attn%.masked_bias$"},
    from_config = function(c, most) return describe.of(model_type, c, most) end, to_config = function() return {model_type = model_type} end,
    counts = {}, words = checks, options = options, complete = check_rotary,
  }
  return kinds[model_type]
end

-- Returns the sorted names of all supported kinds.
local function supported()
  local list = check.sorted_keys(own)
  for name in pairs(describe.known) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ", ")
end

-- path: a folder with config.json and safetensors, a .safetensors of such a folder, or a .bin of llm.c. given: options of
-- rille.models.llama.load.
return function(path, given)
  check.path("models.load", "the name of a folder or a file", path)
  if path:find("%.bin$") then return own.gpt2.load(path, given) end
  local model_type, config = files.model_type("models.load", path)
  check.that(type(model_type) == "string" and (own[model_type] or describe.known[model_type]),
    "models.load: %s: model_type is %s; supported: %s", config, check.quoted(model_type), supported())
  return kind_of(model_type).load(path, given)
end
