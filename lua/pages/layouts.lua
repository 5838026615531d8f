-- layouts.lua - pages of placements, layouts, moves and plans, and of the cluster.

return {
  placement = {
    is = "placement",
    first = "cpu|cuda|meta",
    sign = "rille.placement(kind, ranks)",
    text = [[
Makes a placement: a mesh of devices of one kind, over which tensors are distributed.
placement("cpu", {0, 1}) is a mesh of one axis, placement("cpu", {{0, 1}, {2, 3}}) one of two axes.
A tensor created without a placement, such as a mask in forward, is sent, replicated, to the placement of
the tensors that it meets in a call. Parameters, and tensors created with a placement, stay.]],
    args = [[
kind: "cpu", "cuda" or "meta" (any number of devices, with shapes and layouts and without values)
ranks: list of device numbers, from 0, nested once per mesh axis]],
    returns = "a placement with the fields device, ranks, shape and size; equal placements compare equal",
    errors = "each rank must be a device of the session (?devices), listed once",
    shows = "rille.placement('cpu', {0, 1}).size",
    gives = "2",
    see = "sbp to_global devices whatif",
    words = "mesh devices distribute gpu cluster",
  },
  from_local = {
    sign = "rille.from_local(list, {placement =, sbp =})",
    text = [[
Makes a tensor from one shard per rank. Differentiable.
Shards that are on their devices are not moved, unless a shard requires a gradient, or in a compiled step.]],
    args = [[
list: list of tensors, one per rank in mesh order
placement: placement of the tensor
sbp: layout with S on each mesh axis; shards must be as even as those of to_global]],
    returns = "a tensor",
    errors = "a shard has another shape than the layout requires",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "rille.from_local({rille.zeros({1, 3}), rille.ones({1, 3})}, {placement = P, sbp = 'S(0)'}):sum():item()",
    gives = "3.0",
    see = "to_local to_global per_rank shards",
    words = "DTensor assemble join shards",
  },
  ["placement.device"] = {
    sign = "P.device",
    text = "Is the kind of the placement's devices: \"cpu\", \"cuda\" or \"meta\".",
    returns = "a string",
    errors = "the field is read-only",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "P.device",
    gives = "cpu",
    see = "placement tensor.device",
  },
  ["placement.ranks"] = {
    sign = "P.ranks",
    text = "Is the list of device numbers, in mesh order.",
    returns = "a list of integers",
    errors = "the field is read-only",
    code = "P = rille.placement('cpu', {1, 0})",
    shows = "P.ranks[1]",
    gives = "1",
    see = "placement",
  },
  ["placement.shape"] = {
    sign = "P.shape",
    text = "Is the list of sizes of the mesh, one per axis.",
    returns = "a list of integers",
    errors = "the field is read-only",
    code = "P = rille.placement('meta', {{0, 1, 2}, {3, 4, 5}})",
    shows = "P.shape[2]",
    gives = "3",
    see = "placement",
    words = "mesh",
  },
  ["placement.size"] = {
    sign = "P.size",
    text = "Is the number of devices.",
    returns = "an integer",
    errors = "the field is read-only",
    code = "P = rille.placement('meta', {{0, 1, 2}, {3, 4, 5}})",
    shows = "P.size",
    gives = "6",
    see = "placement",
    words = "mesh",
  },
  ["placement.show"] = {
    sign = 'P:show(["file.svg"])',
    text = "Draws the mesh of devices, in the terminal or as an SVG file.",
    args = "file: string, optional; path of an .svg file",
    returns = "nothing",
    errors = "file must be a string that ends in .svg, a path that can be written",
    code = "P = rille.placement('meta', {{0, 1, 2}, {3, 4, 5}})",
    shows = "P:show()",
    gives = "nil",
    see = "show sbp",
    words = "mesh picture",
  },
  sbp = {
    sign = "rille.sbp",
    text = [[
Describes how a tensor is distributed over its mesh, one entry per mesh axis.
"S(0)"   split: each rank has a shard along tensor axis 0; "S(0, unit 64)": of complete blocks of 64
"B"      broadcast: each rank has a copy (replicated)
"P"      partial: the value is the sum over ranks; "P(max)", "P(min)": the maximum, the minimum
On two mesh axes {"B", "S(0)"}; "B" alone means B on every axis.
{"S(0)", "S(0)", order = {1, 0}} splits along mesh axis 1 first.
sbp.split(axis), sbp.broadcast, sbp.partial_sum and sbp.partial(kind) make the same strings.]],
    returns = "a table with split, broadcast, partial_sum and partial",
    errors = [[
an entry must be S(axis), S(axis, unit n), B, P, P(max) or P(min);
axis must be a dimension, n must divide it, and order must name each mesh axis once]],
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "rille.ones({4}, {placement = P, sbp = rille.sbp.split(0)}).sbp",
    gives = "S(0)",
    see = "placement to_global tensor.sbp explain",
    words = "sharding layout split replicated replicate partial distribute dtensor shard_map pmap partition",
  },
  ["sbp.broadcast"] = {
    sign = "rille.sbp.broadcast",
    text = 'Is the entry "B": each rank has a copy of the tensor.',
    returns = "a string",
    errors = "none: every tensor may have the entry",
    shows = "rille.sbp.broadcast",
    gives = "B",
    see = "sbp expand",
    words = "replicate replicated",
  },
  ["sbp.partial"] = {
    first = "sum|max|min",
    sign = "rille.sbp.partial(kind)",
    text = "Makes the entry of a partial value: P is a sum over ranks, P(max) a maximum, P(min) a minimum.",
    args = 'kind: "sum", "max" or "min"',
    returns = "a string",
    errors = 'kind must be "sum", "max" or "min"',
    shows = "rille.sbp.partial('max')",
    gives = "P(max)",
    see = "sbp",
  },
  ["sbp.partial_sum"] = {
    sign = "rille.sbp.partial_sum",
    text = 'Is the entry "P": the value is the sum over the ranks.',
    returns = "a string",
    errors = "a tensor with P(max) or P(min) must be converted to B or S first",
    shows = "rille.sbp.partial_sum",
    gives = "P",
    see = "sbp",
  },
  ["sbp.split"] = {
    sign = "rille.sbp.split(axis, {unit = 1})",
    text = [[
Makes the entry of a split: each rank has a shard along this tensor axis.
S(0, unit 64) splits 192 rows on 2 ranks into 128 and 64, so that no attention head of 64 rows is cut.]],
    args = [[
axis: integer, from 0; negative axes count from the end
unit: number of adjacent elements that stay on one rank; must divide the axis]],
    returns = "a string",
    errors = "axis must be an integer; the tensor must have this axis; unit must be a positive integer that divides the axis",
    shows = "rille.sbp.split(1, {unit = 64})",
    gives = "S(1, unit 64)",
    see = "sbp shards",
    words = "shard",
  },
  boxing = {
    sign = "rille.boxing{shape =, dtype =, from = {placement =, sbp =}, to = {placement =, sbp =}}",
    text = [[
Prices one move of a tensor between layouts: a redistribution (boxing), without running it.
Above 8 "meta" devices the result has no steps, above 64 no received bytes and no candidates.]],
    args = [[
shape: list of integers
dtype: string
from: {placement =, sbp =}; layout before the move
to: {placement =, sbp =}; layout after it]],
    returns = [[
a table: name (all-gather, all-reduce, ...), bytes, bound (least possible bytes), received (per
rank), steps, candidates; b:show() draws the move]],
    errors = [[
shape, dtype, from and to must be given;
each sbp must fit the shape and its mesh, and must not be "auto"]],
    code = [[
P = rille.placement('cpu', {0, 1})
from, to = {placement = P, sbp = 'S(0)'}, {placement = P, sbp = 'B'}
move = rille.boxing{shape = {4}, dtype = 'f32', from = from, to = to}]],
    shows = "move.bytes",
    gives = "16",
    see = "to_global explain sbp",
    words = "redistribute all-reduce allreduce all-gather reduce-scatter all-to-all collective communication cost nccl",
  },
  explain = {
    sign = "rille.explain(y)",
    text = "Shows how a value is computed: the layouts, the alternatives and the bytes of each operator and move.",
    args = "y: tensor",
    returns = [[
a table that prints as text: ops (name, line, inputs, outputs, results, candidates), boxing (from,
to, bytes, bound, steps), bytes. Candidates are in the order of choice: fewest bytes moved or
pending first; of equal bytes the smallest share of the busiest rank]],
    errors = "y must be a tensor; for a compiled step, write step:explain()",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "rille.explain(x:sum()).ops[1].name",
    gives = "sum",
    see = "plan boxing graph.explain tensor.sbp",
    words = "why communication cost layout candidates debug",
  },
  plan = {
    sign = "rille.plan(y, {physical = false})",
    text = "Shows the compiled plan of a value: tasks, registers and memory.",
    args = [[
y: tensor
physical: boolean, default false; threads, offsets and scratch of each task]],
    returns = "a table that prints as text",
    errors = "y must be a tensor; for a compiled step, write step:plan(); physical is the only option",
    shows = "#tostring(rille.plan(rille.ones(2):exp())) > 0",
    gives = "true",
    see = "explain graph.plan",
  },
  devices = {
    sign = "rille.devices()",
    text = "Lists the devices that the program has used so far, and their memory.",
    returns = [[
a list of {kind =, device =, thread =, live_bytes =, peak_bytes =, arena_bytes =, limit_bytes =};
:devices prints the list]],
    errors = "no argument is accepted",
    shows = "rille.devices()[1].kind",
    gives = "cpu",
    see = "device_info placement workers",
    words = "device list memory gpu cuda",
  },
  device_info = {
    first = "cuda",
    sign = "rille.device_info(kind, rank)",
    text = "Describes the GPU of a device: name, memory, compute capability.",
    args = [[
kind: "cuda"
rank: integer; number of the device]],
    returns = "a table {name =, memory = bytes, capability =, kernels =}",
    errors = "the session must have the device: rille -d cuda:all",
    code = [[
has_gpu = pcall(rille.device_info, 'cuda', 0)
P = rille.placement(has_gpu and 'cuda' or 'cpu', {0})]],
    shows = "rille.ones({2}, {placement = P}):sum():item()",
    gives = "2.0",
    see = "devices placement allow_tf32",
    words = "gpu cuda device nvidia",
  },
  allow_tf32 = {
    sign = "rille.allow_tf32(on)",
    text = [[
Lets matrix products and convolutions on GPUs round f32 operands to TF32, which is faster.
TF32 keeps 10 bits of fraction and uses tensor cores. Products called or traced later follow. CPUs ignore it.]],
    args = "on: boolean, optional; without it nothing changes",
    returns = "the previous setting; false at the start",
    errors = "on must be a boolean",
    code = "rille.allow_tf32(true)",
    shows = "rille.allow_tf32(false)",
    gives = "true",
    see = "autocast device_info",
    words = "tf32 precision tensor cores fast gpu cuda",
  },
  whatif = {
    sign = "rille.whatif(step, {mesh = {128, 8}, bandwidth =, latency =, flops =, memory =})",
    text = [[
Predicts time, memory and traffic of a compiled step on a cluster that you do not have.
Each placement of the step becomes such a mesh of other devices.
A mesh with another number of axes frees all layouts.]],
    args = [[
step: a compiled step that was called once (?graph)
mesh: list of integers; sizes of the mesh
bandwidth: bytes per second of a link, a number or a list per mesh axis; default: as measured here
latency: seconds per message, a number or a list per mesh axis
flops: flop per second of a device
memory: limit in bytes per device, or a list of limits]],
    returns = [[
a table as of step:explain(), with step_time (seconds), memory (bytes of the fullest device), cost
and bound (ns), axis_bytes (bytes per mesh axis). For a list of limits: a list with a table per
limit, or false if no plan within the limit was found: the curve of memory against time]],
    errors = "the step must have been called",
    code = [[
step = rille.graph(function(x) return x:exp() end)
step(rille.ones(64))
curve = rille.whatif(step, {mesh = {2}, memory = {1e6, 10}})]],
    shows = "curve[1].step_time > 0 and curve[2]",
    gives = "false",
    see = "graph graph.explain placement",
    words = "predict estimate simulate cluster scaling cost mesh",
  },
  workers = {
    sign = "rille.workers()",
    text = "Lists the worker processes of the cluster and their state.",
    returns = [[
a list of {rank =, host =, pid =, devices =, state =, heartbeat =, acts =, busy =}; slow = 2.4: the
worker's tasks take 2.4 times as long as equal tasks of other workers]],
    errors = "no argument is accepted",
    shows = "rille.workers()[1].rank",
    gives = "0",
    see = "recover snapshot is_lost",
    words = "cluster process distributed node host launch slurm ssh mpi",
  },
  snapshot = {
    sign = "rille.snapshot(note, {keep = 1})",
    text = "Keeps a copy of all variables, optimiser state and random counters in memory, for rille.recover().",
    args = [[
note: number, string or table of them; returned by recover
keep: 1 or 2, default 1; 2 also keeps the previous snapshot, at twice the memory]],
    returns = "nothing",
    errors = [[
note must be made of numbers, strings, booleans and tables of them, and must not contain itself;
keep must be 1 or 2]],
    shows = "rille.snapshot('note')",
    gives = "nil",
    see = "recover checkpoint.save",
    words = "backup fault tolerance",
  },
  recover = {
    sign = "rille.recover({workers =})",
    text = "Continues after the loss of workers: starts new ones, and restores the last snapshot.",
    args = "workers: integer; continue with this many workers instead",
    returns = [[
the note of the snapshot; if the last snapshot lost data, the note of the one before it, and the
reason]],
    errors = [[
a snapshot must exist; no more losses than --restarts permits; fewer than three losses in succession
in the same operator call after the same snapshot]],
    code = "rille.snapshot('note')",
    shows = "rille.recover()",
    gives = "note",
    see = "snapshot is_lost workers train.elastic",
    words = "fault tolerance elastic restart crash",
  },
  is_lost = {
    sign = "rille.is_lost(err)",
    text = "Returns true if an error reports the loss of a worker.",
    args = "err: any value, as pcall returns it",
    returns = "boolean",
    errors = "exactly one argument is accepted; it may be of any type",
    shows = "rille.is_lost('another error')",
    gives = "false",
    see = "recover workers",
    words = "error crash kill killed",
  },
}
