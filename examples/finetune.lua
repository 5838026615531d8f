-- finetune.lua - a GPT-2 or Llama of a folder goes on learning, on a text of yours, and is saved as such a folder again.
--
--   rille examples/finetune.lua gpt2 tuned --text book.txt
--   rille examples/finetune.lua gpt2 tuned --ids ids.txt --recipe dp-tp     numbers instead of text: no tokenizer is needed

local rille = require "rille"
local optim = rille.optim

local from, to = table.remove(arg, 1), table.remove(arg, 1)
if not from or not to or from:sub(1, 1) == "-" or to:sub(1, 1) == "-" then error("two folders are wanted: from, to", 0) end
local o = rille.args(arg, {text = "", ids = "", recipe = "single", steps = 100, batch = 4, length = 128, lr = 1e-4, warmup = 10,
  ["micro-batches"] = 1, seed = 1, bf16 = false, log = ""})
rille.manual_seed(o.seed)

local recipes = { -- a mesh, and what its axes are for
  single = {{0}, {}}, dp = {{0, 1}, {data = 0}}, tp = {{0, 1}, {tensor = 0}}, zero = {{0, 1}, {data = 0, zero = 3}},
  ["dp-tp"] = {{{0, 1}, {2, 3}}, {data = 0, tensor = 1}}, ["2d"] = {{{0, 1}, {2, 3}}, {tensor = {0, 1}}},
}
local recipe = recipes[o.recipe] or error("no recipe is called '" .. o.recipe .. "'; there are: 2d, dp, dp-tp, single, tp, zero", 0)

-- ---- the model, laid out; each rank reads what it will hold ----

local kind = require("rille.json").load(from .. "/config.json").model_type
local model = rille.models[kind].load(from, {placement = rille.placement("cpu", recipe[1]), dtype = "f32"})
rille.parallel(model, recipe[2])

-- ---- ids, cut into windows in an order given by the seed ----

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end
local ids = {}
if o.ids ~= "" then
  for id in read(o.ids):gmatch("%d+") do ids[#ids + 1] = math.tointeger(tonumber(id)) end
else
  ids = rille.tokenizer(from .. "/tokenizer.json"):encode(read(o.text))
end
local length = math.min(o.length, model.config.length)
local windows = (#ids - 1) // length
if windows < 1 then error(("%d ids are less than one window of %d"):format(#ids, length + 1), 0) end
local order = rille.data.permutation(windows, o.seed)
local function batch(t)
  local x, y = {}, {}
  for k = 1, o.batch do
    local at = order[(t * o.batch + k - 1) % windows + 1] * length
    x[k], y[k] = table.move(ids, at + 1, at + length, 1, {}), table.move(ids, at + 2, at + length + 1, 1, {})
  end
  local function place(rows, where) return rille.tensor(rows, {dtype = "i64", placement = where.placement, sbp = where.sbp}) end
  return place(x, rille.parallel.input(model)), place(y, rille.parallel.labels(model))
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
  last = step(batch(t)):item()
  first = first or last
  if log then log:write(("%.6f\n"):format(last)) end
  line:update(t + 1, last, o.batch * length)
end
line:finish()
if log then log:close() end

model:save(to)
print(("%s: loss %.4f at first, %.4f at last; saved in %s"):format(kind, first, last, to))
