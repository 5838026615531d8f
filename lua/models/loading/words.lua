-- words.lua - checks of config.json for decoders with a description: key -> f(who, key, value). A key has the same
-- meaning in all architectures.

local check = require "rille.base.check"
local check_scaling = require("rille.nn.sequence.rotary").check_scaling

-- Checks the scaling in a table of rotary settings. Sizes that YaRN and LongRoPE need are not required here, because
-- these sizes may be elsewhere in the file.
local function check_kind(who, what, rope)
  local kind, copy = rope.rope_type or rope.type, {}
  for word, value in pairs(rope) do copy[word] = value end
  if kind == "su" then copy.rope_type = "longrope" end
  if kind == "deepseek_yarn" then copy.rope_type, kind = "yarn", "yarn" end
  if kind == "su" or kind == "longrope" or kind == "yarn" and (copy.factor or copy.original_max_position_embeddings) then
    copy.factor, copy.original_max_position_embeddings = copy.factor or 1, copy.original_max_position_embeddings or 1
  end
  check_scaling(who, what, copy)
end

local function check_rope(who, what, rope)
  check.that(type(rope) == "table", "%s: %s must be a table, found %s", who, what, check.shown(rope))
  if rope.rope_type ~= nil or rope.type ~= nil then check_kind(who, what, rope) end
  for _, word in ipairs{"full_attention", "sliding_attention"} do
    if rope[word] ~= nil then check_rope(who, what .. "." .. word, rope[word]) end
  end
  for _, word in ipairs{"rope_theta", "factor", "partial_rotary_factor", "original_max_position_embeddings"} do
    if rope[word] ~= nil then check.positive(who, what .. "." .. word, rope[word]) end
  end
end

local function check_list(of)
  return function(who, what, list)
    check.that(type(list) == "table", "%s: %s must be a list, found %s", who, what, check.shown(list))
    for i, value in ipairs(list) do
      check.that(type(value) == of, "%s: %s[%d] must be a %s, found %s", who, what, i - 1, of, check.shown(value))
    end
  end
end

local function check_table(who, what, value)
  check.that(type(value) == "table", "%s: %s must be a table, found %s", who, what, check.shown(value))
end

local checks = {}

-- Checks a table whose keys have the same meaning as those of config.json.
local function check_nested(who, what, value)
  check_table(who, what, value)
  for _, word in ipairs(check.sorted_keys(value)) do
    if checks[word] then checks[word](who, ("%s.%s"):format(what, word), value[word]) end
  end
end

local function check_whole(who, what, value) check.whole(who, what, value, 0) end

local words = {
  [check.flag] = {"tie_word_embeddings", "attention_bias", "mlp_bias", "use_bias", "qkv_bias", "use_qkv_bias",
    "attention_out_bias", "bias",
    "enable_bias", "use_sliding_window", "norm_topk_prob", "use_post_norm", "scale_embedding", "rope_interleave", "parallel_attn", "multi_query", "alibi",
      "use_qk_norm",
    "is_decoder", "is_gated_act", "decoder_bias", "norm_bias", "classifier_bias",
    "new_decoder_architecture", "use_parallel_residual", "qk_layernorm", "do_layer_norm_before", "layer_norm_elementwise_affine",
    "use_bidirectional_attention", "scale_attn_weights"},
  [check.eps] = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"},
  [check.positive] = {"global_rope_theta", "local_rope_theta", "rope_theta", "rotary_emb_base", "rope_local_base_freq", "partial_rotary_factor", "rotary_pct",
    "query_pre_attn_scalar",
    "attn_logit_softcapping", "final_logit_softcapping", "embedding_multiplier", "residual_multiplier", "attention_multiplier",
    "logits_scaling", "logit_scale", "clip_qkv", "swiglu_limit", "swiglu_alpha", "routed_scaling_factor", "softmax_scale", "scale_emb", "scale_depth", "router_scaling_factor", "llama_4_scaling_beta"},
  [check.finite] = {"layer_scale_init_value"},
  [check.count] = {"local_attention", "global_attn_every_n_layers", "num_labels", "original_max_position_embeddings", "num_kv_heads", "num_local_experts", "num_experts", "n_routed_experts",
    "moe_num_experts",
    "num_experts_per_tok", "moe_k", "moe_topk", "dim_model_base", "moe_intermediate_size", "decoder_sparse_step", "kv_lora_rank", "q_lora_rank",
      "qk_nope_head_dim",
    "qk_rope_head_dim", "v_head_dim", "n_group", "topk_group", "no_rope_layer_interval", "rotary_dim", "window_size",
      "word_embed_proj_dim",
    "moe_layer_interval", "num_ln_in_parallel_attn", "_sliding_window_pattern"},
  [check_whole] = {"type_vocab_size", "sliding_window", "max_window_layers", "first_k_dense_replace", "n_shared_experts", "moe_num_shared_experts", "num_shared_experts",
    "moe_layer_start_index", "moe_layer_end_index", "shared_intermediate_size"},
  [check_rope] = {"rope_parameters", "rope_scaling"},
  [check_list("string")] = {"layer_types", "mlp_layer_types", "architectures"},
  [check_list("number")] = {"no_rope_layers", "mlp_only_layers", "layer_rope_theta"},
  [check_nested] = {"attn_config"},
  [check_table] = {"attention_types", "id2label"},
}

for fn, list in pairs(words) do
  for _, word in ipairs(list) do checks[word] = fn end
end

return checks
