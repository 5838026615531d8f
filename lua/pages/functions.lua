-- functions.lua - pages of functions that create tensors, differentiate, and ask about the program.

local OPTIONS = ", {dtype =, placement =, sbp =, requires_grad =, name =}"

return {
  arange = {
    sign = "rille.arange(n" .. OPTIONS .. "), rille.arange(a, b, step = 1" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor of numbers from a up to b (excluded) with a fixed step.",
    args = [[
n: number; the same as arange(0, n)
a: number; first value
b: number; end, excluded
step: number, default 1; must lead from a to b]],
    returns = "a tensor of one axis; i64 if the numbers are integers",
    errors = "the bounds must be numbers; step must not be 0, and must lead from a to b",
    shows = "rille.arange(5):sum():item()",
    gives = "10",
    see = "linspace",
    words = "range sequence",
  },
  cat = {
    sign = "rille.cat({x, ...}, axis)",
    text = "Joins a list of tensors along an existing axis; another name of concat.",
    args = "axis: integer, default 0",
    returns = "a tensor",
    errors = "the tensors must have equal sizes except along axis, and be on one placement",
    shows = "#rille.cat({rille.ones(2), rille.ones(3)}, 0)",
    gives = "5",
    see = "concat stack",
    words = "concatenate",
  },
  chunk = {
    sign = "chunk(x, n, axis = 0, {strategy =})",
    text = "Cuts a tensor into at most n pieces of equal size along an axis; the last may be smaller.",
    args = [[
n: integer; number of pieces
axis: integer, default 0
strategy: {{2, 1}}; number of shards per axis of x, for each slice]],
    returns = "a list of tensors",
    errors = "n must be an integer from 1 to 2^20; axis must be a dimension of x",
    shows = "#rille.ones(5):chunk(2)",
    gives = "2",
    see = "split slice concat",
  },
  clock = {
    sign = "rille.clock()",
    text = [[
Returns the time in seconds, for measuring.
A step may return before its work is done: call rille.eval before taking the time.]],
    returns = "a number; the starting point is arbitrary",
    errors = "no argument is accepted",
    shows = "rille.clock() > 0",
    gives = "true",
    see = "eval graph.stats train.progress",
    words = "time benchmark measure timer slow",
  },
  counters = {
    sign = "rille.counters()",
    text = "Counts what the program has done so far: compilations, cache hits, runs, messages.",
    returns = "a table of integers: nodes, compiles, cache_hits, runs, acts, messages, ...",
    errors = "no argument is accepted",
    code = [[
step = rille.graph(function(x) return x:sum() end)
step(rille.ones(2)):item()
before = rille.counters().compiles
step(rille.ones(2)):item()]],
    shows = "rille.counters().compiles - before",
    gives = "0",
    see = "graph.stats",
    words = "statistics compile cache profile",
  },
  detect_nan = {
    sign = "rille.detect_nan(on)",
    text = [[
Makes the first NaN, or the first infinity that no operand has, an error with the operator and its line.
One compiled step does the same with rille.graph(fn, {check = "nan"}).
Operators are not fused while the setting is on.]],
    args = "on: boolean, optional; without it nothing changes",
    returns = "the previous setting; false at the start",
    errors = "on must be a boolean; while the setting is on, a NaN fails the operator that made it",
    code = [[
was = rille.detect_nan(true)
good, why = pcall(function() return rille.tensor{-1.0}:log():item() end)
rille.detect_nan(false)]],
    shows = "why:match('log: .* is NaN')",
    gives = "log: element 0 is NaN",
    see = "stats graph optim.clip_grad_norm",
    words = "nan inf infinite anomaly overflow debug explode exploding",
  },
  empty = {
    sign = "rille.empty(shape" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor with unset values.",
    args = "shape: list of integers, or the integers themselves",
    returns = "a tensor",
    errors = "a size must be an integer of 0 or more; there may be at most 8",
    shows = "rille.empty(2, 3):numel()",
    gives = "6",
    see = "zeros",
    words = "uninitialized allocate",
  },
  enable_grad = {
    sign = "rille.enable_grad(fn, ...)",
    text = "Calls a function with gradients recorded, also inside rille.no_grad and inside backward of rille.func.",
    args = [[
fn: function
...: its arguments]],
    returns = "the results of fn",
    errors = "fn must be a function; its errors pass through",
    code = "w = rille.ones({1}, {requires_grad = true})",
    shows = "rille.no_grad(rille.enable_grad, function() return (w * 2).requires_grad end)",
    gives = "true",
    see = "no_grad grad func",
    words = "gradient",
  },
  eval = {
    sign = "rille.eval(x, ...)",
    text = [[
Computes tensors now, in one run, and waits until their values are complete.
Operators are lazy: without eval, the first read of a value computes it. Use eval to time a computation.]],
    args = "x, ...: tensors; those that have values already cost nothing",
    returns = "the same tensors",
    errors = "errors of the computation, with the line of the operator; not while rille.graph traces a step",
    shows = "rille.eval(rille.ones(3) + 1):sum():item()",
    gives = "6.0",
    see = "item clock counters",
    words = "force compute materialize run lazy synchronize block_until_ready evaluate",
  },
  eye = {
    sign = "rille.eye(n, m = n" .. OPTIONS .. ")",
    options = true,
    text = "Makes a matrix with ones on the diagonal.",
    args = [[
n: integer; rows
m: integer, default n; columns]],
    returns = "a tensor",
    errors = "n and m must be integers of 0 or more",
    shows = "rille.eye(3):sum():item()",
    gives = "3.0",
    see = "zeros",
    words = "identity diagonal",
  },
  floor_divide = {
    sign = "a // b",
    text = "Divides and rounds down to an integer, as Lua's // does.",
    shows = "(rille.tensor(7) // 2):item()",
    gives = "3.0",
    see = "div remainder",
  },
  full = {
    sign = "rille.full(shape, value" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor filled with one value.",
    args = [[
shape: list of integers
value: number]],
    returns = "a tensor",
    errors = [[
a size must be an integer of 0 or more; there may be at most 8;
value must be a number that the dtype can hold]],
    shows = "rille.full({2, 2}, 0.5):sum():item()",
    gives = "2.0",
    see = "zeros ones fill_",
    words = "constant fill",
  },
  func = {
    sign = "rille.func{forward =, backward =, name =}",
    text = [[
Makes a function with a gradient of its own, like torch.autograd.Function.
forward(ctx, ...) computes results, without recording gradients. backward(ctx, ...) gets the gradient of
each result, and returns a gradient for each argument of forward; nil: none. It runs once, when the
gradients of all results are known.
ctx:save_for_backward(...) keeps tensors, which backward finds in ctx.saved_tensors. Other values may be
assigned to fields of ctx.
ctx.needs_input_grad[i] tells whether argument i requires a gradient.
In rille.per_rank, arguments and gradients are local tensors.
Both functions call operators, so layouts, pipeline stages, micro-batches and compiled steps work as in
other code.]],
    args = [[
forward: function(ctx, ...)
backward: function(ctx, ...)
name: string, default the place of forward; for messages and plans]],
    returns = "a function of forward's arguments after ctx",
    errors = "a gradient must have the shape of its argument; tensors with gradients must not be inside tables",
    code = [[
double = rille.func{
  forward = function(ctx, x) return x * 2 end,
  backward = function(ctx, dy) return dy * 5 end}
x = rille.ones({2}, {requires_grad = true})
double(x):sum():backward()]],
    shows = "x.grad:sum():item()",
    gives = "10.0",
    see = "operator enable_grad register_hook grad detach",
    words = "custom gradient autograd function backward vjp straight-through",
  },
  grad = {
    is = "tensor",
    sign = "rille.grad(y, xs)",
    text = [[
Computes the gradients of y with respect to a list of tensors, and returns them.
The gradients can be differentiated again. Unlike backward(), it leaves x.grad as it is.]],
    args = [[
y: tensor of one element
xs: list of tensors with requires_grad]],
    returns = "a tensor per entry of xs, as several results",
    errors = "y must have one element and depend on a tensor that requires a gradient; each of xs must require one",
    code = "x = rille.tensor(3.0, {requires_grad = true})",
    shows = "rille.grad((x * x):sum(), {x}):item()",
    gives = "6.0",
    see = "backward no_grad",
    words = "gradient derivative autograd",
  },
  help = {
    sign = "rille.help(name)",
    text = [[
Prints the help page of a name; without a name, the list of names.
In the shell ?name does the same. ?learning rate or ?all-reduce searches by words, also misspelt ones.]],
    args = 'name: string, optional; a name, words to search for, or a pattern such as "*norm*"',
    returns = "nothing",
    errors = "no page has the name or the words; the error names the nearest page",
    shows = "rille.help('exp')",
    gives = "nil",
    see = "page operators",
    words = "manual documentation",
  },
  is_terminal = {
    sign = "rille.is_terminal(fd)",
    text = "Returns true if a file descriptor is a terminal.",
    args = "fd: integer; 0, 1 and 2 are stdin, stdout and stderr",
    returns = "boolean",
    errors = "fd must be an integer",
    shows = "type(rille.is_terminal(1))",
    gives = "boolean",
    see = "train.progress",
  },
  linspace = {
    sign = "rille.linspace(a, b, n" .. OPTIONS .. ")",
    options = true,
    text = "Makes n equally spaced numbers from a to b, both included.",
    args = [[
a: number; first value
b: number; last value
n: integer; number of values]],
    returns = "a tensor of one axis",
    errors = "a and b must be numbers; n must be an integer of 0 or more",
    shows = "rille.linspace(0, 1, 3)[1]:item()",
    gives = "0.5",
    see = "arange",
    words = "range",
  },
  live = {
    sign = "rille.live(fn)",
    text = [[
Makes a number that a compiled step reads again before each call, by calling fn.
+ - * / // % ^ of live numbers give live numbers. They cannot be compared: < is an error, and == is always false.]],
    args = "fn: function without arguments that returns a number",
    returns = "a live number, for use in rille.graph",
    errors = "fn must be a function that returns a number; it must not change values that the step reads",
    code = [[
k = 3
step = rille.graph(function(x) return x * rille.live(function() return k end) end)
step(rille.ones(2))
k = 5]],
    shows = "step(rille.ones(2)):sum():item()",
    gives = "10.0",
    see = "graph item",
    words = "constant scalar value",
  },
  manual_seed = {
    sign = "rille.manual_seed(n)",
    text = [[
Seeds the random numbers, so that a program draws the same values again.
Random values depend on the seed and the position in the tensor, not on the layout, the number of devices or
micro-batches. In rille.per_micro_batch, each micro-batch draws for itself.]],
    args = "n: integer",
    returns = "nothing",
    errors = "n must be an integer",
    code = [[
rille.manual_seed(1)
a = rille.rand(1):item()
rille.manual_seed(1)]],
    shows = "rille.rand(1):item() == a",
    gives = "true",
    see = "rand randn nn.init",
    words = "random reproducible deterministic",
  },
  newaxis = {
    sign = "rille.newaxis",
    text = "Stands for a new axis of size 1 in a key of a tensor, x[{rille.newaxis, 1}].",
    returns = "a constant",
    errors = "a key must have at most one entry per axis of x, besides newaxis",
    shows = "rille.ones(3)[{rille.newaxis}].ndim",
    gives = "2",
    see = "index unsqueeze",
    words = "None dimension unsqueeze",
  },
  per_micro_batch = {
    sign = "rille.per_micro_batch(fn, ...)",
    text = [[
Calls a function whose calls may combine the rows of one micro-batch, in a step compiled with micro_batches.
Without it, a call that combines rows of the batch (a softmax along axis 0, a product of a batch with itself) is an
error in such a step, because a micro-batch has only a part of the rows. Numbers that fn computes from x.shape[1]
are those of the micro-batch. Batch norm uses this function. Outside such a step it only calls fn.]],
    args = [[
fn: function
...: its arguments]],
    returns = "the results of fn. A tensor with as many rows as the micro-batch is joined over the micro-batches; any other result that combines rows counts as the mean over the micro-batches",
    errors = "fn must be a function; its errors pass through",
    code = [[
step = rille.graph(function(x)
  return rille.per_micro_batch(function() return (x - x:mean(0)):square():mean() end)
end, {micro_batches = 2})]],
    shows = "step(rille.tensor{{1}, {3}, {4}, {8}}):item()",
    gives = "2.5",
    see = "graph nn.BatchNorm2d",
    words = "micro-batch batch statistics contrastive accumulation",
  },
  no_grad = {
    sign = "rille.no_grad(fn, ...)",
    text = "Calls a function without recording operations for gradients.",
    args = [[
fn: function
...: its arguments]],
    returns = "the results of fn",
    errors = "fn must be a function; its errors pass through",
    code = "w = rille.ones({1}, {requires_grad = true})",
    shows = "rille.no_grad(function() return (w * 2).requires_grad end)",
    gives = "false",
    see = "enable_grad detach grad nn.Module.eval",
    words = "inference evaluate gradient",
  },
  ones = {
    sign = "rille.ones(shape" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor filled with ones.",
    args = "shape: list of integers, or the integers themselves",
    returns = "a tensor",
    errors = "a size must be an integer of 0 or more; there may be at most 8",
    shows = "rille.ones(2, 3):sum():item()",
    gives = "6.0",
    see = "zeros full",
  },
  operator = {
    sign = "rille.operator{name =, rule =, forward =, backward =, sizes = {}, args = {}, exact = true, operands = \"x\", body =}",
    text = [[
Makes an operator from a rule and from functions as for rille.func; the rule is checked.
The rule names the dimensions of operands and results: "ab,bc->ac" is a matrix product. Each letter claims
that operands may be split along it without communication. Then the result is split along it, too; if no
result has the letter, a sum over the ranks is pending. "[b]" is a dimension that must not be split.
Registration checks each claim on small tensors: shards must make up the whole, for results and for
gradients, and the layouts of forward's operators must be the claimed ones. The gradients must be those of
central differences. Each call checks the sizes.
With a body, the operator is element-wise: the body is a formula of the operands, of element-wise operators and of
numbers. Layouts and gradient follow from the formula, and devices compute it in one pass.]],
    args = [[
name: string; for messages and plans
rule: string
forward: function(ctx, ...); the operands come first
backward: function(ctx, ...)
sizes: table {b = 16}, default even numbers from 4; sizes of letters for the check
args: list, default {}; arguments after the operands, for the check
exact: boolean, default true; false: backward is not the derivative, as of a straight-through estimator
operands: string, default "x"; the names of the operands, separated by commas
body: string such as "x / (1 + abs(x))" or "where(gt(x, 0), x, slope * x)"]],
    returns = "a function of forward's arguments after ctx",
    errors = [[
a claim that does not hold: the letter, and what differs
a gradient that differs from central differences, with both values
a name in the body that is not an operand, an element-wise operator, pi or inf]],
    code = [[
scale = rille.operator{name = "scale", rule = "ab,b->ab",
  forward = function(ctx, x, s) ctx:save_for_backward(x, s) return x * s end,
  backward = function(ctx, dy)
    local x, s = table.unpack(ctx.saved_tensors)
    return dy * s, (dy * x):sum(0)
  end}]],
    shows = "scale(rille.ones(2, 3), rille.ones(3)):sum():item()",
    gives = "6.0",
    see = "func explain operators",
    words = "custom operator signature sbp rule register library",
  },
  load_operators = {
    sign = "rille.load_operators(path)",
    text = [[
Loads operators from a shared library that you wrote in C or C++.
Then rille.NAME(x), x:NAME() and the page ?NAME exist, and gradients, compiled steps, plans, pipelines and
recomputation treat the operator like a built-in one. The record in the library has a dimension rule, such as
"ab,bc->ac". On its samples, each layout that the rule allows must give the result of one device, and each
gradient must equal a difference quotient. rille_operator.h documents the record; examples/plugin is a library.
Devices of kind cuda cannot compute loaded operators. Processes of a cluster each load the libraries that the
environment variable RILLE_OPERATORS=path:path names.]],
    args = "path: string; a name without '/' is a file of the current folder",
    returns = "nothing; a library that is loaded already is not loaded again",
    errors = [[
a file that is no such library; another interface version, with both versions; a name that exists;
a wrong record: the field, or the sample with the layouts, the operand or the element that is wrong]],
    shows = "(pcall(rille.load_operators, 'missing.so'))",
    gives = "false",
    see = "operator operators",
    words = "plugin plug-in extension native custom kernel c++ shared dlopen so dynamic",
  },
  operators = {
    sign = "rille.operators()",
    text = "Lists the names of all operators.",
    returns = "a list of strings: built-in operators, sorted, then loaded ones",
    errors = "no argument is accepted",
    shows = "rille.operators()[1]",
    gives = "abs",
    see = "help",
  },
  page = {
    sign = "rille.page(name)",
    text = "Returns the help page of a name as a string.",
    args = "name: string; a name that rille.help accepts",
    returns = "a string",
    errors = "an unknown name; the error has the nearest one",
    shows = "rille.page('exp'):match('^exp')",
    gives = "exp",
    see = "help",
  },
  rand = {
    sign = "rille.rand(shape" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor of uniform random numbers in [0, 1).",
    args = "shape: list of integers, or the integers themselves",
    returns = "a tensor",
    errors = "a size must be an integer of 0 or more; there may be at most 8; dtype must be a float dtype",
    shows = "rille.rand(5):lt(1):all():item()",
    gives = "true",
    see = "randn manual_seed",
    words = "random uniform",
  },
  randint = {
    sign = "rille.randint(low, high, shape" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor of random integers in [low, high).",
    args = [[
low: integer; least value
high: integer; end, excluded
shape: list of integers]],
    returns = "a tensor, i64 by default",
    errors = [[
low and high must be integers, low less than high, that the dtype can hold;
a size must be an integer of 0 or more; there may be at most 8]],
    shows = "rille.randint(0, 4, {5}):lt(4):all():item()",
    gives = "true",
    see = "rand manual_seed",
    words = "random",
  },
  randn = {
    sign = "rille.randn(shape" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor of normal random numbers with mean 0 and deviation 1.",
    args = "shape: list of integers, or the integers themselves",
    returns = "a tensor",
    errors = "a size must be an integer of 0 or more; there may be at most 8; dtype must be a float dtype",
    shows = "rille.randn(5).dtype",
    gives = "f32",
    see = "rand manual_seed nn.init.normal_",
    words = "random gaussian normal",
  },
  remainder = {
    sign = "a % b",
    text = "Computes the remainder of a division, with the sign of the divisor, as Lua's % does.",
    shows = "(rille.tensor(7) % 4):item()",
    gives = "3.0",
    see = "floor_divide",
    words = "modulo",
  },
  scan = {
    sign = "state, ys = rille.scan(fn, state, xs, {axis = 0, length =, recompute = false})",
    text = [[
Calls a function for each position of an axis and carries a state from call to call, like jax.lax.scan.
Values and gradients are those of a Lua loop. fn is called once, with tensors that stand for all positions and
cannot be read. Its operators become one operator, so the plan and the time to compile do not depend on the length.
Backward is linear in the length: it reads the kept states and products, and computes other values again.
If the calls may differ, fn is called for each position, and the plan grows with the length; from 64 positions on,
a warning says why. That is so if fn draws random numbers, reads a value, changes a variable outside of it, looks up
indices, or has a gradient of its own. Dimensions that fn treats independently, such as the batch, may be split.
Other dimensions, and weights, are gathered.]],
    args = [[
fn: function(state, x); returns the next state and an output y, or nil as y
state: tensor, or table of tensors, which may be nested; fn must keep its keys, shapes and dtypes
xs: tensor or table of tensors, of one size along the axis, or nil; fn receives one position, without the axis
axis: integer, default 0
length: integer; number of calls if xs is nil
recompute: boolean, default false; backward keeps only the states between sqrt(length) chunks of positions,
  and computes the calls of one chunk at a time again: less memory; sums of gradients have another order]],
    returns = "the last state, and the outputs joined along a new axis at the same place; nil if y is nil",
    errors = [[
a state or output with another shape, dtype or key than in the first call;
tensors of different sizes along the axis]],
    code = [[
xs = rille.arange(1, 5)
total, sums = rille.scan(function(s, x) s = s + x return s, s end, rille.tensor(0), xs)]],
    shows = "sums:sum():item()",
    gives = "20.0",
    see = "nn.LSTM nn.LSTMCell stack cumsum graph",
    words = "loop recurrent recurrence carry rnn lax checkpoint recompute sequence unroll",
  },
  split = {
    sign = "split(x, size, axis = 0, {strategy =})",
    text = "Cuts a tensor into pieces of a given size along an axis.",
    args = [[
size: integer; size of a piece, the last may be smaller; or the list of all sizes
axis: integer, default 0
strategy: {{2, 1}}; number of shards per axis of x, for each slice]],
    returns = "a list of tensors",
    errors = "a list of sizes must add up to the size of the axis",
    shows = "#rille.ones(5):split(2)",
    gives = "3",
    see = "chunk slice concat",
  },
  tensor = {
    is = "tensor",
    sign = "rille.tensor(values" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor from a number or nested tables.",
    args = "values: number, boolean or nested tables of them",
    returns = "a tensor, f32 by default",
    errors = "rows must have equal length",
    shows = "rille.tensor({{1, 2}, {3, 4}}).ndim",
    gives = "2",
    see = "zeros totable placement",
    words = "create array values",
  },
  zeros = {
    sign = "rille.zeros(shape" .. OPTIONS .. ")",
    options = true,
    text = "Makes a tensor filled with zeros.",
    args = "shape: list of integers, or the integers themselves",
    returns = "a tensor",
    errors = "a size must be an integer of 0 or more; there may be at most 8",
    shows = "rille.zeros(2, 3):sum():item()",
    gives = "0.0",
    see = "ones full empty",
  },
}
