-- describe_encoders.lua - descriptions of encoders (describe.lua), by model_type.

local check = require "rille.base.check"
local activations = require "rille.models.activations"

-- Adds the encoders to `families`, from model_type to the function(d, c) that sets the description d for the config.json c.
-- tools: the functions first, by_layer and rotate of describe.lua.
return function(families, tools)
  local first, by_layer, rotate = tools.first, tools.by_layer, tools.rotate

  -- Sets the task from the class name in `architectures`. stem: the class name without its ending, such as Bert; pools:
  -- true if the base model has a pooler. other: a class whose head is ignored. untied: true if the head may have a table of its own.
  local function set_task(d, c, stem, pools, other, untied)
    local name = (c.architectures or {})[1] or stem .. "Model"
    local tasks = {[stem .. "Model"] = pools and "pooled" or "none", [stem .. "ForMaskedLM"] = "masked",
      [stem .. "ForSequenceClassification"] = "classes"}
    if other then tasks[other] = "none" end
    local task = tasks[name]
    check.that(task, "architectures: unknown class %s; expected one of: %s", check.quoted(name),
      table.concat(check.sorted_keys(tasks), ", "))
    d.task, d.task_activation, d.task_bias = task ~= "none" and task or nil, "tanh", true
    d.is_causal, d.norm, d.activation = false, "layer", d.activation or "gelu"
    check.that(not c.is_decoder, "is_decoder must be false, because the model is loaded as an encoder")
    if task == "masked" then
      d.task_activation, d.task_norm, d.head_bias = d.activation, true, true
      check.that(untied or c.tie_word_embeddings ~= false, "tie_word_embeddings = false is not supported for encoders")
    elseif task == "classes" then
      local count = 0
      for _ in pairs(c.id2label or {}) do count = count + 1 end
      d.classes = count > 0 and count or c.num_labels or 2
    end
  end

  -- Returns the number of token types; nil: the model has none.
  local function token_types(c, default)
    local n = c.type_vocab_size or default
    return n > 0 and n or nil
  end

  -- Sets the fields that all encoders with learned positions and post-norms share.
  local function learn_positions(d, c)
    d.gated, d.post_norm, d.learned, d.embed_norm = false, true, 0, true
    d.qkv_bias, d.out_bias, d.mlp_bias, d.eps = true, true, true, c.layer_norm_eps or 1e-12
    check.that(not c.position_embedding_type or c.position_embedding_type == "absolute",
      'position_embedding_type must be "absolute", found %s', check.shown(c.position_embedding_type))
  end

  function families.bert(d, c)
    set_task(d, c, "Bert", true)
    learn_positions(d, c)
    d.token_types = token_types(c, 2)
  end

  -- Sets the width of the embeddings, if it is not the model's. always: the file has a projection even for equal widths.
  local function embed_narrow(d, c, always)
    local size = check.count("the ids", "embedding_size", c.embedding_size or 128)
    if always or size ~= d.width then d.embed_width = size end
    d.token_types = token_types(c, 2)
  end
  function families.electra(d, c)
    set_task(d, c, "Electra", false, "ElectraForPreTraining")
    learn_positions(d, c)
    embed_narrow(d, c)
    d.task_activation = "gelu"
  end
  function families.albert(d, c)
    d.activation = d.activation or "gelu_new"
    set_task(d, c, "Albert", true, "AlbertForPreTraining")
    learn_positions(d, c)
    embed_narrow(d, c, true)
    d.groups = check.count("the layers", "num_hidden_groups", c.num_hidden_groups or 1)
    check.that(d.layers % d.groups == 0 and (c.inner_group_num or 1) == 1,
      "num_hidden_groups must divide num_hidden_layers = %d, and inner_group_num must be 1; found %d and %s", d.layers, d.groups, check.shown(c.inner_group_num))
  end
  function families.distilbert(d, c)
    d.activation = c.activation or "gelu"
    set_task(d, c, "DistilBert")
    learn_positions(d, c)
    if d.task == "classes" then d.task_activation = "relu" end
  end

  -- Sets the description of RoBERTa, whose positions begin after the padding id.
  local function roberta(stem)
    return function(d, c)
      set_task(d, c, stem, true)
      learn_positions(d, c)
      d.token_types = token_types(c, 2)
      d.padding = check.whole("the ids", "pad_token_id", c.pad_token_id or 1, 0)
      d.learned = d.padding + 1
      d.length = d.length - d.learned
      check.that(d.length > 0, "max_position_embeddings must be above pad_token_id + 1, found %d and %d", d.length + d.learned, d.padding)
      if d.task == "masked" then d.task_activation = "gelu" end
    end
  end
  families.roberta, families["xlm-roberta"], families.camembert = roberta "Roberta", roberta "XLMRoberta", roberta "Camembert"

  function families.mpnet(d, c)
    roberta "MPNet"(d, c)
    d.token_types, d.relative = nil, {buckets = c.relative_attention_num_buckets or 32, distance = 128}
    check.that(d.relative.buckets == 32, "relative_attention_num_buckets must be 32, found %s", check.shown(d.relative.buckets))
  end

  function families.modernbert(d, c)
    set_task(d, c, "ModernBert")
    local every_n = c.global_attn_every_n_layers or 3
    local types = c.layer_types or by_layer(d, function(i) return i % every_n == 0 and "full_attention" or "sliding_attention" end)
    d.windows = by_layer(d, function(i) return types[i + 1] == "sliding_attention" and (c.local_attention or 128) // 2 end)
    d.norm_bias, d.embed_norm, d.first_bare = c.norm_bias or false, true, true
    d.qkv_bias, d.out_bias, d.mlp_bias = c.attention_bias, c.attention_bias, c.mlp_bias
    d.task_activation, d.task_norm, d.task_bias = c.classifier_activation or "gelu", d.task and true, c.classifier_bias or false
    if d.task == "masked" then d.head_bias = c.decoder_bias ~= false end
    d.class_pooling = d.task == "classes" and c.classifier_pooling or nil
    check.that(not d.class_pooling or d.class_pooling == "cls" or d.class_pooling == "mean",
      'classifier_pooling must be "cls" or "mean", found %s', check.quoted(d.class_pooling))
    check.that(activations[d.task_activation], "unknown classifier_activation %s; expected one of: %s",
      check.quoted(d.task_activation), table.concat(check.sorted_keys(activations), ", "))
    rotate(d, c, {theta = c.global_rope_theta or 160000.0, local_theta = c.local_rope_theta or 10000.0})
  end

  function families.eurobert(d, c)
    set_task(d, c, "EuroBert", false, nil, true)
    families.llama(d, c)
    d.norm, d.activation, d.eps = nil, c.hidden_act, c.rms_norm_eps or 1e-5
    if d.task == "masked" then
      d.task_bare, d.task_norm, d.task_activation, d.task_bias, d.head_bias = true, nil, nil, nil, c.mlp_bias or false
    elseif d.task == "classes" then
      local how = c.classifier_pooling or "late"
      d.class_pooling = ({bos = "cls", mean = "mean", late = "late"})[how]
      check.that(d.class_pooling, 'classifier_pooling must be "bos", "mean" or "late", found %s', check.shown(how))
      d.task_activation = "gelu"
    end
  end

  -- Sets the fields of encoders with post-norms, gates and rotary positions.
  local function rotate_post_norms(d, c, theta)
    d.post_norm, d.embed_norm, d.eps = true, true, first(c.layer_norm_eps, c.layer_norm_epsilon, 1e-12)
    d.token_types = token_types(c, 0)
    rotate(d, c, {theta = theta})
  end
  function families.gte(d, c)
    set_task(d, c, "Gte")
    rotate_post_norms(d, c, 160000.0)
    d.qkv_bias, d.out_bias, d.down_bias = true, true, true
    if d.task == "masked" then d.task_activation = "gelu" end
  end
  -- config.json has GPT-2's words if the folder is older than transformers' class.
  function families.nomic_bert(d, c)
    d.activation = c.activation_function == "swiglu" and "silu" or d.activation or "silu"
    set_task(d, c, "NomicBert")
    for word, want in pairs{rotary_emb_fraction = 1, rotary_emb_interleaved = false, prenorm = false, use_rms_norm = false, qkv_proj_bias = false,
      mlp_fc1_bias = false, mlp_fc2_bias = false} do
      check.that(c[word] == nil or c[word] == want, "%s must be %s, found %s", word, check.shown(want), check.shown(c[word]))
    end
    check.that(c.rotary_scaling_factor == nil, "rotary_scaling_factor must be null, found %s", check.shown(c.rotary_scaling_factor))
    rotate_post_norms(d, c, check.positive("the positions", "rotary_emb_base", c.rotary_emb_base or 1000.0))
  end
end
