-- modules.lua - pages of the methods of modules and optimisers.

return {
  ["nn.MixtureOfExperts.balance"] = {
    sign = "experts:balance()",
    text = "Returns how unevenly the last call used the experts, as a loss term: 1 is even, the number of experts the worst.",
    returns = "a tensor without axes, through which gradients pass; nil before the first call",
    errors = "no argument is accepted",
    code = [[
f = rille.nn.MixtureOfExperts(4, 8, 4)
f(rille.ones(2, 3, 4))]],
    shows = "f:balance().ndim",
    gives = "0",
    see = "nn.MixtureOfExperts",
    words = "load balancing moe",
  },
  ["nn.MixtureOfExperts.gates"] = {
    sign = "experts:gates(x)",
    text = "Returns the weight that the router gives each expert, per row.",
    args = "x: tensor (n, d)",
    returns = "a tensor (n, experts); 0 except for the top_k experts",
    errors = "x must have 2 dimensions, the second of size d",
    code = "f = rille.nn.MixtureOfExperts(4, 8, 4)",
    shows = "f:gates(rille.ones(3, 4)).shape[2]",
    gives = "4",
    see = "nn.MixtureOfExperts",
    words = "router moe",
  },
  ["nn.Module.apply"] = {
    sign = "net:apply(fn)",
    text = "Calls a function for each module inside, and for the module itself.",
    args = "fn: function(module)",
    returns = "net",
    errors = "fn must be a function; its errors pass through",
    code = [[
net = rille.nn.Linear(3, 2)
n = 0
net:apply(function() n = n + 1 end)]],
    shows = "n",
    gives = "1",
    see = "nn.Module.modules nn.init",
  },
  ["nn.Module.buffer"] = {
    sign = "net:buffer(name, t)",
    text = "Adds a tensor that is saved with the module and is not trained.",
    args = [[
name: string; the field
t: tensor]],
    returns = "the tensor",
    errors = "name must be a string; t must be a tensor that requires no gradient",
    code = [[
net = rille.nn.Module:extend('Net')()
net:buffer('seen', rille.zeros(1))]],
    shows = "net.seen:item()",
    gives = "0.0",
    see = "nn.Parameter nn.Module.named_buffers",
  },
  ["nn.Module.describe"] = {
    sign = "function Net:describe()",
    text = "Returns the text that print(net) shows after the class name; override it in your own class.",
    returns = "a string",
    errors = "print reports an error of your own function",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:describe()",
    gives = "3, 2",
    see = "nn.Module.show",
  },
  ["nn.Module.eval"] = {
    sign = "net:eval()",
    text = "Switches the module and all modules inside to evaluation mode: dropout is off, batch norm uses running statistics.",
    returns = "net",
    errors = "no argument is accepted",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:eval().training",
    gives = "false",
    see = "nn.Module.train no_grad",
    words = "inference evaluate test",
  },
  ["nn.Module.extend"] = {
    sign = "Class:extend(name)",
    text = "Makes a class of modules.",
    args = "name: string; the class's name",
    returns = "a class; calling it calls init(...) and returns an object",
    errors = "name must be a string",
    code = [[
Net = rille.nn.Module:extend('Net')
function Net:forward(x) return x * 2 end]],
    shows = "Net()(rille.ones(2)):sum():item()",
    gives = "4.0",
    see = "nn.Module nn.Module.forward",
    words = "subclass inherit custom layer",
  },
  ["nn.Module.forward"] = {
    sign = "net:forward(x, ...)",
    text = "Computes the output of a module; every class defines its own. Call net(x), which calls it.",
    args = "x: the arguments of the call",
    returns = "the output",
    errors = "the class must define forward; an input that forward does not accept",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:forward(rille.ones(5, 3)).shape[1]",
    gives = "5",
    see = "nn.Module",
    words = "call",
  },
  ["nn.Module.load"] = {
    sign = "net:load(path[, {strict = true}])",
    text = "Loads parameters and buffers from a file that rille.save(path, net) wrote, or from another file with these names.",
    args = [[
path: string; a file or folder that rille.load reads
strict: boolean, default true; false: names may be missing or unexpected]],
    returns = "net; if strict is false also {missing =, unexpected =}, lists of names",
    errors = "names and shapes must match; values are cast to the dtype and layout of net",
    code = [[
net = rille.nn.Linear(3, 2)
path = os.tmpname() .. '.safetensors'
rille.save(path, net)
other = rille.nn.Linear(3, 2)
other:load(path)
os.remove(path)]],
    shows = "other.weight:eq(net.weight):all():item()",
    gives = "true",
    see = "save nn.Module.load_state_dict checkpoint.load",
    words = "restore weights",
  },
  ["nn.Module.load_state_dict"] = {
    sign = "net:load_state_dict(t[, {strict = true}])",
    text = "Sets the parameters and buffers to values by name.",
    args = [[
t: table {name = tensor}, as net:state_dict() returns
strict: boolean, default true; false: names may be missing or extra]],
    returns = "net; if strict is false also {missing =, unexpected =}, lists of names",
    errors = "a missing or extra name, or another shape; nothing is changed then",
    code = [[
net = rille.nn.Linear(3, 2)
other = rille.nn.Linear(3, 2)
other:load_state_dict(net:state_dict())]],
    shows = "other.weight:eq(net.weight):all():item()",
    gives = "true",
    see = "nn.Module.state_dict nn.Module.load",
    words = "restore weights",
  },
  ["nn.Module.modules"] = {
    sign = "net:modules()",
    text = "Lists the module itself and all modules inside.",
    returns = "a list of modules",
    errors = "no argument is accepted",
    code = "net = rille.nn.Sequential(rille.nn.Linear(3, 2), rille.nn.ReLU())",
    shows = "#net:modules()",
    gives = "3",
    see = "nn.Module.named_modules",
  },
  ["nn.Module.named_buffers"] = {
    sign = "for name, t in net:named_buffers() do",
    text = "Iterates over the buffers and their names.",
    returns = "an iterator of name, tensor",
    errors = "two different tensors of the module must not have the same name",
    code = "norm = rille.nn.BatchNorm2d(3)",
    shows = "(norm:named_buffers()())",
    gives = "running_mean",
    see = "nn.Module.buffer nn.Module.named_parameters",
  },
  ["nn.Module.named_modules"] = {
    sign = "for name, m in net:named_modules() do",
    text = 'Iterates over the modules and their names; the module itself has the name "".',
    returns = "an iterator of name, module",
    errors = "no argument is accepted",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "(net:named_modules()()) == ''",
    gives = "true",
    see = "nn.Module.modules",
  },
  ["nn.Module.named_parameters"] = {
    sign = "for name, p in net:named_parameters() do",
    text = "Iterates over the parameters and their names, such as fc1.weight.",
    returns = "an iterator of name, tensor",
    errors = "two different tensors of the module must not have the same name",
    code = [[
net = rille.nn.Linear(3, 2)
names = {}
for name in net:named_parameters() do names[#names + 1] = name end]],
    shows = "names[1]",
    gives = "weight",
    see = "nn.Module.parameters nn.Module.named_buffers",
  },
  ["nn.Module.named_tensors"] = {
    sign = "net:named_tensors()",
    text = "Lists parameters and buffers with their names; a tied tensor occurs under each of its names.",
    returns = "a list of {name =, tensor =, kind =}",
    errors = "two different tensors of the module must not have the same name",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:named_tensors()[1].name",
    gives = "weight",
    see = "nn.Module.state_dict nn.tie",
  },
  ["nn.Module.parameters"] = {
    sign = "net:parameters()",
    text = "Lists the parameters, in order of definition, for an optimiser.",
    returns = "a list of tensors",
    errors = "two different tensors of the module must not have the same name",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "#net:parameters()",
    gives = "2",
    see = "optim nn.Module.named_parameters",
    words = "weights trainable number count",
  },
  ["nn.Module.recompute"] = {
    sign = "net:recompute(on = true)",
    text = "Recomputes the module's intermediate values in the backward pass instead of keeping them: less memory, more time.",
    args = "on: boolean, default true",
    returns = "net",
    errors = "on must be a boolean",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:recompute() == net",
    gives = "true",
    see = "graph",
    words = "activation checkpointing gradient checkpoint memory rematerialization oom out",
  },
  ["nn.Module.register_forward_hook"] = {
    sign = "net:register_forward_hook(fn)",
    text = [[
Calls fn after each forward of the module, with module, list of arguments, and results.
Values that fn returns replace the results. A compiled step records the operators that fn calls.]],
    args = "fn: function(module, args, result, ...)",
    returns = "a handle; handle:remove() removes the hook",
    errors = "fn must be a function; its errors end the call",
    code = [[
net = rille.nn.ReLU()
net:register_forward_hook(function(m, args, y) return y + 1 end)]],
    shows = "net(rille.ones(2)):sum():item()",
    gives = "4.0",
    see = "nn.Module.register_forward_pre_hook nn.Module.register_full_backward_hook register_hook",
    words = "hook activation inspect",
  },
  ["nn.Module.register_forward_pre_hook"] = {
    sign = "net:register_forward_pre_hook(fn)",
    text = [[
Calls fn before each forward of the module, with module and list of arguments.
Values that fn returns replace the arguments.]],
    args = "fn: function(module, args)",
    returns = "a handle; handle:remove() removes the hook",
    errors = "fn must be a function; its errors end the call",
    code = [[
net = rille.nn.ReLU()
net:register_forward_pre_hook(function(m, args) return args[1] * 2 end)]],
    shows = "net(rille.ones(2)):sum():item()",
    gives = "4.0",
    see = "nn.Module.register_forward_hook",
    words = "hook input",
  },
  ["nn.Module.register_full_backward_hook"] = {
    sign = "net:register_full_backward_hook(fn)",
    text = [[
Calls fn in each backward pass through the module.
fn gets two lists: the gradients of the module's tensor arguments, and those of its results.
A list that fn returns replaces the gradients of the arguments.
If no argument requires a gradient, the first list is empty.]],
    args = "fn: function(module, gradients of arguments, gradients of results)",
    returns = "a handle; handle:remove() removes the hook",
    errors = "fn must be a function; it must return a list of gradients of the arguments' shapes, or nothing",
    code = [[
net = rille.nn.ReLU()
net:register_full_backward_hook(function(m, dx, dy) return {dx[1] * 3} end)
x = rille.ones({2}, {requires_grad = true})
net(x):sum():backward()]],
    shows = "x.grad:sum():item()",
    gives = "6.0",
    see = "register_hook nn.Module.register_forward_hook",
    words = "hook gradient inspect",
  },
  ["nn.Module.settings"] = {
    sign = "function Net:settings()",
    text = [[
Returns numbers, strings and flags that a checkpoint keeps, to refuse a model that computes differently.
Override it in your own class. Leave out values that may change between runs.]],
    returns = "a table {name = value}",
    errors = [[
the result must be a table of numbers, strings, booleans and tables of them, which must not contain
itself]],
    code = [[
Window = rille.nn.Module:extend('Window')
function Window:init(n) self.n = n end
function Window:settings() return {n = self.n} end]],
    shows = "Window(3):settings().n",
    gives = "3",
    see = "checkpoint.load",
    words = "hyperparameters config",
  },
  ["nn.Module.show"] = {
    sign = 'net:show(["file.svg"])',
    text = "Draws modules and parameters with types, layouts and placements, and the bytes per device.",
    args = "file: string, optional; path of an .svg file",
    returns = "nothing",
    errors = "file must be a string that ends in .svg, a path that can be written",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:show()",
    gives = "nil",
    see = "parallel nn.Module.named_parameters",
    words = "picture summary print visualize",
  },
  ["nn.Module.state_dict"] = {
    sign = "net:state_dict()",
    text = "Returns parameters and buffers by name.",
    returns = "a table {name = tensor}",
    errors = "two different tensors of the module must not have the same name",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:state_dict().bias.shape[1]",
    gives = "2",
    see = "nn.Module.load_state_dict save",
    words = "weights save",
  },
  ["nn.Module.stats"] = {
    sign = "net:stats([inputs...])",
    text = "Returns norms of parameters, gradients and activations, and finds the first nan.",
    args = "inputs: arguments of the module, optional; net(inputs...) is called, and results of each module are added",
    returns = [[
a list that prints as a table, of {name =, kind = "weight" or "output", norm =, grad_norm =, zeros
=, nan =, inf =}: 2-norms, share of zeros, numbers of nan and of infinities; first_nan: the name of
the first tensor with a nan or an infinity, nil if there is none]],
    errors = "inputs that the module does not accept; parameters must have values: they must not be on meta devices",
    code = [[
net = rille.nn.Sequential(rille.nn.Linear(3, 2), rille.nn.ReLU())
net(rille.ones(4, 3)):sum():backward()]],
    shows = "#net:stats(rille.ones(4, 3))",
    gives = "5",
    see = "stats detect_nan nn.Module.show",
    words = "nan gradient norm activation dead exploding vanishing summary",
  },
  ["nn.Module.tie"] = {
    sign = "net:tie(name, other, other_name)",
    text = "Makes two parameters one tensor, which is stored and updated once (weight tying).",
    args = [[
name: string; field of net that has the parameter
other: module that gets the same tensor
other_name: string; field of other]],
    returns = "nothing",
    errors = "other must be a module, and the fields tensors of the same shape",
    code = [[
net = rille.nn.Linear(3, 2)
other = rille.nn.Linear(3, 2)
net:tie('weight', other, 'weight')]],
    shows = "rawequal(net.weight, other.weight)",
    gives = "true",
    see = "nn.tie",
  },
  ["nn.Module.to"] = {
    sign = "net:to(dtype)",
    text = "Converts all float parameters, buffers and gradients to another dtype, in place.",
    args = 'dtype: "f32", "f64", "bf16" or "f16"',
    returns = "net; optimisers of its parameters stay valid",
    errors = "dtype must be a float dtype",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:to('bf16').weight.dtype",
    gives = "bf16",
    see = "to autocast",
    words = "half precision convert",
  },
  ["nn.Module.to_global"] = {
    sign = "net:to_global{placement =, sbp =}",
    text = "Moves all parameters, buffers and gradients to a placement and layout, in place.",
    args = [[
placement: devices
sbp: layout, default "B"; "auto": the planner chooses]],
    returns = "net",
    errors = "sbp must fit the shape of each tensor and the mesh; nothing is changed otherwise",
    code = [[
net = rille.nn.Linear(3, 2)
P = rille.placement('cpu', {0, 1})
net:to_global{placement = P, sbp = 'B'}]],
    shows = "net.weight.placement == P",
    gives = "true",
    see = "to_global parallel",
    words = "distribute move device gpu",
  },
  ["nn.Module.train"] = {
    sign = "net:train(on = true)",
    text = "Switches the module and all modules inside to training mode: dropout is on, batch norm uses the batch.",
    args = "on: boolean, default true",
    returns = "net",
    errors = "on must be a boolean",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:train().training",
    gives = "true",
    see = "nn.Module.eval",
  },
  ["nn.Module.training"] = {
    sign = "net.training",
    text = "Is true if the module is in training mode.",
    returns = "a boolean",
    errors = "none: use train() and eval(), which also change the modules inside",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net.training",
    gives = "true",
    see = "nn.Module.train nn.Module.eval",
  },
  ["optimizer.add_param_group"] = {
    sign = "opt:add_param_group{params =, lr =, ...}",
    text = "Adds a group of further parameters, for example of layers that are unfrozen later. Compiled steps are traced again.",
    args = [[
params: list of tensors
lr: number, default that of the optimiser
...: other options of the group, likewise]],
    returns = "nothing",
    errors = "a parameter must not be in two groups",
    code = [[
a, b = rille.nn.Linear(3, 2), rille.nn.Linear(2, 1)
opt = rille.optim.AdamW(a:parameters())
opt:add_param_group{params = b:parameters(), lr = 0.1}]],
    shows = "#opt.params",
    gives = "4",
    see = "optimizer.groups optim",
    words = "parameter group unfreeze fine-tune",
  },
  ["optimizer.groups"] = {
    sign = "opt.groups",
    text = "Is the list of parameter groups; opt.groups[1].lr = 0.01 sets an option of one group.",
    returns = "a list of groups, each with params and the options of the class",
    errors = "the list is read-only (opt:add_param_group adds); a group has only the options of its class",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "#opt.groups",
    gives = "1",
    see = "optim.SGD optimizer.lr",
    words = "group per layer learning rate",
  },
  ["optimizer.load_state_dict"] = {
    sign = "opt:load_state_dict(t)",
    text = "Restores the state that state_dict() returned: moments, step counts, options.",
    args = "t: table",
    returns = "nothing",
    errors = "kind of optimiser and groups must match",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:step()
other = rille.optim.SGD(net:parameters())
other:load_state_dict(opt:state_dict())]],
    shows = "other.steps",
    gives = "1",
    see = "optimizer.state_dict checkpoint.load",
  },
  ["optimizer.lr"] = {
    sign = "opt.lr",
    text = [[
Is the learning rate; assign a number, and the next step uses it, also in a compiled step.
A schedule (a function of the step) may be assigned, too; each step calls it with opt.steps.
A group with a rate of its own keeps that rate: assign to opt.groups[i].lr.
A checkpoint saves opt.steps, so the schedule goes on where it stopped.]],
    returns = "a number, or a function of the step",
    errors = "an assigned value must be a number of 0 or more, or a function that returns one",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "opt.lr",
    gives = "0.5",
    see = "optim.cosine optim.linear optimizer.groups",
    words = "learning rate schedule scheduler",
  },
  ["optimizer.params"] = {
    sign = "opt.params",
    text = "Is the list of all parameters; opt:add_param_group adds to it.",
    returns = "a list of tensors",
    errors = "the list is read-only: opt:add_param_group adds",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "#opt.params",
    gives = "2",
    see = "optimizer.groups nn.Module.parameters",
  },
  ["optimizer.state_dict"] = {
    sign = "opt:state_dict()",
    text = "Returns the state for a later load: moments by parameter, step counts, options.",
    returns = "a table",
    errors = "no argument is accepted",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:step()]],
    shows = "opt:state_dict().steps:item()",
    gives = "1",
    see = "optimizer.load_state_dict checkpoint.save",
  },
  ["optimizer.step"] = {
    sign = "opt:step()",
    text = [[
Updates each parameter by its gradient.
A step that fails changes nothing.]],
    returns = "nothing",
    errors = [[
zero of rille.parallel and of rille.graph must be equal;
a schedule must return a number of 0 or more]],
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
was = net.bias:sum():item()
opt:step()]],
    shows = "net.bias:sum():item() < was",
    gives = "true",
    see = "backward optimizer.zero_grad optim.clip_grad_norm",
    words = "update train weights",
  },
  ["optimizer.steps"] = {
    sign = "opt.steps",
    text = "Is the number of calls of step() so far.",
    returns = "an integer",
    errors = "an assigned value must be an integer of 0 or more",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:step()]],
    shows = "opt.steps",
    gives = "1",
    see = "optimizer.step",
  },
  ["optimizer.zero_grad"] = {
    sign = "opt:zero_grad()",
    text = "Clears the gradients of all parameters.",
    returns = "nothing",
    errors = "no argument is accepted",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:zero_grad()]],
    shows = "net.bias.grad",
    gives = "nil",
    see = "backward optimizer.step",
    words = "reset gradient accumulate accumulation",
  },
  optim = {
    sign = "rille.optim",
    text = [[
Has optimisers, gradient clipping, and schedules of the learning rate.
A group has its own options: SGD({{params = a, lr = 0.1}, {params = b}}, {lr = 0.01}).]],
    returns = "a table of optimiser classes, schedules and clip_grad_norm",
    errors = "a name that the table does not have; the error names the nearest one",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "#rille.optim.SGD(net:parameters(), {lr = 0.1}).params",
    gives = "2",
    see = "nn.Module.parameters optimizer.step",
    words = "optimizer train scheduler weight decay",
  },
  ["optim.Adam"] = {
    is = "optimizer",
    sign = "rille.optim.Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0})",
    text = "Makes an Adam optimiser: steps scaled by running means of the gradient and of its square.",
    args = [[
params: list of tensors, or of groups {params =, lr =, ...}
lr: number, default 1e-3; learning rate
betas: {number, number}, default {0.9, 0.999}; decay of the two means
eps: number, default 1e-8; added to the root
weight_decay: number, default 0; added to the gradient]],
    returns = "an optimiser; opt:step(), opt:zero_grad(), opt.lr",
    errors = [[
params must be distinct variables, one of which requires a gradient;
options 0 or more, each beta below 1]],
    code = [[
w = rille.nn.Parameter(rille.ones(2))
opt = rille.optim.Adam({w}, {lr = 0.1})
w:sum():backward()
opt:step()]],
    shows = "opt.steps",
    gives = "1",
    see = "optim.AdamW optimizer.step",
    words = "optimizer",
  },
  ["optim.AdamW"] = {
    is = "optimizer",
    sign = "rille.optim.AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01})",
    text = "Makes an AdamW optimiser: Adam with weight decay applied to the parameters, not to the gradient.",
    args = [[
params: list of tensors, or of groups {params =, lr =, ...}
lr: number, default 1e-3; learning rate
betas: {number, number}, default {0.9, 0.999}; decay of the two means
eps: number, default 1e-8; added to the root
weight_decay: number, default 0.01]],
    returns = "an optimiser; opt:step(), opt:zero_grad(), opt.lr",
    errors = [[
params must be distinct variables, one of which requires a gradient;
options 0 or more, each beta below 1]],
    code = [[
w = rille.nn.Parameter(rille.ones(2))
opt = rille.optim.AdamW({w}, {lr = 0.1})
w:sum():backward()
opt:step()]],
    shows = "opt.steps",
    gives = "1",
    see = "optim.Adam optimizer.step",
    words = "optimizer",
  },
  ["optim.SGD"] = {
    is = "optimizer",
    sign = "rille.optim.SGD(params, {lr = 1e-3, momentum = 0, weight_decay = 0, nesterov = false})",
    text = "Makes an optimiser for stochastic gradient descent, with momentum.",
    args = [[
params: list of tensors, or of groups {params =, lr =, ...}
lr: number, default 1e-3; learning rate
momentum: number, default 0
weight_decay: number, default 0; added to the gradient
nesterov: boolean, default false]],
    returns = "an optimiser; opt:step(), opt:zero_grad(), opt.lr",
    errors = [[
params must be distinct variables, one of which requires a gradient; options 0 or more;
nesterov needs momentum]],
    code = [[
w = rille.nn.Parameter(rille.ones(2))
opt = rille.optim.SGD({w}, {lr = 0.5})
w:sum():backward()
opt:step()]],
    shows = "w:sum():item()",
    gives = "1.0",
    see = "optim.AdamW optimizer.step",
    words = "optimizer stochastic gradient descent",
  },
  ["optim.class"] = {
    sign = "rille.optim.class{name =, update =, state = {}, options = {lr = 1e-3}, check =}",
    text = [[
Makes an optimiser class from an update that is written in tensor operations.
update(o, p, g, state) gets the options of the group (o.lr, ..., and o.step, the number of this update), the
parameter, its gradient and the table of its state. It returns the new parameter and a table of the new
state.
The class has what optim.AdamW has: groups, schedules, counts per parameter, checkpoints, ZeRO of
rille.parallel, compiled steps.
p, g and state have at least 32 bits and the layout of the state.]],
    args = [[
name: string; names the class in messages and checkpoints
update: function(o, p, g, state)
state: list of names, default {}; tensors of the parameter's shape, zero at first
options: table of defaults, with lr
check: function(o), default none; fails if options are invalid]],
    returns = "a constructor: Class(params, options)",
    errors = "the new parameter and state must have the parameter's shape",
    code = [[
Signs = rille.optim.class{name = "Signs", update = function(o, p, g) return p - g:sign() * o.lr end}
w = rille.nn.Parameter(rille.ones(2))
opt = Signs({w}, {lr = 0.5})
w:sum():backward()
opt:step()]],
    shows = "w:sum():item()",
    gives = "1.0",
    see = "optim.AdamW optimizer.step checkpoint.save",
    words = "custom optimizer own lion adam update rule",
  },
  ["optim.clip_grad_norm"] = {
    sign = "rille.optim.clip_grad_norm(params, max, norm_type = 2)",
    text = "Scales all gradients together so that their norm is at most max; call it before opt:step().",
    args = [[
params: list of tensors
max: number
norm_type: number above 0, default 2; math.huge: the largest absolute value]],
    returns = "a tensor: the norm before scaling",
    errors = "params must be tensors, one of which has a gradient; max must be 0 or more, norm_type above 0",
    code = [[
w = rille.nn.Parameter(rille.ones(4))
w:sum():backward()
norm = rille.optim.clip_grad_norm({w}, 1)]],
    shows = "w.grad:sum():item() < 2.001",
    gives = "true",
    see = "optimizer.step stats",
    words = "exploding gradient clipping nan clip norm",
  },
  ["optim.constant"] = {
    sign = "rille.optim.constant{lr =, warmup = 0}",
    text = "Makes a learning-rate schedule that is constant after a warm-up.",
    args = [[
lr: number
warmup: integer, default 0; steps of linear increase]],
    returns = "a function of the step (from 0) that returns the rate: opt.lr = lr",
    errors = "lr must be a number of 0 or more, warmup an integer of 0 or more; the step must be 0 or more",
    code = "lr = rille.optim.constant{lr = 1, warmup = 2}",
    shows = "lr(0)",
    gives = "0.5",
    see = "optim.cosine optimizer.lr",
    words = "scheduler warmup",
  },
  ["optim.cosine"] = {
    sign = "rille.optim.cosine{lr =, min_lr = 0, warmup = 0, steps =}",
    text = "Makes a learning-rate schedule that falls along a cosine after a warm-up.",
    args = [[
lr: number; highest rate
min_lr: number, default 0; rate from steps on
warmup: integer, default 0; steps of linear increase
steps: integer; end of the schedule]],
    returns = "a function of the step (from 0) that returns the rate: opt.lr = lr",
    errors = "lr and min_lr must be 0 or more; steps must be an integer of at least warmup, and at least 1",
    code = "lr = rille.optim.cosine{lr = 1, min_lr = 0.5, warmup = 2, steps = 10}",
    shows = "lr(0)",
    gives = "0.5",
    see = "optim.linear optimizer.lr",
    words = "scheduler warmup decay annealing",
  },
  ["optim.linear"] = {
    sign = "rille.optim.linear{lr =, min_lr = 0, warmup = 0, steps =}",
    text = "Makes a learning-rate schedule that falls along a line after a warm-up.",
    args = [[
lr: number; highest rate
min_lr: number, default 0; rate from steps on
warmup: integer, default 0; steps of linear increase
steps: integer; end of the schedule]],
    returns = "a function of the step (from 0) that returns the rate: opt.lr = lr",
    errors = "lr and min_lr must be 0 or more; steps must be an integer of at least warmup, and at least 1",
    code = "lr = rille.optim.linear{lr = 1, min_lr = 0.5, warmup = 2, steps = 10}",
    shows = "lr(10)",
    gives = "0.5",
    see = "optim.cosine optimizer.lr",
    words = "scheduler warmup decay",
  },
}
