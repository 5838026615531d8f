-- gpt2.lua - GPT-2. Radford et al. 2019.
--
--   x = wte[ids] + wpe;  x = block(x) for each block;  logits = ln_f(x) wte^T

local check = require "rille.base.check"
local nn = require("rille").nn
local language = require "rille.models.language"

local GPT2 = language.Model:extend("models.gpt2")
GPT2.parallel = {embedding = "wte", positions = "wpe", norm = "ln_f", head = "lm_head"}

local approximate = {gelu_new = "tanh", gelu_pytorch_tanh = "tanh", gelu_fast = "tanh", gelu = "none"}

function GPT2:init(config)
  language.Model.init(self, config)
  local d = config.width
  self.wte = nn.Embedding(config.vocab, d)
  self.wpe = nn.Positions(config.length, d)
  self.dropout = nn.Dropout(config.dropout)
  self.h = {}
  for i = 1, config.layers do
    self.h[i] = nn.TransformerBlock(d, config.heads, {hidden = config.hidden, dropout = config.dropout, eps = config.eps,
      approximate = approximate[config.activation]})
  end
  self.ln_f = nn.LayerNorm(d, {eps = config.eps})
  self.lm_head = nn.Linear(d, config.vocab, {bias = false})
  if config.tied then nn.tie(self.wte, "weight", self.lm_head, "weight") end
end

-- Initialises parameters. Projections into the residual stream are scaled by 1 / sqrt(2 * layers), because the stream
-- is the sum of 2 * layers of their results.
function GPT2:start()
  local std = 0.02
  for name, p in self:named_parameters() do
    if name:find("%.bias$") then nn.init.zeros_(p)
    elseif name:find("out_proj") or name:find("fc2") then nn.init.normal_(p, 0, std / math.sqrt(2 * self.config.layers))
    elseif p.ndim == 2 then nn.init.normal_(p, 0, std) end
  end
end

function GPT2:features(ids, given)
  local cache = language.pass(self, ids, given)
  local x = self.dropout(self.wpe(self.wte(ids), cache and cache:positions()))
  for _, block in ipairs(self.h) do x = block(x, nil, cache) end
  return self.ln_f(x)
end

-- ---- names of tensors and keys in Hugging Face's files ----

local names = {{"wte.weight", "wte.weight"}, {"wpe.weight", "wpe.weight"}, {"ln_f.weight", "ln_f.weight"},
  {"ln_f.bias", "ln_f.bias"}}

-- Adds the naming rows for the weight and the bias of a layer. In Hugging Face's files, weights are {in, out}, and
-- one tensor joins the weights of queries, keys and values. ours: list of the layers whose parameters the tensor
-- joins.
local function both(theirs, ours)
  for _, part in ipairs{"weight", "bias"} do
    local row = {theirs .. "." .. part, turn = part == "weight"}
    for _, name in ipairs(ours) do row[#row + 1] = name .. "." .. part end
    names[#names + 1] = row
  end
end
both("h.%d.attn.c_attn", {"h.%d.attention.q_proj", "h.%d.attention.k_proj", "h.%d.attention.v_proj"})
both("h.%d.attn.c_proj", {"h.%d.attention.out_proj"})
both("h.%d.mlp.c_fc", {"h.%d.fc1"})
both("h.%d.mlp.c_proj", {"h.%d.fc2"})
for theirs, ours in pairs{ln_1 = "norm1", ln_2 = "norm2"} do
  for _, part in ipairs{"weight", "bias"} do
    names[#names + 1] = {("h.%%d.%s.%s"):format(theirs, part), ("h.%%d.%s.%s"):format(ours, part)}
  end
end

local function check_activation(who, what, value)
  check.that(type(value) == "string" and approximate[value],
    "%s: unknown %s %s; expected one of: %s", who, what, check.named(value),
    table.concat(check.sorted_keys(approximate), ", "))
end

local function from_config(c)
  check.that(not c.scale_attn_by_inverse_layer_idx,
    "models.gpt2: scale_attn_by_inverse_layer_idx must be false, found true, which is not supported")
  check.that(c.scale_attn_weights ~= false, "models.gpt2: scale_attn_weights must be true, found false, which is not supported")
  return {vocab = c.vocab_size, length = c.n_positions, layers = c.n_layer, heads = c.n_head, width = c.n_embd,
    hidden = c.n_inner, eps = c.layer_norm_epsilon, activation = c.activation_function, tied = c.tie_word_embeddings}
end

-- keys of the three dropout rates, which must be equal, because Rille's GPT-2 has one rate
local rates = {"embd_pdrop", "attn_pdrop", "resid_pdrop"}

local function to_config(c)
  local words = {model_type = "gpt2", architectures = {"GPT2LMHeadModel"}, vocab_size = c.vocab, n_positions = c.length,
    n_ctx = c.length, n_embd = c.width, n_layer = c.layers, n_head = c.heads, n_inner = c.hidden, layer_norm_epsilon = c.eps,
    activation_function = c.activation, tie_word_embeddings = c.tied}
  for _, rate in ipairs(c.dropout > 0 and rates or {}) do words[rate] = c.dropout end
  return words
end

return language.kind{
  name = "gpt2", class = GPT2, names = names, prefix = "transformer.", from_config = from_config, to_config = to_config,
  ignored = {"%.attn%.bias$", "%.attn%.masked_bias$"}, unsaid = {embd_pdrop = 0, attn_pdrop = 0, resid_pdrop = 0},
  counts = {vocab_size = true, n_positions = true, n_layer = true, n_head = true, n_embd = true, n_inner = false},
  words = {layer_norm_epsilon = check.eps, tie_word_embeddings = check.flag, activation_function = check_activation},
  read_bin = require "rille.models.loading.llmc",
  options = {dropout = 0, eps = 1e-5, activation = "gelu_new", tied = true, hidden = check.none},
  complete = function(c, who)
    language.check_heads(who, c)
    c.hidden = c.hidden or 4 * c.width
    check_activation(who, "activation", c.activation)
  end,
}
