-- objects.lua - pages of what objects have: fields of tensors and placements; methods of modules, optimisers, compiled
-- steps, loaders, tokenizers and models.

return {
  -- ---- tensors ----

  ["tensor.device"] = {
    sign = "x.device",
    text = "The kind of its devices.",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "x.device",
    gives = "cpu",
  },
  ["tensor.dtype"] = {
    sign = "x.dtype",
    text = "f32 f64 bf16 f16 i32 i64 u8 bool, as text.",
    shows = "rille.arange(3).dtype",
    gives = "i64",
  },
  ["tensor.grad"] = {
    is = "tensor",
    sign = "x.grad",
    text = "What backward() added up for this leaf; nil before.",
    code = [[
x = rille.tensor(3.0, {requires_grad = true})
y = x * x
y:backward()]],
    shows = "x.grad:item()",
    gives = "6.0",
  },
  ["tensor.is_leaf"] = {
    sign = "x.is_leaf",
    text = "Made by creation, load, detach or clone without gradient: a variable.",
    shows = "(rille.ones(2) + 1).is_leaf",
    gives = "false",
  },
  ["tensor.name"] = {
    sign = "x.name",
    text = "A text for messages; nil without one.",
    code = "x = rille.ones({2}, {name = 'w'})",
    shows = "x.name",
    gives = "w",
  },
  ["tensor.ndim"] = {
    sign = "x.ndim",
    text = "How many axes.",
    code = "x = rille.ones(4, 2)",
    shows = "x.ndim",
    gives = "2",
  },
  ["tensor.placement"] = {
    is = "placement",
    sign = "x.placement",
    text = "The mesh of devices that it lies on.",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "x.placement == P",
    gives = "true",
  },
  ["tensor.requires_grad"] = {
    sign = "x.requires_grad",
    text = "Whether y:backward() fills x.grad.",
    shows = "rille.ones({2}, {requires_grad = true}).requires_grad",
    gives = "true",
  },
  ["tensor.sbp"] = {
    sign = "x.sbp",
    text = "How it is cut over its mesh, as text; ?rille.sbp.",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "x.sbp",
    gives = "S(0)",
  },
  ["tensor.shape"] = {
    sign = "x.shape",
    text = [[
A list of sizes; it prints and compares as {4, 2}.
Each time a table of your own, to change and pass on; no tensor changes with it: x:reshape{...} gives one of another shape.]],
    code = "x = rille.ones(4, 2)",
    shows = "x.shape[2]",
    gives = "2",
  },

  -- ---- placements and layouts ----

  ["placement.device"] = {
    sign = "P.device",
    text = "The kind of devices: cpu, cuda, meta.",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "P.device",
    gives = "cpu",
  },
  ["placement.ranks"] = {
    sign = "P.ranks",
    text = "The devices' numbers, in mesh order.",
    code = "P = rille.placement('cpu', {1, 0})",
    shows = "P.ranks[1]",
    gives = "1",
  },
  ["placement.shape"] = {
    sign = "P.shape",
    text = "The sizes of the mesh.",
    code = "P = rille.placement('meta', {{0, 1, 2}, {3, 4, 5}})",
    shows = "P.shape[2]",
    gives = "3",
  },
  ["placement.size"] = {
    sign = "P.size",
    text = "How many devices.",
    code = "P = rille.placement('meta', {{0, 1, 2}, {3, 4, 5}})",
    shows = "P.size",
    gives = "6",
  },
  ["placement.show"] = {
    sign = 'P:show(["file.svg"])',
    text = "Draws the mesh: its ranks where they stand, axes beyond two as pages.",
    code = "P = rille.placement('meta', {{0, 1, 2}, {3, 4, 5}})",
    shows = "P:show()",
    gives = "nil",
  },
  ["sbp.broadcast"] = {
    sign = "rille.sbp.broadcast",
    text = "B: each rank holds the whole.",
    shows = "rille.sbp.broadcast",
    gives = "B",
  },
  ["sbp.partial"] = {
    first = "sum|max|min",
    sign = 'rille.sbp.partial("sum" | "max" | "min")',
    text = "P(max): the whole is the greatest over ranks.",
    shows = "rille.sbp.partial('max')",
    gives = "P(max)",
  },
  ["sbp.partial_sum"] = {
    sign = "rille.sbp.partial_sum",
    text = "P: the whole is the sum over ranks.",
    shows = "rille.sbp.partial_sum",
    gives = "P",
  },
  ["sbp.split"] = {
    sign = "rille.sbp.split(axis)",
    text = "S(axis): each rank holds a part along this axis.",
    shows = "rille.sbp.split(1)",
    gives = "S(1)",
  },

  -- ---- modules ----

  ["nn.MixtureOfExperts.balance"] = {
    sign = "experts:balance()",
    text = "How unevenly entries went to experts in the last call: 1 is even, the number of experts the worst.",
    code = [[
f = rille.nn.MixtureOfExperts(4, 8, 4)
f(rille.ones(2, 3, 4))]],
    shows = "f:balance().ndim",
    gives = "0",
  },
  ["nn.MixtureOfExperts.gates"] = {
    sign = "experts:gates(x)",
    text = "x: (n, d) -> (n, experts): how much each entry gives each expert.",
    code = "f = rille.nn.MixtureOfExperts(4, 8, 4)",
    shows = "f:gates(rille.ones(3, 4)).shape[2]",
    gives = "4",
  },
  ["nn.Module.apply"] = {
    sign = "net:apply(fn)",
    text = "Calls fn(module) for this module and all inside; gives net.",
    code = [[
net = rille.nn.Linear(3, 2)
n = 0
net:apply(function() n = n + 1 end)]],
    shows = "n",
    gives = "1",
  },
  ["nn.Module.buffer"] = {
    sign = "net:buffer(name, t)",
    text = "A tensor that is saved with the module and not trained.",
    code = [[
net = rille.nn.Module:extend('Net')()
net:buffer('seen', rille.zeros(1))]],
    shows = "net.seen:item()",
    gives = "0.0",
  },
  ["nn.Module.describe"] = {
    sign = "function Net:describe()",
    text = "Text that print(net) shows behind the class: written by classes.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "#net:describe() > 0",
    gives = "true",
  },
  ["nn.Module.eval"] = {
    sign = "net:eval()",
    text = "net:train(false)",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:eval().training",
    gives = "false",
  },
  ["nn.Module.extend"] = {
    sign = "Class:extend(name)",
    text = "A class below this one.",
    code = [[
Net = rille.nn.Module:extend('Net')
function Net:forward(x) return x * 2 end]],
    shows = "Net()(rille.ones(2)):sum():item()",
    gives = "4.0",
  },
  ["nn.Module.forward"] = {
    sign = "net:forward(x, ...)",
    text = "What a call of the module computes: written by each class.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:forward(rille.ones(5, 3)).shape[1]",
    gives = "5",
  },
  ["nn.Module.load"] = {
    sign = "net:load(path)",
    text = "The same from a file that rille.save(path, net) wrote.",
    code = [[
net = rille.nn.Linear(3, 2)
path = os.tmpname() .. '.safetensors'
rille.save(path, net)
other = rille.nn.Linear(3, 2)
other:load(path)
os.remove(path)]],
    shows = "other.weight:eq(net.weight):all():item()",
    gives = "true",
  },
  ["nn.Module.load_state_dict"] = {
    sign = "net:load_state_dict(t)",
    text = "Takes the values of such a table; strict: names what is missing.",
    code = [[
net = rille.nn.Linear(3, 2)
other = rille.nn.Linear(3, 2)
other:load_state_dict(net:state_dict())]],
    shows = "other.weight:eq(net.weight):all():item()",
    gives = "true",
  },
  ["nn.Module.modules"] = {
    sign = "net:modules()",
    text = "The list of this module and all inside it.",
    code = "net = rille.nn.Sequential(rille.nn.Linear(3, 2), rille.nn.ReLU())",
    shows = "#net:modules()",
    gives = "3",
  },
  ["nn.Module.named_buffers"] = {
    sign = "for name, t in net:named_buffers() do",
    text = "The same of buffers.",
    code = "norm = rille.nn.BatchNorm2d(3)",
    shows = "(norm:named_buffers()())",
    gives = "running_mean",
  },
  ["nn.Module.named_modules"] = {
    sign = "for name, m in net:named_modules() do",
    text = 'The same with their paths; its own is "".',
    code = "net = rille.nn.Linear(3, 2)",
    shows = "(net:named_modules()()) == ''",
    gives = "true",
  },
  ["nn.Module.named_parameters"] = {
    sign = "for name, p in net:named_parameters() do",
    text = "Parameters with their paths: fc1.weight.",
    code = [[
net = rille.nn.Linear(3, 2)
names = {}
for name in net:named_parameters() do names[#names + 1] = name end]],
    shows = "names[1]",
    gives = "weight",
  },
  ["nn.Module.named_tensors"] = {
    sign = "net:named_tensors()",
    text = "A list of {name =, tensor =, kind =} of parameters and buffers, a tied one under each name.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:named_tensors()[1].name",
    gives = "weight",
  },
  ["nn.Module.parameters"] = {
    sign = "net:parameters()",
    text = "The list of its parameters, in order of definition.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "#net:parameters()",
    gives = "2",
  },
  ["nn.Module.recompute"] = {
    sign = "net:recompute(on = true)",
    text = "What it computes on its way is computed again in the backward pass instead of kept: memory for time.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:recompute() == net",
    gives = "true",
  },
  ["nn.Module.settings"] = {
    sign = "function Net:settings()",
    text = [[
What it computes with besides its tensors, {name = value} of numbers, texts, flags and tables of them: written by classes of your
own, whose fields checkpoints do not know. A checkpoint keeps it, and refuses a model that says another. A name that comes later is left
out (nil) where all is as before, or older checkpoints are refused; so is what may change from one run to the next.]],
    code = [[
Window = rille.nn.Module:extend('Window')
function Window:init(n) self.n = n end
function Window:settings() return {n = self.n} end]],
    shows = "Window(3):settings().n",
    gives = "3",
  },
  ["nn.Module.show"] = {
    sign = 'net:show(["file.svg"])',
    text = "Draws its parts: modules, parameters with types, layouts and placements, bytes of each device.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:show()",
    gives = "nil",
  },
  ["nn.Module.state_dict"] = {
    sign = "net:state_dict()",
    text = "A table of parameters and buffers by path.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:state_dict().bias.shape[1]",
    gives = "2",
  },
  ["nn.Module.tie"] = {
    sign = "nn.tie(a, name, b, other)",
    text = "?nn.tie",
    code = [[
net = rille.nn.Linear(3, 2)
other = rille.nn.Linear(3, 2)
rille.nn.tie(net, 'weight', other, 'weight')]],
    shows = "rawequal(net.weight, other.weight)",
    gives = "true",
  },
  ["nn.Module.to"] = {
    sign = "net:to(dtype)",
    text = "All floats in another dtype, in place, gradients too; an optimiser goes on with them. Gives net.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:to('bf16').weight.dtype",
    gives = "bf16",
  },
  ["nn.Module.to_global"] = {
    sign = "net:to_global{placement =, sbp =}",
    text = "Moves all parameters and buffers, in place, and gradients with them; gives net.",
    code = [[
net = rille.nn.Linear(3, 2)
P = rille.placement('cpu', {0, 1})
net:to_global{placement = P, sbp = 'B'}]],
    shows = "net.weight.placement == P",
    gives = "true",
  },
  ["nn.Module.train"] = {
    sign = "net:train(on = true)",
    text = "Training mode, of all modules inside too: dropout drops; gives net.",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net:train().training",
    gives = "true",
  },
  ["nn.Module.training"] = {
    sign = "net.training",
    text = "Is it in training mode?",
    code = "net = rille.nn.Linear(3, 2)",
    shows = "net.training",
    gives = "true",
  },

  -- ---- optimisers ----

  ["optimizer.groups"] = {
    sign = "opt.groups",
    text = "Its groups of parameters, settled when it is made; opt.groups[1].lr = 0.01 sets one's rate.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "#opt.groups",
    gives = "1",
  },
  ["optimizer.load_state_dict"] = {
    sign = "opt:load_state_dict(t)",
    text = "Takes such a table.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:step()
other = rille.optim.SGD(net:parameters())
other:load_state_dict(opt:state_dict())]],
    shows = "other.steps",
    gives = "1",
  },
  ["optimizer.lr"] = {
    sign = "opt.lr",
    text = "The learning rate; what is assigned is what the next step uses, also a compiled one.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "opt.lr",
    gives = "0.5",
  },
  ["optimizer.params"] = {
    sign = "opt.params",
    text = "All its parameters, settled when it is made.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "#opt.params",
    gives = "2",
  },
  ["optimizer.state_dict"] = {
    sign = "opt:state_dict()",
    text = "What a load takes up again: state by parameter, steps, options.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()]],
    shows = "type(opt:state_dict())",
    gives = "table",
  },
  ["optimizer.step"] = {
    sign = "opt:step()",
    text = "Updates each parameter by its gradient. A step that fails changes nothing; gradients that a label out of range made impossible are dropped.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
was = net.bias:sum():item()
opt:step()]],
    shows = "net.bias:sum():item() < was",
    gives = "true",
  },
  ["optimizer.steps"] = {
    sign = "opt.steps",
    text = "How many steps it made.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:step()]],
    shows = "opt.steps",
    gives = "1",
  },
  ["optimizer.zero_grad"] = {
    sign = "opt:zero_grad()",
    text = "Forgets the gradients.",
    code = [[
net = rille.nn.Linear(3, 2)
opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
net(rille.ones(5, 3)):sum():backward()
opt:zero_grad()]],
    shows = "net.bias.grad",
    gives = "nil",
  },

  -- ---- compiled steps ----

  ["graph.hints"] = {
    sign = "step:hints()",
    text = [[
What each thing that you laid out makes an automatic step cost more: a list of {what =, line =, price =, price_high =}, in
nanoseconds, for moves and strategies that you wrote, and for variables that lie where you put them (an optimiser's state lies
as its parameter, and arguments as they come: they have no row). It prints: a line for each.]],
    code = [[
w = rille.nn.Parameter(rille.ones(4))
opt = rille.optim.SGD({w}, {lr = 0.1})
step = rille.graph(function() (w * w):sum():backward(); opt:step() end, {auto_parallel = true})
step()]],
    shows = "step:hints()[1].price",
    gives = "0",
  },
  ["graph.certify"] = {
    sign = "step:certify(path)",
    text = "Writes what proves the plan of an automatic step; `rille verify path` checks it.",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end, {auto_parallel = true})
step(rille.ones(64)):item()
path = os.tmpname()
step:certify(path)]],
    shows = "os.remove(path)",
    gives = "true",
  },
  ["graph.explain"] = {
    sign = "step:explain()",
    text = [[
As rille.explain, of the whole step. Of a planned one also cost and bound (ns), gap, memory (bytes of the fullest device),
scratch (those of them that kernels take while they run) and search_time (seconds of a core that the search for it took).
cost is all that is done, one after the other, and what a planner makes least; step_time is what a step takes in seconds: the
same, but that stages of a pipeline work on micro-batches at the same time, by its schedule.
Of one by "propagate" also meetings: where layouts that go outward from two hints meet. Each has op and line of the reader, hints
(two of {what =, line =}: whose layout the value has, and whose its reader has; of an argument or a variable the line where it is
read first), from, to, and bytes and ns of the move between. Hints are what lies somewhere, to_global and strategies that you wrote,
operators that leave no choice, and results that must lie as they do.]],
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "step:explain().ops[1].name",
    gives = "exp",
  },
  ["graph.plan"] = {
    sign = "step:plan()",
    text = "Tasks, registers and memory of its plan.",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "#tostring(step:plan()) > 0",
    gives = "true",
  },
  ["graph.show"] = {
    sign = 'step:show(["file.svg"][, {forward =, backward =}])',
    text = [[
Draws what the step does when: a row a device, micro-batches numbered, planned above measured, memory below, and who
waited for what. The first three calls are timed, and all from the first show(), chart() or trace() on; an older one than the
last is told. step:show(nil, {forward = 1, backward = 2}) plans with these costs.]],
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()
path = os.tmpname() .. '.svg'
step:show(path)]],
    shows = "os.remove(path)",
    gives = "true",
  },
  ["graph.actors"] = {
    sign = "step:actors()",
    text = [[
The actors of its plan and what each did in the last call: a list of {name =, device =, stage =, phase =, begun =, acts =,
bytes =, state =, line =}; state is "done", "ready", or whom it waited for when the call failed. :actors step prints it.]],
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "step:actors()[1].state",
    gives = "done",
  },
  ["graph.chart"] = {
    sign = "step:chart([{forward =, backward =, weight =, move =, update =, jitter =, seed =}])",
    text = [[
What step:show() draws, as a table: planned (on a virtual clock, by these seconds a micro-batch and stage, or by measured
ones; with jitter = 0.1 each act up to 10 % longer or shorter, drawn with seed) and measured, each {time =, bubble =, spans =, stalls =, devices =}; a span is
{device =, stage =, micro_batch =, what =, from =, to =}. activations: bytes that a device holds for backward; activations_1f1b: with
1F1B; bound: the least bubble; again: how much of forward backward computes again, 0 to 1. call of calls was measured; computing:
devices that do not only hold what others put aside, whose bubble it is; at_once: how many of them can act at once.]],
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "#step:chart().measured.devices",
    gives = "1",
  },
  ["graph.stats"] = {
    sign = "step:stats()",
    text = [[
Of the last call, for whose end it waits: step_time bubble ideal, and devices[i] with device busy idle bytes_in bytes_out peak_memory tenants (the largest then)
(seconds, bytes). ideal: if as many devices as can act at once always did, which bubble is the share above. hosts tells how many the step runs on; devices are those of all (of the first 64).]],
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "step:stats().step_time > 0",
    gives = "true",
  },
  ["graph.trace"] = {
    sign = "step:trace(path)",
    text = "Writes the last call that was timed (the first three, and all from the first trace(), show() or chart() on), on all hosts, as Chrome trace JSON, which opens in Perfetto.",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()
path = os.tmpname()
step:trace(path)]],
    shows = "os.remove(path)",
    gives = "true",
  },

  -- ---- data ----

  ["loader.advance"] = {
    sign = "loader:advance()",
    text = "The next batch of the epoch that was begun; nothing at its end.",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 4}
loader:begin()
loader:advance()]],
    shows = "loader:advance()",
    gives = "nil",
  },
  ["loader.batches"] = {
    sign = "for x, y in loader:batches() do",
    text = "Each loop is the next epoch; so is `for x, y in loader do`.",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
n = 0
for x in loader:batches() do n = n + #x end]],
    shows = "n",
    gives = "4",
  },
  ["loader.begin"] = {
    sign = "loader:begin()",
    text = "Begins the next epoch, for loader:advance().",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:begin()]],
    shows = "#loader:advance()",
    gives = "3",
  },
  ["loader.epoch"] = {
    sign = "for x, y in loader:epoch(n) do",
    text = "The batches of epoch n, a function of seed and n alone.",
    code = "loader = rille.data.loader{rille.arange(4), batch = 4, shuffle = true}",
    shows = "loader:epoch(3)():sum():item()",
    gives = "6",
  },
  ["loader.load_state"] = {
    sign = "loader:load_state(s)",
    text = "Goes on there; the first loop after it finishes that epoch.",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:next()
other = rille.data.loader{rille.arange(4), batch = 3}
other:load_state(loader:state())]],
    shows = "other:next():item()",
    gives = "3",
  },
  ["loader.next"] = {
    sign = "loader:next()",
    text = "One batch; of the next epoch when this one is over.",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:next()]],
    shows = "loader:next():item()",
    gives = "3",
  },
  ["loader.order"] = {
    sign = "loader:order(n)",
    text = "The rows in the order of epoch n, counted from 0.",
    code = "loader = rille.data.loader{rille.arange(4), batch = 4}",
    shows = "loader:order(0)[4]",
    gives = "3",
  },
  ["loader.refuses"] = {
    sign = "loader:refuses(s)",
    text = "Why a state is not of this data, cut into batches like these, as text; nil when it is.",
    code = "loader = rille.data.loader{rille.arange(4), batch = 3}",
    shows = "loader:refuses(loader:state())",
    gives = "nil",
  },
  ["loader.state"] = {
    sign = "loader:state()",
    text = "Where it stands, as numbers: what a checkpoint keeps.",
    code = [[
loader = rille.data.loader{rille.arange(4), batch = 3}
loader:next()]],
    shows = "loader:state().at",
    gives = "3",
  },
  ["loader.stats"] = {
    sign = "data:stats()",
    text = "Of tokens, whose source reads ahead: depth (its credits), read, taken (batches), full (how often it waited for a credit), waited (for a batch), wait (seconds).",
    code = [[
data = rille.data.tokens({1, 2, 3, 4, 5}, {batch = 1, length = 2})
data:next()]],
    shows = "data:stats().taken",
    gives = "1",
  },
  ["loader.take"] = {
    sign = "loader:take(epoch, first, n)",
    text = "n rows of an epoch, behind the first so many: a tensor of each that is loaded.",
    code = "loader = rille.data.loader{rille.arange(4), batch = 4}",
    shows = "loader:take(0, 1, 2):sum():item()",
    gives = "3",
  },

  -- ---- text ----

  ["tokenizer.decode"] = {
    sign = "t:decode(ids, {skip_special_tokens = false})",
    text = "The text again; any bytes go round.",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t:decode(t:encode('ab'))",
    gives = "ab",
  },
  ["tokenizer.encode"] = {
    sign = "t:encode(text, {add_special_tokens = false})",
    text = "A list of ids; on request with the special tokens that the file's template puts around a text.",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "#t:encode('b')",
    gives = "1",
  },
  ["tokenizer.save"] = {
    sign = "t:save(path)",
    text = "Writes tokenizer.json.",
    code = [[
t = rille.tokenizer.train({'aaab aaab'}, {size = 258})
path = os.tmpname()
t:save(path)]],
    shows = "os.remove(path)",
    gives = "true",
  },
  ["tokenizer.size"] = {
    sign = "t.size",
    text = "How many ids there are, special ones too.",
    code = "t = rille.tokenizer.train({'aaab aaab'}, {size = 258})",
    shows = "t.size",
    gives = "258",
  },

  -- ---- models ----

  ["model.config"] = {
    sign = "m.config",
    text = "What the model was made with; of one that was loaded, eos_token_id too: what ends a text, an id or a list, if its folder says so.",
    code = "m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}",
    shows = "m.config.heads",
    gives = "2",
  },
  ["model.features"] = {
    sign = "m:features(ids)",
    text = "What the last layer sees: (batch, length, width).",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m:features(ids).shape[3]",
    gives = "8",
  },
  ["model.generate"] = {
    sign = "m:generate(ids, {max_new_tokens =, temperature =, top_k =, top_p =, seed =, stop =, on_token =})",
    text = "Prompt and continuation: a tensor of a tensor, lists of lists of ids. temperature 0 takes the likeliest; "
      .. "logits that are nan are an error.",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m:generate(ids, {max_new_tokens = 2, temperature = 0}).shape[2]",
    gives = "5",
  },
  ["model.logits"] = {
    sign = "m:logits(features)",
    text = "The last layer: what a call gives of the features.",
    code = [[
ids = rille.tensor({{1, 2, 3}}, {dtype = 'i64'})
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}]],
    shows = "m:logits(m:features(ids)).shape[3]",
    gives = "11",
  },
  ["model.save"] = {
    sign = "m:save(dir)",
    text = "Writes config.json and model.safetensors, with Hugging Face's names.",
    code = [[
m = rille.models.gpt2.new{vocab = 11, length = 8, layers = 1, heads = 2, width = 8}
dir = os.tmpname()
os.remove(dir)
m:save(dir)
other = rille.models.gpt2.load(dir)]],
    shows = "other.config.vocab",
    gives = "11",
  },

  -- ---- progress ----

  ["progress.finish"] = {
    sign = "line:finish()",
    text = "Ends the line.",
    code = [[
line = rille.train.progress{total = 1, file = io.tmpfile()}
line:finish()]],
    shows = "type(line)",
    gives = "table",
  },
  ["progress.update"] = {
    sign = "line:update(step, loss, samples)",
    text = "Shows them where the line is due.",
    code = [[
line = rille.train.progress{total = 1, file = io.tmpfile()}
line:update(1, 0.5, 64)]],
    shows = "line.samples",
    gives = "64",
  },
}
