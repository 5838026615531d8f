-- gpt.lua - trains a small GPT on a text, with any recipe of parallelism, and then generates text.
--
--   rille examples/gpt.lua                                  this repository's documents, character by character, one device
--   rille examples/gpt.lua --bpe 1024 --text a.txt          subwords: for longer texts
--   rille examples/gpt.lua --recipe dp-tp --text a.txt      any text, the batch and the layers split over four devices
--   rille -d cpu:8 examples/gpt.lua --recipe 3d
--
-- All recipes give the same losses, apart from rounding; see recipes.lua. Training ends after --steps, or after as many
-- steps as fit in --minutes. --plot writes the curve of losses, --log a line per loss. --checkpoint names a folder in which
-- the training is saved every --every steps, in the background, and before it ends by SIGTERM or SIGUSR1. --resume continues
-- from the last checkpoint; a finished training continues for --minutes more.

local rille = require "rille"
local optim = rille.optim

local o = rille.args(arg, {text = "", bpe = 0, recipe = "single", layers = 4, heads = 4, width = 128, length = 64, batch = 16,
  ["micro-batches"] = 1, steps = 1400, minutes = 4.0, lr = 2e-3, warmup = 40, seed = 1, every = 100, prompt = "The ", write = 400,
  temperature = 0.5, plot = "", log = "", checkpoint = "", resume = false, bf16 = false, dropout = 0.0})
-- options that are checked before the training
for name, least in pairs{steps = 1, every = 1, length = 2, temperature = 0, minutes = 0, bpe = 0, write = 0} do
  if not (o[name] >= least) then error(("--%s must be at least %g, found %g"):format(name, least, o[name]), 0) end
end
rille.manual_seed(o.seed)

local here = arg[0]:match("^(.*/)") or "./"
local placement, how = dofile(here .. "recipes.lua")(o.recipe)

-- ---- text: ids are characters or, with --bpe, subwords ----

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text, why = file:read("a")
  file:close()
  return text or error(path .. ": " .. why, 0)
end

if o.resume and o.checkpoint == "" then error("--resume needs a folder: --checkpoint DIR", 0) end
if o.checkpoint ~= "" then rille.train.saves_to(o.checkpoint, "checkpoints") end
if o.plot ~= "" then rille.train.saves_to(o.plot, "picture") end

local files = {}
for path in o.text:gmatch("[^,]+") do files[#files + 1] = path end
if #files == 0 and o.text ~= "" then error("--text must name at least one file", 0) end
if #files == 0 then
  for name in ([[ARCHITECTURE GLOSSARY STYLE CONTRIBUTING README docs/library actors/README sbp/README boxing/README
      kernels/README lua/README runtime/README shell/README t/README]]):gmatch("%S+") do
    files[#files + 1] = here .. "../" .. name .. ".md"
  end
end
local parts = {}
for i, path in ipairs(files) do parts[i] = read(path) end
local text = table.concat(parts, "\n")
if #text == 0 then error("the text is empty", 0) end

-- Returns a digest of a text, by which a checkpoint recognises its text.
local function digest(s)
  local h = #s
  for i = 1, #s, 8 do
    h = (h ~ string.unpack("<i8", s:sub(i, i + 7) .. ("\0"):rep(i + 7 - #s))) * 0x2545f4914f6cdd1d
    h = h ~ h >> 32
  end
  return ("%016x"):format(h)
end
local learned = {name = o.text ~= "" and o.text or "this repository's documents", bytes = #text, digest = digest(text)}

-- Returns the number of ids, and the functions from text to ids and from ids to text.
local function characters()
  local id_of, text_of, n = {}, {}, 0
  if not utf8.len(text, 1, -1, true) then error("the text is not UTF-8; with --bpe 512 any bytes will do", 0) end
  for _, code in utf8.codes(text, true) do
    local c = utf8.char(code)
    if not id_of[c] then id_of[c], text_of[n], n = n, c, n + 1 end
  end
  local function encode(s)
    local ids = {}
    if not utf8.len(s, 1, -1, true) then error("--prompt is not UTF-8; with --bpe 512 any bytes will do", 0) end
    for _, code in utf8.codes(s, true) do
      ids[#ids + 1] = id_of[utf8.char(code)] or error("--prompt: this character does not occur in the text: '" ..
        utf8.char(code) .. "'", 0)
    end
    return ids
  end
  local function decode(ids)
    local s = {}
    for i, id in ipairs(ids) do s[i] = text_of[id] end
    return table.concat(s)
  end
  return n, encode, decode
end

local function pieces()
  local tokens = rille.tokenizer.train({text}, {size = o.bpe})
  local size = tokens.size
  -- A short text yields fewer subwords than requested. The ids beyond them are reserved, and are not used.
  while tokens:decode{size - 1}:find("^<|reserved_%d+|>$") do size = size - 1 end
  return size, function(s) return tokens:encode(s) end, function(ids) return tokens:decode(ids) end
end

local vocab, encode, decode = (o.bpe > 0 and pieces or characters)()
local prompt = encode(o.prompt) -- fails before the training if the prompt cannot be encoded
if #prompt == 0 then error("--prompt is empty", 0) end

-- ---- the model ----

local model = rille.models.gpt2.new{vocab = vocab, length = o.length, layers = o.layers, heads = o.heads, width = o.width,
  dropout = o.dropout, placement = placement}
rille.parallel(model, how)

-- ---- 9 of 10 ids are for training, in windows whose order depends on the seed; the rest is for validation ----

local ids = encode(text)
local cut = #ids * 9 // 10
local function windows(from, to)
  local x = rille.parallel.input(model)
  return rille.data.tokens(table.move(ids, from, to, 1, {}), {batch = o.batch, length = o.length, seed = o.seed,
    placement = x.placement, sbp = x.sbp, labels = rille.parallel.labels(model)})
end
local data, held = windows(1, cut), windows(cut + 1, #ids)

local decayed, others, count = {}, {}, 0
for _, p in ipairs(model:parameters()) do
  table.insert(p.ndim > 1 and decayed or others, p)
  count = count + p:numel()
end
local opt = optim.AdamW({{params = decayed}, {params = others, weight_decay = 0}}, {lr = o.lr, weight_decay = 0.1, betas = {0.9, 0.95}})

local function loss_of(x, y)
  local logits = model(x)
  return logits:reshape{-1, vocab}:cross_entropy(y:reshape{-1})
end
local forward = o.bf16 and function(x, y) return rille.autocast("bf16", loss_of, x, y) end or loss_of

local step = rille.graph(function(x, y)
  local loss = forward(x, y)
  loss:backward()
  optim.clip_grad_norm(model:parameters(), 1)
  opt:step(); opt:zero_grad()
  return loss
end, {micro_batches = o["micro-batches"]})
local test = rille.graph(function(x, y) return forward(x, y) end)

local function validate()
  local sum, n = 0, math.min(#held, 8)
  model:eval()
  for _ = 1, n do sum = sum + rille.no_grad(test, held:next()):item() end
  model:train()
  return sum / n
end

-- ---- training ----

print(("%d ids, vocabulary %d; %d parameters; %s on %s"):format(#ids, vocab, count, o.recipe, tostring(placement)))
local tokens = o.batch * o.length
local flops = 6 * (count - model.wpe.weight:numel()) + 12 * o.layers * o.width * o.length -- flops per token, forward and backward
local line = rille.train.progress{total = o.steps, step = step, unit = "tokens", flops = flops}
local losses, checks = {}, {}
local function draw()
  if o.plot == "" then return end
  rille.plot(o.plot, {["training loss"] = losses, ["validation loss"] = checks},
    {title = "loss of examples/gpt.lua", x = "step", y = o.bpe > 0 and "nats per id" or "nats per character"})
end
local function schedule(n) return optim.cosine{lr = o.lr, min_lr = o.lr / 10, warmup = math.min(o.warmup, n), steps = n} end
local t, total, start = 0, o.steps, nil
local timed = true -- true if the training ends after --minutes

local parts = {model = model, optimizer = opt, data = data}
if o.resume then
  local _, note = rille.checkpoint.load(o.checkpoint, {})
  local before = note and note.text or learned -- older checkpoints lack the text's digest
  if before.digest ~= learned.digest then
    local function reported(x) return ("%s (%d bytes, digest %s)"):format(x.name, x.bytes, x.digest) end
    error(("--resume: %s was trained on %s, but --text is %s"):format(o.checkpoint, reported(before), reported(learned)), 0)
  end
  t, note = rille.checkpoint.load(o.checkpoint, parts)
  losses, checks = note.losses, note.checks
  held:load_state(note.held) -- restores the position in the validation data
  -- an unfinished training keeps its planned number of steps; --minutes changes this number only before step 12
  if o.steps == note.steps and t < note.total then total, timed = note.total, t < 12 end
  print(("continues after step %d"):format(t))
end
local lr, begun = schedule(total), t
line.total = total
-- the log is opened only now, so that an old log is kept if resuming fails
local log = o.log ~= "" and assert(io.open(o.log, "w"))
for i = 1, log and t or 0 do log:write(("%.6f\n"):format(losses[i])) end

while t < total do
  opt.lr = lr(t)
  local loss = step(data:next()):item()
  t = t + 1
  -- stops before the next save, so that the last checkpoint has finite values
  if not (math.abs(loss) < math.huge) then
    error(("step %d: the loss is %g; try a lower --lr"):format(t, loss), 0)
  end
  losses[t] = loss
  if log then log:write(("%.6f\n"):format(loss)) end
  if t == begun + 2 then start = rille.clock() end
  local counted = t - begun - 2
  -- computes the number of steps from the speed so far
  if timed and t < total and (counted == 10 or counted > 10 and t % o.every == 0) then
    local gone = rille.clock() - start
    local more = (o.minutes * 60 * 0.9 - gone) * counted / gone
    total = math.min(total, t + math.max(0, math.floor(more)))
    lr, line.total = schedule(total), total
  end
  line:update(t, loss, tokens)
  if t % o.every == 0 or t == total then checks[#checks + 1] = {t - 1, validate()} end
  local stops = o.checkpoint ~= "" and rille.stopping()
  if o.checkpoint ~= "" and (t % o.every == 0 or t == total or stops) then
    rille.checkpoint.save(o.checkpoint, {model = model, optimizer = opt, data = data, step = t,
      note = {text = learned, steps = o.steps, total = total, losses = losses, checks = checks, held = held:state()}}, {async = not stops, keep = 2})
  end
  if stops then rille.train.exit_if_stopping() end
end
line:finish()
if log then assert(log:close()) end
print(("training loss %.4f, validation loss %.4f"):format(losses[t], checks[#checks][2]))
draw()

-- ---- generation: if the context is full, generation continues with the second half of the context ----

model:eval()
local written = table.move(prompt, 1, #prompt, 1, {})
while #written < #prompt + o.write do
  local seen = {table.unpack(written, math.max(1, #written - o.length // 2 + 1))}
  local room = math.min(o.length - #seen, #prompt + o.write - #written)
  local out = model:generate({seen}, {max_new_tokens = room, temperature = o.temperature, seed = o.seed + #written})[1]
  table.move(out, #seen + 1, #out, #written + 1, written)
end
print(decode(written))
