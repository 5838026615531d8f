-- functions.lua - pages of rille's functions that are no operators'; of one with the name of an operator the page goes on
-- with what its record tells.

local OPTIONS = ", {dtype =, placement =, sbp =, requires_grad =, name =}"

return {
  allow_tf32 = {
    sign = "rille.allow_tf32(on)",
    text = [[
whether products and convolutions on GPUs may round f32 factors to TF32, 10 bits of fraction, which tensor cores multiply
Off at first; what is called or traced from then on has it; no effect on a cpu. It returns what it was, and without an argument changes
nothing.]],
    code = "rille.allow_tf32(true)",
    shows = "rille.allow_tf32(false)",
    gives = "true",
  },
  arange = {
    sign = "rille.arange(n" .. OPTIONS .. "), rille.arange(a, b, step = 1" .. OPTIONS .. ")",
    options = true,
    text = "a, a + step, ... before b, to which the steps lead; whole numbers give i64",
    shows = "rille.arange(5):sum():item()",
    gives = "10",
  },
  boxing = {
    sign = "rille.boxing{shape =, dtype =, from = {placement =, sbp =}, to = {placement =, sbp =}}",
    text = [[
one move, priced
Fields: name, bytes, bound, received (by rank), steps, candidates. b:show() draws it, also e.boxing[1]:show()
On "meta" devices more than 8 ranks have no steps, more than 64 no received and no candidates;
there each mesh axis above three counts as twice the ranks]],
    code = [[
P = rille.placement('cpu', {0, 1})
from, to = {placement = P, sbp = 'S(0)'}, {placement = P, sbp = 'B'}
move = rille.boxing{shape = {4}, dtype = 'f32', from = from, to = to}]],
    shows = "move.bytes",
    gives = "16",
  },
  cat = {
    sign = "rille.cat({x, ...}, axis)",
    text = "concat",
    shows = "#rille.cat({rille.ones(2), rille.ones(3)}, 0)",
    gives = "5",
  },
  certificate = {
    sign = "rille.certificate(path)",
    text = "what the certificate of a plan proves; an error when it proves nothing",
    shows = "pcall(rille.certificate, 'no such file')",
    gives = "false",
  },
  chunk = {
    sign = "chunk(x, n, axis = 0, {strategy =})",
    text = [[
a list of at most n parts of one size along axis, the last one smaller
n              integer: how many parts
axis           integer: dimension to cut
strategy       {{2, 1}}: how often each axis of x is cut, for each slice
made of        slice, once for each part, whose layouts it has
gradient       yes]],
    shows = "#rille.ones(5):chunk(2)",
    gives = "2",
  },
  clock = {
    sign = "rille.clock()",
    text = "seconds, from some start; a step on one GPU may return before its work is done: read a value of it first",
    shows = "rille.clock() > 0",
    gives = "true",
  },
  counters = {
    sign = "rille.counters()",
    text = "nodes, compiles, cache_hits, runs, acts, messages, ... since the start",
    shows = "rille.counters().runs >= 0",
    gives = "true",
  },
  device_info = {
    first = "cpu|cuda",
    sign = 'rille.device_info("cuda", 0)',
    text = "the GPU of a device: {name =, memory =, capability =, kernels =}",
    shows = "type(rille.device_info)",
    gives = "function",
  },
  devices = {
    sign = "rille.devices()",
    text = "the devices used so far and their memory",
    shows = "type(rille.devices())",
    gives = "table",
  },
  empty = {
    sign = "rille.empty(shape" .. OPTIONS .. ")",
    options = true,
    shows = "rille.empty(2, 3):numel()",
    gives = "6",
  },
  explain = {
    sign = "rille.explain(y)",
    text = [[
each operator's signature, results (shape; part: the most that a rank has of it), candidates and bytes; each boxing's steps, bytes
and bound. Candidates are in the order in which they would be chosen: fewest bytes moved and owed, where a candidate that leaves
ranks without work counts 5 % more; of equal bytes the smallest share of the busiest rank.]],
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "rille.explain(x:sum()).ops[1].name",
    gives = "sum",
  },
  eye = {
    sign = "rille.eye(n, m = n" .. OPTIONS .. ")",
    options = true,
    text = "ones on the diagonal",
    shows = "rille.eye(3):sum():item()",
    gives = "3.0",
  },
  floor_divide = {
    sign = "a // b",
    shows = "(rille.tensor(7) // 2):item()",
    gives = "3.0",
  },
  full = {
    sign = "rille.full(shape, value" .. OPTIONS .. ")",
    options = true,
    shows = "rille.full({2, 2}, 0.5):sum():item()",
    gives = "2.0",
  },
  grad = {
    is = "tensor",
    sign = "rille.grad(y, {x1, x2})",
    text = "dy/dx1, dy/dx2, of tensors that require a gradient; can be differentiated again.  x.grad is what backward added",
    code = "x = rille.tensor(3.0, {requires_grad = true})",
    shows = "rille.grad((x * x):sum(), {x}):item()",
    gives = "6.0",
  },
  graph = {
    is = "graph",
    sign = "step = rille.graph(fn, {micro_batches =, schedule =, auto_parallel =, recompute =, zero =, offload =, prefetch =, memory_limit =, time_limit =, check =})",
    text = [[
Compiles a function of tensors: the first call records (traces) what fn computes, later calls run the recorded plan. The step is
traced again, and both traces are kept, if something that fn reads has changed: shapes and layouts of arguments, other
arguments, upvalues, globals, fields of tables, objects and modules, modes, requires_grad, also in the Lua functions that fn
calls. Tensors and functions are compared by identity, other values by value; of a list of more than 256 entries only the length.
A number with which fn only computes costs no new trace: it becomes an input. A warning names a value that causes a trace again and
again, and a value that fn itself changes, because a run of the plan does not repeat that. Not followed: what C functions
read (os.clock, math.random) and what is behind other objects' metamethods. check = "trace" (or RILLE_CHECK=trace) finds
these: calls 1, 2, 4, 8... trace again, and raise an error with the line of the first operator that differs.
micro_batches = m cuts each argument along axis 0 into m parts, which are computed one after the other. Loss, gradients and scalar
results are those of the whole batch: of means, of sums, and of quotients whose divisor follows from the arguments (ignore_index,
the sum of a mask), also where a part has no label. A divisor that depends on parameters must be detached, and a mean over rows is
written mean(): a sum divided by x.shape[1] is an error. Statistics inside layers (batch norm) are those of one part. Results that
have rows are joined. Lines that call backward() several times before opt:step() add up what they are given: divide each loss
by the count of the whole batch there.
step:explain(), step:plan(), step:stats(), step:trace(file)
A stage begins where data goes on to other devices, also where it was before (a, b, a: three); so no stages wait for each
other in a circle. A loss that no argument reaches, on devices to which none comes, is a stage that nothing feeds: an error.
schedule: "1f1b" (of none is said), "gpipe", "zb-h1", "zb-h2"; "interleaved" for stages dealt round the
devices (0 1 0 1); or found on a virtual clock: "zb-v", "v-half", "v-min" for stages dealt there and back (0 1 1 0), "auto" within memory_limit, {memory = 0.5} - up to 16: of what 1F1B holds, above: bytes of
activations a device, of two micro-batches or more; costs = step:chart() finds it for measured times. {lag = 2, split_backward = true} by hand.
zero = 1, 2: updates, and their gradients, on slices; 3: of parameters that lie so (rille.parallel). Within the
step alone, where a recipe's zero holds in eager lines too; of parameters that a recipe laid out with another one: an error.
offload = placement: what backward reads, and optimisers' state, lies there meanwhile; a device for each of a value's.
prefetch = 2: so many values are back, or gathered again (zero = 3), before they are read, beside the one that is; 1 of none is said.
memory_limit = bytes a device of all that it holds: a schedule that is searched for keeps to it; a plan that would hold
more is refused, with what has most of it. What a script holds beside the step is not of it: where that still reads the
value of a variable that the step updates, by a view or a move not computed yet, the new value lies beside the old one.
recompute = true computes again what backward reads, each stage as one, a step of one stage in eight parts; "auto": parts of
stages, where memory is too little, or better spent so.
auto_parallel = true lays the step out ("propagate": outward from what lies somewhere, in linear time); e = step:explain() has e.cost
and e.bound, in ns, and e.gap, and of "propagate" e.meetings, where hints meet; with memory_limit =, in bytes a device, and
time_limit =, in seconds of a core (1, or 0.1 for the bound of "propagate" and "greedy"). If no plan within the limit is found, the
error names the least memory of a plan that was found, which may be asked for. step:certify(file) writes what proves a plan.
A call over a split axis (a softmax) is several operators where those take less time in the layouts of its operands when it is
traced.
zero, offload and recompute = "auto" choose what a plan chooses, too: beside auto_parallel each is an error.]],
    code = "step = rille.graph(function(x) return x + 1 end)",
    shows = "step(rille.ones(2)):sum():item()",
    gives = "4.0",
  },
  help = {
    sign = "rille.help([name])",
    text = "prints the page of a name; without one, the names",
    shows = "type(rille.help)",
    gives = "function",
  },
  is_lost = {
    sign = "rille.is_lost(err)",
    text = "does the error tell that a worker was lost?",
    shows = "rille.is_lost('another error')",
    gives = "false",
  },
  is_terminal = {
    sign = "rille.is_terminal(fd)",
    text = "whether a file descriptor is one",
    shows = "type(rille.is_terminal(1))",
    gives = "boolean",
  },
  linspace = {
    sign = "rille.linspace(a, b, n" .. OPTIONS .. ")",
    options = true,
    text = "n numbers from a to b, both included",
    shows = "rille.linspace(0, 1, 3)[1]:item()",
    gives = "0.5",
  },
  live = {
    sign = "rille.live(fn)",
    text = "a number that fn gives anew before each call of a compiled step; + - * / // % ^ of live numbers are live numbers",
    code = [[
k = 3
step = rille.graph(function(x) return x * rille.live(function() return k end) end)
step(rille.ones(2))
k = 5]],
    shows = "step(rille.ones(2)):sum():item()",
    gives = "10.0",
  },
  manual_seed = {
    sign = "rille.manual_seed(n)",
    text = "restarts the random values",
    code = [[
rille.manual_seed(1)
a = rille.rand(1):item()
rille.manual_seed(1)]],
    shows = "rille.rand(1):item() == a",
    gives = "true",
  },
  no_grad = {
    sign = "rille.no_grad(fn, ...)",
    text = "runs fn; nothing in it is remembered for gradients",
    code = "w = rille.ones({1}, {requires_grad = true})",
    shows = "rille.no_grad(function() return (w * 2).requires_grad end)",
    gives = "false",
  },
  ones = {
    sign = "rille.ones(shape" .. OPTIONS .. ")",
    options = true,
    shows = "rille.ones(2, 3):sum():item()",
    gives = "6.0",
  },
  operators = {
    sign = "rille.operators()",
    text = "the names of all operators, sorted",
    shows = "rille.operators()[1]",
    gives = "abs",
  },
  page = {
    sign = "rille.page(name)",
    text = "the page of a name as text",
    shows = "rille.page('exp'):match('^exp')",
    gives = "exp",
  },
  placement = {
    is = "placement",
    first = "cpu|cuda|meta",
    sign = "rille.placement(kind, ranks)",
    text = [[
A mesh of devices of one kind: placement("cpu", {0, 1}), placement("cpu", {{0, 1}, {2, 3}}).
Fields: device, ranks, shape, size. Equal meshes are ==. The kind "meta" has layouts and no values.]],
    shows = "rille.placement('cpu', {0, 1}).size",
    gives = "2",
  },
  plan = {
    sign = "rille.plan(y[, {physical = true}])",
    text = "tasks, registers, memory",
    shows = "#tostring(rille.plan(rille.ones(2):exp())) > 0",
    gives = "true",
  },
  rand = {
    sign = "rille.rand(shape" .. OPTIONS .. ")",
    options = true,
    shows = "rille.rand(5):lt(1):all():item()",
    gives = "true",
  },
  randint = {
    sign = "rille.randint(lo, hi, shape" .. OPTIONS .. ")",
    options = true,
    text = "whole numbers, hi left out; i64",
    shows = "rille.randint(0, 4, {5}):lt(4):all():item()",
    gives = "true",
  },
  randn = {
    sign = "rille.randn(shape" .. OPTIONS .. ")",
    options = true,
    shows = "rille.randn(5).dtype",
    gives = "f32",
  },
  recover = {
    sign = "rille.recover([{workers = n}])",
    text = [[
replaces lost workers, or goes on with n; all is as at the last snapshot,
whose note it gives; where nobody has a part of that any more, as at the one
before it, if that was kept, and then why as well]],
    code = "rille.snapshot('note')",
    shows = "rille.recover()",
    gives = "note",
  },
  remainder = {
    sign = "a % b",
    shows = "(rille.tensor(7) % 4):item()",
    gives = "3.0",
  },
  sbp = {
    sign = "rille.sbp",
    text = [[
How a tensor lies over a mesh, one text for each mesh axis: "S(0)" split along axis 0,
"B" whole everywhere, "P" the sum over ranks, "P(max)", "P(min)".
{"B", "S(0)"} on a 2-D mesh; {"S(0)", "S(0)", order = {1, 0}} cuts along mesh axis 1 first.
rille.sbp.split(axis), rille.sbp.broadcast, rille.sbp.partial_sum, rille.sbp.partial("max")]],
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "rille.ones({4}, {placement = P, sbp = rille.sbp.split(0)}).sbp",
    gives = "S(0)",
  },
  snapshot = {
    sign = "rille.snapshot(note, [{keep = 1}])",
    text = [[
keeps all variables, random counters and the note as they are now
keep           2: the snapshot before it stays too, for the case that this one is
               damaged; as much memory again]],
    shows = "rille.snapshot('note')",
    gives = "nil",
  },
  split = {
    sign = "split(x, size, axis = 0, {strategy =}), split(x, {sizes}, axis = 0)",
    text = [[
a list of parts: part k is x from start k up to start k + 1 along axis
size           integer, of a part, the last one may be smaller; or their sizes, which add up to that of x
axis           integer: dimension to cut
strategy       {{2, 1}}: how often each axis of x is cut, for each slice
made of        slice, once for each part, whose layouts it has
gradient       yes]],
    shows = "#rille.ones(5):split(2)",
    gives = "3",
  },
  tensor = {
    is = "tensor",
    sign = "rille.tensor(values" .. OPTIONS .. ")",
    options = true,
    text = "a tensor from a number or nested tables",
    shows = "rille.tensor({{1, 2}, {3, 4}}).ndim",
    gives = "2",
  },
  whatif = {
    sign = "rille.whatif(step, {mesh = {128, 8}, bandwidth =, latency =, flops =, memory =})",
    text = [[
The step, planned for a cluster that one does not have: a record as step:explain() gives, with step_time in seconds, and axis_bytes,
what goes over the links of each mesh axis: a move counts where its slowest links are. With a list of limits for memory
a list: a record for each, or false where none was found that keeps it - the curve of memory against time. On the step's own
mesh the search begins with the step's plan and has its time_limit, else 0.3 s: a step with that memory_limit may find a
plan where this says false. Operators are as the step was traced. Each placement of the step is such a mesh of other devices.
cost is all that is done, one after the other; stages work on micro-batches at the same time, by the step's schedule, and then
step_time is what that takes: hops between stages go over the slowest links. memory is what the fullest device holds, of its own
stages alone: on the step's own mesh what the plan does; elsewhere, and of a schedule that is searched for, the planner's count
and the scratch of one device's kernels, an eighth more than is held at most, in micro-batches 5 % less to a fifth more. What is not
given is reckoned as on this machine: rille --calibrate measures it; a latency of 0 is none.]],
    code = [[
step = rille.graph(function(x) return x:exp() end)
step(rille.ones(64))
curve = rille.whatif(step, {mesh = {2}, memory = {1e6, 10}})]],
    shows = "curve[1].step_time > 0 and curve[2]",
    gives = "false",
  },
  workers = {
    sign = "rille.workers()",
    text = "the worker processes: {rank =, host =, pid =, devices =, state =, heartbeat =, acts =, busy =}; slow = 2.4: its acts take so many times as long as those of others who do the same",
    shows = "rille.workers()[1] == nil",
    gives = "false",
  },
  zeros = {
    sign = "rille.zeros(shape" .. OPTIONS .. ")",
    options = true,
    shows = "rille.zeros(2, 3):sum():item()",
    gives = "0.0",
  },
}
