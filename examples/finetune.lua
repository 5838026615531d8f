-- finetune.lua - trains a language model from a Hugging Face folder on your text, and saves the model as such a folder.
--
--   rille examples/finetune.lua gpt2 tuned --text book.txt
--   rille examples/finetune.lua gpt2 tuned --ids ids.txt --recipe dp-tp     ids instead of text: needs no tokenizer
--   rille examples/finetune.lua gpt2 tuned --tokens train.bin               token files of llm.c
--   rille examples/finetune.lua llama tuned --chats train.jsonl --lora 8     adapters, from conversations; --int8: on int8 weights
--
-- recipes.lua lists the names for --recipe.

local rille = require "rille"
local optim = rille.optim

local o = rille.args(arg, {"from", "to", text = "", ids = "", tokens = "", chats = "", lora = 0, int8 = false, recipe = "single", steps = 100, batch = 4, length = 128,
  lr = 1e-4, warmup = 10, ["micro-batches"] = 1, seed = 1, bf16 = false, dropout = 0.0, log = ""})
local from, to = o.from, o.to
for name, least in pairs{steps = 1, batch = 1, length = 2, warmup = 0, ["micro-batches"] = 1, dropout = 0} do
  if not (o[name] >= least) then error(("--%s must be at least %g, found %g"):format(name, least, o[name]), 0) end
end
rille.manual_seed(o.seed)

local given = {}
for _, name in ipairs{"text", "ids", "tokens", "chats"} do given[#given + 1] = o[name] ~= "" and "--" .. name or nil end
if #given ~= 1 then
  error("expected one of --text, --ids, --tokens and --chats, found " .. (#given > 1 and table.concat(given, " and ") or "none"), 0)
end
if o.int8 and o.lora == 0 then error("--int8 needs --lora: int8 weights are not trained", 0) end
rille.train.saves_to(to, "folder")

local placement, how = dofile((arg[0]:match("^(.*/)") or "./") .. "recipes.lua")(o.recipe)

-- ---- the model in its layout; a rank reads only its own shards ----

local model = rille.models.load(from, {placement = placement, parallel = how, dtype = "f32", quantize = o.int8 and "int8" or nil,
  dropout = o.dropout > 0 and o.dropout or nil}) -- dropout exists only for GPT-2

if o.lora > 0 then
  rille.models.lora(model, {r = o.lora, alpha = 2 * o.lora, targets = "all-linear"}):train()
  if how then rille.parallel(model, how) end -- lays out the adapters as the recipe says
end

-- ---- ids, in windows whose order depends on the seed ----

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text, why = file:read("a")
  file:close()
  return text or error(path .. ": " .. why, 0)
end
local ids, tokens = o.tokens, nil
if o.ids ~= "" then
  ids = {}
  for word in read(o.ids):gmatch("[^%s,]+") do
    ids[#ids + 1] = math.tointeger(tonumber(word)) or error(("%s: an id must be an integer, found '%s'"):format(o.ids, word), 0)
  end
elseif o.chats ~= "" then
  tokens = rille.tokenizer(from .. "/tokenizer.json")
elseif o.tokens == "" then
  tokens = rille.tokenizer(from .. "/tokenizer.json")
  -- adds the ids that the tokenizer puts around a text, because the model was trained on texts that begin with them
  ids = tokens:encode(read(o.text), {add_special_tokens = true})
end
local x, length = rille.parallel.input(model), math.min(o.length, model.config.length)
local data, where = nil, rille.parallel.labels(model)
if o.chats ~= "" then
  local eos = model.config.eos_token_id
  local a, b = rille.data.chats(o.chats, {tokenizer = tokens, length = length, placement = x.placement, sbp = x.sbp,
    eos = type(eos) == "table" and eos[1] or eos})
  data = rille.data.loader{a, b, batch = o.batch, shuffle = true, seed = o.seed, drop_last = true}
else
  data = rille.data.tokens(ids, {batch = o.batch, length = length, seed = o.seed, vocab = model.config.vocab,
    placement = x.placement, sbp = x.sbp, labels = where})
end
local function next_batch()
  local a, b = data:next()
  return a, o.chats ~= "" and b:to_global(where) or b
end

-- ---- training ----

local opt = optim.AdamW(model:parameters(), {lr = o.lr, weight_decay = 0.01})
local function loss_of(x, y) return model(x):reshape{-1, model.config.vocab}:cross_entropy(y:reshape{-1}) end
local step = rille.graph(function(x, y)
  local loss = o.bf16 and rille.autocast("bf16", loss_of, x, y) or loss_of(x, y)
  loss:backward()
  optim.clip_grad_norm(model:parameters(), 1)
  opt:step(); opt:zero_grad()
  return loss
end, {micro_batches = o["micro-batches"]})

local lr = optim.cosine{lr = o.lr, min_lr = o.lr / 10, warmup = math.min(o.warmup, o.steps), steps = o.steps}
local line = rille.train.progress{total = o.steps, step = step, unit = "tokens"}
local log = o.log ~= "" and assert(io.open(o.log, "w"))
local first, last
for t = 0, o.steps - 1 do
  opt.lr = lr(t)
  last = step(next_batch()):item()
  if not (math.abs(last) < math.huge) then
    error(("step %d: the loss is %g, nothing is saved; try a lower --lr"):format(t + 1, last), 0)
  end
  first = first or last
  if log then log:write(("%.6f\n"):format(last)) end
  line:update(t + 1, last, o.batch * length)
end
line:finish()
if log then assert(log:close()) end

if o.lora > 0 then rille.models.lora.save(model, to) else model:save(to) end
if tokens then tokens:save(to .. "/tokenizer.json") end
print(("first loss %.4f, last loss %.4f; saved in %s"):format(first, last, to))
