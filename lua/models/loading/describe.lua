-- describe.lua - converts a Hugging Face config.json to a description, the settings from which decoder.lua builds a
-- model.
--
-- A description is a table of the differences from Llama. Sizes: vocab, length, layers, heads, width, kv_heads,
-- head_dim, hidden. Choices:
--   norm          "rms", "rms1" (weight + 1), "layer", "layer1", "plain" (no weight); eps, norm_bias
--   norms         which norms a block has: 1 and 2 before attention and the feed-forward layer, 3 and 4 after them
--   parallel      attention and the feed-forward layer read the same input, and both are added to it
--   theta         base of rotary positions, or nil; rope_scaling; local_theta: base in layers with windows;
--                 rotary_size: rotated elements of a head; interleaved; unrotated: by layer, true if it has no positions
--   learned       learned positions, and the number of unused ones before the first; alibi: a slope for each head
--   qkv_bias, k_bias (default qkv_bias), out_bias, mlp_bias, down_bias (default mlp_bias), head_bias, clip (of queries, keys, values), scale, softcap, sinks
--   qk_norm       norms of queries and keys: "head", "late" (after rotation), "all" (heads together), "each" (a weight
--                 for each head); qk_kind: as norm; qk_bias
--   windows       by layer: number of keys that a query attends to, or false
--   gated, activation; experts: see feed_forward.lua, with layers: by layer, true if it has experts
--   latent        see latent.lua
--   embed_scale, embed_norm, embed_width (of the table, if not width), residual, logit_scale, final_softcap: multipliers
--   tied          the head is the table of embeddings
--   layer_scale   norms 3 and 4 are factors, one for each feature
--   task_norm     a dense layer, task_activation and a norm stand before the head; task_bias: bias of the dense layer
-- Choices of encoders (encoder.lua):
--   is_causal     false: every position attends to all; windows then count keys on each side
--   post_norm     norms come after the sums, and the model has no last norm; first_bare: the first block has no norm1
--   embed_width   width of the table; positions, token types and embed_norm have this width, too
--   groups        number of blocks; each is applied layers / groups times in turn
--   relative      learned numbers for the distances of positions, which are added to scores (relative.lua)
--   token_types   number of token types; padding: id whose positions do not count, for learned positions
--   task          what follows the blocks: "masked" (logits of ids), "classes" (of texts), "pooled" (a vector), or nil
--   classes       number of classes; class_pooling: "cls", "mean", or "late" (the mean of all positions' logits)
--   task_bare     the logits of ids follow the blocks without a dense layer
--   task_activation, task_norm, task_bias: of the dense layer of the task
--   pooling, normalise: how embed() makes a vector of a text

local check = require "rille.base.check"
local activations = require "rille.models.activations"

local describe = {}

describe.fields = {"kv_heads", "head_dim", "hidden", "norm", "eps", "norm_bias", "norms", "parallel", "theta", "rope_scaling",
  "local_theta", "rotary_size", "interleaved", "unrotated", "learned", "alibi", "qkv_bias", "out_bias", "mlp_bias", "down_bias", "head_bias",
    "clip",
  "scale", "softcap", "sinks", "qk_norm", "qk_kind", "qk_bias", "windows", "gated", "activation", "experts", "latent",
    "embed_scale",
  "embed_norm", "embed_width", "residual", "logit_scale", "final_softcap", "tied", "is_causal", "post_norm", "first_bare",
  "groups", "relative", "token_types", "padding", "task", "classes", "class_pooling", "task_activation", "task_norm", "task_bias", "task_bare", "pooling", "normalise"}

local defaults = {norm = "rms", norms = "12", gated = true, norm_bias = true, activation = "silu", qkv_bias = false,
  out_bias = false,
  mlp_bias = false, head_bias = false, parallel = false, interleaved = false, is_causal = true}

-- Fills in Llama's choices for missing fields of a description, and returns it.
function describe.complete(d)
  local c = {}
  for name, value in pairs(defaults) do c[name] = value end
  for name, value in pairs(d) do c[name] = value end
  c.head_dim = c.head_dim or c.width // c.heads
  c.rotary_size, c.qk_kind, c.kv_heads = c.rotary_size or c.head_dim, c.qk_kind or c.norm, c.kv_heads or c.heads
  if c.k_bias == nil then c.k_bias = c.qkv_bias end
  if c.down_bias == nil then c.down_bias = c.mlp_bias end
  return c
end

-- Returns the first of the values that is not nil.
local function first(...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if v ~= nil then return v end
  end
end

-- Returns the list of fn(i) for the layers i, which count from 0.
local function by_layer(d, fn)
  local list = {}
  for i = 1, d.layers do list[i] = fn(i - 1) or false end
  return list
end

-- ---- describing rotary positions and windows ----

local old_names = {su = "longrope", deepseek_yarn = "yarn"}

-- Returns the rotary scaling given by the table `rope` of config.json; nil: none.
local function scaling_of(c, rope)
  local kind = rope.rope_type or rope.type or "default"
  if kind == "default" then return nil end
  local scaling = {}
  for name, value in pairs(rope) do scaling[name] = value end
  scaling.partial_rotary_factor = nil
  if old_names[kind] then
    kind = old_names[kind]
    scaling.rope_type, scaling.type = kind, nil
  end
  if kind ~= "yarn" and kind ~= "longrope" then return scaling end
  local original = first(c.original_max_position_embeddings, rope.original_max_position_embeddings)
  if original and (c.original_max_position_embeddings or not rope.factor) and c.max_position_embeddings then
    scaling.factor = c.max_position_embeddings / original
  end
  scaling.original_max_position_embeddings = original or rope.factor and c.max_position_embeddings
  return scaling
end

-- Sets the rotary positions of all layers. o: defaults of the architecture: theta, local_theta, part (rotated share
-- of a head; nil: the architecture rotates complete heads), interleaved, and skips(i), true for layers without rotation.
local function rotate(d, c, o)
  o = o or {}
  local rope = c.rope_scaling or c.rope_parameters or {}
  local full, near = rope.full_attention or rope, rope.sliding_attention
  local part = first(full.partial_rotary_factor, c.partial_rotary_factor, c.rotary_pct, o.part, 1)
  check.that(o.part or part == 1, "partial_rotary_factor must be 1 for models of this kind, found %s", check.shown(part))
  local size = math.floor(d.head_dim * part)
  local theta = first(c.rope_theta, c.rope_parameters and c.rope_parameters.rope_theta)
  for _, other in ipairs{full, c.rope_parameters or full} do
    check.that(not theta or not other.rope_theta or other.rope_theta == theta, "rope_theta must be the same in all places of the file, found %s and %s",
      check.shown(theta), check.shown(other.rope_theta))
    theta = theta or other.rope_theta
  end
  d.theta, d.rope_scaling, d.interleaved = theta or o.theta or 10000.0, scaling_of(c, full), o.interleaved
  d.rotary_size = size ~= d.head_dim and size or nil
  d.local_theta = near and near.rope_theta or o.local_theta and (c.rope_local_base_freq or o.local_theta)
  check.that(not near or not scaling_of(c, near), "rope_parameters: sliding_attention must have no scaling")
  if d.local_theta == d.theta and not d.rope_scaling then d.local_theta = nil end
  d.unrotated = o.skips and by_layer(d, o.skips) or nil
end

-- Sets the windows of the layers with sliding-window attention, unless they are set already. slides(i): true if layer
-- i has a window; used for files that lack layer_types.
local function slide(d, c, slides)
  if d.windows or not c.sliding_window or c.sliding_window == 0 then return end
  d.types = c.layer_types or by_layer(d, function(i) return slides(i) and "sliding_attention" or "full_attention" end)
  d.windows = by_layer(d, function(i) return d.types[i + 1] == "sliding_attention" and c.sliding_window end)
end

-- returns slides(i) for models in which every n-th layer attends to all keys, and all other layers use sliding
-- windows
local function every(n) return function(i) return (i + 1) % n ~= 0 end end
local function always() return true end

-- ---- describing mixtures of experts ----

-- Checks the groups of experts, of which each row chooses the best.
local function check_groups(o)
  if not o.groups or o.groups == 1 then return end
  check.count("the experts", "n_group", o.groups)
  -- number of experts whose scores rank a group: its best expert, or its two best
  local least = o.group_score and 1 or 2
  check.that(o.count % o.groups == 0 and o.count // o.groups >= least,
    "n_group must divide %d, the number of experts, into groups of at least %d; found %d", o.count, least, o.groups)
  check.count("the experts", "topk_group", o.top_groups)
  check.that(o.top_groups <= o.groups, "topk_group must be at most n_group = %d, found %d", o.groups, o.top_groups)
end

-- Returns the settings of experts. o: further settings of feed_forward.lua; has(i): whether layer i has experts.
local function experts(d, c, o)
  o.count = first(c.num_local_experts, c.num_experts, c.n_routed_experts, c.moe_num_experts)
  o.top_k = first(c.num_experts_per_tok, c.moe_k, c.moe_topk)
  o.hidden = o.hidden or c.moe_intermediate_size or d.hidden
  o.score = o.score or "softmax"
  o.layers = by_layer(d, o.has or always)
  o.has = nil
  check.count("the experts", "their number", o.count)
  check.count("the experts", "num_experts_per_tok", o.top_k)
  check.count("the experts", "hidden size", o.hidden)
  check.that(o.count <= d.most, "the file has tensors for at most %d experts, found num_experts = %d", d.most, o.count)
  check.that(o.top_k <= o.count, "num_experts_per_tok must be at most %d, the number of experts, found %d", o.count, o.top_k)
  check_groups(o)
  d.experts = o
end

-- Returns the function has(i) for DeepSeek: the layers from first_k_dense_replace on have experts.
local function after_dense(c) return function(i) return i >= (c.first_k_dense_replace or 0) end end

-- Returns the function has(i) for files that list the kind of each layer, "dense" or "sparse".
local function sparse(c) return function(i) return c.mlp_layer_types[i + 1] == "sparse" end end

-- Sets the experts in the form of DeepSeek-V3: sigmoid scores, a correction that affects only the choice, and groups
-- of experts.
local function sigmoid_experts(d, c)
  local shared = first(c.n_shared_experts, c.num_shared_experts, 0)
  experts(d, c, {score = "sigmoid", renormalise = c.norm_topk_prob ~= false, factor = first(c.routed_scaling_factor, c.router_scaling_factor),
    correction = true, groups = c.n_group, top_groups = c.topk_group, has = c.mlp_layer_types and sparse(c) or after_dense(c),
    shared = shared > 0 and (c.moe_intermediate_size or d.hidden) * shared or nil})
end

local function qwen_experts(d, c)
  local step, dense = c.decoder_sparse_step or 1, {}
  for _, i in ipairs(c.mlp_only_layers or {}) do dense[i] = true end
  experts(d, c, {renormalise = c.norm_topk_prob or false, has = function(i) return not dense[i] and (i + 1) % step == 0 end,
    shared = c.shared_expert_intermediate_size, shared_gate = c.shared_expert_intermediate_size and true})
end

-- Sets the fields for multi-head latent attention (latent.lua).
local function latent(d, c, interleaved)
  local l = {rank = c.kv_lora_rank, q_rank = c.q_lora_rank, plain = c.qk_nope_head_dim, rotated = c.qk_rope_head_dim,
    value = c.v_head_dim, eps = 1e-6}
  for _, name in ipairs{"rank", "plain", "rotated", "value"} do check.count("the latent attention", name, l[name]) end
  d.latent, d.kv_heads, d.head_dim = l, d.heads, l.rotated
  d.scale = (l.plain + l.rotated) ^ -0.5
  rotate(d, c, {interleaved = interleaved})
  local s = d.rope_scaling
  if s and s.mscale_all_dim and s.mscale_all_dim ~= 0 and s.factor > 1 then
    d.scale = d.scale * (0.1 * s.mscale_all_dim * math.log(s.factor) + 1) ^ 2
  end
end

-- ---- describing decoders, by model_type ----

-- model_type -> function that edits the description d according to the config.json c; d begins with Llama's choices.
local families = {}

function families.llama(d, c)
  d.qkv_bias, d.out_bias, d.mlp_bias = c.attention_bias, c.attention_bias, c.mlp_bias
  rotate(d, c)
end
function families.mistral(d, c)
  slide(d, c, always)
  d.types = nil
  rotate(d, c)
end
function families.ministral(d, c)
  slide(d, c, always)
  rotate(d, c)
end
function families.mixtral(d, c)
  families.mistral(d, c)
  experts(d, c, {renormalise = true})
end
function families.qwen2(d, c)
  d.qkv_bias = true
  if c.use_sliding_window then slide(d, c, function(i) return i >= (c.max_window_layers or 0) end) end
  rotate(d, c)
end
function families.qwen2_moe(d, c)
  families.qwen2(d, c)
  d.qkv_bias = c.qkv_bias ~= false
  qwen_experts(d, c)
end
function families.qwen3(d, c)
  families.qwen2(d, c)
  d.qkv_bias, d.out_bias, d.qk_norm = c.attention_bias, c.attention_bias, "head"
end
function families.qwen3_moe(d, c)
  families.qwen3(d, c)
  qwen_experts(d, c)
end
function families.seed_oss(d, c)
  d.qkv_bias, d.out_bias, d.mlp_bias = c.attention_bias ~= false, c.attention_out_bias, c.mlp_bias
  rotate(d, c)
end
function families.smollm3(d, c)
  families.llama(d, c)
  local interval = c.no_rope_layer_interval or 4
  if c.use_sliding_window then slide(d, c, always) end
  rotate(d, c, {theta = 2000000.0, skips = function(i)
    if c.no_rope_layers then return c.no_rope_layers[i + 1] == 0 end
    return (i + 1) % interval == 0
  end})
end
function families.cwm(d, c)
  slide(d, c, function(i) return i % 4 ~= 0 end)
  d.mlp_bias = c.mlp_bias
  rotate(d, c, {theta = 1000000.0})
end
function families.arcee(d, c)
  families.llama(d, c)
  d.gated = false
end
function families.helium(d, c)
  d.qkv_bias, d.mlp_bias = c.attention_bias, c.mlp_bias
  rotate(d, c, {theta = 100000.0, interleaved = true})
end
function families.ernie4_5(d, c)
  d.qkv_bias, d.out_bias, d.mlp_bias = c.use_bias, c.use_bias, c.use_bias
  rotate(d, c, {theta = 500000.0, interleaved = true})
end
function families.ernie4_5_moe(d, c)
  families.ernie4_5(d, c)
  d.head_bias = c.use_bias
  local shared = c.moe_num_shared_experts or 0
  experts(d, c, {renormalise = true, correction = true, shared = shared > 0 and shared * (c.moe_intermediate_size or d.hidden) or nil,
    has = function(i)
    return (i + 1) % (c.moe_layer_interval or 1) == 0 and i >= (c.moe_layer_start_index or 0) and i <= (c.moe_layer_end_index or d.layers)
  end})
end
function families.hunyuan_v1_dense(d, c)
  d.qkv_bias, d.out_bias, d.qk_norm = c.attention_bias, c.attention_bias, "late"
  rotate(d, c)
end
function families.gemma(d, c)
  families.llama(d, c)
  d.norm, d.embed_scale, d.activation = "rms1", d.width ^ 0.5, c.hidden_activation or c.hidden_act or "gelu_pytorch_tanh"
  -- in the oldest files, hidden_act = "gelu" means the tanh approximation
  if not c.hidden_activation and d.activation == "gelu" then d.activation = "gelu_pytorch_tanh" end
end
function families.gemma2(d, c)
  slide(d, c, every(2))
  families.gemma(d, c)
  d.norms, d.scale = "1234", (c.query_pre_attn_scalar or 256) ^ -0.5
  d.softcap, d.final_softcap = c.attn_logit_softcapping, c.final_logit_softcapping
end
function families.vaultgemma(d, c)
  families.gemma2(d, c)
  d.norms = "12"
end
function families.gemma3_text(d, c)
  slide(d, c, every(c.sliding_window_pattern or c._sliding_window_pattern or 6))
  families.gemma2(d, c)
  check.that(not c.use_bidirectional_attention,
    "use_bidirectional_attention must be false: gemma3_text with bidirectional attention is not supported")
  d.qk_norm, d.softcap = "head", nil
  rotate(d, c, {theta = 1000000.0, local_theta = 10000.0})
end
function families.phi(d, c)
  d.norm, d.norms, d.parallel, d.gated = "layer", "1", true, false
  d.qkv_bias, d.out_bias, d.mlp_bias, d.head_bias = true, true, true, true
  if c.qk_layernorm then d.qk_norm, d.qk_bias = "head", true end
  rotate(d, c, {part = 0.5})
end
function families.persimmon(d, c)
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias = "layer", false, true, true, true
  if c.qk_layernorm ~= false then d.qk_norm, d.qk_bias = "head", true end
  rotate(d, c, {part = 0.5})
end
function families.phi3(d, c)
  slide(d, c, always)
  d.types = nil
  rotate(d, c, {part = 1})
end
function families.olmo(d, c)
  families.llama(d, c)
  d.norm, d.clip = "plain", c.clip_qkv
end
function families.olmo2(d, c)
  families.llama(d, c)
  d.norms, d.qk_norm = "34", "all"
end
function families.olmo3(d, c)
  slide(d, c, every(4))
  families.olmo2(d, c)
  rotate(d, c, {local_theta = c.rope_theta})
end
function families.olmoe(d, c)
  families.llama(d, c)
  d.qk_norm, d.clip = "all", c.clip_qkv
  experts(d, c, {renormalise = c.norm_topk_prob or false})
end
function families.flex_olmo(d, c)
  families.olmo2(d, c)
  rotate(d, c, {theta = 500000.0})
  experts(d, c, {renormalise = c.norm_topk_prob or false})
end
function families.exaone4(d, c)
  slide(d, c, type(c.sliding_window_pattern) == "number" and every(c.sliding_window_pattern) or every(4))
  d.norms, d.qk_norm = "34", "head"
  rotate(d, c, {skips = d.types and function(i) return d.types[i + 1] ~= "sliding_attention" end})
end
function families.granite(d, c)
  families.llama(d, c)
  d.scale, d.embed_scale, d.residual = c.attention_multiplier, c.embedding_multiplier, c.residual_multiplier
  d.logit_scale = c.logits_scaling and 1 / c.logits_scaling
end
function families.granitemoe(d, c)
  families.granite(d, c)
  experts(d, c, {renormalise = true, shared = (c.shared_intermediate_size or 0) > 0 and c.shared_intermediate_size or nil})
end
families.granitemoeshared = families.granitemoe
function families.cohere(d, c)
  families.llama(d, c)
  d.norm, d.norm_bias, d.norms, d.parallel, d.logit_scale = "layer", false, "1", true, c.logit_scale or 0.0625
  if c.use_qk_norm then d.qk_norm = "each" end
  rotate(d, c, {interleaved = true})
end
function families.cohere2(d, c)
  slide(d, c, every(c.sliding_window_pattern or c._sliding_window_pattern or 4))
  families.cohere(d, c)
  rotate(d, c, {interleaved = true, skips = d.types and function(i) return d.types[i + 1] ~= "sliding_attention" end})
end
function families.stablelm(d, c)
  d.norm, d.qkv_bias = "layer", c.use_qkv_bias
  if c.use_parallel_residual then d.parallel, d.norms = true, "1" end
  check.that(not c.qk_layernorm, "qk_layernorm must be false: stablelm with qk_layernorm is not supported")
  rotate(d, c, {part = 0.25})
end
function families.starcoder2(d, c)
  local bias = c.use_bias ~= false
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias = "layer", false, bias, bias, bias
  families.mistral(d, c)
end
function families.nemotron(d, c)
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias = "layer1", false, c.attention_bias, c.attention_bias, c.mlp_bias
  rotate(d, c, {part = 0.5})
end
function families.jais2(d, c)
  families.llama(d, c)
  d.norm, d.gated = "layer", false
end
function families.glm(d, c)
  d.qkv_bias = c.attention_bias ~= false
  rotate(d, c, {part = 0.5, interleaved = true})
end
function families.glm4(d, c)
  families.glm(d, c)
  d.norms = "1234"
end
function families.glm4_moe(d, c)
  d.qkv_bias = c.attention_bias
  if c.use_qk_norm then d.qk_norm = "head" end
  rotate(d, c, {part = 0.5})
  sigmoid_experts(d, c)
end
function families.solar_open(d, c)
  d.qkv_bias = c.attention_bias
  rotate(d, c, {theta = 1000000.0, part = 1})
  sigmoid_experts(d, c)
end
function families.minimax_m2(d, c)
  d.qk_norm = "all"
  rotate(d, c, {theta = 5000000.0, part = 1})
  if c.rotary_dim then d.rotary_size = c.rotary_dim end
  experts(d, c, {score = "sigmoid", renormalise = true, correction = true})
end
function families.dots1(d, c)
  if c.layer_types then slide(d, c, always) end
  d.qkv_bias, d.out_bias, d.qk_norm = c.attention_bias, c.attention_bias, "head"
  rotate(d, c)
  sigmoid_experts(d, c)
  d.experts.renormalise = c.norm_topk_prob or false
end
function families.deepseek_v2(d, c)
  d.qkv_bias, d.out_bias, d.mlp_bias = c.attention_bias, c.attention_bias, c.mlp_bias
  latent(d, c, true)
  local shared, grouped = c.n_shared_experts or 0, c.topk_method == "group_limited_greedy"
  experts(d, c, {factor = c.routed_scaling_factor, has = after_dense(c), group_score = grouped and "best" or nil,
    groups = grouped and c.n_group or nil, top_groups = grouped and c.topk_group or nil,
    shared = shared > 0 and (c.moe_intermediate_size or d.hidden) * shared or nil})
end
function families.deepseek_v3(d, c)
  d.qkv_bias, d.out_bias = c.attention_bias, c.attention_bias
  latent(d, c, c.rope_interleave ~= false)
  sigmoid_experts(d, c)
end
families.sarvam_mla = families.deepseek_v3
function families.glm4_moe_lite(d, c)
  families.deepseek_v3(d, c)
  if not c.mlp_layer_types then d.experts.layers = by_layer(d, function(i) return i >= 1 end) end
end
function families.youtu(d, c)
  d.qkv_bias, d.out_bias = c.attention_bias, c.attention_bias
  latent(d, c, c.rope_interleave ~= false)
end
function families.gpt_oss(d, c)
  slide(d, c, every(2))
  d.qkv_bias, d.out_bias, d.sinks = c.attention_bias ~= false, c.attention_bias ~= false, true
  rotate(d, c, {theta = 150000.0})
  experts(d, c, {renormalise = true, bias = true, limit = c.swiglu_limit or 7.0, alpha = c.swiglu_alpha})
end
function families.falcon(d, c)
  local fresh = c.new_decoder_architecture
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias, d.activation = "layer", false, c.bias, c.bias, c.bias, c.activation or "gelu"
  d.kv_heads = fresh and (c.num_kv_heads or d.heads) or c.multi_query ~= false and 1 or d.heads
  if fresh or c.parallel_attn ~= false then
    local both = fresh and (c.num_ln_in_parallel_attn or 2) == 2
    d.parallel, d.norms = true, both and "12" or "1"
  end
  check.that(not c.alibi, "alibi must be false: falcon with alibi is not supported")
  rotate(d, c)
end
function families.gpt_neox(d, c)
  local bias = c.attention_bias ~= false
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias = "layer", false, bias, bias, true
  d.parallel = c.use_parallel_residual ~= false
  rotate(d, c, {theta = c.rotary_emb_base, part = 0.25})
end
function families.gpt_neo(d, c)
  d.norm, d.gated, d.learned, d.scale, d.out_bias, d.mlp_bias = "layer", false, 0, 1, true, true
  local kinds = {} -- kind of each layer, from repeated groups: {{{"global", "local"}, 12}}
  for _, group in ipairs(c.attention_types or {{{"global", "local"}, (d.layers + 1) // 2}}) do
    check.that(type(group) == "table" and type(group[1]) == "table" and math.type(group[2]) == "integer" and group[2] <= d.layers,
      "attention_types must be a list of groups, {list of kinds, number}, found the group %s", check.shown(group))
    for _ = 1, group[2] do table.move(group[1], 1, #group[1], #kinds + 1, kinds) end
  end
  d.windows = by_layer(d, function(i) return kinds[i + 1] == "local" and (c.window_size or 256) end)
end
function families.gptj(d, c)
  d.norm, d.norms, d.parallel, d.gated, d.mlp_bias, d.head_bias = "layer", "1", true, false, true, true
  rotate(d, c, {interleaved = true})
  d.rotary_size = c.rotary_dim
end
function families.opt(d, c)
  local bias = c.enable_bias ~= false
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias, d.eps = "layer", false, bias, bias, bias, 1e-5
  d.learned, d.activation = 2, c.activation_function or "relu"
  check.that(c.do_layer_norm_before ~= false and c.layer_norm_elementwise_affine ~= false,
    "do_layer_norm_before = false and norms without weights are not supported")
  if c.word_embed_proj_dim and c.word_embed_proj_dim ~= d.width then d.embed_width = c.word_embed_proj_dim end
end
function families.bloom(d, c)
  check.that(not c.apply_residual_connection_post_layernorm, "apply_residual_connection_post_layernorm must be false: true is not supported")
  d.norm, d.gated, d.alibi, d.embed_norm, d.activation = "layer", false, true, true, "gelu_new"
  d.qkv_bias, d.out_bias, d.mlp_bias = true, true, true
end
function families.mpt(d, c)
  local a = c.attn_config or {}
  check.that(a.alibi ~= false and (a.alibi_bias_max or 8) == 8 and not a.qk_ln,
    "attn_config must have alibi with alibi_bias_max = 8, and no qk_ln")
  d.norm, d.norm_bias, d.gated, d.alibi, d.activation = "layer", false, false, true, "gelu"
  d.clip, d.scale = a.clip_qkv, a.softmax_scale
end
function families.gpt_bigcode(d, c)
  d.norm, d.gated, d.learned, d.activation = "layer", false, 0, c.activation_function or "gelu_pytorch_tanh"
  d.qkv_bias, d.out_bias, d.mlp_bias, d.kv_heads = true, true, true, c.multi_query ~= false and 1 or d.heads
  d.scale = c.scale_attn_weights == false and 1 or nil
end
function families.exaone(d, c)
  families.llama(d, c)
  rotate(d, c, {theta = 500000.0})
end
function families.internlm3(d, c)
  families.llama(d, c)
  local bias = first(c.attention_bias, c.bias)
  d.qkv_bias, d.out_bias, d.mlp_bias = first(c.attention_bias, c.qkv_bias), bias, first(c.mlp_bias, c.bias)
end
function families.iquestcoder(d, c)
  check.that(not c.clip_qkv and not c.use_sliding_window, "iquestcoder with clip_qkv or use_sliding_window is not supported")
  families.llama(d, c)
end
function families.ministral3(d, c)
  families.mistral(d, c)
  -- from this position on, queries grow with the logarithm of their position
  local rope = c.rope_scaling or c.rope_parameters or {}
  local most = rope.llama_4_scaling_beta and rope.original_max_position_embeddings
  d.length = math.min(d.length, most or d.length)
end
function families.mellum(d, c)
  slide(d, c, function() return false end)
  d.qkv_bias, d.out_bias, d.qk_norm = c.attention_bias, c.attention_bias, "head"
  rotate(d, c, {theta = 500000.0, local_theta = 10000.0})
  experts(d, c, {renormalise = c.norm_topk_prob ~= false, has = c.mlp_layer_types and sparse(c)})
end
function families.aria_text(d, c)
  families.llama(d, c)
  local shared = c.moe_num_shared_experts or 2
  experts(d, c, {renormalise = true, shared = shared > 0 and d.hidden * shared or nil})
end
function families.hunyuan_v1_moe(d, c)
  families.hunyuan_v1_dense(d, c)
  experts(d, c, {renormalise = true, hidden = d.hidden, shared = d.hidden})
end
function families.hyperclovax(d, c)
  families.granite(d, c)
  d.logit_scale = c.logits_scaling
  if c.use_post_norm ~= false then d.norms = "1234" end
end
-- Sets what the models granite_swa and granitemoe_swa share: sinks, windows, and layers without rotary positions.
local function granite_windows(d, c)
  slide(d, c, function(i) return i % 4 ~= 0 end)
  d.sinks, d.types = true, nil
  local thetas = c.layer_rope_theta or {}
  for _, theta in ipairs(thetas) do
    check.that(theta == 0 or theta == d.theta, "layer_rope_theta must be 0 or rope_theta = %s in each layer, found %s", check.shown(d.theta),
      check.shown(theta))
  end
  d.unrotated = by_layer(d, function(i) return thetas[i + 1] == 0 end)
end
function families.granite_swa(d, c)
  families.granite(d, c)
  granite_windows(d, c)
end
function families.granitemoe_swa(d, c)
  families.granitemoe(d, c)
  granite_windows(d, c)
end
function families.exaone_moe(d, c)
  families.exaone4(d, c)
  d.norms = "12"
  sigmoid_experts(d, c)
end
function families.hy_v3(d, c)
  families.llama(d, c)
  d.qk_norm = "head"
  rotate(d, c, {theta = 11158840.0})
  sigmoid_experts(d, c)
  if not c.mlp_layer_types then d.experts.layers = by_layer(d, function(i) return i >= 1 end) end
end
function families.sarvam_moe(d, c)
  d.qkv_bias = first(c.attention_bias, c.use_qkv_bias)
  if c.use_qk_norm ~= false then d.qk_norm = "head" end
  rotate(d, c, {theta = 8000000.0, part = 1})
  sigmoid_experts(d, c)
end
function families.minicpm3(d, c)
  d.qkv_bias, d.out_bias, d.mlp_bias = c.attention_bias, c.attention_bias, c.mlp_bias
  c.v_head_dim = c.v_head_dim or d.width // d.heads
  latent(d, c, false)
  d.embed_scale, d.residual = c.scale_emb or 12, first(c.scale_depth, 1.4) / d.layers ^ 0.5
  d.logit_scale = first(c.dim_model_base, 256) / d.width
end
families.codegen = families.gptj
function families.biogpt(d, c)
  d.norm, d.gated, d.qkv_bias, d.out_bias, d.mlp_bias, d.eps = "layer", false, true, true, true, 1e-5
  d.learned, d.embed_scale = 2, c.scale_embedding ~= false and d.width ^ 0.5 or nil
end
families["modernbert-decoder"] = function(d, c)
  local every_n = c.global_attn_every_n_layers or 3
  c.sliding_window = (c.local_attention or 128) // 2
  slide(d, c, function(i) return i % every_n ~= 0 end)
  d.norm, d.norm_bias, d.embed_norm, d.first_bare, d.activation = "layer", c.norm_bias or false, true, true, c.hidden_activation or "gelu"
  d.qkv_bias, d.out_bias, d.mlp_bias, d.head_bias = c.attention_bias, c.attention_bias, c.mlp_bias, c.decoder_bias ~= false
  d.task_activation, d.task_norm, d.task_bias = c.classifier_activation or "gelu", true, c.classifier_bias or false
  check.that(activations[d.task_activation], "unknown classifier_activation %s; expected one of: %s",
    check.quoted(d.task_activation), table.concat(check.sorted_keys(activations), ", "))
  rotate(d, c, {theta = c.global_rope_theta or 160000.0, local_theta = c.local_rope_theta or 10000.0})
end

-- ---- encoders ----

local decoders = {}
for name in pairs(families) do decoders[name] = true end
require "rille.models.loading.describe_encoders"(families, {first = first, by_layer = by_layer, rotate = rotate})

-- Model types whose head shares the embedding table by default; config.json may override that.
local tied = {["modernbert-decoder"] = true, gemma = true, gemma2 = true, vaultgemma = true, youtu = true, gpt_neo = true, gemma3_text = true, cohere = true,
  cohere2 = true, opt = true, bloom = true, falcon = true,
  albert = true, electra = true, mpnet = true, bert = true, distilbert = true, roberta = true, ["xlm-roberta"] = true, camembert = true, modernbert = true,
  gte = true, nomic_bert = true, minicpm3 = true, granite_swa = true, biogpt = true,
  mpt = true, gpt_bigcode = true, smollm3 = true, ernie4_5 = true, ernie4_5_moe = true, starcoder2 = true}

-- Size -> its keys in newer and older config.json files.
local size_words = {
  vocab = {"vocab_size"}, width = {"hidden_size", "n_embd", "d_model", "dim"}, layers = {"num_hidden_layers", "n_layer", "n_layers",
    "num_layers"},
  heads = {"num_attention_heads", "n_head", "n_heads", "num_heads"},
  length = {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"},
  kv_heads = {"num_key_value_heads"}, head_dim = {"head_dim"}, hidden = {"intermediate_size", "ffn_dim", "ffn_hidden_size",
    "n_inner", "hidden_dim"},
}

-- Returns an upper bound of the number of experts: a tensor may contain a weight of one expert, or, with three
-- dimensions, of all experts. contents: list of the file's tensors.
local function most_experts(contents)
  local most = #contents
  for _, entry in ipairs(contents) do
    if entry.shape and #entry.shape == 3 then most = math.max(most, entry.shape[1]) end
  end
  return most
end

-- Returns the description for the config.json c. contents: list of the file's tensors, whose number is an upper bound of
-- the number of layers; nil: unknown. Fails if a size is missing or not a positive integer.
function describe.of(model_type, c, contents)
  local most = contents and #contents or math.huge
  local d = {most = contents and most_experts(contents) or most}
  for _, size in ipairs(check.sorted_keys(size_words)) do
    for _, word in ipairs(size_words[size]) do
      if d[size] == nil and c[word] ~= nil then d[size] = check.count(model_type, word, c[word]) end
    end
  end
  for _, size in ipairs{"vocab", "width", "layers", "heads"} do
    check.that(d[size], "%s must be a positive integer, found nil", table.concat(size_words[size], " or "))
  end
  check.that(d.layers <= most, "%d layers are more than the %d tensors of the file", d.layers, most)
  d.length, d.hidden, d.kv_heads = d.length or 2048, d.hidden or 4 * d.width, d.kv_heads or d.heads
  check.that(d.head_dim or d.width % d.heads == 0, "the width, %d, must be divisible by the number of heads, %d; %s heads would do", d.width, d.heads,
    check.divisors(d.width))
  check.that(d.heads % d.kv_heads == 0, "the number of heads, %d, must be divisible by the number of key/value heads, %d", d.heads, d.kv_heads)
  d.head_dim = d.head_dim or d.width // d.heads
  d.activation = first(c.hidden_act, c.hidden_activation, c.activation_function)
  families[model_type](d, c)
  d.eps = d.eps or first(c.rms_norm_eps, c.layer_norm_eps, c.layer_norm_epsilon, c.norm_epsilon, c.norm_eps,
    d.norm and 1e-5 or 1e-6)
  d.tied = first(c.tie_word_embeddings, tied[model_type] or false)
  if d.head_dim * d.heads == d.width then d.head_dim = nil end
  d.types, d.most = nil, nil
  for name, value in pairs(defaults) do
    if d[name] == value then d[name] = nil end
  end
  return d
end

describe.known = families

-- Returns true if models of this model_type are encoders.
function describe.is_encoder(model_type) return families[model_type] ~= nil and not decoders[model_type] end

return describe
