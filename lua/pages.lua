-- pages.lua - the pages of what is written in Lua: ?nn.Linear, :help optim, :help /word.
--
-- A row: how it is called, what it does, an example, an expression of it, and what that is as text. t/help.lua runs every
-- example, and finds a row for every public name.

local examples = require "rille.examples"

local pages = {}

local rows = {
  ["args"] = {
    "rille.args(arg, {name = default, ...})",
    "The command line of a script: --name value, --name=value, and --flag for what is false by default.",
    "options = rille.args({'--epochs', '3'}, {epochs = 40, plain = false})",
    "options.epochs", "3"},
  ["checkpoint"] = {
    "rille.checkpoint",
    "A training on the disk: what follows a load is what would have followed the save.",
    "net = rille.nn.Linear(3, 2)",
    "type(rille.checkpoint.save)", "function"},
  ["checkpoint.load"] = {
    "rille.checkpoint.load(dir, {model =, optimizer =, data =})",
    "Reads the newest whole one back into its parts; gives the step and the note.",
    "net = rille.nn.Linear(3, 2)\n" ..
      "dir = os.tmpname()\n" ..
      "os.remove(dir)\n" ..
      "rille.checkpoint.save(dir, {model = net, step = 7, note = 'n'})",
    "select(2, rille.checkpoint.load(dir, {model = net}))", "n"},
  ["checkpoint.save"] = {
    "rille.checkpoint.save(dir, {model =, optimizer =, data =, step =, note =}[, {async = false, keep " ..
      "=}])",
    "Writes one file in dir, whole or not at all; keep is how many stay.",
    "net = rille.nn.Linear(3, 2)\n" ..
      "dir = os.tmpname()\n" ..
      "os.remove(dir)\n" ..
      "rille.checkpoint.save(dir, {model = net, step = 7})",
    "(rille.checkpoint.load(dir, {model = net}))", "7"},
  ["data"] = {
    "rille.data",
    "Batches as a function of seed and epoch; text files as tensors.",
    "order = rille.data.permutation(4, 1)",
    "#order", "4"},
  ["data.csv"] = {
    "rille.data.csv(path, {separator = \",\", header = false, dtype = \"f32\", placement =, sbp =})",
    "A text file's columns of numbers as a tensor.",
    "path = os.tmpname()\n" ..
      "file = io.open(path, 'w')\n" ..
      "file:write('1,2\\n3,4\\n')\n" ..
      "file:close()\n" ..
      "x = rille.data.csv(path)\n" ..
      "os.remove(path)",
    "x:sum():item()", "10.0"},
  ["data.loader"] = {
    "rille.data.loader{x, y, ..., batch =, shuffle = false, seed = 0, drop_last = false, sbp =}",
    "for x, y in loader do: an epoch of batches.",
    "n = 0\n" ..
      "for x in rille.data.loader{rille.ones(10, 2), batch = 4} do n = n + 1 end",
    "n", "3"},
  ["data.permutation"] = {
    "rille.data.permutation(n, seed)",
    "The positions 0 to n - 1 in an order that the seed gives.",
    "order = rille.data.permutation(4, 1)",
    "#order", "4"},
  ["data.text"] = {
    "rille.data.text(path, {tokenizer =, placement =, sbp =})",
    "A text file as ids: bytes, or a tokenizer's.",
    "path = os.tmpname()\n" ..
      "file = io.open(path, 'w')\n" ..
      "file:write('abc')\n" ..
      "file:close()\n" ..
      "x = rille.data.text(path)\n" ..
      "os.remove(path)",
    "#x", "3"},
  ["data.tokens"] = {
    "rille.data.tokens(from, {batch =, length =, seed = 0, placement =, sbp =, ...})",
    "Windows of ids: a token file, a list of them or of ids, a tensor. data:batches(), data:next().",
    "ids = {}\n" ..
      "for i = 1, 40 do ids[i] = i end\n" ..
      "tokens = rille.data.tokens(ids, {batch = 2, length = 4})\n" ..
      "x, y = tokens:next()",
    "y.shape[2]", "4"},
  ["io"] = {
    "rille.io",
    "Other programs' formats, and what is in a file.",
    "path = os.tmpname()\n" ..
      "os.remove(path)\n" ..
      "path = path .. '.npy'\n" ..
      "rille.save(path, rille.ones(2))\n" ..
      "list = rille.io.contents(path)\n" ..
      "os.remove(path)",
    "#list", "1"},
  ["io.contents"] = {
    "rille.io.contents(path[, format])",
    "A list of {name =, dtype =, shape =}, without reading values, and what else the file says.",
    "path = os.tmpname()\n" ..
      "os.remove(path)\n" ..
      "path = path .. '.npy'\n" ..
      "rille.save(path, rille.ones(2))\n" ..
      "list = rille.io.contents(path)\n" ..
      "os.remove(path)",
    "list[1].dtype", "f32"},
  ["io.llmc"] = {
    "rille.io.llmc.load(path), rille.io.llmc.tokens(path)",
    "A checkpoint and a token file that llm.c wrote.",
    "path = os.tmpname()\n" ..
      "file = io.open(path, 'wb')\n" ..
      "file:write(string.pack('<i4i4i4', 20240520, 1, 3), ('\\0'):rep(1012), string.pack('<I2I2I2', 5, 6, 7))\n" ..
      "file:close()\n" ..
      "ids = rille.io.llmc.tokens(path)\n" ..
      "os.remove(path)",
    "ids:sum():item()", "18"},
  ["models"] = {
    "rille.models",
    "Known models: gpt2, llama, moe, resnet. new{...} makes one, load(dir) reads a Hugging Face folder.",
    "m = rille.models.resnet.new{classes = 3, width = 4, blocks = {1}}",
    "m(rille.ones(1, 3, 8, 8)).shape[2]", "3"},
  ["models.gpt2"] = {
    "rille.models.gpt2.new{vocab =, length =, layers =, heads =, width =}, .load(dir)",
    "GPT-2. m(ids), m:generate(ids, {max_new_tokens =}), m:save(dir), m.config.",
    "ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})\n" ..
      "m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}",
    "m(ids).shape[3]", "11"},
  ["models.llama"] = {
    "rille.models.llama.new{vocab =, length =, layers =, heads =, width =}, .load(dir[, {placement =, " ..
      "sbp =, dtype =, quantize = \"int8\"}])",
    "Llama, with methods as of gpt2.",
    "ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})\n" ..
      "m = rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}",
    "m(ids).shape[3]", "11"},
  ["models.moe"] = {
    "rille.models.moe.new{vocab =, length =, layers =, heads =, width =}, .load(dir)",
    "A mixture of experts in every block, with methods as of gpt2.",
    "ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})\n" ..
      "m = rille.models.moe.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}",
    "m(ids).shape[3]", "11"},
  ["models.resnet"] = {
    "rille.models.resnet.new{classes =, channels = 3, width = 16, blocks = {2, 2, 2}}",
    "A residual network; x: (batch, channels, h, w) -> (batch, classes).",
    "m = rille.models.resnet.new{classes = 3, width = 4, blocks = {1}}",
    "m(rille.ones(1, 3, 8, 8)).shape[2]", "3"},
  ["nn"] = {
    "rille.nn",
    "Layers. Each is a class; a call of one makes a module, a call of a module runs forward.",
    "net = rille.nn.Linear(3, 2)",
    "net(rille.ones(5, 3)).shape[1]", "5"},
  ["nn.BatchNorm2d"] = {
    "rille.nn.BatchNorm2d(channels, {eps = 1e-5, momentum = 0.1})",
    "Normalises each channel; while training by the batch, whatever its layout, in eval() by running " ..
      "values.",
    "norm = rille.nn.BatchNorm2d(3)",
    "norm(rille.randn(4, 3, 5, 5)).shape[2]", "3"},
  ["nn.Conv2d"] = {
    "rille.nn.Conv2d(in, out, kernel_size, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = " ..
      "true})",
    "2-D convolution; x: (batch, in, h, w), weight: (out, in / groups, kh, kw).",
    "conv = rille.nn.Conv2d(3, 8, 3, {padding = 1})",
    "conv(rille.ones(2, 3, 6, 6)).shape[2]", "8"},
  ["nn.CrossEntropyLoss"] = {
    "rille.nn.CrossEntropyLoss({reduction = \"mean\", ignore_index =, label_smoothing = 0})",
    "The loss of a classifier, as rille.cross_entropy.",
    "f = rille.nn.CrossEntropyLoss()",
    "f(rille.zeros(2, 1), rille.zeros({2}, {dtype = 'i64'})):item()", "0.0"},
  ["nn.Dropout"] = {
    "rille.nn.Dropout(p = 0.5)",
    "While training, sets a share p of the values to 0 and scales the rest by 1 / (1 - p).",
    "drop = rille.nn.Dropout(0.5):eval()",
    "drop(rille.ones(4)):sum():item()", "4.0"},
  ["nn.Embedding"] = {
    "rille.nn.Embedding(n, d, {std = 1})",
    "A table of n vectors of size d, looked up by number; ids: (...), y: (..., d).",
    "ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})\n" ..
      "table_of = rille.nn.Embedding(10, 4)",
    "table_of(ids).shape[3]", "4"},
  ["nn.GELU"] = {
    "rille.nn.GELU({approximate = \"tanh\"})",
    "x Phi(x): exact without the option.",
    "f = rille.nn.GELU()",
    "f(rille.zeros(2)):sum():item()", "0.0"},
  ["nn.Int8Linear"] = {
    "rille.nn.Int8Linear(linear)",
    "The same product with a byte a weight, for inference.",
    "net = rille.nn.Linear(3, 2)\n" ..
      "small = rille.nn.Int8Linear(net)",
    "small.weight.dtype", "u8"},
  ["nn.LayerNorm"] = {
    "rille.nn.LayerNorm(shape, {eps = 1e-5, bias = true})",
    "(x - mean) / sqrt(variance + eps) * weight + bias over the last axes.",
    "norm = rille.nn.LayerNorm(4)",
    "norm(rille.ones(2, 4)):sum():item()", "0.0"},
  ["nn.Linear"] = {
    "rille.nn.Linear(in, out, {bias = true})",
    "y = x w^T + b; x: (..., in), w: (out, in), b: (out).",
    "net = rille.nn.Linear(3, 2)",
    "net(rille.ones(5, 3)).shape[2]", "2"},
  ["nn.MSELoss"] = {
    "rille.nn.MSELoss({reduction = \"mean\"})",
    "The mean of squared differences, as rille.mse_loss.",
    "f = rille.nn.MSELoss()",
    "f(rille.ones(2), rille.zeros(2)):item()", "1.0"},
  ["nn.MixtureOfExperts"] = {
    "rille.nn.MixtureOfExperts(d, hidden, experts, {top_k = 2})",
    "Each entry goes to the top_k experts that its router prefers; none is dropped.",
    "f = rille.nn.MixtureOfExperts(4, 8, 4)",
    "f(rille.ones(2, 3, 4)).shape[3]", "4"},
  ["nn.Module"] = {
    "rille.nn.Module:extend(name)",
    "A class of modules, with methods init(...) and forward(...). Tensors, modules and lists of them " ..
      "that are fields are its parts.",
    "Net = rille.nn.Module:extend('Net')\n" ..
      "function Net:init(d) self.fc = rille.nn.Linear(d, 1) end\n" ..
      "function Net:forward(x) return self.fc(x):relu() end\n" ..
      "net = Net(3)",
    "#net(rille.ones(5, 3))", "5"},
  ["nn.MultiheadAttention"] = {
    "rille.nn.MultiheadAttention(d, heads, {is_causal = false, bias = true, kv_heads = heads, rotary =})",
    "Attention with several heads; q, k, v: (batch, length, d), k and v are q where they are not given.",
    "f = rille.nn.MultiheadAttention(8, 2, {is_causal = true})",
    "f(rille.ones(2, 3, 8)).shape[3]", "8"},
  ["nn.Parameter"] = {
    "rille.nn.Parameter(t)",
    "A leaf with the value of t that gradients are computed for: what a module trains.",
    "w = rille.nn.Parameter(rille.ones(2))",
    "w.requires_grad", "true"},
  ["nn.Positions"] = {
    "rille.nn.Positions(length, d)",
    "Adds a learned vector for each position; x: (batch, n, d), n <= length.",
    "at = rille.nn.Positions(8, 4)",
    "at(rille.zeros(2, 5, 4)).shape[2]", "5"},
  ["nn.RMSNorm"] = {
    "rille.nn.RMSNorm(shape, {eps =})",
    "x / sqrt(mean(x^2) + eps) * weight over the last axes.",
    "norm = rille.nn.RMSNorm(4)",
    "norm(rille.zeros(2, 4)):sum():item()", "0.0"},
  ["nn.ReLU"] = {
    "rille.nn.ReLU()",
    "max(x, 0)",
    "f = rille.nn.ReLU()",
    "f(rille.tensor{-1.0, 2.0}):sum():item()", "2.0"},
  ["nn.Rotary"] = {
    "rille.nn.Rotary(length, size, {base = 10000, scaling =})",
    "Those tables, kept on each placement where they are wanted; the option rotary of attention.",
    "turn = rille.nn.Rotary(6, 4)\n" ..
      "f = rille.nn.MultiheadAttention(8, 2, {rotary = turn})",
    "f(rille.ones(1, 3, 8)).shape[3]", "8"},
  ["nn.Sequential"] = {
    "rille.nn.Sequential(module, ...)",
    "Modules one after the other; members are net[1], net[2], ..., and count from 0 in names.",
    "net = rille.nn.Sequential(rille.nn.Linear(3, 4), rille.nn.ReLU(), rille.nn.Linear(4, 2))",
    "net(rille.ones(5, 3)).shape[2]", "2"},
  ["nn.SiLU"] = {
    "rille.nn.SiLU()",
    "x sigmoid(x)",
    "f = rille.nn.SiLU()",
    "f(rille.zeros(2)):sum():item()", "0.0"},
  ["nn.SwiGLU"] = {
    "rille.nn.SwiGLU(d, hidden, {bias = false})",
    "A gated feed-forward layer: down(silu(gate(x)) * up(x)).",
    "f = rille.nn.SwiGLU(4, 8)",
    "f(rille.ones(2, 4)).shape[2]", "4"},
  ["nn.TransformerBlock"] = {
    "rille.nn.TransformerBlock(d, heads, {hidden = 4 * d, is_causal = true, dropout = 0, ...})",
    "x + attention(norm(x)), then x + feed-forward(norm(x)).",
    "f = rille.nn.TransformerBlock(8, 2)",
    "f(rille.ones(2, 3, 8)).shape[3]", "8"},
  ["nn.init"] = {
    "rille.nn.init",
    "New values for parameters, in place; what is drawn depends on the seed and the position, not on the " ..
      "layout.",
    "net = rille.nn.Linear(3, 2)\n" ..
      "rille.nn.init.ones_(net.weight)",
    "net.weight:sum():item()", "6.0"},
  ["nn.rotary_tables"] = {
    "rille.nn.rotary_tables(length, size, {base = 10000, dtype = \"f32\", placement =, ...})",
    "cos and sin of position * frequency, each (length, size / 2), for rille.rotary.",
    "cos, sin = rille.nn.rotary_tables(6, 4)",
    "cos.shape[2]", "2"},
  ["nn.tie"] = {
    "rille.nn.tie(module, name, other, name)",
    "One tensor under two names: other has what module has; it is stored and updated once.",
    "net = rille.nn.Sequential(rille.nn.Linear(3, 3), rille.nn.Linear(3, 3))\n" ..
      "rille.nn.tie(net[1], 'weight', net[2], 'weight')",
    "rawequal(net[1].weight, net[2].weight)", "true"},
  ["optim"] = {
    "rille.optim",
    "Optimisers, the norm of gradients, schedules.",
    "net = rille.nn.Linear(3, 2)",
    "#rille.optim.SGD(net:parameters(), {lr = 0.1}).params", "2"},
  ["optim.Adam"] = {
    "rille.optim.Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0})",
    "Steps by the gradient's running mean over the root of its running square.",
    "w = rille.nn.Parameter(rille.ones(2))\n" ..
      "opt = rille.optim.Adam({w}, {lr = 0.1})\n" ..
      "w:sum():backward()\n" ..
      "opt:step()",
    "opt.steps", "1"},
  ["optim.AdamW"] = {
    "rille.optim.AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01})",
    "Adam that takes lr weight_decay p from p beside the step.",
    "w = rille.nn.Parameter(rille.ones(2))\n" ..
      "opt = rille.optim.AdamW({w}, {lr = 0.1})\n" ..
      "w:sum():backward()\n" ..
      "opt:step()",
    "opt.steps", "1"},
  ["optim.SGD"] = {
    "rille.optim.SGD(params, {lr = 1e-3, momentum = 0, weight_decay = 0, nesterov = false})",
    "p = p - lr g, with momentum m = momentum m + g.",
    "w = rille.nn.Parameter(rille.ones(2))\n" ..
      "opt = rille.optim.SGD({w}, {lr = 0.5})\n" ..
      "w:sum():backward()\n" ..
      "opt:step()",
    "w:sum():item()", "1.0"},
  ["optim.clip_grad_norm"] = {
    "rille.optim.clip_grad_norm(params, max)",
    "Scales all gradients together so that their norm is at most max; gives the norm before.",
    "w = rille.nn.Parameter(rille.ones(4))\n" ..
      "w:sum():backward()\n" ..
      "norm = rille.optim.clip_grad_norm({w}, 1)",
    "w.grad:sum():item() < 2.001", "true"},
  ["optim.constant"] = {
    "rille.optim.constant{lr =, warmup = 0}",
    "The same without falling.",
    "lr = rille.optim.constant{lr = 1, warmup = 2}",
    "lr(0)", "0.5"},
  ["optim.cosine"] = {
    "rille.optim.cosine{lr =, min_lr = 0, warmup = 0, steps =}",
    "A schedule: a function of the step from 0, which falls along a cosine to min_lr.",
    "lr = rille.optim.cosine{lr = 1, min_lr = 0.5, warmup = 2, steps = 10}",
    "lr(0)", "0.5"},
  ["optim.linear"] = {
    "rille.optim.linear{lr =, min_lr = 0, warmup = 0, steps =}",
    "The same along a straight line.",
    "lr = rille.optim.linear{lr = 1, min_lr = 0.5, warmup = 2, steps = 10}",
    "lr(10)", "0.5"},
  ["parallel.input"] = {
    "rille.parallel.input(model)",
    "Where the ids that a laid out model is given should lie: options for a creation.",
    "m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}\n" ..
      "rille.parallel(m, {data = 0})",
    "type(rille.parallel.input(m))", "table"},
  ["parallel.labels"] = {
    "rille.parallel.labels(model)",
    "The same of the labels.",
    "m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}\n" ..
      "rille.parallel(m, {data = 0})",
    "type(rille.parallel.labels(m))", "table"},
  ["tokenizer"] = {
    "rille.tokenizer(path, {pattern =, special =})",
    "Text to ids and back, from tokenizer.json or *.tiktoken: t:encode(text), t:decode(ids), t.size, " ..
      "t:save(path).",
    "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    "t:decode(t:encode('ab'))", "ab"},
  ["tokenizer.train"] = {
    "rille.tokenizer.train(texts, {size =, special = {}, pattern =})",
    "A tokenizer learned from texts; {file = path} is one in a file.",
    "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    "t.size", "258"},
  ["train"] = {
    "rille.train",
    "How training goes.",
    "line = rille.train.progress{total = 1, file = io.tmpfile()}",
    "type(line.update)", "function"},
  ["train.busy_share"] = {
    "rille.train.busy_share(step)",
    "The share of device time in which devices worked in a compiled step's last run.",
    "step = rille.graph(function(x) return x:exp() end)\n" ..
      "step(rille.ones(64)):sum():item()",
    "rille.train.busy_share(step) <= 1", "true"},
  ["train.peak"] = {
    "rille.train.peak()",
    "Flops a second of a large product here, measured once.",
    "peak = rille.train.peak()",
    "peak > 0", "true"},
  ["train.progress"] = {
    "rille.train.progress{total =, step =, file = io.stderr, unit = \"samples\", flops =}",
    "A line that tells step, loss and speed: line:update(step, loss, samples), line:finish().",
    "line = rille.train.progress{total = 1, file = io.tmpfile()}\n" ..
      "line:update(1, 0.5, 64)\n" ..
      "line:finish()",
    "line.samples", "64"},
}
for name, text in pairs{zeros_ = "0", ones_ = "1", constant_ = "a value",
  normal_ = "a normal distribution, by mean and deviation", uniform_ = "a uniform one, between two ends",
  kaiming_uniform_ = "He's uniform one", kaiming_normal_ = "He's normal one",
  xavier_uniform_ = "Glorot's uniform one", xavier_normal_ = "Glorot's normal one"} do
  local given = name == "constant_" and ", 1" or ""
  rows["nn.init." .. name] = {("rille.nn.init.%s(p, ...)"):format(name), "New values of a parameter, in place: " .. text .. ".",
    ("net = rille.nn.Linear(3, 2)\nrille.nn.init.%s(net.weight%s)"):format(name, given), "net.weight:stats().nan", "0"}
end

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- The names of all pages here.
function pages.names() return sorted(rows) end

-- An example: its statements, an expression, and what that is as text.
function pages.example(name) return rows[name][3], rows[name][4], rows[name][5] end

-- The names below a module, a line for each; "" when there are none.
local function below(name)
  local lines = {}
  for _, inner in ipairs(sorted(rows)) do
    if inner:sub(1, #name + 1) == name .. "." then lines[#lines + 1] = "  ?" .. inner end
  end
  return #lines > 0 and "\n" .. table.concat(lines, "\n") or ""
end

-- All pages that have the word, each with its first line.
local function search(word)
  local rille, names, lines = require "rille", {}, {}
  for name in pairs(rows) do names[name] = true end
  for name in pairs(rille) do names[name] = type(name) == "string" and name:sub(1, 1) ~= "_" or nil end
  for _, name in ipairs(rille.operators()) do names[name] = true end
  for _, name in ipairs(sorted(names)) do
    local good, text = pcall(rille.page, name)
    if good and (name .. text):lower():find(word:lower(), 1, true) then
      lines[#lines + 1] = ("  ?%-24s %s"):format(name, text:match("[^\n]*"))
    end
  end
  return #lines > 0 and table.concat(lines, "\n") or nil
end

-- The row of "nn.Linear", or of "Linear" if one alone ends so.
local function find(name)
  if rows[name] then return name end
  local found
  for other in pairs(rows) do
    if other:match("[^.]*$") == name then
      if found then return nil end
      found = other
    end
  end
  return found
end

-- The page of a name, nil when there is none; "/word" gives those that have the word.
function pages.page(name)
  if name:match("^/.") then return search(name:sub(2)) end
  local known = find(name)
  if not known then return nil end
  local row = rows[known]
  local code = row[3]:gsub("\n", "\n    ")
  return ("%s\n  %s\n  example\n    %s\n    %s   --> %s%s"):format(row[1], row[2], code, row[4], row[5], below(known))
end

-- What a page that is not here goes on with: its example, the names in a module.
function pages.below(name) return examples.below(name) .. below(name) end

return pages
