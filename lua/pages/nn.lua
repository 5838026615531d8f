-- nn.lua - pages of rille.nn: layers, losses, initial values.

return {
  nn = {
    sign = "rille.nn",
    text = [[
Has the building blocks of neural networks: layers, losses and initial values.
Your own layer is a class made by rille.nn.Module:extend("Net").]],
    returns = "a table of classes, with Module, Parameter, init, rotary_tables and tie",
    errors = "a name that the table does not have; the error names the nearest one",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net(rille.ones(5, 3)).shape[1]",
    gives = "5",
    see = "nn.Module optim train",
    words = "layer network neural",
  },
  ["nn.BatchNorm2d"] = {
    sign = "rille.nn.BatchNorm2d(channels, {eps = 1e-5, momentum = 0.1})",
    text = [[
Normalises each channel of an image batch by its mean and variance.
Training uses the statistics of the batch over all devices; eval() uses running ones, which are buffers.
In a step with micro_batches, each micro-batch is normalised by its own statistics, as with gradient
accumulation in PyTorch; a warning says so once. The running ones follow the mean over the micro-batches.]],
    args = [[
channels: integer; channels of x
eps: number, default 1e-5; added to the variance
momentum: number, default 0.1; share of the new value in the running statistics]],
    returns = "a module; x and the result: (batch, channels, height, width)",
    errors = [[
channels must be a positive integer, momentum from 0 to 1, eps 0 or more;
x must have 4 dimensions and that many channels]],
    code = "norm = rille.nn.BatchNorm2d(3)",
    shows = "norm(rille.randn(4, 3, 5, 5)).shape[2]",
    gives = "3",
    see = "nn.LayerNorm nn.Module.eval",
    words = "batch norm normalization",
  },
  ["nn.BlockEmbedding"] = {
    sign = 'rille.nn.BlockEmbedding(embedding, {kind = "Q8_0"})',
    text = [[
Converts a table of vectors to weights in blocks of a quantised type of GGUF files, for inference.
Models that keep the blocks of a GGUF file have such layers.]],
    args = [[
embedding: an nn.Embedding whose vectors have a multiple of 32 elements
kind: "Q8_0" (8 bits), default, or "Q4_0" (4 bits)]],
    returns = "a module with about a quarter or an eighth of the bytes; its result is f32",
    errors = "embedding must be an nn.Embedding",
    code = "small = rille.nn.BlockEmbedding(rille.nn.Embedding(10, 32), {kind = 'Q4_0'})",
    shows = "small.weight.shape[3]",
    gives = "18",
    see = "nn.BlockLinear nn.Embedding models.load",
    words = "quantize quantization gguf",
  },
  ["nn.BlockLinear"] = {
    sign = 'rille.nn.BlockLinear(linear, {kind = "Q8_0"})',
    text = [[
Converts a linear layer to weights in blocks of a quantised type of GGUF files, for inference.
Models that keep the blocks of a GGUF file have such layers.]],
    args = [[
linear: an nn.Linear with a multiple of 32 inputs
kind: "Q8_0" (8 bits), default, or "Q4_0" (4 bits)]],
    returns = "a module with about a quarter or an eighth of the bytes and nearly the same results",
    errors = "linear must be an nn.Linear",
    code = "small = rille.nn.BlockLinear(rille.nn.Linear(32, 2), {kind = 'Q4_0'})",
    shows = "small.weight.shape[3]",
    gives = "18",
    see = "linear_blocks nn.Linear nn.Int8Linear models.load",
    words = "quantize quantization gguf int4",
  },
  ["nn.Conv2d"] = {
    sign = "rille.nn.Conv2d(in, out, kernel_size, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true})",
    text = "Convolves an image batch with learned kernels, and adds a learned bias.",
    args = [[
in: integer; channels of x
out: integer; channels of the result
kernel_size: integer, or {height, width}
stride: integer or pair, default 1; step between windows
padding: integer or pair, default 0; zeros around the image
dilation: integer or pair, default 1; distance between entries of a window
groups: integer, default 1; must divide in and out
bias: boolean, default true]],
    returns = "a module; x: (batch, in, h, w); weight: (out, in / groups, kh, kw), bias: (out)",
    errors = [[
sizes must be positive integers; groups must divide in and out;
x must have 4 dimensions, and contain the kernel]],
    code = "conv = rille.nn.Conv2d(3, 8, 3, {padding = 1})",
    shows = "conv(rille.ones(2, 3, 6, 6)).shape[2]",
    gives = "8",
    see = "conv2d nn.BatchNorm2d",
    words = "convolution cnn",
  },
  ["nn.CrossEntropyLoss"] = {
    sign = 'rille.nn.CrossEntropyLoss({reduction = "mean", ignore_index =, label_smoothing = 0})',
    text = "Computes the cross-entropy loss of a classifier from logits and labels.",
    args = [[
reduction: "mean" (default), "sum" or "none"
ignore_index: integer, default -100; rows with this label do not count
label_smoothing: number, default 0; share of the target that is spread over all classes]],
    returns = "a module; called with logits (batch, classes, ...) and integer labels (batch, ...)",
    errors = "a label must be below the number of classes, or equal ignore_index",
    code = [[
f = rille.nn.CrossEntropyLoss()
labels = rille.tensor({0, 1}, {dtype = 'i64'})]],
    shows = "('%.3f'):format(f(rille.tensor{{2, 0}, {0, 3}}, labels):item())",
    gives = "0.088",
    see = "cross_entropy nn.MSELoss",
    words = "loss classification",
  },
  ["nn.Dropout"] = {
    sign = "rille.nn.Dropout(p = 0.5)",
    text = "Zeroes random elements in training mode, and scales the others by 1 / (1 - p).",
    args = "p: number, default 0.5; probability of dropping an element",
    returns = "a module; in eval() mode it returns x",
    errors = "p must be from 0 to 1; x must have a float dtype",
    code = "drop = rille.nn.Dropout(0.5):eval()",
    shows = "drop(rille.ones(4)):sum():item()",
    gives = "4.0",
    see = "dropout nn.Module.eval",
    words = "regularisation",
  },
  ["nn.Embedding"] = {
    sign = "rille.nn.Embedding(n, d, {std = 1})",
    text = "Maps integer ids to learned vectors.",
    args = [[
n: integer; number of ids
d: integer; size of a vector
std: number, default 1; standard deviation of the initial values]],
    returns = "a module; ids: (...), result: (..., d); weight: (n, d)",
    errors = "n and d must be positive integers, std 0 or more; an id must be at least 0 and below n",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
table_of = rille.nn.Embedding(10, 4)]],
    shows = "table_of(ids).shape[3]",
    gives = "4",
    see = "embedding nn.Positions",
    words = "embed lookup vocabulary",
  },
  ["nn.GELU"] = {
    sign = 'rille.nn.GELU({approximate = "tanh"})',
    text = "Applies the Gaussian error linear unit as a layer.",
    args = 'approximate: "tanh" for the approximation; exact by default',
    returns = "a module",
    errors = 'approximate must be "none" or "tanh"',
    code = "f = rille.nn.GELU()",
    shows = "f(rille.zeros(2)):sum():item()",
    gives = "0.0",
    see = "gelu nn.ReLU",
    words = "activation",
  },
  ["nn.GRU"] = {
    sign = 'rille.nn.GRU(in, hidden, {num_layers = 1, bias = true, dropout = 0, bidirectional = false})',
    text = [[
Applies gated recurrent units to sequences.
Call it with x and an optional table {h0 =, lengths =}. lengths, a tensor or a table, has the number
of steps of each row: the state stops there, results beyond it are 0, and the reverse direction starts there.
Parameters have PyTorch's names and shapes, so state dicts load.]],
    args = [[
in: integer; size of the last axis of x
hidden: integer; size of the hidden state
num_layers: integer, default 1; layers on top of each other
bias: boolean, default true
dropout: number, default 0; share of values dropped between layers in training
bidirectional: boolean, default false; a second direction, from the last step to the first]],
    returns = [[
a module; x: (batch, length, in)
results: y (batch, length, hidden, or 2 hidden if bidirectional); last h (layers, batch, hidden)]],
    errors = [[
in, hidden and num_layers must be positive integers, dropout from 0 to 1
x must be (batch, length, in) with at least one step, and states (layers, batch, hidden)
lengths must be (batch), each from 0 to the length of x]],
    code = "f = rille.nn.GRU(3, 4)",
    shows = "f(rille.ones(2, 5, 3), {lengths = {5, 2}}).shape[3]",
    gives = "4",
    see = "nn.GRUCell nn.LSTM",
    words = "recurrent sequence packed gate",
  },
  ["nn.GRUCell"] = {
    sign = 'rille.nn.GRUCell(in, hidden, {bias = true})',
    text = "Applies one step of gated recurrent units.",
    args = [[
in: integer; size of the last axis of x
hidden: integer; size of the hidden state
bias: boolean, default true]],
    returns = [[
a module; called with x, h, where x: (batch, in), and states (batch, hidden) are optional
result: the next h]],
    errors = "in and hidden must be positive integers; x must be (batch, in), states (batch, hidden)",
    code = "f = rille.nn.GRUCell(3, 4)",
    shows = "f(rille.ones(2, 3)).shape[2]",
    gives = "4",
    see = "nn.GRU",
    words = "recurrent step",
  },
  ["nn.Int8Experts"] = {
    sign = "rille.nn.Int8Experts(mixture)",
    text = "Converts a mixture of experts to 8-bit weights, for inference.",
    args = "mixture: an nn.MixtureOfExperts",
    returns = "a module with about a quarter of the bytes and nearly the same results",
    errors = "mixture must be an nn.MixtureOfExperts",
    code = "small = rille.nn.Int8Experts(rille.nn.MixtureOfExperts(4, 8, 4))",
    shows = "small.up.dtype",
    gives = "u8",
    see = "nn.MixtureOfExperts nn.Int8Linear",
    words = "quantize quantization moe",
  },
  ["nn.Int8Linear"] = {
    sign = "rille.nn.Int8Linear(linear)",
    text = "Converts a linear layer to 8-bit weights, for inference.",
    args = "linear: an nn.Linear",
    returns = "a module with about a quarter of the bytes and nearly the same results",
    errors = "linear must be an nn.Linear",
    code = [[
net = rille.nn.Linear(3, 2)
small = rille.nn.Int8Linear(net)]],
    shows = "small.weight.dtype",
    gives = "u8",
    see = "linear_int8 nn.Linear",
    words = "quantize quantization",
  },
  ["nn.LSTM"] = {
    sign = 'rille.nn.LSTM(in, hidden, {num_layers = 1, bias = true, dropout = 0, bidirectional = false})',
    text = [[
Applies a long short-term memory to sequences.
Call it with x and an optional table {h0 =, c0 =, lengths =}. lengths, a tensor or a table, has the number
of steps of each row: the state stops there, results beyond it are 0, and the reverse direction starts there.
Parameters have PyTorch's names and shapes, so state dicts load.]],
    args = [[
in: integer; size of the last axis of x
hidden: integer; size of the hidden state
num_layers: integer, default 1; layers on top of each other
bias: boolean, default true
dropout: number, default 0; share of values dropped between layers in training
bidirectional: boolean, default false; a second direction, from the last step to the first]],
    returns = [[
a module; x: (batch, length, in)
results: y (batch, length, hidden; 2 hidden if bidirectional); last h and c (layers, batch, hidden)]],
    errors = [[
in, hidden and num_layers must be positive integers, dropout from 0 to 1
x must be (batch, length, in) with at least one step, and states (layers, batch, hidden)
lengths must be (batch), each from 0 to the length of x]],
    code = "f = rille.nn.LSTM(3, 4)",
    shows = "f(rille.ones(2, 5, 3), {lengths = {5, 2}}).shape[3]",
    gives = "4",
    see = "nn.LSTMCell nn.GRU",
    words = "recurrent sequence packed gate",
  },
  ["nn.LSTMCell"] = {
    sign = 'rille.nn.LSTMCell(in, hidden, {bias = true})',
    text = "Applies one step of a long short-term memory.",
    args = [[
in: integer; size of the last axis of x
hidden: integer; size of the hidden state
bias: boolean, default true]],
    returns = [[
a module; called with x, h, c, where x: (batch, in), and states (batch, hidden) are optional
result: the next h and c]],
    errors = "in and hidden must be positive integers; x must be (batch, in), states (batch, hidden)",
    code = "f = rille.nn.LSTMCell(3, 4)",
    shows = "f(rille.ones(2, 3)).shape[2]",
    gives = "4",
    see = "nn.LSTM",
    words = "recurrent step",
  },
  ["nn.LayerNorm"] = {
    sign = "rille.nn.LayerNorm(shape, {eps = 1e-5, bias = true, offset = 0})",
    text = "Normalises the last axes to mean 0 and variance 1, then scales and shifts them.",
    args = [[
shape: integer, or a list of integers; sizes of the axes
eps: number, default 1e-5; added to the variance
bias: boolean, default true; false: no shift
offset: number, default 0; added to the weight]],
    returns = "a module; the result has the shape of x",
    errors = "shape must be at least one positive integer, and the last sizes of x; eps must be 0 or more",
    code = "norm = rille.nn.LayerNorm(4)",
    shows = "norm(rille.randn(8, 4)):mean():abs():item() < 1e-6",
    gives = "true",
    see = "layer_norm nn.RMSNorm",
    words = "normalize normalization",
  },
  ["nn.Linear"] = {
    sign = "rille.nn.Linear(in, out, {bias = true})",
    text = "Applies a linear map to the last axis: y = x w^T + b.",
    args = [[
in: integer; size of the last axis of x
out: integer; size of the last axis of y
bias: boolean, default true; adds a learned vector]],
    returns = "a module; x: (..., in), y: (..., out); weight: (out, in), bias: (out)",
    errors = "in and out must be positive integers; the last axis of x must have size in",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net(rille.ones(5, 3)).shape[2]",
    gives = "2",
    see = "matmul nn.Sequential nn.Int8Linear",
    words = "dense fully connected",
  },
  ["nn.MSELoss"] = {
    sign = 'rille.nn.MSELoss({reduction = "mean"})',
    text = "Computes the mean squared error as a layer.",
    args = 'reduction: "mean" (default), "sum" or "none"',
    returns = "a module; called with two tensors of equal shape",
    errors = "both tensors must have the same shape; reduction must be one of the three words",
    code = "f = rille.nn.MSELoss()",
    shows = "f(rille.ones(2), rille.zeros(2)):item()",
    gives = "1.0",
    see = "mse_loss nn.CrossEntropyLoss",
    words = "loss regression",
  },
  ["nn.MixtureOfExperts"] = {
    sign = "rille.nn.MixtureOfExperts(d, hidden, experts, {top_k = 2})",
    text = [[
Sends each row to the top_k feed-forward experts that a learned router prefers.
No row is dropped: there is no capacity limit. S(0) of the weights distributes the experts.]],
    args = [[
d: integer; size of the last axis
hidden: integer; hidden size of an expert
experts: integer; number of experts
top_k: integer, default 2; experts per row]],
    returns = "a module; x and the result: (..., d)",
    errors = [[
d, hidden and experts must be positive integers; top_k must be from 1 to experts;
the last axis of x must have size d]],
    code = "f = rille.nn.MixtureOfExperts(4, 8, 4)",
    shows = "f(rille.ones(2, 3, 4)).shape[3]",
    gives = "4",
    see = "nn.MixtureOfExperts.balance models.moe",
    words = "moe expert router",
  },
  ["nn.Module"] = {
    sign = "rille.nn.Module:extend(name)",
    text = [[
Is the base class of all layers and models.
Parameters, modules and lists of modules in fields are its parts; init(...) sets them, forward(...) computes.]],
    args = "name: string; name of the new class, for print and messages",
    returns = "a class; calling it makes an object: Net(3)",
    errors = "name must be a string; calling an object of a class without forward",
    code = [[
Net = rille.nn.Module:extend('Net')
function Net:init(d) self.fc = rille.nn.Linear(d, 1) end
function Net:forward(x) return self.fc(x):relu() end
net = Net(3)]],
    shows = "#net(rille.ones(5, 3))",
    gives = "5",
    see = "nn.Module.parameters nn.Parameter nn.Sequential",
    words = "layer custom model class",
  },
  ["nn.MultiheadAttention"] = {
    sign = "rille.nn.MultiheadAttention(d, heads, {is_causal = false, bias = true, kv_heads = heads, rotary =})",
    text = "Applies multi-head attention, with learned projections of queries, keys, values and results.",
    args = [[
d: integer; size of the last axis, divisible by heads
heads: integer
is_causal: boolean, default false; a position sees only itself and earlier ones
bias: boolean, default true; biases of the projections
kv_heads: integer, default heads; heads of keys and values (grouped-query attention)
rotary: an nn.Rotary; position embeddings of queries and keys]],
    returns = "a module; called with q, or q, k, v, and an optional mask; q: (batch, length, d)",
    errors = [[
heads must divide d, and kv_heads must divide heads; q, k and v must have 3 dimensions;
rotary must be an nn.Rotary]],
    code = "f = rille.nn.MultiheadAttention(8, 2, {is_causal = true})",
    shows = "f(rille.ones(2, 3, 8)).shape[3]",
    gives = "8",
    see = "scaled_dot_product_attention nn.TransformerBlock",
    words = "mask gqa transformer",
  },
  ["nn.Parameter"] = {
    is = "tensor",
    sign = "rille.nn.Parameter(t)",
    text = "Makes a tensor a trainable parameter: a leaf that requires a gradient.",
    args = "t: tensor; initial value",
    returns = "a tensor; assigned to a field of a module, it is one of net:parameters()",
    errors = "t must be a tensor of a float dtype",
    code = "w = rille.nn.Parameter(rille.ones(2))",
    shows = "w.requires_grad",
    gives = "true",
    see = "nn.Module.parameters nn.Module.buffer",
    words = "weight trainable",
  },
  ["nn.Positions"] = {
    sign = "rille.nn.Positions(length, d)",
    text = "Adds a learned vector to each position of a sequence.",
    args = [[
length: integer; maximum number of positions
d: integer; size of a vector]],
    returns = "a module; x and the result: (batch, n, d) with n <= length",
    errors = "length and d must be positive integers; x must have at most length positions",
    code = "at = rille.nn.Positions(8, 4)",
    shows = "at(rille.zeros(2, 5, 4)).shape[2]",
    gives = "5",
    see = "nn.Embedding nn.Rotary",
    words = "positional embedding",
  },
  ["nn.RMSNorm"] = {
    sign = "rille.nn.RMSNorm(shape, {eps =, offset = 0})",
    text = "Scales the last axes to root mean square 1, then multiplies by learned values.",
    args = [[
shape: integer, or a list of integers; sizes of the axes
eps: number, default 2^-23; added to the mean of squares
offset: number, default 0; added to the weight]],
    returns = "a module; the result has the shape of x",
    errors = "shape must be at least one positive integer, and the last sizes of x; eps must be 0 or more",
    code = "norm = rille.nn.RMSNorm(4)",
    shows = "('%.3f'):format(norm(rille.full({2, 4}, 3)):mean():item())",
    gives = "1.000",
    see = "rms_norm nn.LayerNorm",
    words = "normalization",
  },
  ["nn.RNN"] = {
    sign = 'rille.nn.RNN(in, hidden, {num_layers = 1, bias = true, dropout = 0, bidirectional = false, nonlinearity = "tanh"})',
    text = [[
Applies a recurrent network with tanh or relu to sequences.
Call it with x and an optional table {h0 =, lengths =}. lengths, a tensor or a table, has the number
of steps of each row: the state stops there, results beyond it are 0, and the reverse direction starts there.
Parameters have PyTorch's names and shapes, so state dicts load.]],
    args = [[
in: integer; size of the last axis of x
hidden: integer; size of the hidden state
num_layers: integer, default 1; layers on top of each other
bias: boolean, default true
dropout: number, default 0; share of values dropped between layers in training
bidirectional: boolean, default false; a second direction, from the last step to the first
nonlinearity: "tanh" (default) or "relu"]],
    returns = [[
a module; x: (batch, length, in)
results: y (batch, length, hidden, or 2 hidden if bidirectional); last h (layers, batch, hidden)]],
    errors = [[
in, hidden and num_layers must be positive integers, dropout from 0 to 1
x must be (batch, length, in) with at least one step, and states (layers, batch, hidden)
lengths must be (batch), each from 0 to the length of x
nonlinearity must be "tanh" or "relu"]],
    code = "f = rille.nn.RNN(3, 4)",
    shows = "f(rille.ones(2, 5, 3), {lengths = {5, 2}}).shape[3]",
    gives = "4",
    see = "nn.RNNCell nn.LSTM",
    words = "recurrent sequence packed elman",
  },
  ["nn.RNNCell"] = {
    sign = 'rille.nn.RNNCell(in, hidden, {bias = true, nonlinearity = "tanh"})',
    text = "Applies one step of a recurrent network with tanh or relu.",
    args = [[
in: integer; size of the last axis of x
hidden: integer; size of the hidden state
bias: boolean, default true
nonlinearity: "tanh" (default) or "relu"]],
    returns = [[
a module; called with x, h, where x: (batch, in), and states (batch, hidden) are optional
result: the next h]],
    errors = [[
in and hidden must be positive integers; nonlinearity must be "tanh" or "relu";
x must be (batch, in), h (batch, hidden)]],
    code = "f = rille.nn.RNNCell(3, 4)",
    shows = "f(rille.ones(2, 3)).shape[2]",
    gives = "4",
    see = "nn.RNN",
    words = "recurrent step",
  },
  ["nn.ReLU"] = {
    sign = "rille.nn.ReLU()",
    text = "Applies the rectified linear unit as a layer.",
    returns = "a module",
    errors = "no argument is accepted; x must be a tensor, not of bools",
    code = "f = rille.nn.ReLU()",
    shows = "f(rille.tensor{-1.0, 2.0}):sum():item()",
    gives = "2.0",
    see = "relu nn.GELU",
    words = "activation",
  },
  ["nn.Rotary"] = {
    sign = "rille.nn.Rotary(length, size, {base = 10000, scaling =, interleaved = false})",
    text = "Holds rotary position embeddings (RoPE) for the option rotary of attention.",
    args = [[
length: integer; maximum number of positions
size: integer, even; elements of a head that are rotated, from the first
base: number, default 10000
scaling: {rope_type = "linear", "dynamic", "llama3", "yarn" or "longrope", and its numbers}, as in config.json
interleaved: boolean, default false; pairs are neighbours, or else elements i and i + size / 2]],
    returns = "an object for nn.MultiheadAttention",
    errors = [[
length must be a positive integer, size even, base positive;
scaling must have a known rope_type and its numbers]],
    code = [[
turn = rille.nn.Rotary(6, 4)
f = rille.nn.MultiheadAttention(8, 2, {rotary = turn})]],
    shows = "f(rille.ones(1, 3, 8)).shape[3]",
    gives = "8",
    see = "nn.MultiheadAttention nn.rotary_tables",
    words = "rope positional",
  },
  ["nn.Sequential"] = {
    sign = "rille.nn.Sequential(module, ...)",
    text = "Applies modules one after the other.",
    args = "module: a module",
    returns = "a module; members are net[1], net[2], ..., and their parameters are named from 0",
    errors = "each argument must be a module; each module must accept the result of the one before",
    code = "net = rille.nn.Sequential(rille.nn.Linear(3, 4), rille.nn.ReLU(), rille.nn.Linear(4, 2))",
    shows = "net(rille.ones(5, 3)).shape[2]",
    gives = "2",
    see = "nn.Module",
    words = "chain layers",
  },
  ["nn.SiLU"] = {
    sign = "rille.nn.SiLU()",
    text = "Applies the sigmoid linear unit (swish) as a layer.",
    returns = "a module",
    errors = "no argument is accepted; x must be a tensor",
    code = "f = rille.nn.SiLU()",
    shows = "f(rille.zeros(2)):sum():item()",
    gives = "0.0",
    see = "silu nn.SwiGLU",
    words = "activation swish",
  },
  ["nn.SwiGLU"] = {
    sign = "rille.nn.SwiGLU(d, hidden, {bias = false})",
    text = "Applies a gated feed-forward layer: down(silu(gate(x)) * up(x)).",
    args = [[
d: integer; size of the last axis
hidden: integer; hidden size
bias: boolean, default false]],
    returns = "a module; x and the result: (..., d)",
    errors = "d and hidden must be positive integers; the last axis of x must have size d",
    code = "f = rille.nn.SwiGLU(4, 8)",
    shows = "f(rille.ones(2, 4)).shape[2]",
    gives = "4",
    see = "nn.SiLU models.llama",
    words = "mlp feedforward",
  },
  ["nn.TransformerBlock"] = {
    sign = "rille.nn.TransformerBlock(d, heads, {hidden = 4 * d, is_causal = true, dropout = 0, approximate =, eps = 1e-5})",
    text = "Applies a transformer block with pre-normalisation: attention, then a feed-forward layer with GELU.",
    args = [[
d: integer; size of the last axis, divisible by heads
heads: integer
hidden: integer, default 4 * d; hidden size of the feed-forward layer
is_causal: boolean, default true; a position sees only itself and earlier ones
dropout: number, default 0
approximate: "tanh" for an approximate GELU
eps: number, default 1e-5; added to the variance in norms]],
    returns = "a module; called with x (batch, length, d) and an optional mask",
    errors = [[
heads must divide d; dropout must be from 0 to 1, eps 0 or more;
x must have 3 dimensions, the last of size d]],
    code = "f = rille.nn.TransformerBlock(8, 2)",
    shows = "f(rille.ones(2, 3, 8)).shape[3]",
    gives = "8",
    see = "nn.MultiheadAttention models.gpt2",
    words = "transformer mask",
  },
  ["nn.init"] = {
    sign = "rille.nn.init",
    text = [[
Has functions that set initial values of parameters in place.
Random values depend on the seed and the position in the tensor, not on the layout.]],
    returns = "a table of functions; names end in _, because they change p in place",
    errors = "a name that the table does not have; the error names the nearest one",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.ones_(net.weight)]],
    shows = "net.weight:sum():item()",
    gives = "6.0",
    see = "manual_seed nn.Parameter",
    words = "initialize weights",
  },
  ["nn.init.constant_"] = {
    sign = "rille.nn.init.constant_(p, value)",
    text = "Fills a parameter with a constant, in place.",
    args = [[
p: tensor
value: number]],
    returns = "p",
    errors = "p must be a tensor and a variable; value must be a number that its dtype can hold",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.constant_(net.bias, 1)]],
    shows = "net.bias:sum():item()",
    gives = "2.0",
    see = "nn.init.zeros_ fill_",
  },
  ["nn.init.kaiming_normal_"] = {
    sign = "rille.nn.init.kaiming_normal_(p)",
    text = "Fills a parameter with normal random values of deviation sqrt(2 / fan_in) (He), in place.",
    args = "p: tensor of two dimensions or more",
    returns = "p",
    errors = "p must be a float variable of at least 2 dimensions",
    code = [[
net = rille.nn.Linear(200, 100)
rille.nn.init.kaiming_normal_(net.weight)]],
    shows = "('%.2f'):format(net.weight:stats().std)",
    gives = "0.10",
    see = "nn.init.kaiming_uniform_",
    words = "he",
  },
  ["nn.init.kaiming_uniform_"] = {
    sign = "rille.nn.init.kaiming_uniform_(p)",
    text = "Fills a parameter with uniform random values of deviation sqrt(2 / fan_in) (He), in place.",
    args = "p: tensor of two dimensions or more",
    returns = "p",
    errors = "p must be a float variable of at least 2 dimensions",
    code = [[
net = rille.nn.Linear(200, 100)
rille.nn.init.kaiming_uniform_(net.weight)]],
    shows = "('%.2f'):format(net.weight:stats().std)",
    gives = "0.10",
    see = "nn.init.kaiming_normal_",
    words = "he",
  },
  ["nn.init.normal_"] = {
    sign = "rille.nn.init.normal_(p, mean = 0, std = 1)",
    text = "Fills a parameter with normal random values, in place.",
    args = [[
p: tensor
mean: number, default 0
std: number, default 1; standard deviation]],
    returns = "p",
    errors = "p must be a float variable; mean must be a number, std a number of 0 or more",
    code = [[
net = rille.nn.Linear(200, 100)
rille.nn.init.normal_(net.weight, 0, 0.02)]],
    shows = "('%.2f'):format(net.weight:stats().std)",
    gives = "0.02",
    see = "randn nn.init.uniform_",
  },
  ["nn.init.ones_"] = {
    sign = "rille.nn.init.ones_(p)",
    text = "Fills a parameter with ones, in place.",
    args = "p: tensor",
    returns = "p",
    errors = "p must be a tensor and a variable",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.ones_(net.bias)]],
    shows = "net.bias:sum():item()",
    gives = "2.0",
    see = "nn.init.constant_",
  },
  ["nn.init.uniform_"] = {
    sign = "rille.nn.init.uniform_(p, a = 0, b = 1)",
    text = "Fills a parameter with uniform random values of [a, b), in place.",
    args = [[
p: tensor
a: number, default 0; lower end
b: number, default 1; upper end]],
    returns = "p",
    errors = "p must be a float variable; a and b must be numbers, a at most b",
    code = [[
net = rille.nn.Linear(200, 100)
rille.nn.init.uniform_(net.weight, -0.1, 0.1)]],
    shows = "net.weight:abs():max():item() < 0.1001",
    gives = "true",
    see = "rand nn.init.normal_",
  },
  ["nn.init.xavier_normal_"] = {
    sign = "rille.nn.init.xavier_normal_(p, gain = 1)",
    text = "Fills a parameter with normal random values of deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot), in place.",
    args = [[
p: tensor of two dimensions or more
gain: number, default 1]],
    returns = "p",
    errors = "p must be a float variable of at least 2 dimensions",
    code = [[
net = rille.nn.Linear(200, 100)
rille.nn.init.xavier_normal_(net.weight)]],
    shows = "('%.2f'):format(net.weight:stats().std)",
    gives = "0.08",
    see = "nn.init.xavier_uniform_",
    words = "glorot",
  },
  ["nn.init.xavier_uniform_"] = {
    sign = "rille.nn.init.xavier_uniform_(p, gain = 1)",
    text = "Fills a parameter with uniform random values of deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot), in place.",
    args = [[
p: tensor of two dimensions or more
gain: number, default 1]],
    returns = "p",
    errors = "p must be a float variable of at least 2 dimensions",
    code = [[
net = rille.nn.Linear(200, 100)
rille.nn.init.xavier_uniform_(net.weight)]],
    shows = "('%.2f'):format(net.weight:stats().std)",
    gives = "0.08",
    see = "nn.init.xavier_normal_",
    words = "glorot",
  },
  ["nn.init.zeros_"] = {
    sign = "rille.nn.init.zeros_(p)",
    text = "Fills a parameter with zeros, in place.",
    args = "p: tensor",
    returns = "p",
    errors = "p must be a tensor and a variable",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.zeros_(net.bias)]],
    shows = "net.bias:sum():item()",
    gives = "0.0",
    see = "nn.init.constant_ zero_",
  },
  ["nn.rotary_tables"] = {
    sign = 'rille.nn.rotary_tables(length, size, {base = 10000, dtype = "f32", placement =, scaling =})',
    text = "Computes the cosine and sine tables of rotary position embeddings.",
    args = [[
length: integer; number of positions
size: integer, even; size of a head
base: number, default 10000
dtype: default "f32"
placement: devices of the tables
scaling: table; scaling of the frequencies, as rope_scaling of a Hugging Face config]],
    returns = "cos and sin, each (length, size / 2), for rille.rotary",
    errors = [[
length must be a positive integer, size even, base positive;
scaling must have a known rope_type and its numbers]],
    code = "cos, sin = rille.nn.rotary_tables(6, 4)",
    shows = "cos.shape[2]",
    gives = "2",
    see = "rotary nn.Rotary",
    words = "rope",
  },
  ["nn.tie"] = {
    sign = "rille.nn.tie(module, name, other, other_name)",
    text = "Makes two parameters one tensor, which is stored and updated once (weight tying).",
    args = [[
module: module that has the parameter
name: string; its field
other: module that gets the same tensor
other_name: string; field of other]],
    returns = "nothing",
    errors = "both must be modules, and the fields tensors of the same shape",
    code = [[
net = rille.nn.Sequential(rille.nn.Linear(3, 3), rille.nn.Linear(3, 3))
rille.nn.tie(net[1], 'weight', net[2], 'weight')]],
    shows = "rawequal(net[1].weight, net[2].weight)",
    gives = "true",
    see = "nn.Module.named_tensors",
    words = "share shared weights",
  },
}
