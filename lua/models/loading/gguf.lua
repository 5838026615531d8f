-- gguf.lua - reads language models of GGUF files: converts the file's metadata to the keys of a config.json, and its
-- tensor names to Rille's.
--
-- llama.cpp's converters change some tensors of Hugging Face's files, and loading reverts these changes. In
-- architectures with `pairs`, they reorder queries and keys for rotation of neighbouring elements. In architectures
-- with `plus`, they add one to the weights of norms.

local rille = require "rille"
local check = require "rille.base.check"
local names = require "rille.models.loading.names"

local gguf = {}

-- patterns of tensor names: the tensors with these names contain settings, not parameters
gguf.ignored = {"^rope_freqs%.weight$", "^rope_factors_%a+%.weight$"}

-- ---- reading the metadata of a file ----

-- Metadata key of an architecture -> type of its value, for keys whose values are not counts.
local kind_of = {}
for kind, keys in pairs{
  number = "attention.layer_norm_rms_epsilon attention.layer_norm_epsilon rope.freq_base rope.freq_base_swa rope.scaling.factor " ..
    "rope.scaling.attn_factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow rope.scaling.yarn_log_multiplier " ..
    "attn_logit_softcapping final_logit_softcapping attention.scale embedding_scale residual_scale logit_scale " ..
    "attention.clamp_kqv expert_weights_scale",
  boolean = "use_parallel_residual expert_weights_norm",
  string = "rope.scaling.type",
} do
  for key in keys:gmatch("%S+") do kind_of[key] = kind end
end

local booleans = {["true"] = true, ["false"] = false}

-- Converts the text of a metadata value to a boolean, an integer, a number or a string.
local function value_of(text)
  if booleans[text] ~= nil then return booleans[text] end
  return text and (math.tointeger(tonumber(text)) or tonumber(text)) or text
end

-- Opens a file. Returns its contents, and a function that returns the value of a metadata key: a number, boolean or
-- text; nil: the key is absent. "%s." at the start of a key stands for the architecture. The value of such a key must
-- have the type in kind_of; a key without a type there must be a count.
local function open(who, path, format)
  local contents, says = rille._contents(path, format or "gguf", who)
  local arch = says["general.architecture"]
  check.that(arch, "%s: %s: general.architecture is missing", who, path)
  local function get(key)
    local own = key:match("^%%s%.(.*)$")
    local value = value_of(says[own and arch .. "." .. own or key])
    if not own or value == nil then return value end
    local kind = kind_of[own] or "count"
    local fits = kind == "count" and math.type(value) == "integer" and value >= 0 or type(value) == kind
    check.that(fits, "%s: %s: %s.%s must be a %s, found %s", who, path, arch, own, kind, check.shown(value))
    return value
  end
  return contents, get, arch
end

-- Returns the vocabulary of a GGUF file, for a tokenizer; nil if the file has none. Fields:
--   model     "gpt2": byte-level BPE, "gemma4": BPE, "llama": SentencePiece, "bert": WordPiece, "t5": Unigram
--   pre       name of the pattern that splits texts
--   tokens    list of the tokens by id, from 1; scores: list of their scores
--   types     list by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
--   merges    list of the merges of BPE
--   charsmap  bytes of the normalization map
--   bos, eos  special ids; also unknown, padding, eot and separator
--   template  chat template
function gguf.vocabulary(path)
  local who = "io.vocabulary"
  path = rille._path(check.path(who, "the name of a .gguf file", path))
  local _, get = open(who, path)
  local function list(key)
    local good, result = check.try(rille._file_list, who, path, "tokenizer.ggml." .. key)
    return good and result or nil
  end
  local v = {model = get"tokenizer.ggml.model", pre = get"tokenizer.ggml.pre", template = get"tokenizer.chat_template",
    tokens = rille._file_list(who, path, "tokenizer.ggml.tokens"), scores = list"scores", types = list"token_type",
    merges = list"merges", add_bos = get"tokenizer.ggml.add_bos_token", add_eos = get"tokenizer.ggml.add_eos_token",
    add_space_prefix = get"tokenizer.ggml.add_space_prefix", charsmap = list"precompiled_charsmap",
    remove_extra_whitespaces = get"tokenizer.ggml.remove_extra_whitespaces"}
  for name, key in pairs{bos = "bos", eos = "eos", unknown = "unknown", padding = "padding", eot = "eot", separator = "seperator"} do
    v[name] = get("tokenizer.ggml." .. key .. "_token_id")
  end
  return v
end

-- ---- converting the metadata of each architecture ----

local tanh = "gelu_pytorch_tanh"
local after = {norm3 = "post_attention_norm", norm4 = "post_ffw_norm"}

-- Sets the config.json keys for experts in c. o: keys that the architecture itself defines.
local function experts(c, get, o)
  local n, shared = get"%s.expert_count", get"%s.expert_shared_count"
  local hidden = get"%s.expert_feed_forward_length"
  c.num_experts, c.num_local_experts, c.n_routed_experts, c.moe_num_experts = n, n, n, n
  c.num_experts_per_tok, c.moe_k = get"%s.expert_used_count", get"%s.expert_used_count"
  c.moe_intermediate_size, c.norm_topk_prob = hidden, get"%s.expert_weights_norm"
  c.first_k_dense_replace, c.moe_layer_start_index = get"%s.leading_dense_block_count", get"%s.leading_dense_block_count"
  c.n_shared_experts, c.moe_num_shared_experts = shared, shared
  c.shared_expert_intermediate_size = get"%s.expert_shared_feed_forward_length"
  c.shared_intermediate_size = c.shared_expert_intermediate_size
  c.routed_scaling_factor = get"%s.expert_weights_scale"
  c.n_group, c.topk_group = get"%s.expert_group_count", get"%s.expert_group_used_count"
  for word, value in pairs(o or {}) do c[word] = value end
end

-- Architecture of a file -> how the file is read: {model_type, words =, names =, pairs =, plus =}.
--   model_type  the model_type of config.json
--   words       words(c, get, has) edits the keys c of config.json, and may return another model_type.
--               get"KEY" returns metadata; has"NAME" returns true if layer 0 has the tensor NAME
--   names       tensor names that differ from those of the table `base`
--   pairs       true: the rows of queries and keys are reordered (head of this file)
--   plus        true: the weights of norms are stored plus one
local archs = {
  llama = {"llama", pairs = true, words = function(c, get)
    local mixture = (get"%s.expert_count" or 0) > 0
    -- The kind glm is a llama that rotates neighbours in a part of each head.
    if not mixture then return c.partial_rotary_factor and "glm" or nil end
    experts(c, get)
    return "mixtral"
  end},
  arcee = {"arcee", pairs = true, words = function(c) c.hidden_act = "relu2" end},
  smollm3 = {"smollm3", pairs = true},
  qwen2 = {"qwen2"},
  qwen2moe = {"qwen2_moe", words = function(c, get) experts(c, get, {norm_topk_prob = false}) end},
  qwen3 = {"qwen3"},
  qwen3moe = {"qwen3_moe", words = function(c, get) experts(c, get, {norm_topk_prob = true}) end},
  seed_oss = {"seed_oss", names = {norm2 = "post_attention_norm"}},
  ernie4_5 = {"ernie4_5"},
  ["ernie4_5-moe"] = {"ernie4_5_moe", words = function(c, get)
    experts(c, get, {moe_layer_interval = get"%s.interleave_moe_layer_step"})
  end},
  ["hunyuan-dense"] = {"hunyuan_v1_dense"},
  gemma = {"gemma", plus = true, words = function(c) c.hidden_activation = tanh end},
  gemma2 = {"gemma2", plus = true, names = after, words = function(c)
    -- true for the model with 27 billion parameters, whose scale is not in llama.cpp's files
    local wide = c.num_hidden_layers == 46
    c.hidden_activation, c.query_pre_attn_scalar = tanh, wide and c.hidden_size // c.num_attention_heads or c.head_dim
  end},
  gemma3 = {"gemma3_text", plus = true, names = after, words = function(c, get)
    local wide = c.num_hidden_layers == 62 -- true for the model with 27 billion parameters
    c.hidden_activation, c.query_pre_attn_scalar = tanh, wide and c.hidden_size // c.num_attention_heads or c.head_dim
    c.rope_local_base_freq = get"%s.rope.freq_base_swa"
  end},
  phi2 = {"phi", words = function(c) c.hidden_act = "gelu_new" end},
  phi3 = {"phi3"},
  starcoder2 = {"starcoder2", words = function(c) c.hidden_act = tanh end},
  stablelm = {"stablelm"},
  falcon = {"falcon", words = function(c, _, has)
    local two = has"attn_norm_2.weight"
    c.new_decoder_architecture = two or c.num_key_value_heads > 1
    c.num_kv_heads, c.num_ln_in_parallel_attn = c.num_key_value_heads, two and 2 or 1
    c.activation, c.names = "gelu", two and {norm1 = "attn_norm_2", norm2 = "attn_norm"} or nil
  end},
  gptneox = {"gpt_neox", words = function(c) c.hidden_act = "gelu" end},
  bloom = {"bloom"},
  mpt = {"mpt", words = function(c, get) c.attn_config = {clip_qkv = get"%s.attention.clamp_kqv"} end},
  gpt2 = {"gpt_bigcode", words = function(c) c.multi_query, c.activation_function = false, "gelu_new" end},
  starcoder = {"gpt_bigcode", words = function(c) c.multi_query, c.activation_function = c.num_key_value_heads == 1, tanh end},
  olmo = {"olmo", pairs = true, words = function(c, get) c.clip_qkv = get"%s.attention.clamp_kqv" end},
  olmo2 = {"olmo2", names = after, words = function(c) return c.sliding_window and "olmo3" or nil end},
  olmoe = {"olmoe", words = function(c, get) experts(c, get, {norm_topk_prob = false}) end},
  granite = {"granite", pairs = true},
  granitemoe = {"granitemoe", pairs = true, words = function(c, get) experts(c, get) end},
  ["command-r"] = {"cohere", words = function(c, _, has) c.use_qk_norm = has"attn_q_norm.weight" end},
  cohere2 = {"cohere2"},
  glm4 = {"glm4", names = after},
  glm4moe = {"glm4_moe", names = {norm2 = "post_attention_norm"}, words = function(c, get, has)
    experts(c, get)
    c.use_qk_norm = has"attn_q_norm.weight"
  end},
  dots1 = {"dots1", words = function(c, get) experts(c, get) end},
  ["minimax-m2"] = {"minimax_m2", words = function(c, get) experts(c, get, {rotary_dim = get"%s.rope.dimension_count"}) end},
  deepseek2 = {"deepseek_v2", words = function(c, get)
    local sigmoid, rotated = get"%s.expert_gating_func" == 2, get"%s.rope.dimension_count"
    experts(c, get, {topk_method = (get"%s.expert_group_count" or 1) > 1 and "group_limited_greedy" or nil})
    c.norm_topk_prob = get"%s.expert_weights_norm" or false
    c.q_lora_rank, c.kv_lora_rank = get"%s.attention.q_lora_rank", get"%s.attention.kv_lora_rank"
    check.that(rotated and c.head_dim, "rope.dimension_count and attention.key_length are missing")
    c.qk_rope_head_dim, c.v_head_dim = rotated, get"%s.attention.value_length_mla" or get"%s.attention.value_length"
    c.qk_nope_head_dim = (get"%s.attention.key_length_mla" or c.head_dim) - rotated
    c.num_key_value_heads, c.head_dim, c.partial_rotary_factor, c.attention_bias = c.num_attention_heads, nil, nil, false
    local factor = get"%s.rope.scaling.yarn_log_multiplier" -- the value in the file is 0.1 * mscale
    if c.rope_scaling and factor then c.rope_scaling.mscale, c.rope_scaling.mscale_all_dim = factor * 10, factor * 10 end
    return sigmoid and "deepseek_v3" or nil
  end},
  nemotron = {"nemotron", plus = true, words = function(c) c.hidden_act = "relu2" end},
  exaone4 = {"exaone4", names = after},
  ["gpt-oss"] = {"gpt_oss", names = {norm2 = "post_attention_norm"}, words = function(c, get) experts(c, get) end},
}

-- Returns the table rope_scaling of a config.json; nil: none.
local function scaling_of(who, path, c, get, has_file)
  local kind, factor = get"%s.rope.scaling.type", get"%s.rope.scaling.factor"
  local original = get"%s.rope.scaling.original_context_length"
  local function factors(name)
    return has_file[name] and rille.load(path, {names = {name}, dtype = "f64"})[name]:totable()
  end
  local both, long, short = factors"rope_freqs.weight", factors"rope_factors_long.weight", factors"rope_factors_short.weight"
  if both or long then
    return {rope_type = "longrope", long_factor = both or long, short_factor = both or short, factor = both and 1.0 or factor,
      attention_factor = both and 1.0 or get"%s.rope.scaling.attn_factor",
      original_max_position_embeddings = original or c.max_position_embeddings}
  end
  if not kind or kind == "none" or not factor or factor == 1 and kind == "linear" then return nil end
  check.that(kind == "linear" or kind == "yarn", "%s: %s: rope.scaling.type must be none, linear, yarn or longrope, found %s", who, path,
    check.quoted(kind))
  return {rope_type = kind, factor = factor + 0.0, original_max_position_embeddings = original,
    attention_factor = get"%s.rope.scaling.attn_factor", beta_fast = get"%s.rope.scaling.yarn_beta_fast",
    beta_slow = get"%s.rope.scaling.yarn_beta_slow", truncate = get"general.architecture" ~= "gpt-oss" and nil}
end

-- Returns the id that ends a text, or a list of the ids that end a text or a turn of a chat.
local function ends_of(get)
  local eos, eot = get"tokenizer.ggml.eos_token_id", get"tokenizer.ggml.eot_token_id"
  return eos and eot and eos ~= eot and {eos, eot} or eos or eot
end

-- Returns the config.json keys that follow from the metadata of all architectures.
local function words_of(who, path, get, has, has_file)
  local heads, width = get"%s.attention.head_count", get"%s.embedding_length"
  local size = get"%s.attention.key_length" or width and heads and heads > 0 and width // heads
  local rotated = get"%s.rope.dimension_count"
  local c = {
    vocab_size = has_file["token_embd.weight"] and has_file["token_embd.weight"].shape[1], hidden_size = width,
    num_hidden_layers = get"%s.block_count" and get"%s.block_count" - (get"%s.nextn_predict_layers" or 0),
    num_attention_heads = heads, num_key_value_heads = get"%s.attention.head_count_kv" or heads, head_dim = size,
    intermediate_size = get"%s.feed_forward_length", max_position_embeddings = get"%s.context_length",
    rms_norm_eps = get"%s.attention.layer_norm_rms_epsilon", layer_norm_eps = get"%s.attention.layer_norm_epsilon",
    rope_theta = get"%s.rope.freq_base", sliding_window = get"%s.attention.sliding_window",
    attn_logit_softcapping = get"%s.attn_logit_softcapping", final_logit_softcapping = get"%s.final_logit_softcapping",
    attention_multiplier = get"%s.attention.scale", embedding_multiplier = get"%s.embedding_scale",
    residual_multiplier = get"%s.residual_scale", logits_scaling = get"%s.logit_scale", logit_scale = get"%s.logit_scale",
    use_parallel_residual = get"%s.use_parallel_residual", tie_word_embeddings = not has_file["output.weight"],
    eos_token_id = ends_of(get), bos_token_id = get"tokenizer.ggml.bos_token_id",
  }
  local bias = has"attn_q.bias" or has"attn_qkv.bias"
  c.attention_bias, c.use_qkv_bias, c.qkv_bias, c.attention_out_bias = bias, bias, bias, has"attn_output.bias"
  c.mlp_bias, c.use_bias, c.bias = has"ffn_up.bias", bias or has"ffn_up.bias", bias
  if rotated and size and rotated ~= size then c.partial_rotary_factor = rotated / size end
  c.rope_scaling = scaling_of(who, path, c, get, has_file)
  return c
end

-- ---- mapping tensor names to Rille's ----

local base = {
  embed = "token_embd", layer = "blk.%d.", norm = "output_norm", head = "output", norm1 = "attn_norm", norm2 = "ffn_norm",
  q = "attn_q", k = "attn_k", v = "attn_v", out = "attn_output", q_norm = "attn_q_norm", k_norm = "attn_k_norm",
  sinks = "attn_sinks.weight", gate = "ffn_gate", up = "ffn_up", down = "ffn_down", positions = "position_embd",
  embed_norm = "token_embd_norm", router = "ffn_gate_inp", correction = "exp_probs_b.bias", separate = true,
  expert_gate = "ffn_gate_exps", expert_up = "ffn_up_exps", expert_down = "ffn_down_exps",
  q_a = "attn_q_a", q_a_norm = "attn_q_a_norm", q_b = "attn_q_b", kv_a = "attn_kv_a_mqa", kv_a_norm = "attn_kv_a_norm",
  kv = "attn_kv_b", shared_gate_proj = "ffn_gate_shexp", shared_up = "ffn_up_shexp", shared_down = "ffn_down_shexp", shared_gate = "ffn_gate_inp_shexp",
}

-- Joins the two projections of multi-head latent attention (latent.lua) into one: the projection to keys (heads,
-- rank, keys) and the projection to values (heads, values, rank).
local function keys_and_values(parts)
  local keys <close> = parts[1]:transpose(1, 2)
  local both <close> = rille.concat({keys, parts[2]}, 1)
  return both:reshape{-1, both.shape[3]}
end

-- Changes the naming table (file's tensor names -> Rille's) for a file that stores the projection of keys and values
-- in two tensors.
local function with_split_latent(rows)
  local list = {}
  for _, row in ipairs(rows) do
    local at = row[1]:match("^(.*)attn_kv_b%.weight$")
    for k, part in ipairs(at and {"k", "v"} or {}) do
      list[#list + 1] = {at .. "attn_" .. part .. "_b.weight", row[2], stack = k - 1, join = keys_and_values}
    end
    if not at then list[#list + 1] = row end
  end
  return list
end

local function joined(c) return {shares = {c.heads, c.kv_heads, c.kv_heads}} end

-- Returns the tensor names of a GGUF file, in the form of the tables of names.lua.
local function names_of(spec, words, has)
  local n = {}
  for _, more in ipairs{base, spec.names or {}, words.names or {}} do
    for key, name in pairs(more) do n[key] = name end
  end
  if has"attn_qkv.weight" then n.qkv, n.qkv_rows = "attn_qkv", joined end
  if not has"ffn_gate.weight" then n.gate_up = "ffn_up" end
  if has"ffn_gate.0.weight" then -- an old file, with a tensor for each expert
    n.separate = false
    for _, part in ipairs{"gate", "up", "down"} do n["expert_" .. part] = ("ffn_%s.%%d.weight"):format(part) end
  end
  return n
end

-- Marks the rows of the naming table (file's tensor names -> Rille's) whose tensors llama.cpp's converter has
-- changed.
local function mark(rows, spec, c)
  local pairs = spec.pairs and not c.interleaved -- models of interleaved pairs use the order of the file
  for _, row in ipairs(rows) do
    if pairs and row[1]:find("attn_q%.") then row.pairs = c.heads end
    if pairs and row[1]:find("attn_k%.") then row.pairs = c.kv_heads end
    row.plus = spec.plus and row[1]:find("norm%.weight$") and 1 or nil
  end
  return rows
end

-- ---- opening a file for loading ----

-- Removes the tensors of the last `extra` layers (nil: 0) from a file's contents. These layers predict further ids
-- and are not part of the model. layers: number of all layers; pattern: matches tensor names, and captures the
-- layer's number.
function gguf.without_layers(contents, pattern, layers, extra)
  if math.type(extra) ~= "integer" or math.type(layers) ~= "integer" then return contents end
  local list = {}
  for _, entry in ipairs(contents) do
    local i = tonumber(entry.name:match(pattern))
    if not i or i < layers - extra or i >= layers then list[#list + 1] = entry end
  end
  return list
end

-- Moves the entries of quantised blocks (runtime/file/quantised.h) from a file's contents to a table, from tensor
-- name to entry.
local function take_blocks(contents)
  local blocks = {}
  for i = #contents, 1, -1 do
    local of = contents[i].name:match("^(.*)%.blocks$")
    if of then blocks[of] = table.remove(contents, i) end
  end
  return blocks
end

-- Returns the model_type of a file, and a table that describes the file for gguf.rows and files.lua. format: as in
-- rille._contents; nil: "gguf".
function gguf.open(who, path, format)
  local contents, get, arch = open(who, path, format)
  local blocks = take_blocks(contents)
  local spec, has_file = archs[arch], {}
  contents = gguf.without_layers(contents, "^blk%.(%d+)%.", get"%s.block_count", get"%s.nextn_predict_layers")
  check.that(spec, "%s: %s: unknown general.architecture \"%s\"; expected one of: %s", who, path, arch,
    table.concat(check.sorted_keys(archs), ", "))
  for _, entry in ipairs(contents) do has_file[entry.name] = entry end
  local function has(name) return has_file["blk.0." .. name] ~= nil end
  local words = words_of(who, path, get, has, has_file)
  local good, model_type = check.try(spec.words or function() end, words, get, has)
  check.that(good, "%s: %s: %s", who, path, tostring(model_type):gsub("^[^:]*:%d+: ", ""))
  model_type = model_type or spec[1]
  words.model_type = model_type
  return model_type, {contents = contents, blocks = blocks, spec = spec, names = names_of(spec, words, has), words = words,
    splits_latent = has"attn_k_b.weight"}
end

-- Returns the naming table of an opened file (file's tensor names -> Rille's) for a model with this config.
function gguf.rows(file, config)
  local rows = names.rows(file.words.model_type, config, file.names)
  return mark(file.splits_latent and with_split_latent(rows) or rows, file.spec, config)
end

return gguf
