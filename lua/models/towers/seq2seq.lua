-- seq2seq.lua - encoder-decoders: T5 (Raffel et al. 2020) and Whisper (Radford et al. 2022). The decoder's blocks also attend to
-- the encoder's features.
--
--   m(inputs, targets[, {mask =}])      logits of the ids that follow each target (batch, length, vocab)
--   m:encode(inputs[, {mask =}])        features of the inputs (batch, length, width)
--   m:generate(inputs[, {prompt =, mask =, ...}])   ids, a list for each input
--
-- A folder that has no decoder, such as T5EncoderModel, gives a model of the encoder alone; m(inputs[, {mask =}])
-- returns features.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = rille.nn
local heads = require "rille.nn.sequence.heads"
local Attention = require "rille.models.attention"
local Decoder = require "rille.models.decoder"
local language = require "rille.models.language"
local new_norm = require "rille.models.norms"
local optional = require "rille.models.loading.optional"
local prompts = require "rille.models.generation.prompts"
local log_mel = require "rille.models.towers.mel"
local Relative = require "rille.models.towers.relative"
local sampling = require "rille.models.generation.sampling"
local towers = require "rille.models.towers.towers"

-- ---- attention to the encoder's features ----

local Cross = Attention:extend("models.CrossAttention")

-- Computes the keys and values of features, (batch, heads, length, size).
function Cross:keys(features)
  return heads.split(self.k_proj(features), self.kv_heads), heads.split(self.v_proj(features), self.kv_heads)
end

-- memory: the encoder's features, {features =, mask =}, or their stored keys and values, {keys =, values =, mask =}.
-- mask: bool (batch, 1, 1, length), or nil.
function Cross:forward(x, memory)
  local k, v = memory.keys, memory.values
  if not k then k, v = self:keys(memory.features) end
  local q = heads.split(self.q_proj(x), self.heads)
  return self.out_proj(heads.join(heads.attend(self.__name, q, k, v, memory.mask, {scale = self.scale})))
end

local Block = Decoder.Block:extend("models.CrossBlock")
Block.parallel = {norm = {"norm1", "norm2", "cross_norm"}, stream = true}

function Block:init(c, i)
  Decoder.Block.init(self, c, i)
  self.cross_norm, self.cross = new_norm(c, c.width), Cross(c)
end

function Block:forward(x, mask, cache, memory)
  x = x + self.attention(self.norm1(x), mask, cache)
  x = x + self.cross(self.cross_norm(x), memory)
  return x + self.mlp(self.norm2(x))
end

-- ---- the model of encoder and decoder ----

local Model = towers.Model:extend("models.seq2seq")
Model.parallel = {embedding = "embed_tokens", head = "lm_head"}

-- config: encoder and decoder (descriptions), vocab, length (maximum number of target ids), width, tied. For inputs
-- that are texts: relative (settings of relative.lua). For sound: bins, frames.
function Model:init(config)
  language.Model.init(self, config)
  local c = config
  self.embed_tokens = nn.Embedding(c.vocab, c.width)
  if c.bins then
    self.conv1 = nn.Conv1d(c.bins, c.width, 3, {padding = 1})
    self.conv2 = nn.Conv1d(c.width, c.width, 3, {stride = 2, padding = 1})
    self.sound_positions, self.positions = nn.Embedding(c.frames // 2, c.width), nn.Embedding(c.length, c.width)
  end
  self.encoder = towers.Tower(c.encoder)
  if c.relative then self.encoder_bias = Relative.list(c.relative, c.encoder) end
  if not c.decoder then return end
  self.decoder = towers.Tower(c.decoder, Block)
  if c.relative then self.decoder_bias = Relative.list(c.relative, c.decoder) end
  self.lm_head = nn.Linear(c.width, c.vocab, {bias = false})
  if c.tied then nn.tie(self.embed_tokens, "weight", self.lm_head, "weight") end
end

local function through(tower, x, mask, ...)
  for i, block in ipairs(tower.layers) do x = block(x, mask(i), ...) end
  return tower.norm(x)
end

-- Converts sound, a log-mel spectrogram (batch, bins, frames), to the vectors that the encoder's blocks read.
local function hear(self, sound)
  local c = self.config
  check.that(layout.is_tensor(sound) and sound.ndim == 3 and sound.shape[2] == c.bins and sound.shape[3] == c.frames,
    "%s: sound must be a spectrogram of m:log_mel, (batch, %d, %d), found %s", self.__name, c.bins, c.frames, towers.shown(sound))
  local x = self.conv2(self.conv1(sound:to(self.conv1.weight.dtype)):gelu()):gelu():transpose(1, 2)
  return x + self.sound_positions.weight
end

local function no_mask() return nil end

-- Returns the encoder's features of the inputs, and the mask of the entries that are not padding, or nil.
local function encoded(self, who, inputs, given)
  if self.config.bins then
    given = given or {}
    check.that(next(given) == nil, "%s: options are not supported for sound, found %s", who,
      table.concat(check.sorted_keys(given), ", "))
    return through(self.encoder, hear(self, inputs), no_mask), nil
  end
  self:check_ids(inputs)
  local padding = towers.mask_of(who, inputs, given)
  local x, n = self.embed_tokens(inputs), inputs.shape[2]
  local all = padding and padding:reshape{padding.shape[1], 1, 1, n}
  return through(self.encoder, x, Relative.masks(self.encoder_bias, x, nil, n, function(bias)
    return all and rille.where(all, bias, -math.huge) or bias
  end)), all
end

function Model:encode(inputs, given)
  local x = encoded(self, self.__name .. ": encode", inputs, given)
  return x
end

-- Returns a function mask(i) that returns the mask of the decoder's layer i. at: positions of targets (batch or 1,
-- n); keys: number of keys.
local function target_masks(self, x, at, keys)
  if not self.decoder_bias then return no_mask end
  local where, n = {placement = x.placement, sbp = layout.replicated(x.placement)}, at.shape[2]
  local q = layout.on_mesh_of(at, x):reshape{-1, n, 1}
  local sees = rille.arange(keys, where):reshape{1, 1, keys}:le(q):reshape{-1, 1, n, keys}
  return Relative.masks(self.decoder_bias, x, q, keys, function(bias) return rille.where(sees, bias, -math.huge) end)
end

-- Returns the decoder's features of the targets. memory: what the cross-attention attends to (see Cross:forward), one
-- table for all layers, or a list by layer.
function Model:decode(targets, memory, cache)
  local x, n, c = self.embed_tokens(targets), targets.shape[2], self.config
  local later = cache and cache:positions()
  local at = later or rille.arange(n, {placement = x.placement, sbp = layout.replicated(x.placement)}):reshape{1, n}
  if self.positions then x = x + self.positions(at) end
  local mask = target_masks(self, x, at, later and cache.room or n)
  for i, block in ipairs(self.decoder.layers) do x = block(x, mask(i), cache, memory[i] or memory) end
  x = self.decoder.norm(x)
  return c.scales and x * c.width ^ -0.5 or x
end

function Model:forward(inputs, targets, given)
  if not self.decoder then return (encoded(self, self.__name, inputs, targets)) end
  self:check_ids(targets)
  local features, mask = encoded(self, self.__name, inputs, given)
  return self:logits(self:decode(targets, {features = features, mask = mask}))
end

-- ---- generating texts from inputs ----

-- A language model (language.lua) for generation, whose blocks attend to the stored keys and values of the inputs. A
-- Listener is no module.
local Listener = {}
Listener.__index = Listener

local function new_listener(model, features, mask)
  local self = setmetatable({model = model, config = model.config, memory = {}}, Listener)
  for i, block in ipairs(model.decoder.layers) do
    local k, v = block.cross:keys(features)
    self.memory[i] = {keys = k, values = v, mask = mask}
  end
  return self
end

-- Returns, by layer, the keys, values and mask of the cross-attention for the texts in the current pass. memory: the
-- keys, values and mask for all texts.
local function of_pass(memory, cache)
  if not (cache and cache.slot) then return memory end
  local list = {}
  for i, stored in ipairs(memory) do
    list[i] = {}
    for name, t in pairs(stored) do list[i][name] = t:index_select(0, layout.on_mesh_of(cache.slot, t)) end
  end
  return list
end

function Listener:features(ids, cache) return self.model:decode(ids, of_pass(self.memory, cache), cache) end
function Listener:logits(x) return self.model:logits(x) end
function Listener:modules() return self.model:modules() end
function Listener:__input_layout() return self.model:__input_layout() end

-- Returns the inputs as a tensor with one row per input, and a mask that is false at padding. Inputs that are lists
-- are padded to equal length.
local function as_tensor(self, inputs, given)
  check.that(not self.config.bins or layout.is_tensor(inputs) and #inputs.shape == 3,
    "%s: generate: expected a spectrogram with batch, bins and frames, found %s; m:log_mel(sound) makes one", self.__name, check.shown(inputs))
  if layout.is_tensor(inputs) then return inputs, given.mask end
  check.that(given.mask == nil, "%s: generate: the option mask needs inputs in a tensor", self.__name)
  local rows, longest = prompts.read("generate", inputs, self.config.vocab)
  local mask, where = {}, self:__input_layout()
  for r, row in ipairs(rows) do
    mask[r] = {}
    for i = 1, longest do mask[r][i] = i <= #row and 1 or 0 end
  end
  local how = {dtype = "i64", placement = where.placement, sbp = where.sbp}
  return rille.tensor(prompts.padded(rows, longest), how), rille.tensor(mask, how)
end

-- Repeats each row of t n times.
local function repeated(t, n)
  if n == 1 or not t then return t end
  local shape = t.shape
  return t:unsqueeze(1):expand{shape[1], n, table.unpack(shape, 2)}:reshape{shape[1] * n, table.unpack(shape, 2)}
end

-- Returns the features of the inputs and their mask. Each row is repeated `times` times, once per continuation.
local function heard(self, inputs, mask, times)
  local features, all = encoded(self, self.__name .. ": generate", inputs, mask and {mask = mask} or nil)
  return repeated(features, times), repeated(all, times)
end

-- Returns the default of the option bad_words: the ids that the model's folder suppresses; nil: none. Some ids are
-- suppressed only directly after the prompt.
local function suppressed(c, prompt)
  local words = {}
  for i, id in ipairs(c.suppressed or {}) do words[i] = {id} end
  for _, id in ipairs(type(prompt) == "table" and c.suppressed_first or {}) do words[#words + 1] = {prompt[#prompt], id} end
  return #words > 0 and words or nil
end

function Model:generate(inputs, given)
  local who, own = self.__name .. ": generate", {}
  check.that(self.decoder, "%s is not supported, because the model has no decoder", who)
  check.that(given == nil or type(given) == "table", "%s: options must be a table, found %s", who, check.shown(given))
  for name, value in pairs(given or {}) do own[name] = value end
  check.that(own.draft == nil, "%s: the option draft is not supported", who)
  local ids, mask = as_tensor(self, inputs, own)
  local prompt = own.prompt or {self.config.start}
  own.prompt, own.mask, own.bad_words = nil, nil, own.bad_words or suppressed(self.config, prompt)
  local times = own.beams or own.n or 1
  sampling.check_times("generate", own.beams and "beams" or "n", times, ids.shape[1])
  local listener = rille.no_grad(function() return new_listener(self, heard(self, ids, mask, times)) end)
  local rows = {}
  for r = 1, ids.shape[1] do rows[r] = prompt end
  return require("rille.models.generation.generate")(listener, rows, own)
end

function Model:scheduler()
  check.fail("%s: an encoder-decoder has no scheduler, because each text has its own inputs of the encoder; use generate", self.__name)
end

function Model:describe()
  local c = self.config
  local layers = c.decoder and ("%d and %d"):format(c.encoder.layers, c.decoder.layers) or c.encoder.layers
  return ("%s layers of width %d, %d ids"):format(layers, c.width, c.vocab)
end

-- Returns the default first id of a generated text.
local function start_of(model_type, w) return check.whole(model_type, "decoder_start_token_id", w.decoder_start_token_id, 0) end

-- ---- loading T5 from folders ----

local defaults = {d_model = 512, d_kv = 64, d_ff = 2048, num_layers = 6, num_heads = 8, vocab_size = 32128,
  layer_norm_epsilon = 1e-6, relative_attention_num_buckets = 32, relative_attention_max_distance = 128, decoder_start_token_id = 0}
local counts = {"d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "vocab_size",
  "relative_attention_num_buckets", "relative_attention_max_distance"}

-- Returns whether the feed-forward layers have gates, and the name of their activation function. The keys is_gated_act and
-- dense_act_fn precede feed_forward_proj, as in transformers.
local function feed_forward_of(w)
  local text, is_gated = w.feed_forward_proj, w.is_gated_act
  check.that(type(text) == "string", "feed_forward_proj must be a string, found %s", check.shown(text))
  local gates, name = text:match("^(gated%-)(.*)$")
  if gates and name == "gelu" then name = "gelu_new" end
  if is_gated == nil then is_gated = gates ~= nil end
  return is_gated, towers.activation(w.dense_act_fn or name or text)
end

local function of_t5(c, contents, model_type)
  local own = {num_decoder_layers = c.num_layers or defaults.num_layers}
  own.feed_forward_proj = model_type == "t5" and "relu" or "gated-gelu"
  for word, value in pairs(defaults) do own[word] = value end
  local w = towers.words(model_type, c, nil, own, counts)
  local gated, activation = feed_forward_of(w)
  local function tower(layers, is_causal)
    return towers.describe({layers = layers, width = w.d_model, heads = w.num_heads, head_dim = w.d_kv, hidden = w.d_ff,
      norm = "rms", eps = w.layer_norm_epsilon, gated = gated, activation = activation, scale = 1, qkv_bias = false,
      out_bias = false, mlp_bias = false, is_causal = is_causal}, #contents)
  end
  local scales = c.scale_decoder_outputs
  if scales == nil then scales = c.tie_word_embeddings ~= false end
  local alone = towers.has(contents, "^encoder%..*") and not towers.has(contents, "^decoder%..*")
  return {encoder = tower(w.num_layers, false), decoder = not alone and tower(w.num_decoder_layers, true) or nil, layers = w.num_layers,
    width = w.d_model, vocab = w.vocab_size, length = math.maxinteger, tied = alone or not towers.has(contents, "lm_head%.weight"),
    scales = model_type ~= "mt5" and scales, start = start_of(model_type, w),
    relative = {buckets = w.relative_attention_num_buckets, distance = w.relative_attention_max_distance,
      each = model_type == "umt5"}}
end

local function t5_names(gated, last)
  local mlp = ("layer.%d.DenseReluDense."):format(last)
  local n = {layer = "block.%d.", norm = "final_layer_norm", norm1 = "layer.0.layer_norm",
    norm2 = ("layer.%d.layer_norm"):format(last), gate = mlp .. "wi_0", up = mlp .. (gated and "wi_1" or "wi"), down = mlp .. "wo"}
  for ours, theirs in pairs{q = "q", k = "k", v = "v", out = "o"} do n[ours] = "layer.0.SelfAttention." .. theirs end
  return n
end

-- Appends the tensor names of the cross-attention layers, in the file and in the model, to the naming table `list`.
-- n: names of the norm and the attention within a block.
local function cross_rows(list, c, block, n)
  for i = 0, c.layers - 1 do
    local theirs, ours = block:format(i), ("decoder.layers.%d."):format(i)
    towers.pair(list, theirs .. n.norm, ours .. "cross_norm", c.norm == "layer")
    for _, part in ipairs{"q", "k", "v"} do
      local bias = c.qkv_bias and (part ~= "k" or c.k_bias ~= false)
      towers.pair(list, theirs .. n.attention .. n[part], ("%scross.%s_proj"):format(ours, part), bias)
    end
    towers.pair(list, theirs .. n.attention .. n.out, ours .. "cross.out_proj", c.out_bias)
  end
end

local function t5_rows(c)
  local list, gated = {{"shared.weight", "embed_tokens.weight"}}, c.encoder.gated
  towers.rows(list, c.encoder, t5_names(gated, 1), "encoder.", "encoder.")
  if c.decoder then
    towers.rows(list, c.decoder, t5_names(gated, 2), "decoder.", "decoder.")
    cross_rows(list, c.decoder, "decoder.block.%d.", {norm = "layer.1.layer_norm", attention = "layer.1.EncDecAttention.", q = "q",
      k = "k", v = "v", out = "o"})
  end
  for _, part in ipairs(c.decoder and {"encoder", "decoder"} or {"encoder"}) do
    for i = 0, c.relative.each and c[part].layers - 1 or 0 do
      list[#list + 1] = {("%s.block.%d.layer.0.SelfAttention.relative_attention_bias.weight"):format(part, i),
        ("%s_bias.%d.weight"):format(part, i)}
    end
  end
  if c.decoder then list[#list + 1] = {"lm_head.weight", "lm_head.weight", head = true} end
  return list
end

-- ---- loading Whisper from folders ----

local Whisper = Model:extend("models.whisper")

-- Returns the log-mel spectrogram, (batch, bins, frames), of sound sampled at 16 kHz, (batch, samples) or (samples).
function Whisper:log_mel(sound) return log_mel(self.__name .. ": log_mel", sound, self.config.bins, self.config.frames) end

-- Returns those ids in a list of config.json that are below vocab.
local function ids_of(list, vocab)
  local ids = {}
  for _, id in ipairs(type(list) == "table" and list or {}) do
    if math.type(id) == "integer" and id >= 0 and id < vocab then ids[#ids + 1] = id end
  end
  return ids
end

-- Reads into d the suppressed ids, and the ids that are suppressed only at the beginning of a text. The lists are in
-- generation_config.json, or, without that file, in c, the contents of config.json.
local function read_suppressed(d, c, dir)
  c = optional(dir .. "/generation_config.json") or c
  d.suppressed, d.suppressed_first = ids_of(c.suppress_tokens, d.vocab), ids_of(c.begin_suppress_tokens, d.vocab)
end

local whisper_defaults = {d_model = 384, vocab_size = 51865, num_mel_bins = 80, encoder_layers = 4, encoder_attention_heads = 6,
  encoder_ffn_dim = 1536, decoder_layers = 4, decoder_attention_heads = 6, decoder_ffn_dim = 1536, max_source_positions = 1500,
  max_target_positions = 448, activation_function = "gelu", decoder_start_token_id = 50257, tie_word_embeddings = true}
local whisper_counts = {"d_model", "vocab_size", "num_mel_bins", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim",
  "decoder_layers", "decoder_attention_heads", "decoder_ffn_dim", "max_source_positions", "max_target_positions"}

local function of_whisper(c, contents, model_type, dir)
  local w = towers.words(model_type, c, nil, whisper_defaults, whisper_counts)
  local function tower(part)
    return towers.describe({layers = w[part .. "_layers"], width = w.d_model, heads = w[part .. "_attention_heads"],
      hidden = w[part .. "_ffn_dim"], activation = w.activation_function, eps = 1e-5, k_bias = false,
      is_causal = part == "decoder"}, #contents)
  end
  local d = {encoder = tower "encoder", decoder = tower "decoder", layers = w.encoder_layers, width = w.d_model,
    vocab = w.vocab_size, length = w.max_target_positions, bins = w.num_mel_bins, frames = 2 * w.max_source_positions,
    tied = w.tie_word_embeddings, start = start_of(model_type, w)}
  read_suppressed(d, c, dir)
  return d
end

local whisper_names = {layer = "layers.%d.", norm = "layer_norm", norm1 = "self_attn_layer_norm", norm2 = "final_layer_norm",
  q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", out = "self_attn.out_proj", up = "fc1", down = "fc2"}

local function whisper_rows(c)
  local list, encoder, decoder = {}, "model.encoder.", "model.decoder."
  for _, conv in ipairs{"conv1", "conv2"} do towers.pair(list, encoder .. conv, conv, true) end
  towers.pair(list, encoder .. "embed_positions", "sound_positions")
  towers.rows(list, c.encoder, whisper_names, encoder, "encoder.")
  towers.pair(list, decoder .. "embed_tokens", "embed_tokens")
  towers.pair(list, decoder .. "embed_positions", "positions")
  towers.rows(list, c.decoder, whisper_names, decoder, "decoder.")
  cross_rows(list, c.decoder, decoder .. "layers.%d.", {norm = "encoder_attn_layer_norm", attention = "encoder_attn.", q = "q_proj",
    k = "k_proj", v = "v_proj", out = "out_proj"})
  list[#list + 1] = {"proj_out.weight", "lm_head.weight", head = true}
  return list
end

local ignored = {ignored = {"embed_tokens%.weight$", "EncDecAttention%.relative_attention_bias%.weight$"}}
local kinds = {whisper = towers.kind("whisper", Whisper, of_whisper, whisper_rows, {prefix = "model."})}
for _, name in ipairs{"t5", "mt5", "umt5"} do kinds[name] = towers.kind(name, Model, of_t5, t5_rows, ignored) end

return {kinds = kinds}
