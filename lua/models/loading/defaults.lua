-- defaults.lua - values of keys that a config.json may lack, by model_type: the defaults of transformers where they differ from
-- those of describe.lua, for keys that change results but no tensor's shape. Files of gemma3 also lack sizes.

local json = require "rille.json"

local eps5, eps6 = {rms_norm_eps = 1e-05}, {rms_norm_eps = 1e-06}
local relu2, gelu_new = {hidden_act = "relu2"}, {activation_function = "gelu_new"}
local gemma2 = {rms_norm_eps = 1e-06, sliding_window = 4096, attn_logit_softcapping = 50.0, final_logit_softcapping = 30.0}

local by_type = {
  arcee = {hidden_act = "relu2", rms_norm_eps = 1e-05}, biogpt = {hidden_act = "gelu"}, codegen = gelu_new, cohere = {rope_theta = 500000.0},
  cohere2 = {sliding_window = 4096}, cwm = {rms_norm_eps = 1e-05, sliding_window = 8192}, deepseek_v3 = {routed_scaling_factor = 2.5},
  dots1 = {sliding_window = 4096}, ernie4_5 = eps5, ernie4_5_moe = eps5, exaone = eps5, exaone4 = {rms_norm_eps = 1e-05, sliding_window = 4096},
  exaone_moe = {rms_norm_eps = 1e-05, routed_scaling_factor = 2.5, sliding_window = 4096}, gemma = eps6, gemma2 = gemma2,
  gemma3_text = {rms_norm_eps = 1e-06, sliding_window = 4096, vocab_size = 262208, num_attention_heads = 8, num_key_value_heads = 4,
    head_dim = 256, max_position_embeddings = 131072}, glm = {rms_norm_eps = 1.5625e-07}, glm4 = {rms_norm_eps = 1.5625e-07},
  glm4_moe = eps5, glm4_moe_lite = {rms_norm_eps = 1e-05, routed_scaling_factor = 1.8}, gpt_neo = gelu_new, gpt_neox = {hidden_act = "gelu"},
  gpt_oss = {rms_norm_eps = 1e-05, sliding_window = 128}, gptj = gelu_new, granite_swa = {rms_norm_eps = 1e-05, sliding_window = 128},
  granitemoe_swa = {sliding_window = 128}, helium = {rms_norm_eps = 1e-08}, hunyuan_v1_dense = eps5, hunyuan_v1_moe = eps5,
  hy_v3 = {rms_norm_eps = 1e-05, router_scaling_factor = 2.826}, internlm3 = eps5, iquestcoder = eps5, jais2 = relu2,
  mellum = {sliding_window = 1024}, minicpm3 = eps5, ministral = {sliding_window = 4096}, ministral3 = eps5, mistral = {sliding_window = 4096},
  mixtral = {rms_norm_eps = 1e-05, rope_theta = 1000000.0}, nemotron = relu2, olmo2 = eps5,
  olmo3 = {rms_norm_eps = 1e-05, rope_theta = 500000.0, sliding_window = 4096}, olmoe = eps5, persimmon = relu2, phi = {hidden_act = "gelu_new"},
  phi3 = eps5, qwen2 = {sliding_window = 4096}, sarvam_mla = {routed_scaling_factor = 2.5}, sarvam_moe = {routed_scaling_factor = 2.5},
  solar_open = eps5, starcoder2 = {hidden_act = "gelu_pytorch_tanh"}, vaultgemma = gemma2,
}

-- Adds the missing keys to the contents of a config.json. A key that is null is not missing: it switches a feature off.
return function(words)
  for key, value in pairs(by_type[words.model_type] or {}) do
    local rotary = words.rope_parameters ~= nil and words.rope_parameters ~= json.null
    if words[key] == nil and not (key == "rope_theta" and rotary) then words[key] = value end
  end
end
