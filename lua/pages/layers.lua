-- layers.lua - pages of rille.nn: activations, pooling, shapes, and layers of one dimension.

local batch_of_images = "a module; x: (batch, channels, height, width)"
local no_layer_input = "x must be a tensor of a float dtype"

return {
  ["nn.AvgPool2d"] = {
    sign = "rille.nn.AvgPool2d(kernel_size, {stride =, padding = 0, ceil_mode = false, count_include_pad = true})",
    text = "Averages the windows of an image batch.",
    args = [[
kernel_size: integer, or {height, width}
stride: integer or pair, default kernel_size; step between windows
padding: integer or pair, default 0; zeros around the image
ceil_mode: boolean, default false; allow the last window to extend beyond the padding
count_include_pad: boolean, default true; include the padding in means]],
    returns = batch_of_images,
    errors = "x must have 4 dimensions",
    code = "pool = rille.nn.AvgPool2d(2)",
    shows = "pool(rille.ones(1, 1, 4, 4)):sum():item()",
    gives = "4.0",
    see = "avg_pool2d nn.MaxPool2d",
  },
  ["nn.BatchNorm1d"] = {
    sign = "rille.nn.BatchNorm1d(channels, {eps = 1e-5, momentum = 0.1})",
    text = [[
Normalises each channel of a batch of vectors or sequences by its mean and variance.
Training uses the statistics of the batch, over all devices; eval() uses running ones, which are buffers.]],
    args = [[
channels: integer; channels of x
eps: number, default 1e-5; added to the variance
momentum: number, default 0.1; share of the new value in the running statistics]],
    returns = "a module; x and the result: (batch, channels) or (batch, channels, length)",
    errors = "x must have 2 or 3 dimensions",
    code = "norm = rille.nn.BatchNorm1d(3)",
    shows = "norm(rille.randn(4, 3)).shape[2]",
    gives = "3",
    see = "nn.BatchNorm2d nn.LayerNorm",
  },
  ["nn.Conv1d"] = {
    sign = "rille.nn.Conv1d(in, out, kernel_size, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true})",
    text = "Convolves a batch of sequences with learned kernels, and adds a learned bias.",
    args = [[
in: integer; channels of x
out: integer; channels of the result
kernel_size: integer
stride: integer, default 1; step between windows
padding: integer, default 0; zeros before and after the sequence
dilation: integer, default 1; distance between entries of a window
groups: integer, default 1; must divide in and out
bias: boolean, default true]],
    returns = "a module; x: (batch, in, length); weight: (out, in / groups, k), bias: (out)",
    errors = "x must have 3 dimensions",
    code = "conv = rille.nn.Conv1d(3, 8, 3, {padding = 1})",
    shows = "conv(rille.ones(2, 3, 6)).shape[2]",
    gives = "8",
    see = "nn.Conv2d",
  },
  ["nn.ELU"] = {
    sign = "rille.nn.ELU(alpha = 1)",
    text = "Applies the exponential linear unit: x where x > 0, else alpha (e^x - 1).",
    args = "alpha: number, default 1; minus the limit for small x",
    returns = "a module",
    errors = no_layer_input,
    code = "f = rille.nn.ELU()",
    shows = "f(rille.tensor{0.0, 2.0}):sum():item()",
    gives = "2.0",
    see = "nn.LeakyReLU nn.ReLU",
  },
  ["nn.Flatten"] = {
    sign = "rille.nn.Flatten(first = 1, last = -1)",
    text = "Joins neighbouring axes of x to one axis.",
    args = [[
first: integer, default 1; first of the joined axes
last: integer, default -1; last of the joined axes]],
    returns = "a module; by default x: (batch, ...), result: (batch, n)",
    errors = "first and last must be axes of x, in this order",
    code = "flat = rille.nn.Flatten()",
    shows = "flat(rille.ones(2, 3, 4)).shape[2]",
    gives = "12",
    see = "reshape",
  },
  ["nn.GroupNorm"] = {
    sign = "rille.nn.GroupNorm(groups, channels, {eps = 1e-5})",
    text = "Normalises groups of channels of each entry of a batch by their mean and variance.",
    args = [[
groups: integer; must divide channels
channels: integer; channels of x
eps: number, default 1e-5; added to the variance]],
    returns = "a module; x and the result: (batch, channels, ...); weight, bias: (channels)",
    errors = "x must have the number of channels",
    code = "norm = rille.nn.GroupNorm(2, 4)",
    shows = "norm(rille.randn(2, 4, 3, 3)).shape[2]",
    gives = "4",
    see = "nn.BatchNorm2d nn.LayerNorm",
  },
  ["nn.Identity"] = {
    sign = "rille.nn.Identity()",
    text = "Returns its input.",
    returns = "a module",
    errors = "x must be a tensor",
    code = "same = rille.nn.Identity()",
    shows = "same(rille.ones(2)):sum():item()",
    gives = "2.0",
    see = "nn.Sequential",
  },
  ["nn.LeakyReLU"] = {
    sign = "rille.nn.LeakyReLU(slope = 0.01)",
    text = "Applies the leaky rectified linear unit: x where x > 0, else slope x.",
    args = "slope: number, default 0.01; slope of the negative part",
    returns = "a module",
    errors = no_layer_input,
    code = "f = rille.nn.LeakyReLU(0.5)",
    shows = "f(rille.tensor{-2.0, 2.0}):sum():item()",
    gives = "1.0",
    see = "nn.ReLU nn.ELU",
  },
  ["nn.LogSoftmax"] = {
    sign = "rille.nn.LogSoftmax(axis = -1)",
    text = "Applies the logarithm of softmax as a layer.",
    args = "axis: integer, default -1; axis of the classes",
    returns = "a module",
    errors = "axis must be an axis of x",
    code = "f = rille.nn.LogSoftmax()",
    shows = "('%.3f'):format(f(rille.zeros(2, 4))[{0, 0}]:item())",
    gives = "-1.386",
    see = "log_softmax nn.Softmax",
  },
  ["nn.MaxPool2d"] = {
    sign = "rille.nn.MaxPool2d(kernel_size, {stride =, padding = 0, dilation = 1, ceil_mode = false})",
    text = "Takes the maximum of the windows of an image batch.",
    args = [[
kernel_size: integer, or {height, width}
stride: integer or pair, default kernel_size; step between windows
padding: integer or pair, default 0; entries around the image, which never are the maximum
dilation: integer or pair, default 1; distance between entries of a window
ceil_mode: boolean, default false; allow the last window to extend beyond the padding]],
    returns = batch_of_images,
    errors = "x must have 4 dimensions",
    code = "pool = rille.nn.MaxPool2d(2)",
    shows = "pool(rille.ones(1, 1, 4, 4)):sum():item()",
    gives = "4.0",
    see = "max_pool2d nn.AvgPool2d",
  },
  ["nn.Sigmoid"] = {
    sign = "rille.nn.Sigmoid()",
    text = "Applies 1 / (1 + e^-x) as a layer.",
    returns = "a module",
    errors = no_layer_input,
    code = "f = rille.nn.Sigmoid()",
    shows = "f(rille.zeros(2)):sum():item()",
    gives = "1.0",
    see = "sigmoid nn.Tanh",
  },
  ["nn.Softmax"] = {
    sign = "rille.nn.Softmax(axis = -1)",
    text = "Applies softmax as a layer.",
    args = "axis: integer, default -1; axis of the classes",
    returns = "a module; along the axis, the results sum to 1",
    errors = "axis must be an axis of x",
    code = "f = rille.nn.Softmax()",
    shows = "f(rille.ones(3, 2)):sum():item()",
    gives = "3.0",
    see = "softmax nn.LogSoftmax",
  },
  ["nn.Softplus"] = {
    sign = "rille.nn.Softplus()",
    text = "Applies log(1 + e^x) as a layer.",
    returns = "a module",
    errors = no_layer_input,
    code = "f = rille.nn.Softplus()",
    shows = "f(rille.zeros(2)):exp():sum():item() - 4 < 1e-5",
    gives = "true",
    see = "softplus nn.ReLU",
  },
  ["nn.Tanh"] = {
    sign = "rille.nn.Tanh()",
    text = "Applies the hyperbolic tangent as a layer.",
    returns = "a module",
    errors = no_layer_input,
    code = "f = rille.nn.Tanh()",
    shows = "f(rille.zeros(2)):sum():item()",
    gives = "0.0",
    see = "tanh nn.Sigmoid",
  },
  ["nn.Upsample"] = {
    sign = "rille.nn.Upsample(scale)",
    text = "Repeats each pixel of an image batch in both directions (nearest neighbour).",
    args = "scale: integer; number of repetitions",
    returns = "a module; x: (batch, channels, h, w), result: (batch, channels, scale h, scale w)",
    errors = "x must have 4 dimensions",
    code = "up = rille.nn.Upsample(2)",
    shows = "up(rille.ones(1, 1, 2, 2)):sum():item()",
    gives = "16.0",
    see = "nn.Conv2d expand",
  },
}
