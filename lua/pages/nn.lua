-- nn.lua - pages of rille.nn.

return {
  nn = {
    sign = "rille.nn",
    text = 'Module, Linear, Embedding, LayerNorm, ...: rille.nn.Module:extend("Net")',
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net(rille.ones(5, 3)).shape[1]",
    gives = "5",
  },
  ["nn.BatchNorm2d"] = {
    sign = "rille.nn.BatchNorm2d(channels, {eps = 1e-5, momentum = 0.1})",
    text = "Normalises each channel; while training by the batch, whatever its layout, in eval() by running values.",
    code = "norm = rille.nn.BatchNorm2d(3)",
    shows = "norm(rille.randn(4, 3, 5, 5)).shape[2]",
    gives = "3",
  },
  ["nn.Conv2d"] = {
    sign = "rille.nn.Conv2d(in, out, kernel_size, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true})",
    text = "2-D convolution; x: (batch, in, h, w), weight: (out, in / groups, kh, kw).",
    code = "conv = rille.nn.Conv2d(3, 8, 3, {padding = 1})",
    shows = "conv(rille.ones(2, 3, 6, 6)).shape[2]",
    gives = "8",
  },
  ["nn.CrossEntropyLoss"] = {
    sign = 'rille.nn.CrossEntropyLoss({reduction = "mean", ignore_index =, label_smoothing = 0})',
    text = "The loss of a classifier, as rille.cross_entropy.",
    code = "f = rille.nn.CrossEntropyLoss()",
    shows = "f(rille.zeros(2, 1), rille.zeros({2}, {dtype = 'i64'})):item()",
    gives = "0.0",
  },
  ["nn.Dropout"] = {
    sign = "rille.nn.Dropout(p = 0.5)",
    text = "While training, sets a share p of the values to 0 and scales the rest by 1 / (1 - p).",
    code = "drop = rille.nn.Dropout(0.5):eval()",
    shows = "drop(rille.ones(4)):sum():item()",
    gives = "4.0",
  },
  ["nn.Embedding"] = {
    sign = "rille.nn.Embedding(n, d, {std = 1})",
    text = "A table of n vectors of size d, looked up by number; ids: (...), y: (..., d).",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
table_of = rille.nn.Embedding(10, 4)]],
    shows = "table_of(ids).shape[3]",
    gives = "4",
  },
  ["nn.GELU"] = {
    sign = 'rille.nn.GELU({approximate = "tanh"})',
    text = "x Phi(x): exact without the option.",
    code = "f = rille.nn.GELU()",
    shows = "f(rille.zeros(2)):sum():item()",
    gives = "0.0",
  },
  ["nn.Int8Experts"] = {
    sign = "rille.nn.Int8Experts(mixture)",
    text = "What nn.MixtureOfExperts gives, with a byte a weight of its experts, for inference.",
    code = "small = rille.nn.Int8Experts(rille.nn.MixtureOfExperts(4, 8, 4))",
    shows = "small.up.dtype",
    gives = "u8",
  },
  ["nn.Int8Linear"] = {
    sign = "rille.nn.Int8Linear(linear)",
    text = "The same product with a byte a weight, for inference.",
    code = [[
net = rille.nn.Linear(3, 2)
small = rille.nn.Int8Linear(net)]],
    shows = "small.weight.dtype",
    gives = "u8",
  },
  ["nn.LayerNorm"] = {
    sign = "rille.nn.LayerNorm(shape, {eps = 1e-5, bias = true, offset = 0})",
    text = "(x - mean) / sqrt(variance + eps) * (weight + offset) + bias over the last axes.",
    code = "norm = rille.nn.LayerNorm(4)",
    shows = "norm(rille.ones(2, 4)):sum():item()",
    gives = "0.0",
  },
  ["nn.Linear"] = {
    sign = "rille.nn.Linear(in, out, {bias = true})",
    text = "y = x w^T + b; x: (..., in), w: (out, in), b: (out).",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net(rille.ones(5, 3)).shape[2]",
    gives = "2",
  },
  ["nn.MSELoss"] = {
    sign = 'rille.nn.MSELoss({reduction = "mean"})',
    text = "The mean of squared differences, as rille.mse_loss.",
    code = "f = rille.nn.MSELoss()",
    shows = "f(rille.ones(2), rille.zeros(2)):item()",
    gives = "1.0",
  },
  ["nn.MixtureOfExperts"] = {
    sign = "rille.nn.MixtureOfExperts(d, hidden, experts, {top_k = 2})",
    text = "Each entry goes to the top_k experts that its router prefers; none is dropped.",
    code = "f = rille.nn.MixtureOfExperts(4, 8, 4)",
    shows = "f(rille.ones(2, 3, 4)).shape[3]",
    gives = "4",
  },
  ["nn.Module"] = {
    sign = "rille.nn.Module:extend(name)",
    text = [[
A class of modules, with methods init(...) and forward(...). Tensors, modules and lists of them that are
fields are its parts.]],
    code = [[
Net = rille.nn.Module:extend('Net')
function Net:init(d) self.fc = rille.nn.Linear(d, 1) end
function Net:forward(x) return self.fc(x):relu() end
net = Net(3)]],
    shows = "#net(rille.ones(5, 3))",
    gives = "5",
  },
  ["nn.MultiheadAttention"] = {
    sign = "rille.nn.MultiheadAttention(d, heads, {is_causal = false, bias = true, kv_heads = heads, rotary =})",
    text = "Attention with several heads; q, k, v: (batch, length, d), k and v are q where they are not given.",
    code = "f = rille.nn.MultiheadAttention(8, 2, {is_causal = true})",
    shows = "f(rille.ones(2, 3, 8)).shape[3]",
    gives = "8",
  },
  ["nn.Parameter"] = {
    is = "tensor",
    sign = "rille.nn.Parameter(t)",
    text = "A leaf with the value of t that gradients are computed for: what a module trains.",
    code = "w = rille.nn.Parameter(rille.ones(2))",
    shows = "w.requires_grad",
    gives = "true",
  },
  ["nn.Positions"] = {
    sign = "rille.nn.Positions(length, d)",
    text = "Adds a learned vector for each position; x: (batch, n, d), n <= length.",
    code = "at = rille.nn.Positions(8, 4)",
    shows = "at(rille.zeros(2, 5, 4)).shape[2]",
    gives = "5",
  },
  ["nn.RMSNorm"] = {
    sign = "rille.nn.RMSNorm(shape, {eps =, offset = 0})",
    text = "x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axes.",
    code = "norm = rille.nn.RMSNorm(4)",
    shows = "norm(rille.zeros(2, 4)):sum():item()",
    gives = "0.0",
  },
  ["nn.ReLU"] = {
    sign = "rille.nn.ReLU()",
    text = "max(x, 0)",
    code = "f = rille.nn.ReLU()",
    shows = "f(rille.tensor{-1.0, 2.0}):sum():item()",
    gives = "2.0",
  },
  ["nn.Rotary"] = {
    sign = "rille.nn.Rotary(length, size, {base = 10000, scaling =, interleaved = false})",
    text = [[
Rotary position embedding: rotates queries and keys of attention by their positions; an option of nn.MultiheadAttention.
size: rotated elements of a head, from its first. interleaved: pairs are neighbours; false: element i and i + size / 2.
scaling: {rope_type = "linear", "dynamic", "llama3", "yarn" or "longrope", and its numbers, as in config.json}.]],
    code = [[
turn = rille.nn.Rotary(6, 4)
f = rille.nn.MultiheadAttention(8, 2, {rotary = turn})]],
    shows = "f(rille.ones(1, 3, 8)).shape[3]",
    gives = "8",
  },
  ["nn.Sequential"] = {
    sign = "rille.nn.Sequential(module, ...)",
    text = "Modules one after the other; members are net[1], net[2], ..., and count from 0 in names.",
    code = "net = rille.nn.Sequential(rille.nn.Linear(3, 4), rille.nn.ReLU(), rille.nn.Linear(4, 2))",
    shows = "net(rille.ones(5, 3)).shape[2]",
    gives = "2",
  },
  ["nn.SiLU"] = {
    sign = "rille.nn.SiLU()",
    text = "x sigmoid(x)",
    code = "f = rille.nn.SiLU()",
    shows = "f(rille.zeros(2)):sum():item()",
    gives = "0.0",
  },
  ["nn.SwiGLU"] = {
    sign = "rille.nn.SwiGLU(d, hidden, {bias = false})",
    text = "A gated feed-forward layer: down(silu(gate(x)) * up(x)).",
    code = "f = rille.nn.SwiGLU(4, 8)",
    shows = "f(rille.ones(2, 4)).shape[2]",
    gives = "4",
  },
  ["nn.TransformerBlock"] = {
    sign = "rille.nn.TransformerBlock(d, heads, {hidden = 4 * d, is_causal = true, dropout = 0, ...})",
    text = "x + attention(norm(x)), then x + feed-forward(norm(x)).",
    code = "f = rille.nn.TransformerBlock(8, 2)",
    shows = "f(rille.ones(2, 3, 8)).shape[3]",
    gives = "8",
  },
  ["nn.init"] = {
    sign = "rille.nn.init",
    text = "New values for parameters, in place; what is drawn depends on the seed and the position, not on the layout.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.ones_(net.weight)]],
    shows = "net.weight:sum():item()",
    gives = "6.0",
  },
  ["nn.init.constant_"] = {
    sign = "rille.nn.init.constant_(p, value)",
    text = "New values of a parameter, in place: a value.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.constant_(net.weight, 1)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.kaiming_normal_"] = {
    sign = "rille.nn.init.kaiming_normal_(p)",
    text = "New values of a parameter, in place: He's normal one.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.kaiming_normal_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.kaiming_uniform_"] = {
    sign = "rille.nn.init.kaiming_uniform_(p)",
    text = "New values of a parameter, in place: He's uniform one.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.kaiming_uniform_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.normal_"] = {
    sign = "rille.nn.init.normal_(p, mean = 0, std = 1)",
    text = "New values of a parameter, in place: a normal distribution, by mean and deviation.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.normal_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.ones_"] = {
    sign = "rille.nn.init.ones_(p)",
    text = "New values of a parameter, in place: 1.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.ones_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.uniform_"] = {
    sign = "rille.nn.init.uniform_(p, a = 0, b = 1)",
    text = "New values of a parameter, in place: a uniform one, between two ends.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.uniform_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.xavier_normal_"] = {
    sign = "rille.nn.init.xavier_normal_(p, gain = 1)",
    text = "New values of a parameter, in place: Glorot's normal one.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.xavier_normal_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.xavier_uniform_"] = {
    sign = "rille.nn.init.xavier_uniform_(p, gain = 1)",
    text = "New values of a parameter, in place: Glorot's uniform one.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.xavier_uniform_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.init.zeros_"] = {
    sign = "rille.nn.init.zeros_(p)",
    text = "New values of a parameter, in place: 0.",
    code = [[
net = rille.nn.Linear(3, 2)
rille.nn.init.zeros_(net.weight)]],
    shows = "net.weight:stats().nan",
    gives = "0",
  },
  ["nn.rotary_tables"] = {
    sign = 'rille.nn.rotary_tables(length, size, {base = 10000, dtype = "f32", placement =, ...})',
    text = "cos and sin of position * frequency, each (length, size / 2), for rille.rotary.",
    code = "cos, sin = rille.nn.rotary_tables(6, 4)",
    shows = "cos.shape[2]",
    gives = "2",
  },
  ["nn.tie"] = {
    sign = "rille.nn.tie(module, name, other, name)",
    text = "One tensor under two names: other has what module has; it is stored and updated once.",
    code = [[
net = rille.nn.Sequential(rille.nn.Linear(3, 3), rille.nn.Linear(3, 3))
rille.nn.tie(net[1], 'weight', net[2], 'weight')]],
    shows = "rawequal(net[1].weight, net[2].weight)",
    gives = "true",
  },
}
