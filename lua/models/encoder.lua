-- encoder.lua - builds an encoder from a description (describe.lua): BERT and its kin. Every position attends to all others.
--
-- The blocks are those of decoder.lua. The blocks are followed by a task: logits of masked ids, classes of texts, a
-- pooled vector, or none. Most tasks begin with a dense layer and its activation.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = rille.nn
local describe = require "rille.models.loading.describe"
local language = require "rille.models.language"
local activations = require "rille.models.activations"
local Decoder = require "rille.models.decoder"
local new_norm = require "rille.models.norms"
local sentences = require "rille.models.sentences"
local Relative = require "rille.models.towers.relative"
local towers = require "rille.models.towers.towers"

local Encoder = Decoder:extend("models.encoder")

function Encoder:init(config)
  language.Model.init(self, config)
  local c = describe.complete(config)
  self:build(c)
  local narrow = c.embed_width or c.width
  if c.token_types then self.token_types = nn.Embedding(c.token_types, narrow) end
  if c.relative then self.relative = Relative(c.relative, c) end
  if not c.task then return end
  local width = c.task == "masked" and narrow or c.width
  if not c.task_bare then self.task_dense = nn.Linear(c.width, width, {bias = c.task_bias}) end
  if c.task_norm then self.task_norm = new_norm(c, width) end
  if c.task == "classes" then self.classifier = nn.Linear(c.width, c.classes) end
  if c.task ~= "masked" then return end
  self.lm_head = nn.Linear(width, c.vocab, {bias = c.head_bias})
  if c.tied then nn.tie(self.embed_tokens, "weight", self.lm_head, "weight") end
end

-- ---- computing the features of texts ----

local function replicated(x) return {placement = x.placement, sbp = layout.replicated(x.placement)} end

-- Returns the indices into the table of learned positions: 0, 1, 2... If c.padding (a token id) is set, padding has
-- the index c.padding, and all other entries count from c.padding + 1.
local function rows_of(c, ids)
  if not c.padding then return rille.arange(ids.shape[2], replicated(ids)):reshape{1, ids.shape[2]} end
  local counts = ids:ne(c.padding):to("i64")
  return counts:cumsum(1) * counts + c.padding
end

local inputs = {mask = check.none, types = check.none}

-- Checks the options mask and types, and returns them; the mask as bool.
local function inputs_of(self, ids, given)
  local how = check.options(self.__name, given, inputs)
  towers.check_like(self.__name, "mask", how.mask, ids)
  towers.check_like(self.__name, "types", how.types, ids)
  check.that(not how.types or self.token_types, "%s: the model has no token types, found types", self.__name)
  if how.mask and how.mask.dtype ~= "bool" then how.mask = how.mask:ne(0) end
  return how
end

local function embed(self, ids, types)
  local c, x = self.config, self.embed_tokens(ids)
  if self.positions then x = x + self.positions(rows_of(c, ids)) end
  if self.token_types then x = x + self.token_types(types or ids * 0) end
  if self.embed_norm then x = self.embed_norm(x) end
  return self.embed_in and self.embed_in(x) or x
end

-- Returns the mask of attention: true for keys that count, or numbers that are added to scores; nil: all keys count.
local function mask_of(self, ids, mask)
  mask = mask and mask:reshape{ids.shape[1], 1, 1, ids.shape[2]}
  if not self.relative then return mask end
  local n = ids.shape[2]
  local bias = self.relative(rille.arange(n, replicated(ids)):reshape{1, n, 1}, n)
  return mask and rille.where(mask, bias, -math.huge) or bias
end

function Encoder:features(ids, given)
  self:check_ids(ids)
  local how = inputs_of(self, ids, given)
  local x, mask = embed(self, ids, how.types), mask_of(self, ids, how.mask)
  local each = self.config.layers // #self.layers
  for _, block in ipairs(self.layers) do
    for _ = 1, each do x = block(x, mask) end
  end
  return self.norm and self.norm(x) or x
end

-- ---- computing logits and vectors from features ----

local function task_features(self, x)
  if not self.task_dense then return x end
  local y = activations[self.config.task_activation](self.task_dense(x))
  return self.task_norm and self.task_norm(y) or y
end

-- Returns the logits of the task, f32: (batch, length, vocab) for "masked", (batch, classes) for "classes". For any
-- other task, returns the features x.
function Encoder:logits(x, mask)
  local c = self.config
  if c.task == "masked" then return language.Model.logits(self, task_features(self, x)) end
  if c.task ~= "classes" then return x end
  local late = c.class_pooling == "late"
  local y = self.classifier(task_features(self, late and x or sentences.pool(c.class_pooling or "cls", x, mask)))
  if late then y = sentences.pool("mean", y, mask) end
  return y.dtype == "f32" and y or y:to("f32")
end

function Encoder:forward(ids, given)
  return self:logits(self:features(ids, given), given and inputs_of(self, ids, given).mask)
end

-- Returns one vector per text, (batch, width), f32.
function Encoder:embed(ids, given)
  local c, who = self.config, self.__name .. ": embed"
  local how = check.options(who, given, {mask = check.none, types = check.none, pooling = c.pooling or "mean",
    normalise = c.normalise or false})
  local own = how.pooling == "pooler"
  check.that(own and c.task == "pooled" or sentences.poolings[how.pooling], "%s: unknown pooling %s; expected one of: %s%s", who,
    check.quoted(how.pooling), table.concat(check.sorted_keys(sentences.poolings), ", "), c.task == "pooled" and ", pooler" or "")
  check.flag(who, "normalise", how.normalise)
  local here = {mask = how.mask, types = how.types}
  local x = self:features(ids, here)
  if own then x = task_features(self, x:slice(1, 0, 1):squeeze(1)) end
  if x.dtype ~= "f32" then x = x:to("f32") end
  local y = own and x or sentences.pool(how.pooling, x, inputs_of(self, ids, here).mask)
  return how.normalise and sentences.normalise(y) or y
end

Encoder.generate, Encoder.scheduler = towers.Model.generate, towers.Model.scheduler

return Encoder
