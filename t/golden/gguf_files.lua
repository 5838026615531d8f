-- gguf_files.lua - GGUF files of entries of families.lua, made by gguf_files.py.

return {
  {name = "llama", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.key_length", "u", 8}, {"llama.attention.value_length", "u", 8}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"llama.rope.freq_base", "f", 10000.0}, {"llama.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "llama llama3 tied", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.key_length", "u", 8}, {"llama.attention.value_length", "u", 8}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"llama.rope.freq_base", "f", 500000.0}, {"llama.rope.dimension_count", "u", 8}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight
rope_freqs.weight  values 1,8,8.00000095,8  -]]},
  {name = "llama head_dim biases", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.key_length", "u", 16}, {"llama.attention.value_length", "u", 16}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"llama.rope.freq_base", "f", 10000.0}, {"llama.rope.dimension_count", "u", 16}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.bias  copy  model.layers.%.mlp.down_proj.bias
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.bias  copy  model.layers.%.mlp.gate_proj.bias
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.bias  copy  model.layers.%.mlp.up_proj.bias
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  pairs 2  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.bias  copy  model.layers.%.self_attn.o_proj.bias
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  pairs 4  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "llama yarn", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.key_length", "u", 8}, {"llama.attention.value_length", "u", 8}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"llama.rope.freq_base", "f", 10000.0}, {"llama.rope.dimension_count", "u", 8}, {"llama.rope.scaling.type", "s", "yarn"}, {"llama.rope.scaling.factor", "f", 4.0}, {"llama.rope.scaling.original_context_length", "u", 16}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "llama linear", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.key_length", "u", 8}, {"llama.attention.value_length", "u", 8}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"llama.rope.freq_base", "f", 10000.0}, {"llama.rope.dimension_count", "u", 8}, {"llama.rope.scaling.type", "s", "linear"}, {"llama.rope.scaling.factor", "f", 2.0}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "mistral no window", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.key_length", "u", 8}, {"llama.attention.value_length", "u", 8}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"llama.rope.freq_base", "f", 10000.0}, {"llama.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "mixtral", metadata = {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 32}, {"llama.block_count", "u", 2}, {"llama.feed_forward_length", "u", 48}, {"llama.attention.head_count", "u", 4}, {"llama.attention.head_count_kv", "u", 2}, {"llama.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"llama.rope.freq_base", "f", 1000000.0}, {"llama.rope.dimension_count", "u", 8}, {"llama.expert_count", "u", 4}, {"llama.expert_used_count", "u", 2}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.block_sparse_moe.gate.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.block_sparse_moe.experts.[0-3].w1.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.block_sparse_moe.experts.[0-3].w2.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.block_sparse_moe.experts.[0-3].w3.weight]]},
  {name = "qwen2", metadata = {{"general.architecture", "s", "qwen2"}, {"qwen2.context_length", "u", 64}, {"qwen2.embedding_length", "u", 32}, {"qwen2.block_count", "u", 2}, {"qwen2.feed_forward_length", "u", 48}, {"qwen2.attention.head_count", "u", 4}, {"qwen2.attention.head_count_kv", "u", 2}, {"qwen2.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"qwen2.rope.freq_base", "f", 10000.0}, {"qwen2.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "qwen2_moe", metadata = {{"general.architecture", "s", "qwen2moe"}, {"qwen2moe.context_length", "u", 64}, {"qwen2moe.embedding_length", "u", 32}, {"qwen2moe.block_count", "u", 2}, {"qwen2moe.feed_forward_length", "u", 48}, {"qwen2moe.attention.head_count", "u", 4}, {"qwen2moe.attention.head_count_kv", "u", 2}, {"qwen2moe.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"qwen2moe.rope.freq_base", "f", 10000.0}, {"qwen2moe.rope.dimension_count", "u", 8}, {"qwen2moe.expert_count", "u", 4}, {"qwen2moe.expert_used_count", "u", 2}, {"qwen2moe.expert_feed_forward_length", "u", 16}, {"qwen2moe.expert_shared_feed_forward_length", "u", 24}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_expert.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_expert.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_expert.up_proj.weight
blk.%.ffn_gate_inp_shexp.weight  copy  model.layers.%.mlp.shared_expert_gate.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-3].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-3].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-3].up_proj.weight]]},
  {name = "qwen3", metadata = {{"general.architecture", "s", "qwen3"}, {"qwen3.context_length", "u", 64}, {"qwen3.embedding_length", "u", 32}, {"qwen3.block_count", "u", 2}, {"qwen3.feed_forward_length", "u", 48}, {"qwen3.attention.head_count", "u", 4}, {"qwen3.attention.head_count_kv", "u", 2}, {"qwen3.attention.key_length", "u", 16}, {"qwen3.attention.value_length", "u", 16}, {"qwen3.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"qwen3.rope.freq_base", "f", 10000.0}, {"qwen3.rope.dimension_count", "u", 16}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "qwen3_moe", metadata = {{"general.architecture", "s", "qwen3moe"}, {"qwen3moe.context_length", "u", 64}, {"qwen3moe.embedding_length", "u", 32}, {"qwen3moe.block_count", "u", 2}, {"qwen3moe.feed_forward_length", "u", 48}, {"qwen3moe.attention.head_count", "u", 4}, {"qwen3moe.attention.head_count_kv", "u", 2}, {"qwen3moe.attention.key_length", "u", 16}, {"qwen3moe.attention.value_length", "u", 16}, {"qwen3moe.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"qwen3moe.rope.freq_base", "f", 10000.0}, {"qwen3moe.rope.dimension_count", "u", 16}, {"qwen3moe.expert_count", "u", 4}, {"qwen3moe.expert_used_count", "u", 2}, {"qwen3moe.expert_feed_forward_length", "u", 16}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-3].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-3].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-3].up_proj.weight]]},
  {name = "seed_oss", metadata = {{"general.architecture", "s", "seed_oss"}, {"seed_oss.context_length", "u", 64}, {"seed_oss.embedding_length", "u", 32}, {"seed_oss.block_count", "u", 2}, {"seed_oss.feed_forward_length", "u", 48}, {"seed_oss.attention.head_count", "u", 4}, {"seed_oss.attention.head_count_kv", "u", 2}, {"seed_oss.attention.key_length", "u", 8}, {"seed_oss.attention.value_length", "u", 8}, {"seed_oss.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"seed_oss.rope.freq_base", "f", 10000.0}, {"seed_oss.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "smollm3", metadata = {{"general.architecture", "s", "smollm3"}, {"smollm3.context_length", "u", 64}, {"smollm3.embedding_length", "u", 32}, {"smollm3.block_count", "u", 4}, {"smollm3.feed_forward_length", "u", 48}, {"smollm3.attention.head_count", "u", 4}, {"smollm3.attention.head_count_kv", "u", 2}, {"smollm3.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"smollm3.rope.freq_base", "f", 2000000.0}, {"smollm3.rope.dimension_count", "u", 8}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "arcee", metadata = {{"general.architecture", "s", "arcee"}, {"arcee.context_length", "u", 64}, {"arcee.embedding_length", "u", 32}, {"arcee.block_count", "u", 2}, {"arcee.feed_forward_length", "u", 48}, {"arcee.attention.head_count", "u", 4}, {"arcee.attention.head_count_kv", "u", 2}, {"arcee.attention.key_length", "u", 8}, {"arcee.attention.value_length", "u", 8}, {"arcee.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"arcee.rope.freq_base", "f", 10000.0}, {"arcee.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "ernie4_5", metadata = {{"general.architecture", "s", "ernie4_5"}, {"ernie4_5.context_length", "u", 64}, {"ernie4_5.embedding_length", "u", 32}, {"ernie4_5.block_count", "u", 2}, {"ernie4_5.feed_forward_length", "u", 48}, {"ernie4_5.attention.head_count", "u", 4}, {"ernie4_5.attention.head_count_kv", "u", 2}, {"ernie4_5.attention.key_length", "u", 8}, {"ernie4_5.attention.value_length", "u", 8}, {"ernie4_5.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"ernie4_5.rope.freq_base", "f", 500000.0}, {"ernie4_5.rope.dimension_count", "u", 8}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.bias  copy  model.layers.%.mlp.down_proj.bias
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.bias  copy  model.layers.%.mlp.gate_proj.bias
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.bias  copy  model.layers.%.mlp.up_proj.bias
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.bias  copy  model.layers.%.self_attn.o_proj.bias
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "ernie4_5_moe", metadata = {{"general.architecture", "s", "ernie4_5-moe"}, {"ernie4_5-moe.context_length", "u", 64}, {"ernie4_5-moe.embedding_length", "u", 32}, {"ernie4_5-moe.block_count", "u", 2}, {"ernie4_5-moe.feed_forward_length", "u", 48}, {"ernie4_5-moe.attention.head_count", "u", 4}, {"ernie4_5-moe.attention.head_count_kv", "u", 2}, {"ernie4_5-moe.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"ernie4_5-moe.rope.freq_base", "f", 500000.0}, {"ernie4_5-moe.rope.dimension_count", "u", 8}, {"ernie4_5-moe.expert_count", "u", 4}, {"ernie4_5-moe.expert_used_count", "u", 2}, {"ernie4_5-moe.expert_feed_forward_length", "u", 16}, {"ernie4_5-moe.expert_shared_count", "u", 1}, {"ernie4_5-moe.leading_dense_block_count", "u", 1}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.exp_probs_b.bias  flat  model.layers.%.mlp.moe_statics.e_score_correction_bias
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_experts.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_experts.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_experts.up_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-3].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-3].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-3].up_proj.weight]]},
  {name = "hunyuan_v1_dense", metadata = {{"general.architecture", "s", "hunyuan-dense"}, {"hunyuan-dense.context_length", "u", 64}, {"hunyuan-dense.embedding_length", "u", 32}, {"hunyuan-dense.block_count", "u", 2}, {"hunyuan-dense.feed_forward_length", "u", 48}, {"hunyuan-dense.attention.head_count", "u", 4}, {"hunyuan-dense.attention.head_count_kv", "u", 2}, {"hunyuan-dense.attention.key_length", "u", 8}, {"hunyuan-dense.attention.value_length", "u", 8}, {"hunyuan-dense.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"hunyuan-dense.rope.freq_base", "f", 10000.0}, {"hunyuan-dense.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.key_layernorm.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.query_layernorm.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "gemma", metadata = {{"general.architecture", "s", "gemma"}, {"gemma.context_length", "u", 64}, {"gemma.embedding_length", "u", 32}, {"gemma.block_count", "u", 2}, {"gemma.feed_forward_length", "u", 48}, {"gemma.attention.head_count", "u", 4}, {"gemma.attention.head_count_kv", "u", 2}, {"gemma.attention.key_length", "u", 16}, {"gemma.attention.value_length", "u", 16}, {"gemma.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"gemma.rope.freq_base", "f", 10000.0}, {"gemma.rope.dimension_count", "u", 16}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  plus  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  plus  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  plus  model.norm.weight]]},
  {name = "phi", metadata = {{"general.architecture", "s", "phi2"}, {"phi2.context_length", "u", 64}, {"phi2.embedding_length", "u", 32}, {"phi2.block_count", "u", 2}, {"phi2.feed_forward_length", "u", 48}, {"phi2.attention.head_count", "u", 4}, {"phi2.attention.head_count_kv", "u", 2}, {"phi2.attention.layer_norm_epsilon", "f", 1e-05}, {"phi2.rope.freq_base", "f", 10000.0}, {"phi2.rope.dimension_count", "u", 4}},
    tensors = [[output.bias  copy  lm_head.bias
output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
output_norm.bias  copy  model.final_layernorm.bias
output_norm.weight  copy  model.final_layernorm.weight
blk.%.attn_norm.bias  copy  model.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_up.bias  copy  model.layers.%.mlp.fc1.bias
blk.%.ffn_up.weight  copy  model.layers.%.mlp.fc1.weight
blk.%.ffn_down.bias  copy  model.layers.%.mlp.fc2.bias
blk.%.ffn_down.weight  copy  model.layers.%.mlp.fc2.weight
blk.%.attn_output.bias  copy  model.layers.%.self_attn.dense.bias
blk.%.attn_output.weight  copy  model.layers.%.self_attn.dense.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight]]},
  {name = "phi3", metadata = {{"general.architecture", "s", "phi3"}, {"phi3.context_length", "u", 64}, {"phi3.embedding_length", "u", 32}, {"phi3.block_count", "u", 2}, {"phi3.feed_forward_length", "u", 48}, {"phi3.attention.head_count", "u", 4}, {"phi3.attention.head_count_kv", "u", 2}, {"phi3.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"phi3.rope.freq_base", "f", 10000.0}, {"phi3.rope.dimension_count", "u", 8}, {"phi3.attention.sliding_window", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.gate_up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_qkv.weight  copy  model.layers.%.self_attn.qkv_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "phi3 longrope short", metadata = {{"general.architecture", "s", "phi3"}, {"phi3.context_length", "u", 64}, {"phi3.embedding_length", "u", 32}, {"phi3.block_count", "u", 2}, {"phi3.feed_forward_length", "u", 48}, {"phi3.attention.head_count", "u", 4}, {"phi3.attention.head_count_kv", "u", 2}, {"phi3.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"phi3.rope.freq_base", "f", 10000.0}, {"phi3.rope.dimension_count", "u", 8}, {"phi3.rope.scaling.original_context_length", "u", 32}, {"phi3.rope.scaling.attn_factor", "f", 1.095445156097412}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.gate_up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_qkv.weight  copy  model.layers.%.self_attn.qkv_proj.weight
output_norm.weight  copy  model.norm.weight
rope_factors_long.weight  values 1,2,3,5  -
rope_factors_short.weight  values 1,1.25,1.5,2  -]]},
  {name = "phi3 longrope long", metadata = {{"general.architecture", "s", "phi3"}, {"phi3.context_length", "u", 64}, {"phi3.embedding_length", "u", 32}, {"phi3.block_count", "u", 2}, {"phi3.feed_forward_length", "u", 48}, {"phi3.attention.head_count", "u", 4}, {"phi3.attention.head_count_kv", "u", 2}, {"phi3.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"phi3.rope.freq_base", "f", 10000.0}, {"phi3.rope.dimension_count", "u", 8}, {"phi3.rope.scaling.original_context_length", "u", 8}, {"phi3.rope.scaling.attn_factor", "f", 1.4142135381698608}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.gate_up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_qkv.weight  copy  model.layers.%.self_attn.qkv_proj.weight
output_norm.weight  copy  model.norm.weight
rope_factors_long.weight  values 1,2,3,5  -
rope_factors_short.weight  values 1,1.25,1.5,2  -]]},
  {name = "olmo", metadata = {{"general.architecture", "s", "olmo"}, {"olmo.context_length", "u", 64}, {"olmo.embedding_length", "u", 32}, {"olmo.block_count", "u", 2}, {"olmo.feed_forward_length", "u", 48}, {"olmo.attention.head_count", "u", 4}, {"olmo.attention.head_count_kv", "u", 2}, {"olmo.rope.freq_base", "f", 10000.0}, {"olmo.rope.dimension_count", "u", 8}, {"olmo.attention.clamp_kqv", "f", 1.5}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight]]},
  {name = "olmo2", metadata = {{"general.architecture", "s", "olmo2"}, {"olmo2.context_length", "u", 64}, {"olmo2.embedding_length", "u", 32}, {"olmo2.block_count", "u", 2}, {"olmo2.feed_forward_length", "u", 48}, {"olmo2.attention.head_count", "u", 4}, {"olmo2.attention.head_count_kv", "u", 2}, {"olmo2.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"olmo2.rope.freq_base", "f", 10000.0}, {"olmo2.rope.dimension_count", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  copy  model.layers.%.post_feedforward_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "olmo3", metadata = {{"general.architecture", "s", "olmo2"}, {"olmo2.context_length", "u", 64}, {"olmo2.embedding_length", "u", 32}, {"olmo2.block_count", "u", 4}, {"olmo2.feed_forward_length", "u", 48}, {"olmo2.attention.head_count", "u", 4}, {"olmo2.attention.head_count_kv", "u", 2}, {"olmo2.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"olmo2.rope.freq_base", "f", 500000.0}, {"olmo2.rope.dimension_count", "u", 8}, {"olmo2.attention.sliding_window", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  copy  model.layers.%.post_feedforward_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "olmoe", metadata = {{"general.architecture", "s", "olmoe"}, {"olmoe.context_length", "u", 64}, {"olmoe.embedding_length", "u", 32}, {"olmoe.block_count", "u", 2}, {"olmoe.feed_forward_length", "u", 48}, {"olmoe.attention.head_count", "u", 4}, {"olmoe.attention.head_count_kv", "u", 2}, {"olmoe.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"olmoe.rope.freq_base", "f", 10000.0}, {"olmoe.rope.dimension_count", "u", 8}, {"olmoe.expert_count", "u", 4}, {"olmoe.expert_used_count", "u", 2}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-3].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-3].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-3].up_proj.weight]]},
  {name = "exaone4", metadata = {{"general.architecture", "s", "exaone4"}, {"exaone4.context_length", "u", 64}, {"exaone4.embedding_length", "u", 32}, {"exaone4.block_count", "u", 4}, {"exaone4.feed_forward_length", "u", 48}, {"exaone4.attention.head_count", "u", 4}, {"exaone4.attention.head_count_kv", "u", 2}, {"exaone4.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"exaone4.rope.freq_base", "f", 10000.0}, {"exaone4.rope.dimension_count", "u", 8}, {"exaone4.attention.sliding_window", "u", 8}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  copy  model.layers.%.post_feedforward_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "exaone4 no window", metadata = {{"general.architecture", "s", "exaone4"}, {"exaone4.context_length", "u", 64}, {"exaone4.embedding_length", "u", 32}, {"exaone4.block_count", "u", 2}, {"exaone4.feed_forward_length", "u", 48}, {"exaone4.attention.head_count", "u", 4}, {"exaone4.attention.head_count_kv", "u", 2}, {"exaone4.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"exaone4.rope.freq_base", "f", 10000.0}, {"exaone4.rope.dimension_count", "u", 8}, {"exaone4.attention.sliding_window", "u", 4096}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  copy  model.layers.%.post_feedforward_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "granite", metadata = {{"general.architecture", "s", "granite"}, {"granite.context_length", "u", 64}, {"granite.embedding_length", "u", 32}, {"granite.block_count", "u", 2}, {"granite.feed_forward_length", "u", 48}, {"granite.attention.head_count", "u", 4}, {"granite.attention.head_count_kv", "u", 2}, {"granite.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"granite.rope.freq_base", "f", 10000.0}, {"granite.rope.dimension_count", "u", 8}, {"granite.attention.scale", "f", 0.25}, {"granite.embedding_scale", "f", 3.0}, {"granite.residual_scale", "f", 0.5}, {"granite.logit_scale", "f", 2.0}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "granitemoe", metadata = {{"general.architecture", "s", "granitemoe"}, {"granitemoe.context_length", "u", 64}, {"granitemoe.embedding_length", "u", 32}, {"granitemoe.block_count", "u", 2}, {"granitemoe.feed_forward_length", "u", 48}, {"granitemoe.attention.head_count", "u", 4}, {"granitemoe.attention.head_count_kv", "u", 2}, {"granitemoe.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"granitemoe.rope.freq_base", "f", 10000.0}, {"granitemoe.rope.dimension_count", "u", 8}, {"granitemoe.attention.scale", "f", 1.0}, {"granitemoe.embedding_scale", "f", 1.0}, {"granitemoe.residual_scale", "f", 0.5}, {"granitemoe.logit_scale", "f", 1.0}, {"granitemoe.expert_count", "u", 4}, {"granitemoe.expert_used_count", "u", 2}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_gate_exps.weight  half 0  model.layers.%.block_sparse_moe.input_linear.weight
blk.%.ffn_up_exps.weight  half 1  model.layers.%.block_sparse_moe.input_linear.weight
blk.%.ffn_down_exps.weight  copy  model.layers.%.block_sparse_moe.output_linear.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.block_sparse_moe.router.layer.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "granitemoeshared", metadata = {{"general.architecture", "s", "granitemoe"}, {"granitemoe.context_length", "u", 64}, {"granitemoe.embedding_length", "u", 32}, {"granitemoe.block_count", "u", 2}, {"granitemoe.feed_forward_length", "u", 48}, {"granitemoe.attention.head_count", "u", 4}, {"granitemoe.attention.head_count_kv", "u", 2}, {"granitemoe.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"granitemoe.rope.freq_base", "f", 10000.0}, {"granitemoe.rope.dimension_count", "u", 8}, {"granitemoe.attention.scale", "f", 1.0}, {"granitemoe.embedding_scale", "f", 1.0}, {"granitemoe.residual_scale", "f", 1.0}, {"granitemoe.logit_scale", "f", 1.0}, {"granitemoe.expert_count", "u", 4}, {"granitemoe.expert_used_count", "u", 2}, {"granitemoe.expert_shared_feed_forward_length", "u", 24}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.ffn_gate_exps.weight  half 0  model.layers.%.block_sparse_moe.input_linear.weight
blk.%.ffn_up_exps.weight  half 1  model.layers.%.block_sparse_moe.input_linear.weight
blk.%.ffn_down_exps.weight  copy  model.layers.%.block_sparse_moe.output_linear.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.block_sparse_moe.router.layer.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  pairs 2  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  pairs 4  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
blk.%.ffn_gate_shexp.weight  part 0  model.layers.%.shared_mlp.input_linear.weight
blk.%.ffn_up_shexp.weight  part 1  model.layers.%.shared_mlp.input_linear.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.shared_mlp.output_linear.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "cohere", metadata = {{"general.architecture", "s", "command-r"}, {"command-r.context_length", "u", 64}, {"command-r.embedding_length", "u", 32}, {"command-r.block_count", "u", 2}, {"command-r.feed_forward_length", "u", 48}, {"command-r.attention.head_count", "u", 4}, {"command-r.attention.head_count_kv", "u", 2}, {"command-r.attention.layer_norm_epsilon", "f", 1e-05}, {"command-r.rope.freq_base", "f", 500000.0}, {"command-r.rope.dimension_count", "u", 8}, {"command-r.logit_scale", "f", 0.0625}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "cohere2", metadata = {{"general.architecture", "s", "cohere2"}, {"cohere2.context_length", "u", 64}, {"cohere2.embedding_length", "u", 32}, {"cohere2.block_count", "u", 4}, {"cohere2.feed_forward_length", "u", 48}, {"cohere2.attention.head_count", "u", 4}, {"cohere2.attention.head_count_kv", "u", 2}, {"cohere2.attention.key_length", "u", 8}, {"cohere2.attention.value_length", "u", 8}, {"cohere2.attention.layer_norm_epsilon", "f", 1e-05}, {"cohere2.rope.freq_base", "f", 10000.0}, {"cohere2.rope.dimension_count", "u", 8}, {"cohere2.attention.sliding_window", "u", 8}, {"cohere2.logit_scale", "f", 0.5}},
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "stablelm", metadata = {{"general.architecture", "s", "stablelm"}, {"stablelm.context_length", "u", 64}, {"stablelm.embedding_length", "u", 32}, {"stablelm.block_count", "u", 2}, {"stablelm.feed_forward_length", "u", 48}, {"stablelm.attention.head_count", "u", 4}, {"stablelm.attention.head_count_kv", "u", 2}, {"stablelm.attention.layer_norm_epsilon", "f", 1e-05}, {"stablelm.rope.freq_base", "f", 10000.0}, {"stablelm.rope.dimension_count", "u", 2}, {"stablelm.use_parallel_residual", "b", false}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.bias  copy  model.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.bias  copy  model.layers.%.post_attention_layernorm.bias
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.bias  copy  model.norm.bias
output_norm.weight  copy  model.norm.weight]]},
  {name = "stablelm parallel", metadata = {{"general.architecture", "s", "stablelm"}, {"stablelm.context_length", "u", 64}, {"stablelm.embedding_length", "u", 32}, {"stablelm.block_count", "u", 2}, {"stablelm.feed_forward_length", "u", 48}, {"stablelm.attention.head_count", "u", 4}, {"stablelm.attention.head_count_kv", "u", 2}, {"stablelm.attention.layer_norm_epsilon", "f", 1e-05}, {"stablelm.rope.freq_base", "f", 10000.0}, {"stablelm.rope.dimension_count", "u", 2}, {"stablelm.use_parallel_residual", "b", true}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.bias  copy  model.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.bias  copy  model.norm.bias
output_norm.weight  copy  model.norm.weight]]},
  {name = "nemotron", metadata = {{"general.architecture", "s", "nemotron"}, {"nemotron.context_length", "u", 64}, {"nemotron.embedding_length", "u", 32}, {"nemotron.block_count", "u", 2}, {"nemotron.feed_forward_length", "u", 48}, {"nemotron.attention.head_count", "u", 4}, {"nemotron.attention.head_count_kv", "u", 2}, {"nemotron.attention.key_length", "u", 8}, {"nemotron.attention.value_length", "u", 8}, {"nemotron.attention.layer_norm_epsilon", "f", 1e-05}, {"nemotron.rope.freq_base", "f", 10000.0}, {"nemotron.rope.dimension_count", "u", 4}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.bias  copy  model.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  plus  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.bias  copy  model.layers.%.post_attention_layernorm.bias
blk.%.ffn_norm.weight  plus  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.bias  copy  model.norm.bias
output_norm.weight  plus  model.norm.weight]]},
  {name = "glm4", metadata = {{"general.architecture", "s", "glm4"}, {"glm4.context_length", "u", 64}, {"glm4.embedding_length", "u", 32}, {"glm4.block_count", "u", 2}, {"glm4.feed_forward_length", "u", 48}, {"glm4.attention.head_count", "u", 4}, {"glm4.attention.head_count_kv", "u", 2}, {"glm4.attention.key_length", "u", 8}, {"glm4.attention.value_length", "u", 8}, {"glm4.attention.layer_norm_rms_epsilon", "f", 1.5625e-07}, {"glm4.rope.freq_base", "f", 10000.0}, {"glm4.rope.dimension_count", "u", 4}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.gate_up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  copy  model.layers.%.post_mlp_layernorm.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_self_attn_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "glm4_moe", metadata = {{"general.architecture", "s", "glm4moe"}, {"glm4moe.context_length", "u", 64}, {"glm4moe.embedding_length", "u", 32}, {"glm4moe.block_count", "u", 2}, {"glm4moe.feed_forward_length", "u", 48}, {"glm4moe.attention.head_count", "u", 4}, {"glm4moe.attention.head_count_kv", "u", 2}, {"glm4moe.attention.key_length", "u", 8}, {"glm4moe.attention.value_length", "u", 8}, {"glm4moe.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"glm4moe.rope.freq_base", "f", 10000.0}, {"glm4moe.rope.dimension_count", "u", 4}, {"glm4moe.expert_count", "u", 8}, {"glm4moe.expert_used_count", "u", 2}, {"glm4moe.expert_feed_forward_length", "u", 16}, {"glm4moe.expert_shared_count", "u", 1}, {"glm4moe.expert_group_count", "u", 4}, {"glm4moe.expert_group_used_count", "u", 2}, {"glm4moe.expert_weights_scale", "f", 1.5}, {"glm4moe.expert_weights_norm", "b", true}, {"glm4moe.leading_dense_block_count", "u", 1}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
blk.%.exp_probs_b.bias  copy  model.layers.%.mlp.gate.e_score_correction_bias
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_experts.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_experts.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_experts.up_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-7].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-7].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-7].up_proj.weight]]},
  {name = "dots1", metadata = {{"general.architecture", "s", "dots1"}, {"dots1.context_length", "u", 64}, {"dots1.embedding_length", "u", 32}, {"dots1.block_count", "u", 2}, {"dots1.feed_forward_length", "u", 48}, {"dots1.attention.head_count", "u", 4}, {"dots1.attention.head_count_kv", "u", 2}, {"dots1.attention.key_length", "u", 8}, {"dots1.attention.value_length", "u", 8}, {"dots1.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"dots1.rope.freq_base", "f", 10000.0}, {"dots1.rope.dimension_count", "u", 8}, {"dots1.expert_count", "u", 8}, {"dots1.expert_used_count", "u", 2}, {"dots1.expert_feed_forward_length", "u", 16}, {"dots1.expert_shared_count", "u", 1}, {"dots1.expert_group_count", "u", 2}, {"dots1.expert_group_used_count", "u", 1}, {"dots1.expert_weights_scale", "f", 1.0}, {"dots1.expert_weights_norm", "b", false}, {"dots1.leading_dense_block_count", "u", 1}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
blk.%.exp_probs_b.bias  copy  model.layers.%.mlp.gate.e_score_correction_bias
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_experts.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_experts.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_experts.up_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-7].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-7].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-7].up_proj.weight]]},
  {name = "deepseek_v2", metadata = {{"general.architecture", "s", "deepseek2"}, {"deepseek2.context_length", "u", 64}, {"deepseek2.embedding_length", "u", 32}, {"deepseek2.block_count", "u", 2}, {"deepseek2.feed_forward_length", "u", 48}, {"deepseek2.attention.head_count", "u", 4}, {"deepseek2.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"deepseek2.rope.freq_base", "f", 10000.0}, {"deepseek2.attention.head_count_kv", "u", 1}, {"deepseek2.attention.q_lora_rank", "u", 1536}, {"deepseek2.attention.kv_lora_rank", "u", 16}, {"deepseek2.attention.key_length", "u", 20}, {"deepseek2.attention.value_length", "u", 16}, {"deepseek2.attention.key_length_mla", "u", 12}, {"deepseek2.attention.value_length_mla", "u", 12}, {"deepseek2.rope.dimension_count", "u", 4}, {"deepseek2.expert_gating_func", "u", 1}, {"deepseek2.expert_count", "u", 8}, {"deepseek2.expert_used_count", "u", 2}, {"deepseek2.expert_feed_forward_length", "u", 16}, {"deepseek2.expert_shared_count", "u", 1}, {"deepseek2.expert_weights_scale", "f", 1.5}, {"deepseek2.expert_weights_norm", "b", false}, {"deepseek2.leading_dense_block_count", "u", 1}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_kv_a_norm.weight  copy  model.layers.%.self_attn.kv_a_layernorm.weight
blk.%.attn_kv_a_mqa.weight  copy  model.layers.%.self_attn.kv_a_proj_with_mqa.weight
blk.%.attn_k_b.weight  latentk 4 8 12  model.layers.%.self_attn.kv_b_proj.weight
blk.%.attn_v_b.weight  latentv 4 8 12  model.layers.%.self_attn.kv_b_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_a_norm.weight  copy  model.layers.%.self_attn.q_a_layernorm.weight
blk.%.attn_q_a.weight  copy  model.layers.%.self_attn.q_a_proj.weight
blk.%.attn_q_b.weight  copy  model.layers.%.self_attn.q_b_proj.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_experts.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_experts.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_experts.up_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-7].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-7].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-7].up_proj.weight]]},
  {name = "deepseek_v3", metadata = {{"general.architecture", "s", "deepseek2"}, {"deepseek2.context_length", "u", 64}, {"deepseek2.embedding_length", "u", 32}, {"deepseek2.block_count", "u", 2}, {"deepseek2.feed_forward_length", "u", 48}, {"deepseek2.attention.head_count", "u", 4}, {"deepseek2.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"deepseek2.rope.freq_base", "f", 10000.0}, {"deepseek2.attention.head_count_kv", "u", 1}, {"deepseek2.attention.q_lora_rank", "u", 16}, {"deepseek2.attention.kv_lora_rank", "u", 16}, {"deepseek2.attention.key_length", "u", 20}, {"deepseek2.attention.value_length", "u", 16}, {"deepseek2.attention.key_length_mla", "u", 12}, {"deepseek2.attention.value_length_mla", "u", 12}, {"deepseek2.rope.dimension_count", "u", 4}, {"deepseek2.expert_gating_func", "u", 2}, {"deepseek2.expert_count", "u", 8}, {"deepseek2.expert_used_count", "u", 2}, {"deepseek2.expert_feed_forward_length", "u", 16}, {"deepseek2.expert_shared_count", "u", 1}, {"deepseek2.expert_group_count", "u", 4}, {"deepseek2.expert_group_used_count", "u", 2}, {"deepseek2.expert_weights_scale", "f", 2.5}, {"deepseek2.expert_weights_norm", "b", true}, {"deepseek2.leading_dense_block_count", "u", 1}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_kv_a_norm.weight  copy  model.layers.%.self_attn.kv_a_layernorm.weight
blk.%.attn_kv_a_mqa.weight  copy  model.layers.%.self_attn.kv_a_proj_with_mqa.weight
blk.%.attn_k_b.weight  latentk 4 8 12  model.layers.%.self_attn.kv_b_proj.weight
blk.%.attn_v_b.weight  latentv 4 8 12  model.layers.%.self_attn.kv_b_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_a_norm.weight  copy  model.layers.%.self_attn.q_a_layernorm.weight
blk.%.attn_q_a.weight  copy  model.layers.%.self_attn.q_a_proj.weight
blk.%.attn_q_b.weight  copy  model.layers.%.self_attn.q_b_proj.weight
blk.%.exp_probs_b.bias  copy  model.layers.%.mlp.gate.e_score_correction_bias
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_experts.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_experts.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_experts.up_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-7].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-7].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-7].up_proj.weight]]},
  {name = "gpt_oss", metadata = {{"general.architecture", "s", "gpt-oss"}, {"gpt-oss.context_length", "u", 64}, {"gpt-oss.embedding_length", "u", 32}, {"gpt-oss.block_count", "u", 2}, {"gpt-oss.feed_forward_length", "u", 48}, {"gpt-oss.attention.head_count", "u", 4}, {"gpt-oss.attention.head_count_kv", "u", 2}, {"gpt-oss.attention.key_length", "u", 8}, {"gpt-oss.attention.value_length", "u", 8}, {"gpt-oss.attention.layer_norm_rms_epsilon", "f", 1e-05}, {"gpt-oss.rope.freq_base", "f", 10000.0}, {"gpt-oss.rope.dimension_count", "u", 8}, {"gpt-oss.rope.scaling.type", "s", "yarn"}, {"gpt-oss.rope.scaling.factor", "f", 4.0}, {"gpt-oss.rope.scaling.original_context_length", "u", 16}, {"gpt-oss.attention.sliding_window", "u", 8}, {"gpt-oss.expert_count", "u", 4}, {"gpt-oss.expert_used_count", "u", 2}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down_exps.weight  turn  model.layers.%.mlp.experts.down_proj
blk.%.ffn_down_exps.bias  copy  model.layers.%.mlp.experts.down_proj_bias
blk.%.ffn_gate_exps.weight  alternate 0  model.layers.%.mlp.experts.gate_up_proj
blk.%.ffn_up_exps.weight  alternate 1  model.layers.%.mlp.experts.gate_up_proj
blk.%.ffn_gate_exps.bias  alternate 0  model.layers.%.mlp.experts.gate_up_proj_bias
blk.%.ffn_up_exps.bias  alternate 1  model.layers.%.mlp.experts.gate_up_proj_bias
blk.%.ffn_gate_inp.bias  copy  model.layers.%.mlp.router.bias
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.router.weight
blk.%.post_attention_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.bias  copy  model.layers.%.self_attn.o_proj.bias
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_sinks.weight  copy  model.layers.%.self_attn.sinks
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight]]},
  {name = "falcon", metadata = {{"general.architecture", "s", "falcon"}, {"falcon.context_length", "u", 64}, {"falcon.embedding_length", "u", 32}, {"falcon.block_count", "u", 2}, {"falcon.feed_forward_length", "u", 80}, {"falcon.attention.head_count", "u", 4}, {"falcon.attention.head_count_kv", "u", 1}, {"falcon.attention.layer_norm_epsilon", "f", 1e-05}, {"falcon.rope.freq_base", "f", 10000.0}, {"falcon.rope.dimension_count", "u", 8}},
    tensors = [[blk.%.attn_norm.bias  copy  transformer.h.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  transformer.h.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  transformer.h.%.mlp.dense_4h_to_h.weight
blk.%.ffn_up.weight  copy  transformer.h.%.mlp.dense_h_to_4h.weight
blk.%.attn_output.weight  copy  transformer.h.%.self_attention.dense.weight
blk.%.attn_qkv.weight  blocks 1 4,1,1  transformer.h.%.self_attention.query_key_value.weight
output_norm.bias  copy  transformer.ln_f.bias
output_norm.weight  copy  transformer.ln_f.weight
token_embd.weight  copy  transformer.word_embeddings.weight]]},
  {name = "falcon new", metadata = {{"general.architecture", "s", "falcon"}, {"falcon.context_length", "u", 64}, {"falcon.embedding_length", "u", 32}, {"falcon.block_count", "u", 2}, {"falcon.feed_forward_length", "u", 80}, {"falcon.attention.head_count", "u", 4}, {"falcon.attention.head_count_kv", "u", 2}, {"falcon.attention.layer_norm_epsilon", "f", 1e-05}, {"falcon.rope.freq_base", "f", 10000.0}, {"falcon.rope.dimension_count", "u", 8}},
    tensors = [[blk.%.attn_norm_2.bias  copy  transformer.h.%.ln_attn.bias
blk.%.attn_norm_2.weight  copy  transformer.h.%.ln_attn.weight
blk.%.attn_norm.bias  copy  transformer.h.%.ln_mlp.bias
blk.%.attn_norm.weight  copy  transformer.h.%.ln_mlp.weight
blk.%.ffn_down.bias  copy  transformer.h.%.mlp.dense_4h_to_h.bias
blk.%.ffn_down.weight  copy  transformer.h.%.mlp.dense_4h_to_h.weight
blk.%.ffn_up.bias  copy  transformer.h.%.mlp.dense_h_to_4h.bias
blk.%.ffn_up.weight  copy  transformer.h.%.mlp.dense_h_to_4h.weight
blk.%.attn_output.bias  copy  transformer.h.%.self_attention.dense.bias
blk.%.attn_output.weight  copy  transformer.h.%.self_attention.dense.weight
blk.%.attn_qkv.bias  blocks 2 2,1,1  transformer.h.%.self_attention.query_key_value.bias
blk.%.attn_qkv.weight  blocks 2 2,1,1  transformer.h.%.self_attention.query_key_value.weight
output_norm.bias  copy  transformer.ln_f.bias
output_norm.weight  copy  transformer.ln_f.weight
token_embd.weight  copy  transformer.word_embeddings.weight]]},
  {name = "minimax_m2", metadata = {{"general.architecture", "s", "minimax-m2"}, {"minimax-m2.context_length", "u", 64}, {"minimax-m2.embedding_length", "u", 32}, {"minimax-m2.block_count", "u", 2}, {"minimax-m2.feed_forward_length", "u", 48}, {"minimax-m2.attention.head_count", "u", 4}, {"minimax-m2.attention.head_count_kv", "u", 2}, {"minimax-m2.attention.key_length", "u", 8}, {"minimax-m2.attention.value_length", "u", 8}, {"minimax-m2.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"minimax-m2.rope.freq_base", "f", 5000000.0}, {"minimax-m2.rope.dimension_count", "u", 8}, {"minimax-m2.expert_count", "u", 4}, {"minimax-m2.expert_used_count", "u", 2}},
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.exp_probs_b.bias  copy  model.layers.%.block_sparse_moe.e_score_correction_bias
blk.%.ffn_gate_inp.weight  copy  model.layers.%.block_sparse_moe.gate.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k_norm.weight  copy  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  copy  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.block_sparse_moe.experts.[0-3].w1.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.block_sparse_moe.experts.[0-3].w2.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.block_sparse_moe.experts.[0-3].w3.weight]]},
  {name = "gpt_neox", metadata = {{"general.architecture", "s", "gptneox"}, {"gptneox.context_length", "u", 64}, {"gptneox.embedding_length", "u", 32}, {"gptneox.block_count", "u", 2}, {"gptneox.feed_forward_length", "u", 48}, {"gptneox.attention.head_count", "u", 4}, {"gptneox.attention.head_count_kv", "u", 4}, {"gptneox.attention.layer_norm_epsilon", "f", 1e-05}, {"gptneox.rope.freq_base", "f", 10000.0}, {"gptneox.rope.dimension_count", "u", 2}, {"gptneox.use_parallel_residual", "b", true}},
    tensors = [[output.weight  copy  embed_out.weight
token_embd.weight  copy  gpt_neox.embed_in.weight
output_norm.bias  copy  gpt_neox.final_layer_norm.bias
output_norm.weight  copy  gpt_neox.final_layer_norm.weight
blk.%.attn_output.bias  copy  gpt_neox.layers.%.attention.dense.bias
blk.%.attn_output.weight  copy  gpt_neox.layers.%.attention.dense.weight
blk.%.attn_qkv.bias  blocks 4 1,1,1  gpt_neox.layers.%.attention.query_key_value.bias
blk.%.attn_qkv.weight  blocks 4 1,1,1  gpt_neox.layers.%.attention.query_key_value.weight
blk.%.attn_norm.bias  copy  gpt_neox.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  gpt_neox.layers.%.input_layernorm.weight
blk.%.ffn_down.bias  copy  gpt_neox.layers.%.mlp.dense_4h_to_h.bias
blk.%.ffn_down.weight  copy  gpt_neox.layers.%.mlp.dense_4h_to_h.weight
blk.%.ffn_up.bias  copy  gpt_neox.layers.%.mlp.dense_h_to_4h.bias
blk.%.ffn_up.weight  copy  gpt_neox.layers.%.mlp.dense_h_to_4h.weight
blk.%.ffn_norm.bias  copy  gpt_neox.layers.%.post_attention_layernorm.bias
blk.%.ffn_norm.weight  copy  gpt_neox.layers.%.post_attention_layernorm.weight]]},
  {name = "gpt_neox sequential", metadata = {{"general.architecture", "s", "gptneox"}, {"gptneox.context_length", "u", 64}, {"gptneox.embedding_length", "u", 32}, {"gptneox.block_count", "u", 2}, {"gptneox.feed_forward_length", "u", 48}, {"gptneox.attention.head_count", "u", 4}, {"gptneox.attention.head_count_kv", "u", 4}, {"gptneox.attention.layer_norm_epsilon", "f", 1e-05}, {"gptneox.rope.freq_base", "f", 10000.0}, {"gptneox.rope.dimension_count", "u", 2}, {"gptneox.use_parallel_residual", "b", false}},
    tensors = [[output.weight  copy  embed_out.weight
token_embd.weight  copy  gpt_neox.embed_in.weight
output_norm.bias  copy  gpt_neox.final_layer_norm.bias
output_norm.weight  copy  gpt_neox.final_layer_norm.weight
blk.%.attn_output.bias  copy  gpt_neox.layers.%.attention.dense.bias
blk.%.attn_output.weight  copy  gpt_neox.layers.%.attention.dense.weight
blk.%.attn_qkv.bias  blocks 4 1,1,1  gpt_neox.layers.%.attention.query_key_value.bias
blk.%.attn_qkv.weight  blocks 4 1,1,1  gpt_neox.layers.%.attention.query_key_value.weight
blk.%.attn_norm.bias  copy  gpt_neox.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  gpt_neox.layers.%.input_layernorm.weight
blk.%.ffn_down.bias  copy  gpt_neox.layers.%.mlp.dense_4h_to_h.bias
blk.%.ffn_down.weight  copy  gpt_neox.layers.%.mlp.dense_4h_to_h.weight
blk.%.ffn_up.bias  copy  gpt_neox.layers.%.mlp.dense_h_to_4h.bias
blk.%.ffn_up.weight  copy  gpt_neox.layers.%.mlp.dense_h_to_4h.weight
blk.%.ffn_norm.bias  copy  gpt_neox.layers.%.post_attention_layernorm.bias
blk.%.ffn_norm.weight  copy  gpt_neox.layers.%.post_attention_layernorm.weight]]},
  {name = "gpt_bigcode", metadata = {{"general.architecture", "s", "starcoder"}, {"starcoder.context_length", "u", 64}, {"starcoder.embedding_length", "u", 32}, {"starcoder.block_count", "u", 2}, {"starcoder.feed_forward_length", "u", 128}, {"starcoder.attention.head_count", "u", 4}, {"starcoder.attention.head_count_kv", "u", 1}, {"starcoder.attention.layer_norm_epsilon", "f", 1e-05}},
    tensors = [[blk.%.attn_qkv.bias  copy  transformer.h.%.attn.c_attn.bias
blk.%.attn_qkv.weight  copy  transformer.h.%.attn.c_attn.weight
blk.%.attn_output.bias  copy  transformer.h.%.attn.c_proj.bias
blk.%.attn_output.weight  copy  transformer.h.%.attn.c_proj.weight
blk.%.attn_norm.bias  copy  transformer.h.%.ln_1.bias
blk.%.attn_norm.weight  copy  transformer.h.%.ln_1.weight
blk.%.ffn_norm.bias  copy  transformer.h.%.ln_2.bias
blk.%.ffn_norm.weight  copy  transformer.h.%.ln_2.weight
blk.%.ffn_up.bias  copy  transformer.h.%.mlp.c_fc.bias
blk.%.ffn_up.weight  copy  transformer.h.%.mlp.c_fc.weight
blk.%.ffn_down.bias  copy  transformer.h.%.mlp.c_proj.bias
blk.%.ffn_down.weight  copy  transformer.h.%.mlp.c_proj.weight
output_norm.bias  copy  transformer.ln_f.bias
output_norm.weight  copy  transformer.ln_f.weight
position_embd.weight  copy  transformer.wpe.weight
token_embd.weight  copy  transformer.wte.weight]]},
  {name = "gpt_bigcode heads", metadata = {{"general.architecture", "s", "starcoder"}, {"starcoder.context_length", "u", 64}, {"starcoder.embedding_length", "u", 32}, {"starcoder.block_count", "u", 2}, {"starcoder.feed_forward_length", "u", 128}, {"starcoder.attention.head_count", "u", 4}, {"starcoder.attention.head_count_kv", "u", 4}, {"starcoder.attention.layer_norm_epsilon", "f", 1e-05}},
    tensors = [[blk.%.attn_qkv.bias  blocks 4 1,1,1  transformer.h.%.attn.c_attn.bias
blk.%.attn_qkv.weight  blocks 4 1,1,1  transformer.h.%.attn.c_attn.weight
blk.%.attn_output.bias  copy  transformer.h.%.attn.c_proj.bias
blk.%.attn_output.weight  copy  transformer.h.%.attn.c_proj.weight
blk.%.attn_norm.bias  copy  transformer.h.%.ln_1.bias
blk.%.attn_norm.weight  copy  transformer.h.%.ln_1.weight
blk.%.ffn_norm.bias  copy  transformer.h.%.ln_2.bias
blk.%.ffn_norm.weight  copy  transformer.h.%.ln_2.weight
blk.%.ffn_up.bias  copy  transformer.h.%.mlp.c_fc.bias
blk.%.ffn_up.weight  copy  transformer.h.%.mlp.c_fc.weight
blk.%.ffn_down.bias  copy  transformer.h.%.mlp.c_proj.bias
blk.%.ffn_down.weight  copy  transformer.h.%.mlp.c_proj.weight
output_norm.bias  copy  transformer.ln_f.bias
output_norm.weight  copy  transformer.ln_f.weight
position_embd.weight  copy  transformer.wpe.weight
token_embd.weight  copy  transformer.wte.weight]]},
  {name = "bloom", metadata = {{"general.architecture", "s", "bloom"}, {"bloom.embedding_length", "u", 48}, {"bloom.block_count", "u", 2}, {"bloom.feed_forward_length", "u", 192}, {"bloom.attention.head_count", "u", 6}, {"bloom.attention.head_count_kv", "u", 6}, {"bloom.attention.layer_norm_epsilon", "f", 1e-05}},
    tensors = [[blk.%.attn_norm.bias  copy  transformer.h.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  transformer.h.%.input_layernorm.weight
blk.%.ffn_down.bias  copy  transformer.h.%.mlp.dense_4h_to_h.bias
blk.%.ffn_down.weight  copy  transformer.h.%.mlp.dense_4h_to_h.weight
blk.%.ffn_up.bias  copy  transformer.h.%.mlp.dense_h_to_4h.bias
blk.%.ffn_up.weight  copy  transformer.h.%.mlp.dense_h_to_4h.weight
blk.%.ffn_norm.bias  copy  transformer.h.%.post_attention_layernorm.bias
blk.%.ffn_norm.weight  copy  transformer.h.%.post_attention_layernorm.weight
blk.%.attn_output.bias  copy  transformer.h.%.self_attention.dense.bias
blk.%.attn_output.weight  copy  transformer.h.%.self_attention.dense.weight
blk.%.attn_qkv.bias  blocks 6 1,1,1  transformer.h.%.self_attention.query_key_value.bias
blk.%.attn_qkv.weight  blocks 6 1,1,1  transformer.h.%.self_attention.query_key_value.weight
output_norm.bias  copy  transformer.ln_f.bias
output_norm.weight  copy  transformer.ln_f.weight
token_embd.weight  copy  transformer.word_embeddings.weight
token_embd_norm.bias  copy  transformer.word_embeddings_layernorm.bias
token_embd_norm.weight  copy  transformer.word_embeddings_layernorm.weight]]},
  {name = "mpt", metadata = {{"general.architecture", "s", "mpt"}, {"mpt.context_length", "u", 64}, {"mpt.embedding_length", "u", 32}, {"mpt.block_count", "u", 2}, {"mpt.feed_forward_length", "u", 128}, {"mpt.attention.head_count", "u", 4}, {"mpt.attention.head_count_kv", "u", 4}, {"mpt.attention.layer_norm_epsilon", "f", 1e-05}, {"mpt.attention.clamp_kqv", "f", 1.5}},
    tensors = [[blk.%.attn_qkv.weight  copy  transformer.blocks.%.attn.Wqkv.weight
blk.%.attn_output.weight  copy  transformer.blocks.%.attn.out_proj.weight
blk.%.ffn_down.weight  copy  transformer.blocks.%.ffn.down_proj.weight
blk.%.ffn_up.weight  copy  transformer.blocks.%.ffn.up_proj.weight
blk.%.attn_norm.weight  copy  transformer.blocks.%.norm_1.weight
blk.%.ffn_norm.weight  copy  transformer.blocks.%.norm_2.weight
output_norm.weight  copy  transformer.norm_f.weight
token_embd.weight  copy  transformer.wte.weight]]},
  {name = "gemma2 16", metadata = {{"general.architecture", "s", "gemma2"}, {"gemma2.context_length", "u", 64}, {"gemma2.embedding_length", "u", 32}, {"gemma2.block_count", "u", 2}, {"gemma2.feed_forward_length", "u", 48}, {"gemma2.attention.head_count", "u", 4}, {"gemma2.attention.head_count_kv", "u", 2}, {"gemma2.attention.key_length", "u", 16}, {"gemma2.attention.value_length", "u", 16}, {"gemma2.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"gemma2.rope.freq_base", "f", 10000.0}, {"gemma2.rope.dimension_count", "u", 16}, {"gemma2.attention.sliding_window", "u", 8}, {"gemma2.attn_logit_softcapping", "f", 5.0}, {"gemma2.final_logit_softcapping", "f", 4.0}},
    config = [=[{"attention_bias": false, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 64, "model_type": "gemma2", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "query_pre_attn_scalar": 16, "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "sliding_window": 8, "tie_word_embeddings": true, "vocab_size": 64}]=],
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  plus  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  plus  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  plus  model.layers.%.post_feedforward_layernorm.weight
blk.%.ffn_norm.weight  plus  model.layers.%.pre_feedforward_layernorm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  plus  model.norm.weight]]},
  {name = "gemma3_text 16", metadata = {{"general.architecture", "s", "gemma3"}, {"gemma3.context_length", "u", 64}, {"gemma3.embedding_length", "u", 32}, {"gemma3.block_count", "u", 6}, {"gemma3.feed_forward_length", "u", 48}, {"gemma3.attention.head_count", "u", 4}, {"gemma3.attention.head_count_kv", "u", 2}, {"gemma3.attention.key_length", "u", 16}, {"gemma3.attention.value_length", "u", 16}, {"gemma3.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"gemma3.rope.freq_base", "f", 1000000.0}, {"gemma3.rope.dimension_count", "u", 16}, {"gemma3.rope.freq_base_swa", "f", 10000.0}, {"gemma3.attention.sliding_window", "u", 8}},
    config = [=[{"_sliding_window_pattern": 6, "attention_bias": false, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "max_position_embeddings": 64, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 6, "num_key_value_heads": 2, "query_pre_attn_scalar": 16, "rms_norm_eps": 1e-06, "rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}, "sliding_window": 8, "tie_word_embeddings": true, "use_bidirectional_attention": false, "vocab_size": 64}]=],
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  plus  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  plus  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  plus  model.layers.%.post_feedforward_layernorm.weight
blk.%.ffn_norm.weight  plus  model.layers.%.pre_feedforward_layernorm.weight
blk.%.attn_k_norm.weight  plus  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  plus  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  plus  model.norm.weight]]},
  {name = "gemma3_text linear 8", metadata = {{"general.architecture", "s", "gemma3"}, {"gemma3.context_length", "u", 64}, {"gemma3.embedding_length", "u", 32}, {"gemma3.block_count", "u", 6}, {"gemma3.feed_forward_length", "u", 48}, {"gemma3.attention.head_count", "u", 4}, {"gemma3.attention.head_count_kv", "u", 2}, {"gemma3.attention.key_length", "u", 8}, {"gemma3.attention.value_length", "u", 8}, {"gemma3.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"gemma3.rope.freq_base", "f", 1000000.0}, {"gemma3.rope.dimension_count", "u", 8}, {"gemma3.rope.freq_base_swa", "f", 10000.0}, {"gemma3.rope.scaling.type", "s", "linear"}, {"gemma3.rope.scaling.factor", "f", 8.0}, {"gemma3.attention.sliding_window", "u", 8}},
    config = [=[{"_sliding_window_pattern": 6, "attention_bias": false, "head_dim": 8, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "max_position_embeddings": 64, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 6, "num_key_value_heads": 2, "query_pre_attn_scalar": 8, "rms_norm_eps": 1e-06, "rope_parameters": {"full_attention": {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}, "sliding_window": 8, "tie_word_embeddings": true, "use_bidirectional_attention": false, "vocab_size": 64}]=],
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  plus  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.post_attention_norm.weight  plus  model.layers.%.post_attention_layernorm.weight
blk.%.post_ffw_norm.weight  plus  model.layers.%.post_feedforward_layernorm.weight
blk.%.ffn_norm.weight  plus  model.layers.%.pre_feedforward_layernorm.weight
blk.%.attn_k_norm.weight  plus  model.layers.%.self_attn.k_norm.weight
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_norm.weight  plus  model.layers.%.self_attn.q_norm.weight
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.weight  plus  model.norm.weight]]},
  {name = "deepseek_v2 yarn", metadata = {{"general.architecture", "s", "deepseek2"}, {"deepseek2.context_length", "u", 64}, {"deepseek2.embedding_length", "u", 32}, {"deepseek2.block_count", "u", 2}, {"deepseek2.feed_forward_length", "u", 48}, {"deepseek2.attention.head_count", "u", 4}, {"deepseek2.attention.layer_norm_rms_epsilon", "f", 1e-06}, {"deepseek2.rope.freq_base", "f", 10000.0}, {"deepseek2.rope.scaling.type", "s", "yarn"}, {"deepseek2.rope.scaling.factor", "f", 4.0}, {"deepseek2.rope.scaling.original_context_length", "u", 16}, {"deepseek2.attention.head_count_kv", "u", 1}, {"deepseek2.attention.q_lora_rank", "u", 16}, {"deepseek2.attention.kv_lora_rank", "u", 16}, {"deepseek2.attention.key_length", "u", 20}, {"deepseek2.attention.value_length", "u", 16}, {"deepseek2.attention.key_length_mla", "u", 12}, {"deepseek2.attention.value_length_mla", "u", 12}, {"deepseek2.rope.dimension_count", "u", 4}, {"deepseek2.expert_gating_func", "u", 1}, {"deepseek2.rope.scaling.yarn_log_multiplier", "f", 0.06999999999999999}, {"deepseek2.expert_count", "u", 8}, {"deepseek2.expert_used_count", "u", 2}, {"deepseek2.expert_feed_forward_length", "u", 16}, {"deepseek2.expert_shared_count", "u", 1}, {"deepseek2.expert_group_count", "u", 4}, {"deepseek2.expert_group_used_count", "u", 2}, {"deepseek2.expert_weights_scale", "f", 1.0}, {"deepseek2.expert_weights_norm", "b", false}, {"deepseek2.leading_dense_block_count", "u", 1}},
    config = [=[{"attention_bias": false, "first_k_dense_replace": 1, "head_dim": 4, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48, "kv_lora_rank": 16, "max_position_embeddings": 64, "mlp_bias": false, "model_type": "deepseek_v2", "moe_intermediate_size": 16, "n_group": 4, "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": false, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "rms_norm_eps": 1e-06, "rope_parameters": {"factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7, "original_max_position_embeddings": 16, "rope_theta": 10000.0, "rope_type": "yarn"}, "routed_scaling_factor": 1.0, "tie_word_embeddings": false, "topk_group": 2, "topk_method": "group_limited_greedy", "v_head_dim": 12, "vocab_size": 64}]=],
    tensors = [[output.weight  copy  lm_head.weight
token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_down.weight  copy  model.layers.%.mlp.down_proj.weight
blk.%.ffn_gate.weight  copy  model.layers.%.mlp.gate_proj.weight
blk.%.ffn_up.weight  copy  model.layers.%.mlp.up_proj.weight
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_kv_a_norm.weight  copy  model.layers.%.self_attn.kv_a_layernorm.weight
blk.%.attn_kv_a_mqa.weight  copy  model.layers.%.self_attn.kv_a_proj_with_mqa.weight
blk.%.attn_k_b.weight  latentk 4 8 12  model.layers.%.self_attn.kv_b_proj.weight
blk.%.attn_v_b.weight  latentv 4 8 12  model.layers.%.self_attn.kv_b_proj.weight
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q_a_norm.weight  copy  model.layers.%.self_attn.q_a_layernorm.weight
blk.%.attn_q_a.weight  copy  model.layers.%.self_attn.q_a_proj.weight
blk.%.attn_q_b.weight  copy  model.layers.%.self_attn.q_b_proj.weight
blk.%.ffn_gate_inp.weight  copy  model.layers.%.mlp.gate.weight
blk.%.ffn_down_shexp.weight  copy  model.layers.%.mlp.shared_experts.down_proj.weight
blk.%.ffn_gate_shexp.weight  copy  model.layers.%.mlp.shared_experts.gate_proj.weight
blk.%.ffn_up_shexp.weight  copy  model.layers.%.mlp.shared_experts.up_proj.weight
output_norm.weight  copy  model.norm.weight
blk.%.ffn_down_exps.weight  stack  model.layers.%.mlp.experts.[0-7].down_proj.weight
blk.%.ffn_gate_exps.weight  stack  model.layers.%.mlp.experts.[0-7].gate_proj.weight
blk.%.ffn_up_exps.weight  stack  model.layers.%.mlp.experts.[0-7].up_proj.weight]]},
  {name = "starcoder2 no window", metadata = {{"general.architecture", "s", "starcoder2"}, {"starcoder2.context_length", "u", 64}, {"starcoder2.embedding_length", "u", 32}, {"starcoder2.block_count", "u", 2}, {"starcoder2.feed_forward_length", "u", 48}, {"starcoder2.attention.head_count", "u", 4}, {"starcoder2.attention.head_count_kv", "u", 2}, {"starcoder2.attention.layer_norm_epsilon", "f", 1e-05}, {"starcoder2.rope.freq_base", "f", 10000.0}, {"starcoder2.rope.dimension_count", "u", 8}},
    config = [=[{"hidden_act": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64, "model_type": "starcoder2", "norm_epsilon": 1e-05, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "tie_word_embeddings": true, "use_bias": true, "vocab_size": 64}]=],
    tensors = [[token_embd.weight  copy  model.embed_tokens.weight
blk.%.attn_norm.bias  copy  model.layers.%.input_layernorm.bias
blk.%.attn_norm.weight  copy  model.layers.%.input_layernorm.weight
blk.%.ffn_up.bias  copy  model.layers.%.mlp.c_fc.bias
blk.%.ffn_up.weight  copy  model.layers.%.mlp.c_fc.weight
blk.%.ffn_down.bias  copy  model.layers.%.mlp.c_proj.bias
blk.%.ffn_down.weight  copy  model.layers.%.mlp.c_proj.weight
blk.%.ffn_norm.bias  copy  model.layers.%.post_attention_layernorm.bias
blk.%.ffn_norm.weight  copy  model.layers.%.post_attention_layernorm.weight
blk.%.attn_k.bias  copy  model.layers.%.self_attn.k_proj.bias
blk.%.attn_k.weight  copy  model.layers.%.self_attn.k_proj.weight
blk.%.attn_output.bias  copy  model.layers.%.self_attn.o_proj.bias
blk.%.attn_output.weight  copy  model.layers.%.self_attn.o_proj.weight
blk.%.attn_q.bias  copy  model.layers.%.self_attn.q_proj.bias
blk.%.attn_q.weight  copy  model.layers.%.self_attn.q_proj.weight
blk.%.attn_v.bias  copy  model.layers.%.self_attn.v_proj.bias
blk.%.attn_v.weight  copy  model.layers.%.self_attn.v_proj.weight
output_norm.bias  copy  model.norm.bias
output_norm.weight  copy  model.norm.weight]]},
}
