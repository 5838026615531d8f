-- training.lua - pages of what is around a network: optimisers, data, files, models, recipes, progress.

return {
  args = {
    sign = "rille.args(arg, {[word, ...,] name = default, ...})",
    text = "The command line of a script: words that must be given, --name value, --name=value, and --flag for what is false by default.",
    code = "options = rille.args({'gpt2', '--epochs', '3'}, {'folder', epochs = 40, plain = false})",
    shows = "options.folder .. options.epochs",
    gives = "gpt23",
  },
  autocast = {
    first = "bf16|f16",
    sign = 'rille.autocast("bf16", fn, ...)',
    text = "what fn gives; its products take and give 16 bits, a layer's with its bias",
    code = "x = rille.ones(2, 2)",
    shows = "rille.autocast('bf16', function() return x:matmul(x).dtype end)",
    gives = "bf16",
  },
  checkpoint = {
    sign = "rille.checkpoint",
    text = "A training on the disk: what follows a load is what would have followed the save.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "type(rille.checkpoint.save)",
    gives = "function",
  },
  ["checkpoint.load"] = {
    sign = "rille.checkpoint.load(dir, {model =, optimizer =, data =})",
    text = [[
Reads the newest whole one back into its parts; gives the step and the note. A model that computes otherwise is refused.
Parts that are not given stay as they are; an optimiser alone has its parameters by their places in its groups. Of several,
optimizer = {generator = a, critic = b}, each is known by its name.]],
    code = [[
net = rille.nn.Linear(3, 2)
dir = os.tmpname()
os.remove(dir)
rille.checkpoint.save(dir, {model = net, step = 7, note = 'n'})]],
    shows = "select(2, rille.checkpoint.load(dir, {model = net}))",
    gives = "n",
  },
  ["checkpoint.save"] = {
    sign = "rille.checkpoint.save(dir, {model =, optimizer =, data =, step =, note =}[, {async = false, keep =}])",
    text = "Writes one file in dir, whole or not at all; keep is how many stay. The folder is this session's until it ends.",
    code = [[
net = rille.nn.Linear(3, 2)
dir = os.tmpname()
os.remove(dir)
rille.checkpoint.save(dir, {model = net, step = 7})]],
    shows = "(rille.checkpoint.load(dir, {model = net}))",
    gives = "7",
  },
  data = {
    sign = "rille.data",
    text = "Batches as a function of seed and epoch; text files as tensors.",
    code = "order = rille.data.permutation(4, 1)",
    shows = "#order",
    gives = "4",
  },
  ["data.csv"] = {
    is = "tensor",
    sign = 'rille.data.csv(path, {separator = ",", header = false, dtype = "f32", placement =, sbp =})',
    text = "A text file's columns of numbers as a tensor.",
    code = [[
path = os.tmpname()
file = io.open(path, 'w')
file:write('1,2\n3,4\n')
file:close()
x = rille.data.csv(path)
os.remove(path)]],
    shows = "x:sum():item()",
    gives = "10.0",
  },
  ["data.loader"] = {
    is = "loader",
    sign = "rille.data.loader{x, y, ..., batch =, shuffle = false, seed = 0, drop_last = false, sbp =}",
    text = "for x, y in loader do: an epoch of batches.",
    code = [[
n = 0
for x in rille.data.loader{rille.ones(10, 2), batch = 4} do n = n + 1 end]],
    shows = "n",
    gives = "3",
  },
  ["data.permutation"] = {
    sign = "rille.data.permutation(n, seed)",
    text = "The positions 0 to n - 1 in an order that the seed gives.",
    code = "order = rille.data.permutation(4, 1)",
    shows = "#order",
    gives = "4",
  },
  ["data.text"] = {
    is = "tensor",
    sign = "rille.data.text(path, {tokenizer =, placement =, sbp =})",
    text = "A text file as ids: bytes, or a tokenizer's.",
    code = [[
path = os.tmpname()
file = io.open(path, 'w')
file:write('abc')
file:close()
x = rille.data.text(path)
os.remove(path)]],
    shows = "#x",
    gives = "3",
  },
  ["data.tokens"] = {
    is = "loader",
    sign = "rille.data.tokens(from, {batch =, length =, seed = 0, vocab =, placement =, sbp =, ...})",
    text = [[
Windows of ids: a token file, a list of them or of ids, a tensor. data:batches(), data:next().
vocab = n: a batch that has an id from n on is an error with its file and place. local data <close> lets go of files.]],
    code = [[
ids = {}
for i = 1, 40 do ids[i] = i end
tokens = rille.data.tokens(ids, {batch = 2, length = 4})
x, y = tokens:next()]],
    shows = "y.shape[2]",
    gives = "4",
  },
  io = {
    sign = "rille.io",
    text = "Other programs' formats, and what is in a file.",
    code = [[
path = os.tmpname()
os.remove(path)
path = path .. '.npy'
rille.save(path, rille.ones(2))
list = rille.io.contents(path)
os.remove(path)]],
    shows = "#list",
    gives = "1",
  },
  ["io.contents"] = {
    sign = "rille.io.contents(path[, format])",
    text = "A list of {name =, dtype =, shape =}, without reading values, and what else the file says.",
    code = [[
path = os.tmpname()
os.remove(path)
path = path .. '.npy'
rille.save(path, rille.ones(2))
list = rille.io.contents(path)
os.remove(path)]],
    shows = "list[1].dtype",
    gives = "f32",
  },
  ["io.llmc"] = {
    sign = "rille.io.llmc.load(path), rille.io.llmc.tokens(path)",
    text = "A checkpoint and a token file that llm.c wrote.",
    code = [[
path = os.tmpname()
file = io.open(path, 'wb')
file:write(string.pack('<i4i4i4', 20240520, 1, 3), ('\0'):rep(1012), string.pack('<I2I2I2', 5, 6, 7))
file:close()
ids = rille.io.llmc.tokens(path)
os.remove(path)]],
    shows = "ids:sum():item()",
    gives = "18",
  },
  load = {
    sign = "rille.load(path[, {placement =, sbp =, dtype =, names =}])",
    text = [[
tensors by name: .safetensors, .npz, .gguf, a folder
of shards; .npy: one tensor. placement and sbp may be functions of the name; dtype is what floats become.]],
    code = [[
path = os.tmpname() .. '.safetensors'
rille.save(path, {w = rille.ones(2)})
t = rille.load(path)
os.remove(path)]],
    shows = "t.w:sum():item()",
    gives = "2.0",
  },
  load_npy = {
    is = "tensor",
    sign = "rille.load_npy(path[, {placement =, sbp =}])",
    text = "the tensor in a .npy file",
    code = [[
path = os.tmpname() .. '.npy'
rille.save(path, rille.ones(2))
x = rille.load_npy(path)
os.remove(path)]],
    shows = "x:sum():item()",
    gives = "2.0",
  },
  models = {
    sign = "rille.models",
    text = [[
gpt2, llama, moe, resnet: rille.models.gpt2.new{vocab =, length =, layers =, heads =, width =}
m(ids), m:generate(ids, {max_new_tokens =, temperature =}), m:save(dir), m.config
rille.models.load(dir[, {placement =, sbp =, parallel =, dtype =, quantize = "int8"}])   a Hugging Face folder of any kind]],
    code = "m = rille.models.resnet.new{classes = 3, width = 4, blocks = {1}}",
    shows = "m(rille.ones(1, 3, 8, 8)).shape[2]",
    gives = "3",
  },
  ["models.gpt2"] = {
    is = "model",
    sign = "rille.models.gpt2.new{vocab =, length =, layers =, heads =, width =}, .load(dir[, {dropout =, ...}])",
    text = [[
GPT-2. m(ids), m:generate(ids, {max_new_tokens =}), m:save(dir), m.config. load takes placement =, sbp =, dtype =,
parallel =, what rille.parallel takes, quantize = "int8", for inference, and dropout =, for training: 0 unless it is given,
whatever config.json says. Each rank reads what it will hold; sbp may be a function of the parameter's name.]],
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m(ids).shape[3]",
    gives = "11",
  },
  ["models.llama"] = {
    is = "model",
    sign = "rille.models.llama.new{vocab =, length =, layers =, heads =, width =}, .load(dir[, {quantize =, ...}])",
    text = [[
Llama, with methods as of gpt2. load takes placement =, sbp =, parallel =, dtype =, and quantize = "int8", for inference.
new also takes kv_heads, head_dim, hidden, activation, eps, tied, qkv_bias, out_bias, mlp_bias; theta, rope_scaling and
rotary_size of the rotary positions.]],
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m(ids).shape[3]",
    gives = "11",
  },
  ["models.load"] = {
    is = "model",
    sign = "rille.models.load(path[, {placement =, sbp =, parallel =, dtype =, quantize =, dropout =}])",
    text = [[
Loads a language model from a Hugging Face folder of any supported kind, which config.json's model_type names. path: the
folder, its .safetensors, or a .bin of llm.c. The options are those of models.gpt2's load; dropout is GPT-2's alone.
An unknown model_type is an error that lists the supported ones. The result has the methods of models.gpt2.]],
    code = [[
dir = os.tmpname()
os.remove(dir)
rille.models.llama.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}:save(dir)
m = rille.models.load(dir)
os.execute("rm -r " .. dir)]],
    shows = "m.config.layers",
    gives = "1",
  },
  ["models.moe"] = {
    is = "model",
    sign = "rille.models.moe.new{vocab =, length =, layers =, heads =, width =}, .load(dir)",
    text = "A mixture of experts in every block, with methods as of gpt2.",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.moe.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m(ids).shape[3]",
    gives = "11",
  },
  ["models.resnet"] = {
    is = "model",
    sign = "rille.models.resnet.new{classes =, channels = 3, width = 16, blocks = {2, 2, 2}}",
    text = "A residual network; x: (batch, channels, h, w) -> (batch, classes).",
    code = "m = rille.models.resnet.new{classes = 3, width = 4, blocks = {1}}",
    shows = "m(rille.ones(1, 3, 8, 8)).shape[2]",
    gives = "3",
  },
  optim = {
    sign = "rille.optim",
    text = "SGD, Adam, AdamW, clip_grad_norm, cosine, linear, constant",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "#rille.optim.SGD(net:parameters(), {lr = 0.1}).params",
    gives = "2",
  },
  ["optim.Adam"] = {
    is = "optimizer",
    sign = "rille.optim.Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0})",
    text = [[
Steps by the gradient's running mean over the root of its running square. Each parameter counts its own updates for the
bias correction, as in PyTorch: a step in which it has no gradient does not count. opt.steps counts the calls of step().]],
    code = [[
w = rille.nn.Parameter(rille.ones(2))
opt = rille.optim.Adam({w}, {lr = 0.1})
w:sum():backward()
opt:step()]],
    shows = "opt.steps",
    gives = "1",
  },
  ["optim.AdamW"] = {
    is = "optimizer",
    sign = "rille.optim.AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01})",
    text = "Adam that takes lr weight_decay p from p beside the step. Each parameter counts its own updates.",
    code = [[
w = rille.nn.Parameter(rille.ones(2))
opt = rille.optim.AdamW({w}, {lr = 0.1})
w:sum():backward()
opt:step()]],
    shows = "opt.steps",
    gives = "1",
  },
  ["optim.SGD"] = {
    is = "optimizer",
    sign = "rille.optim.SGD(params, {lr = 1e-3, momentum = 0, weight_decay = 0, nesterov = false})",
    text = "p = p - lr g, with momentum m = momentum m + g.",
    code = [[
w = rille.nn.Parameter(rille.ones(2))
opt = rille.optim.SGD({w}, {lr = 0.5})
w:sum():backward()
opt:step()]],
    shows = "w:sum():item()",
    gives = "1.0",
  },
  ["optim.clip_grad_norm"] = {
    sign = "rille.optim.clip_grad_norm(params, max)",
    text = "Scales all gradients together so that their norm is at most max; gives the norm before.",
    code = [[
w = rille.nn.Parameter(rille.ones(4))
w:sum():backward()
norm = rille.optim.clip_grad_norm({w}, 1)]],
    shows = "w.grad:sum():item() < 2.001",
    gives = "true",
  },
  ["optim.constant"] = {
    sign = "rille.optim.constant{lr =, warmup = 0}",
    text = "The same without falling.",
    code = "lr = rille.optim.constant{lr = 1, warmup = 2}",
    shows = "lr(0)",
    gives = "0.5",
  },
  ["optim.cosine"] = {
    sign = "rille.optim.cosine{lr =, min_lr = 0, warmup = 0, steps =}",
    text = "A schedule: a function of the step from 0, which falls along a cosine to min_lr.",
    code = "lr = rille.optim.cosine{lr = 1, min_lr = 0.5, warmup = 2, steps = 10}",
    shows = "lr(0)",
    gives = "0.5",
  },
  ["optim.linear"] = {
    sign = "rille.optim.linear{lr =, min_lr = 0, warmup = 0, steps =}",
    text = "The same along a straight line.",
    code = "lr = rille.optim.linear{lr = 1, min_lr = 0.5, warmup = 2, steps = 10}",
    shows = "lr(10)",
    gives = "0.5",
  },
  parallel = {
    sign = "rille.parallel(model, {data =, tensor =, method =, sequence =, zero =, stages =, chunks =, panels =, blocks =})",
    text = [[
Lays a model out over the axes of its mesh and gives the table of what it set, which prints and can be given back.
{data = 0, tensor = 1}; {tensor = {0, 1}} is 2D, {0, 1, 2} with method "2.5d" or "3d"; {data = 0, zero = 3}
zero: 1 cuts optimisers' state over the data axis, 2 gradients too, 3 parameters; a rille.graph that says one says the same
{tensor = {0, 1}, panels = 4}: what 2D gathers comes in panels, the next one while one is multiplied, where devices have streams
{stages = {P0, P1}} deals blocks over placements; all that they are given, masks and memory, in option tables too, comes to them
{stages = {P0, P1}, blocks = {input = ids, micro_batches = 8}} cuts where a batch takes the least time: the planner reckons what
each block costs, in nanoseconds and bytes, where the model is given such ids, those of a micro-batch; it reads no value of them
{stages = {P0, P1}, blocks = {cost = {2, 2, 3}}} is told; beside cost, a list by block, there are memory and activations (lists of
bytes), hop (into each block, or a number); beside input each stands in place of what is reckoned, and cost in place of hop too
both take micro_batches, memory_limit (bytes a device) and schedule, which says of how many micro-batches activations are kept:
"1f1b", "gpipe", "zb-h1", "zb-h2", "interleaved" (stages {P0, P1, P0, P1}), "zb-v", "v-half" or "v-min" ({P0, P1, P1, P0})
rille.parallel.input(model), rille.parallel.labels(model)   where ids and labels should lie]],
    code = [[
m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}
set = rille.parallel(m, {data = 0})]],
    shows = "set['wte.weight'].sbp",
    gives = "B",
  },
  ["parallel.input"] = {
    sign = "rille.parallel.input(model)",
    text = "Where the ids that a laid out model is given should lie: options for a creation.",
    code = [[
m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}
rille.parallel(m, {data = 0})]],
    shows = "type(rille.parallel.input(m))",
    gives = "table",
  },
  ["parallel.labels"] = {
    sign = "rille.parallel.labels(model)",
    text = "The same of the labels.",
    code = [[
m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}
rille.parallel(m, {data = 0})]],
    shows = "type(rille.parallel.labels(m))",
    gives = "table",
  },
  plot = {
    sign = "rille.plot(file, {name = {numbers}}[, {title =, x =, y =, log =}])",
    text = "curves as an SVG; another ending than .svg is refused",
    code = [[
path = os.tmpname() .. '.svg'
rille.plot(path, {loss = {3, 2, 1}})]],
    shows = "os.remove(path)",
    gives = "true",
  },
  save = {
    sign = 'rille.save(path, {name = tensor} | net | tensor[, {max_shard_size = "5GB"}])',
    text = "path.safetensors, path.npy (one tensor), or a folder, which gets shards and an index.",
    code = [[
path = os.tmpname() .. '.npy'
rille.save(path, rille.ones(2))]],
    shows = "os.remove(path)",
    gives = "true",
  },
  tokenizer = {
    is = "tokenizer",
    sign = "rille.tokenizer(path, {pattern =, special =})",
    text = "Text to ids and back, from tokenizer.json or *.tiktoken (special: texts, or {[text] = id}): t:encode(text), "
      .. "t:decode(ids), t.size, t:save(path). A file's truncation and padding are not applied.",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t:decode(t:encode('ab'))",
    gives = "ab",
  },
  ["tokenizer.train"] = {
    is = "tokenizer",
    sign = "rille.tokenizer.train(texts, {size =, special = {}, pattern =})",
    text = "A tokenizer learned from texts; {file = path} is one in a file.",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t.size",
    gives = "258",
  },
  train = {
    sign = "rille.train",
    text = "How training goes.",
    code = "line = rille.train.progress{total = 1, file = io.tmpfile()}",
    shows = "type(line.update)",
    gives = "function",
  },
  ["train.busy_share"] = {
    sign = "rille.train.busy_share(step)",
    text = "The share of device time in which devices worked in a compiled step's last run.",
    code = [[
step = rille.graph(function(x) return x:exp() end)
step(rille.ones(64)):sum():item()]],
    shows = "rille.train.busy_share(step) <= 1",
    gives = "true",
  },
  ["train.peak"] = {
    sign = "rille.train.peak()",
    text = "Flops a second of a large product here, measured once.",
    code = "peak = rille.train.peak()",
    shows = "peak > 0",
    gives = "true",
  },
  ["train.progress"] = {
    is = "progress",
    sign = 'rille.train.progress{total =, step =, file = io.stderr, unit = "samples", flops =}',
    text = "A line that tells step, loss and speed: line:update(step, loss, samples), line:finish().",
    code = [[
line = rille.train.progress{total = 1, file = io.tmpfile()}
line:update(1, 0.5, 64)
line:finish()]],
    shows = "line.samples",
    gives = "64",
  },
  ["train.saves_to"] = {
    sign = 'rille.train.saves_to(path, kind = "file")',
    text = 'Before a training begins: an error unless a "file", a "folder", a "picture" or "checkpoints" can be saved there. Gives path.',
    code = "path = os.tmpname()",
    shows = "rille.train.saves_to(path) == path",
    gives = "true",
  },
}
