-- names.lua - names of tensors in the files of described decoders and encoders (describe.lua): rows for files.lua.
--
-- The table of a family contains only its differences from Llama's names. `layer` is the prefix of the names of a
-- layer's tensors.

local describe = require "rille.models.loading.describe"

local names = {}

local llama = {
  embed = "model.embed_tokens", layer = "model.layers.%d.", norm = "model.norm", head = "lm_head",
  norm1 = "input_layernorm", norm2 = "post_attention_layernorm",
  q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", out = "self_attn.o_proj",
  q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm", sinks = "self_attn.sinks",
  gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj",
  q_a = "self_attn.q_a_proj", q_a_norm = "self_attn.q_a_layernorm", q_b = "self_attn.q_b_proj",
  kv_a = "self_attn.kv_a_proj_with_mqa", kv_a_norm = "self_attn.kv_a_layernorm", kv = "self_attn.kv_b_proj",
  router = "mlp.gate", correction = "mlp.gate.e_score_correction_bias",
  expert_gate = "mlp.experts.%d.gate_proj.weight", expert_up = "mlp.experts.%d.up_proj.weight",
  expert_down = "mlp.experts.%d.down_proj.weight",
  shared_gate_proj = "mlp.shared_experts.gate_proj", shared_up = "mlp.shared_experts.up_proj",
  shared_down = "mlp.shared_experts.down_proj", shared_gate = "mlp.shared_expert_gate",
  experts = "mlp.experts",
}

local four_norms = {norm3 = "post_attention_layernorm", norm2 = "pre_feedforward_layernorm", norm4 = "post_feedforward_layernorm"}
local fused_gates = {gate_up = "mlp.gate_up_proj"}

-- Return row settings for a tensor that joins queries, keys and values. The tensor consists of `groups` blocks (nil:
-- one). Each block holds queries, keys and values, in the given shares.
local function joined(c) return {shares = {c.heads, c.kv_heads, c.kv_heads}} end
local function by_head(c) return {groups = c.heads, shares = {1, 1, 1}} end
local function by_group(c) return {groups = c.kv_heads, shares = {c.heads // c.kv_heads, 1, 1}} end

local old = {embed = "transformer.wte", layer = "transformer.h.%d.", norm = "transformer.ln_f", norm1 = "ln_1", norm2 = "ln_2"}

local function with(base, more)
  local t = {}
  for k, v in pairs(base) do t[k] = v end
  for k, v in pairs(more) do t[k] = v end
  return t
end

-- `experts` is transformers' name of a layer's module of experts; `modules` are further names of transformers' modules that
-- differ from the file's: {{name in the file, name}, ...}. Adapters are saved under these names (peft.lua).
local granite = {experts = "block_sparse_moe.experts", modules = {{"block_sparse_moe.router.layer", "block_sparse_moe.router"}}, router = "block_sparse_moe.router.layer", expert_gate_up = "block_sparse_moe.input_linear.weight",
  expert_down = "block_sparse_moe.output_linear.weight", stacked = true, turned = true,
  shared_gate_up = "shared_mlp.input_linear", shared_down = "shared_mlp.output_linear"}

local families = {
  mixtral = {modules = {{"block_sparse_moe.gate", "mlp.gate"}}, router = "block_sparse_moe.gate", expert_gate = "block_sparse_moe.experts.%d.w1.weight",
    expert_up = "block_sparse_moe.experts.%d.w3.weight", expert_down = "block_sparse_moe.experts.%d.w2.weight"},
  qwen2_moe = {shared_gate_proj = "mlp.shared_expert.gate_proj", shared_up = "mlp.shared_expert.up_proj",
    shared_down = "mlp.shared_expert.down_proj"},
  hunyuan_v1_dense = {q_norm = "self_attn.query_layernorm", k_norm = "self_attn.key_layernorm"},
  gemma2 = four_norms, gemma3_text = four_norms, vaultgemma = {norm2 = "pre_feedforward_layernorm"},
  persimmon = {norm = "model.final_layernorm", qkv = "self_attn.query_key_value", qkv_rows = by_head, out = "self_attn.dense",
    up = "mlp.dense_h_to_4h", down = "mlp.dense_4h_to_h", q_norm = "self_attn.q_layernorm", k_norm = "self_attn.k_layernorm"},
  minimax_m2 = {modules = {{"block_sparse_moe.gate", "mlp.gate"}}, router = "block_sparse_moe.gate", correction = "block_sparse_moe.e_score_correction_bias",
    expert_gate = "block_sparse_moe.experts.%d.w1.weight", expert_up = "block_sparse_moe.experts.%d.w3.weight",
    expert_down = "block_sparse_moe.experts.%d.w2.weight"},
  gpt_neo = with(old, {positions = "transformer.wpe", q = "attn.attention.q_proj", k = "attn.attention.k_proj",
    v = "attn.attention.v_proj",
    out = "attn.attention.out_proj", up = "mlp.c_fc", down = "mlp.c_proj"}),
  olmo2 = {norm3 = "post_attention_layernorm", norm4 = "post_feedforward_layernorm"},
  phi = {out = "self_attn.dense", norm = "model.final_layernorm", up = "mlp.fc1", down = "mlp.fc2",
    q_norm = "self_attn.q_layernorm", k_norm = "self_attn.k_layernorm"},
  phi3 = with(fused_gates, {qkv = "self_attn.qkv_proj", qkv_rows = joined}),
  glm = fused_gates,
  glm4 = with(fused_gates, {norm3 = "post_self_attn_layernorm", norm2 = "post_attention_layernorm", norm4 = "post_mlp_layernorm"}),
  granitemoe = granite, granitemoeshared = granite,
  starcoder2 = {up = "mlp.c_fc", down = "mlp.c_proj"},
  ernie4_5_moe = {correction = "mlp.moe_statics.e_score_correction_bias", correction_view = true},
  gpt_oss = {router = "mlp.router", expert_gate_up = "mlp.experts.gate_up_proj", expert_down = "mlp.experts.down_proj",
    stacked = true,
    alternating = true, expert_gate_up_bias = "mlp.experts.gate_up_proj_bias", expert_down_bias = "mlp.experts.down_proj_bias"},
  falcon = {embed = "transformer.word_embeddings", layer = "transformer.h.%d.", norm = "transformer.ln_f",
    qkv = "self_attention.query_key_value",
    out = "self_attention.dense", up = "mlp.dense_h_to_4h", down = "mlp.dense_4h_to_h", two_norms = {"ln_attn",
      "ln_mlp"}, qkv_rows = by_group},
  gpt_neox = {embed = "gpt_neox.embed_in", layer = "gpt_neox.layers.%d.", norm = "gpt_neox.final_layer_norm", head = "embed_out",
    qkv = "attention.query_key_value", out = "attention.dense", up = "mlp.dense_h_to_4h", down = "mlp.dense_4h_to_h",
      qkv_rows = by_head},
  gptj = with(old, {q = "attn.q_proj", k = "attn.k_proj", v = "attn.v_proj", out = "attn.out_proj", up = "mlp.fc_in",
    down = "mlp.fc_out"}),
  opt = {embed = "model.decoder.embed_tokens", positions = "model.decoder.embed_positions", layer = "model.decoder.layers.%d.",
    norm = "model.decoder.final_layer_norm", norm1 = "self_attn_layer_norm", norm2 = "final_layer_norm", out = "self_attn.out_proj",
    up = "fc1", down = "fc2", embed_in = "model.decoder.project_in", embed_out = "model.decoder.project_out"},
  bloom = {embed = "transformer.word_embeddings", embed_norm = "transformer.word_embeddings_layernorm", layer = "transformer.h.%d.",
    norm = "transformer.ln_f", qkv = "self_attention.query_key_value", out = "self_attention.dense", up = "mlp.dense_h_to_4h",
    down = "mlp.dense_4h_to_h", qkv_rows = by_head},
  mpt = {embed = "transformer.wte", layer = "transformer.blocks.%d.", norm = "transformer.norm_f", norm1 = "norm_1",
    norm2 = "norm_2",
    qkv = "attn.Wqkv", out = "attn.out_proj", up = "ffn.up_proj", down = "ffn.down_proj", qkv_rows = joined},
  gpt_bigcode = with(old, {positions = "transformer.wpe", qkv = "attn.c_attn", out = "attn.c_proj", up = "mlp.c_fc",
    down = "mlp.c_proj",
    qkv_rows = function(c) return c.kv_heads == 1 and joined(c) or by_head(c) end}),
}

families.exaone = with(old, {q = "attn.attention.q_proj", k = "attn.attention.k_proj", v = "attn.attention.v_proj",
  out = "attn.attention.out_proj", gate = "mlp.c_fc_0", up = "mlp.c_fc_1", down = "mlp.c_proj"})
families.hunyuan_v1_moe = with(families.hunyuan_v1_dense, {router = "mlp.gate.wg", shared_gate_proj = "mlp.shared_mlp.gate_proj",
  shared_up = "mlp.shared_mlp.up_proj", shared_down = "mlp.shared_mlp.down_proj"})
families.hy_v3 = {router = "mlp.router.gate", correction = "mlp.expert_bias", shared_gate_proj = "mlp.shared_mlp.gate_proj",
  shared_up = "mlp.shared_mlp.up_proj", shared_down = "mlp.shared_mlp.down_proj"}
families.exaone_moe = {correction = "mlp.e_score_correction_bias"}
families.aria_text = {router = "mlp.router", expert_gate_up = "mlp.experts.fc1.weight", expert_down = "mlp.experts.fc2.weight", stacked = true,
  columns = true}
families.hyperclovax = {norm3 = "post_norm1", norm4 = "post_norm2"}
families.granitemoe_swa = with(granite, {router = "block_sparse_moe.router", expert_gate_up = "block_sparse_moe.experts.gate_up_proj",
  expert_down = "block_sparse_moe.experts.down_proj"})
families.sarvam_moe = {embed = "model.word_embeddings", qkv = "attention.query_key_value", qkv_rows = joined, out = "attention.dense",
  q_norm = "attention.query_layernorm", k_norm = "attention.key_layernorm", correction = "mlp.gate.expert_bias"}
families.codegen = with(families.gptj, {qkv = "attn.qkv_proj", qkv_order = {1, 3, 2}, qkv_rows = function() return {groups = 4, shares = {1, 1, 1}} end})
families.biogpt = with(families.opt, {embed = "biogpt.embed_tokens", positions = "biogpt.embed_positions", layer = "biogpt.layers.%d.",
  norm = "biogpt.layer_norm", head = "output_projection"})

-- Returns the naming table of encoders like BERT. base: prefix of the names in the files.
local function bert_names(base, more)
  local at = base .. "embeddings."
  return with({embed = at .. "word_embeddings", positions = at .. "position_embeddings", token_types = at .. "token_type_embeddings",
    embed_norm = at .. "LayerNorm", layer = base .. "encoder.layer.%d.", norm1 = "attention.output.LayerNorm",
    norm2 = "output.LayerNorm", q = "attention.self.query", k = "attention.self.key", v = "attention.self.value",
    out = "attention.output.dense", up = "intermediate.dense", down = "output.dense", pooled = {dense = base .. "pooler.dense"}}, more)
end

local roberta = bert_names("roberta.", {head = "lm_head.decoder", bias = "lm_head.bias",
  masked = {dense = "lm_head.dense", norm = "lm_head.layer_norm"}, classes = {dense = "classifier.dense", out = "classifier.out_proj"}})
families.roberta, families["xlm-roberta"], families.camembert = roberta, roberta, roberta
families.bert = bert_names("bert.", {head = "cls.predictions.decoder", bias = "cls.predictions.bias",
  masked = {dense = "cls.predictions.transform.dense", norm = "cls.predictions.transform.LayerNorm"},
  classes = {dense = "bert.pooler.dense", out = "classifier"}})
families.electra = bert_names("electra.", {embed_in = "electra.embeddings_project", head = "generator_lm_head", bias = "generator_lm_head.bias",
  masked = {dense = "generator_predictions.dense", norm = "generator_predictions.LayerNorm"},
  classes = {dense = "classifier.dense", out = "classifier.out_proj"}})
families.albert = bert_names("albert.", {embed_in = "albert.encoder.embedding_hidden_mapping_in",
  layer = "albert.encoder.albert_layer_groups.%d.albert_layers.0.", norm1 = "attention.LayerNorm", norm2 = "full_layer_layer_norm",
  q = "attention.query", k = "attention.key", v = "attention.value", out = "attention.dense", up = "ffn", down = "ffn_output",
  head = "predictions.decoder", bias = "predictions.bias", pooled = {dense = "albert.pooler"},
  masked = {dense = "predictions.dense", norm = "predictions.LayerNorm"}, classes = {dense = "albert.pooler", out = "classifier"}})
families.mpnet = bert_names("mpnet.", {relative = "mpnet.encoder.relative_attention_bias", norm1 = "attention.LayerNorm",
  q = "attention.attn.q", k = "attention.attn.k", v = "attention.attn.v", out = "attention.attn.o",
  head = "lm_head.decoder", bias = "lm_head.bias", masked = {dense = "lm_head.dense", norm = "lm_head.layer_norm"},
  classes = {dense = "classifier.dense", out = "classifier.out_proj"}})
families.distilbert = bert_names("distilbert.", {layer = "distilbert.transformer.layer.%d.", q = "attention.q_lin",
  k = "attention.k_lin", v = "attention.v_lin", out = "attention.out_lin", norm1 = "sa_layer_norm", norm2 = "output_layer_norm",
  up = "ffn.lin1", down = "ffn.lin2", head = "vocab_projector", bias = "vocab_projector.bias",
  masked = {dense = "vocab_transform", norm = "vocab_layer_norm"}, classes = {dense = "pre_classifier", out = "classifier"}})

families.modernbert = {embed = "model.embeddings.tok_embeddings", embed_norm = "model.embeddings.norm", norm1 = "attn_norm",
  norm2 = "mlp_norm", qkv = "attn.Wqkv", qkv_rows = joined, out = "attn.Wo", gate_up = "mlp.Wi", down = "mlp.Wo",
  norm = "model.final_norm", head = "decoder", masked = {dense = "head.dense", norm = "head.norm"},
  classes = {dense = "head.dense", norm = "head.norm", out = "classifier"}}

families["modernbert-decoder"] = {embed = "model.embeddings.tok_embeddings", embed_norm = "model.embeddings.norm", norm1 = "attn_norm",
  norm2 = "mlp_norm", q = "attn.q_proj", k = "attn.k_proj", v = "attn.v_proj", out = "attn.Wo", gate_up = "mlp.Wi", down = "mlp.Wo",
  norm = "model.final_norm", head = "decoder", masked = {dense = "lm_head.dense", norm = "lm_head.norm"}}

families.eurobert = {classes = {dense = "dense", out = "classifier"}}
families.gte = {embed = "gte.embeddings.word_embeddings", token_types = "gte.embeddings.token_type_embeddings", embed_norm = "gte.embeddings.LayerNorm",
  layer = "gte.encoder.layer.%d.", norm1 = "attn_ln", norm2 = "mlp_ln", qkv = "attention.qkv_proj", qkv_rows = joined, out = "attention.o_proj",
  gate_up = "mlp.up_gate_proj", up_first = true, down = "mlp.down_proj", head = "lm_head.decoder", masked = {dense = "lm_head.dense", norm = "lm_head.norm"},
  classes = {dense = "gte.pooler.dense", out = "classifier"}}
families.nomic_bert = {embed = "nomic_bert.embeddings.word_embeddings", token_types = "nomic_bert.embeddings.token_type_embeddings",
  embed_norm = "nomic_bert.emb_ln", layer = "nomic_bert.encoder.layers.%d.", norm1 = "norm1", norm2 = "norm2", qkv = "attn.Wqkv", qkv_rows = joined,
  out = "attn.out_proj", gate = "mlp.fc12", up = "mlp.fc11", down = "mlp.fc2", head = "cls.predictions.decoder", bias = "cls.predictions.bias",
  masked = {dense = "cls.predictions.transform.dense", norm = "cls.predictions.transform.layer_norm"},
  classes = {dense = "nomic_bert.pooler.dense", out = "classifier"}}

families.olmo3, families.exaone4, families.flex_olmo = families.olmo2, families.olmo2, families.olmo2

-- Family -> prefix of all names. The prefix is optional, because files of the base model lack it.
names.prefix = {falcon = "transformer.", bloom = "transformer.", gptj = "transformer.", mpt = "transformer.",
  gpt_neo = "transformer.", gpt_bigcode = "transformer.", exaone = "transformer.", codegen = "transformer.",
  biogpt = "biogpt.", albert = "albert.", electra = "electra.", mpnet = "mpnet.", bert = "bert.", distilbert = "distilbert.", roberta = "roberta.",
  ["xlm-roberta"] = "roberta.", camembert = "roberta.", modernbert = "model.", eurobert = "model.", gte = "gte.", nomic_bert = "nomic_bert."}

-- Family -> patterns of names to ignore: buffers, second names of biases, and heads for pretraining tasks.
local second = {"position_ids$", "lm_head%.decoder%.bias$", "^roberta%.pooler%."}
names.ignored = {roberta = second, ["xlm-roberta"] = second, camembert = second,
  gte = {"pooler%.dense%."}, nomic_bert = {"pooler%.dense%."}, mpnet = {"position_ids$", "lm_head%.decoder%.bias$", "^mpnet%.pooler%."},
  electra = {"position_ids$", "^generator_lm_head%.weight$", "^discriminator_predictions%."},
  albert = {"position_ids$", "^predictions%.decoder%.bias$", "^sop_classifier%.", "^albert%.pooler%.", "^predictions%."},
  bert = {"position_ids$", "^cls%.predictions%.decoder%.bias$", "^cls%.seq_relationship%.", "^bert%.pooler%."}}

-- Returns the naming rows {theirs, ours, ...} for a layer's experts. at: the layer's prefix in the file; our: the
-- layer's prefix in Rille.
local function expert_rows(c, n, at, our, add, pair)
  local e = c.experts
  pair(at .. n.router, {our .. "router"}, e.bias)
  if e.correction then add{at .. n.correction, our .. "correction", view = n.correction_view, f32 = true} end
  if n.separate then
    for _, part in ipairs{"gate", "up", "down"} do
      add{at .. n["expert_" .. part] .. ".weight", our .. part, turn = true}
      if e.bias then add{at .. n["expert_" .. part] .. ".bias", our .. part .. "_bias"} end
    end
  elseif n.stacked then
    add{at .. n.expert_gate_up, our .. "gate", our ..
      "up", axis = (n.alternating or n.columns) and 3 or 2, groups = n.alternating and e.hidden or 1,
      turn = n.turned}
    add{at .. n.expert_down, our .. "down", turn = n.turned}
  else
    for i = 0, e.count - 1 do
      for _, part in ipairs{"gate", "up",
        "down"} do add{at .. n["expert_" .. part]:format(i), our .. part, turn = true, stack = i} end
    end
  end
  if e.bias and not n.separate then
    add{at .. n.expert_gate_up_bias, our .. "gate_bias", our .. "up_bias", axis = 2, groups = e.hidden}
    add{at .. n.expert_down_bias, our .. "down_bias"}
  end
  if e.shared and n.shared_gate_up then pair(at .. n.shared_gate_up, {our .. "shared.gate_proj", our ..
    "shared.up_proj"}, c.mlp_bias)
  elseif e.shared then
    pair(at .. n.shared_gate_proj, {our .. "shared.gate_proj"}, c.mlp_bias)
    pair(at .. n.shared_up, {our .. "shared.up_proj"}, c.mlp_bias)
  end
  if e.shared then pair(at .. n.shared_down, {our .. "shared.down_proj"}, c.mlp_bias) end
  if e.shared_gate then pair(at .. n.shared_gate, {our .. "shared_gate"}) end
end

local function feed_forward_rows(c, n, at, our, pair)
  if c.gated and n.gate_up then
    local first, second = our .. "gate_proj", our .. "up_proj"
    if n.up_first then first, second = second, first end
    pair(at .. n.gate_up, {first, second}, c.mlp_bias)
  else
    if c.gated then pair(at .. n.gate, {our .. "gate_proj"}, c.mlp_bias) end
    pair(at .. n.up, {our .. "up_proj"}, c.mlp_bias)
  end
  pair(at .. n.down, {our .. "down_proj"}, c.down_bias)
end

local function latent_rows(c, n, at, our, pair)
  if c.latent.q_rank then
    pair(at .. n.q_a, {our .. "q_a_proj"}, c.qkv_bias)
    pair(at .. n.q_a_norm, {our .. "q_a_norm"})
  end
  pair(at .. (c.latent.q_rank and n.q_b or n.q), {our .. "q_proj"})
  pair(at .. n.kv_a, {our .. "kv_a_proj"}, c.qkv_bias)
  pair(at .. n.kv_a_norm, {our .. "kv_a_norm"})
  pair(at .. n.kv, {our .. "kv_proj"})
end

local function attention_rows(c, n, at, our, add, pair)
  local ours = {our .. "q_proj", our .. "k_proj", our .. "v_proj"}
  if c.latent then
    latent_rows(c, n, at, our, pair)
  elseif n.qkv then
    local order = n.qkv_order or {1, 2, 3}
    pair(at .. n.qkv, {ours[order[1]], ours[order[2]], ours[order[3]]}, c.qkv_bias, n.qkv_rows(c))
  else
    for i, part in ipairs{"q", "k", "v"} do pair(at .. n[part], {ours[i]}, part == "k" and c.k_bias or part ~= "k" and c.qkv_bias) end
  end
  pair(at .. n.out, {our .. "out_proj"}, c.out_bias)
  for _, part in ipairs(c.qk_norm and {"q_norm", "k_norm"} or {}) do pair(at .. n[part], {our .. part}, c.qk_bias) end
  if c.sinks then add{at .. n.sinks, our .. "sinks"} end
end

-- Adds the naming rows {theirs, ours, ...} for the task of an encoder.
local function task_rows(c, n, pair, norm)
  local task = c.task and n[c.task]
  if not task then return end
  pair(task.dense, {"task_dense"}, c.task_bias)
  if c.task_norm then norm(task.norm, "task_norm") end
  if task.out then pair(task.out, {"classifier"}, true) end
end

-- Returns the naming rows {theirs, ours, ...} of an encoder. The names in files of base models have no prefix, and
-- old files use other names for norms.
local function encoder_names(rows, c, prefix)
  local old = {weight = "gamma", bias = "beta"}
  for _, row in ipairs(rows) do
    row.old = row[1]:gsub("LayerNorm%.(%a+)$", function(part) return "LayerNorm." .. old[part] end)
    local base = c.task ~= "masked" and c.task ~= "classes" and row[1]:sub(1, #prefix) == prefix
    if base then row[1] = row[1]:sub(#prefix + 1) end
  end
  return rows
end

-- Returns functions that append rows {theirs, ours, ...} to a naming table, which maps the file's tensor names to
-- Rille's: add(row), pair(theirs, ours, bias, how) for a weight and its bias, and norm(theirs, ours) for a norm.
function names.writer(c, rows)
  local function add(row) rows[#rows + 1] = row end
  local function pair(theirs, ours, bias, how)
    for _, part in ipairs(bias and {"weight", "bias"} or {"weight"}) do
      local row = with(how or {}, {theirs .. "." .. part})
      for i, our in ipairs(ours) do row[i + 1] = our .. "." .. part end
      add(row)
    end
  end
  local function norm(theirs, ours)
    if c.norm ~= "plain" then pair(theirs, {ours}, c.norm:find("^layer") and c.norm_bias) end
  end
  return add, pair, norm
end

-- Appends the naming rows {theirs, ours, ...} for the blocks and the last norm. c: a complete description; n: names
-- of the file; base: prefix of Rille's names.
function names.blocks(c, n, rows, base)
  local add, pair, norm = names.writer(c, rows)
  for i = 0, (c.groups or c.layers) - 1 do
    local at, our = n.layer:format(i), ("%slayers.%d."):format(base, i)
    for k = 1, 4 do
      local theirs, ours = n["norm" .. k] and at .. n["norm" .. k], our .. "norm" .. k
      if c.layer_scale and k > 2 then add{theirs, ours .. ".weight"}
      elseif c.norms:find(k) and not (k == 1 and i == 0 and c.first_bare) then norm(theirs, ours) end
    end
    attention_rows(c, n, at, our .. "attention.", add, pair)
    if c.experts and c.experts.layers[i + 1] then expert_rows(c, n, at, our .. "mlp.", add, pair)
    else feed_forward_rows(c, n, at, our .. "mlp.", pair) end
  end
  if not c.post_norm then norm(n.norm, base .. "norm") end
end

-- Returns the modules of experts of a model in transformers, for adapters: {name =, rows {tensor, ours, ..., groups =}}.
function names.experts(family, config)
  local c, n, list = describe.complete(config), with(llama, families[family] or {}), {}
  for i = 0, c.experts and c.layers - 1 or -1 do
    if c.experts.layers[i + 1] then
      local name, our = n.layer:format(i) .. n.experts, ("layers.%d.mlp."):format(i)
      list[#list + 1] = {name = name, {name .. ".gate_up_proj", our .. "gate", our .. "up", groups = n.alternating and c.experts.hidden or nil},
        {name .. ".down_proj", our .. "down"}}
    end
  end
  return list
end

-- Returns transformers' name of a module that has another name in files.
function names.module(family, name)
  for _, pair in ipairs(families[family] and families[family].modules or {}) do
    local from, to = name:find(pair[1], 1, true)
    if from and to == #name then return name:sub(1, from - 1) .. pair[2] end
  end
  return name
end

-- Returns the naming table of a model of the family with this config, a list of rows: {theirs, ours, ours..., axis =,
-- groups =, shares =, turn =, stack =}; see files.lua. given: the tensor names of the file, if they are not Hugging
-- Face's.
function names.rows(family, config, given)
  local c = describe.complete(config)
  local n, rows = given or with(llama, families[family] or {}), {}
  if n.two_norms and c.norms == "12" and c.parallel then n.norm1, n.norm2 = n.two_norms[1], n.two_norms[2] end
  local add, pair, norm = names.writer(c, rows)
  pair(n.embed, {"embed_tokens"})
  if c.embed_width then
    pair(n.embed_in, {"embed_in"}, not c.is_causal)
    if c.is_causal then pair(n.embed_out, {"embed_out"}) end
  end
  if c.learned then pair(n.positions, {"positions"}) end
  if c.embed_norm then norm(n.embed_norm, "embed_norm") end
  names.blocks(c, n, rows, "")
  if not c.is_causal then
    if c.token_types then pair(n.token_types, {"token_types"}) end
    if c.relative then pair(n.relative, {"relative"}) end
    task_rows(c, n, pair, norm)
  end
  if c.is_causal or c.task == "masked" then
    add{n.head .. ".weight", "lm_head.weight", head = true}
    if c.head_bias then add{n.bias or n.head .. ".bias", "lm_head.bias"} end
    if c.is_causal and c.task_norm then
      pair(n.masked.dense, {"task_dense"}, c.task_bias)
      norm(n.masked.norm, "task_norm")
    end
  end
  return c.is_causal and rows or encoder_names(rows, c, names.prefix[family])
end

return names
