-- steps.lua - pages of compiled steps, of recipes for parallel training, and of proofs of plans.

return {
  graph = {
    is = "graph",
    sign = "step = rille.graph(fn, {micro_batches =, schedule =, auto_parallel =, recompute =, zero =, offload =, prefetch =, memory_limit =, time_limit =, check =, buckets =})",
    text = [[
Compiles a function of tensors: the first call traces it, later calls run the compiled plan.
The step is traced again if a value that fn reads has changed: shapes and layouts, upvalues, globals, fields of
tables and modules. A changed number, also an argument, causes no new trace: the number becomes an input, unless
fn decides by it (compares it, uses it as a key, or makes a text of it). Tensors and functions are compared by
identity, other values by value; of a list of more than 65,536 entries only the length is compared.
Values of C functions (os.clock, math.random) are not followed. Assignments in fn happen once, when it is traced:
keep a state that changes in each call in a variable, by h:copy_(y). Replacing a tensor that fn reads is an error.
If a check of data fails (a label out of range), all variables keep their values.
Pipelines: put the parameters of each stage on its own placement, and move activations with to_global.
Arguments and results may be tables with tensors: step{ids = x, labels = y} returns {loss = ..., logits = ...}.
Micro-batches: loss and gradients equal those of the whole batch, for means, sums, and quotients whose divisor
follows from the arguments or is computed from their shape. fn is called twice per trace then, first with the whole
batch. A call that combines rows of the batch (a softmax over rows) is an error, except in rille.per_micro_batch,
also in hooks and backward functions; so is a branch on their number, and a call whose result for the micro-batches
is not that of the whole batch: x:slice(0, 0, 2) takes 2 rows of the batch. max, min, any and all over rows can be
results of the step. nn.BatchNorm2d normalises each micro-batch by its own statistics, as with gradient accumulation
in PyTorch; a warning says so once.
Several backward() calls before one opt:step() add up: divide each loss by the count of the whole batch.]],
    args = [[
fn: function of tensors; it may call backward() and opt:step()
micro_batches: integer, default 1; cuts each argument along axis 0, which pipelines need, and accumulates gradients
schedule: "1f1b" (default with stages), "gpipe", "zb-h1", "zb-h2"; "interleaved" for stages ordered 0 1 0 1;
  "zb-v", "v-half", "v-min" for stages in the order 0 1 1 0; "auto": the best within memory_limit;
  {memory = 0.5}: half of 1F1B's activations; a value above 16 is in bytes per device;
  {costs = step:chart()}: for measured times; {lag = 2, split_backward = true}: by hand
auto_parallel: true or "optimal": the planner chooses layouts; "propagate", "recursive", "greedy": faster
recompute: true: recompute activations in backward (activation checkpointing); "auto": as much as memory needs
zero: 0 to 3, default 0; ZeRO within the step: 1 shards optimiser state, 2 gradients, 3 parameters
offload: a placement that keeps activations and optimiser state until they are needed
prefetch: integer, default 1; values fetched ahead of their reader (offload, zero = 3)
memory_limit: bytes per device; the plan keeps within it
time_limit: seconds, default 1; limit of the planner's search. The first call takes longer: tracing, the layouts
  that each operator can have, and the plan itself are not counted
check: "trace": calls 1, 2, 4, 8, ... are traced again, and a difference is an error with its line;
  "nan": the first NaN, or infinity that no operand has, is an error with its line; "trace,nan": both
buckets: {64, 128, axis = 1}; pads an axis of the arguments (default 0) with zeros to one of these sizes,
  so that changing lengths cause one trace per size. fn gets one more argument, weight: f32, with
  dimensions 0 to axis of the first padded argument; size / length at entries of the arguments, 0 at
  the padding. (losses * weight):mean() is the mean over the entries, also with micro-batches;
  weight:gt(0) is a mask. A result that fn does not mask depends on the padding. A function that
  does not compute with weight is an error, except with cut, or if the parameter's name is _.
  args = {1, 2}: the arguments to pad, default all tensors that have the axis;
  cut = {1}: results whose axis is cut to the length, default none]],
    returns = "a step: step(x, y) runs it; step:explain(), step:plan(), step:stats(), step:show(), step:trace(file)",
    errors = [[
reading a value inside fn (item, totable); a plan above memory_limit (the error has the least);
auto_parallel together with zero, offload or recompute = "auto"; an argument longer than the largest bucket]],
    code = "step = rille.graph(function(x) return x + 1 end)",
    shows = "step(rille.ones(2)):sum():item()",
    gives = "4.0",
    see = "parallel graph.show graph.explain live detect_nan",
    words = "compile jit pipeline pipelining micro-batch accumulation memory offload schedule bubble zero fsdp bucket padding dynamic shape length mask retrace checkpointing auto parallel gpipe stages oom out",
  },
  ["graph.hints"] = {
    sign = "step:hints()",
    text = "Lists what each layout that you fixed costs a planned step, in nanoseconds.",
    returns = [[
a list of {what =, line =, price =, price_high =}, for moves and strategies that you wrote,
and for parameters that you placed]],
    errors = "the step must be planned (auto_parallel), and called once",
    code = [[
w = rille.nn.Parameter(rille.ones(4))
opt = rille.optim.SGD({w}, {lr = 0.1})
step = rille.graph(function() (w * w):sum():backward(); opt:step() end, {auto_parallel = true})
step()]],
    shows = "step:hints()[1].price",
    gives = "0",
    see = "graph.explain graph",
  },
  ["graph.certify"] = {
    sign = "step:certify(path)",
    text = "Writes a proof that a planned step's cost is near the least possible; `rille verify FILE` checks it.",
    args = "path: string; file to write",
    returns = "nothing",
    errors = "the step must be planned (auto_parallel) and called once",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end, {auto_parallel = true})
step(rille.ones(64)):item()
path = os.tmpname()
step:certify(path)]],
    shows = "os.remove(path)",
    gives = "true",
    see = "certificate graph.explain",
    words = "proof optimal verify",
  },
  ["graph.explain"] = {
    sign = "step:explain()",
    text = [[
Shows layouts, alternatives and traffic of a compiled step, and the cost of its plan.
A planned step also has cost and bound (ns), gap ((cost - bound) / cost), memory (bytes of the fullest device),
scratch (bytes of it for kernels), step_time (s) and search_time (s).
With "propagate" it has meetings: values where the layouts of two hints meet, each with op, line, hints, from, to,
bytes and ns.]],
    returns = "a table that prints as text, as of rille.explain",
    errors = "the step must have been called",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "step:explain().ops[1].name",
    gives = "exp",
    see = "explain graph.plan graph.hints",
    words = "communication cost layout auto parallel",
  },
  ["graph.plan"] = {
    sign = "step:plan({physical = false})",
    text = "Shows the plan of a compiled step: tasks, registers and memory.",
    args = "physical: boolean, default false; threads, offsets and scratch of each task",
    returns = "a table that prints as text",
    errors = "the step must have been called; physical is the only option",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "tostring(step:plan()):match('[^\\n]*')",
    gives = "plan: 1 micro-batch, 1 device, 2 tasks, 2 registers",
    see = "plan graph.explain",
    words = "memory",
  },
  ["graph.show"] = {
    sign = 'step:show(["file.svg"][, {forward =, backward =}])',
    text = [[
Draws the timeline of a compiled step: planned and measured, idle shares, memory, and the longest waits.
The first three calls are timed, and all calls after the first show(), chart() or trace().]],
    args = [[
file: string, optional; path of an .svg file
forward: seconds per micro-batch and stage, to plan with instead of measured times
backward: seconds per micro-batch and stage, instead of measured times]],
    returns = [[
nothing; the text compares the idle share with the schedule's formula, in which F, B and W are the times
of forward, backward and weight gradients of a micro-batch on one stage]],
    errors = [[
the step must have been called;
file must be a string that ends in .svg, a path that can be written]],
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()
path = os.tmpname() .. '.svg'
step:show(path)]],
    shows = "os.remove(path)",
    gives = "true",
    see = "graph.chart graph.trace graph.stats",
    words = "timeline pipeline profile schedule bubble slow picture",
  },
  ["graph.actors"] = {
    sign = "step:actors()",
    text = "Lists the actors of a compiled step and what each did in the last call; :actors prints it.",
    returns = [[
a list of {name =, device =, stage =, phase =, begun =, acts =, bytes =, state =, line =}; state is
"done", "ready", or what the actor waited for when the call failed]],
    errors = "no argument is accepted",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "step:actors()[1].state",
    gives = "done",
    see = "graph.stats graph.plan",
    words = "hang deadlock wait debug stuck",
  },
  ["graph.chart"] = {
    sign = "step:chart([{forward =, backward =, weight =, move =, update =, jitter =, seed =}])",
    text = "Returns the timeline of a compiled step as a table: the data of step:show().",
    args = [[
forward: seconds per micro-batch and stage; default: measured
backward: seconds
weight: seconds of the weight gradient
move: seconds of a move between stages
update: seconds of the optimiser
jitter: number; 0.1 makes each task up to 10 % longer or shorter
seed: integer; determines the jitter]],
    returns = [[
a table: planned and measured, each {time =, bubble =, spans =, stalls =, devices =};
a span is {device =, stage =, micro_batch =, what =, from =, to =};
activations and activations_1f1b (bytes per device), bound (least idle share),
again (share of forward that is recomputed), call, calls, computing, at_once]],
    errors = "the step must have been called; seconds must be from 0 to a million, jitter from 0 to 1",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "#step:chart().measured.devices",
    gives = "1",
    see = "graph.show graph.stats",
    words = "timeline schedule profile pipeline",
  },
  ["graph.stats"] = {
    sign = "step:stats()",
    text = "Measures the last call of a compiled step: time, idle share, operations, and traffic and memory per device.",
    returns = [[
a table that prints as text: step_time (s), bubble (idle share beyond ideal), ideal, hosts,
flops (floating-point operations of all devices; a multiply-add counts as two),
peak_share (share of the peak that rille --calibrate measured; nil without costs),
devices[i] = {device =, busy =, idle =, flops =, bytes_in =, bytes_out =, peak_memory =, tenants =},
in seconds and bytes; the first 64 devices]],
    errors = "the step must have been called",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()]],
    shows = "step:stats().step_time > 0",
    gives = "true",
    see = "graph.show counters clock",
    words = "slow time profile memory bubble benchmark oom out flops mfu utilisation",
  },
  ["graph.trace"] = {
    sign = "step:trace(path)",
    text = "Writes a timeline of the last timed call of a compiled step as Chrome trace JSON, for Perfetto.",
    args = "path: string; file to write",
    returns = "nothing",
    errors = "the step must have been called; path must be a string, and must be writable",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end)
step(rille.ones(64)):item()
path = os.tmpname()
step:trace(path)]],
    shows = "os.remove(path)",
    gives = "true",
    see = "graph.show graph.stats",
    words = "profiler profile timeline perfetto chrome slow",
  },
  certificate = {
    sign = "rille.certificate(path)",
    text = "Reads the proof that step:certify wrote, and returns what it proves.",
    args = "path: string",
    returns = "a string",
    errors = "the file must be a valid proof",
    code = [[
step = rille.graph(function(x) return x:exp():sum() end, {auto_parallel = true})
step(rille.ones(64)):item()
path = os.tmpname()
step:certify(path)
proof = rille.certificate(path)
os.remove(path)]],
    shows = "proof:match('no plan costs less')",
    gives = "no plan costs less",
    see = "graph.certify",
    words = "proof verify",
  },
  per_rank = {
    sign = "rille.per_rank(fn, {inputs =, outputs =})",
    text = [[
Makes a function that runs fn on the shards of each rank, as shard_map of JAX and local_map of DTensor.
fn is called once, as fn(mesh, x, ...): x stands for the shards of all ranks, so fn must not branch on the rank:
mesh:rank() == 0 is an error; mesh:rank():eq(0):where(a, b) chooses by the rank.
Local tensors have the methods of tensors, and functions such as rille.concat and rille.scan accept them. A hook
(x:register_hook) receives a local tensor. The gradient of a tensor that is equal on all ranks is their sum.
Operators on them move no bytes; the methods of mesh communicate:
mesh:rank(axis)                             the coordinate of each rank, an integer tensor without axes
mesh:psum(x, axis)                          the sum over the ranks of a mesh axis, on each of them
mesh:shift(x, axis, n)                      the shard of the rank n places before, around a ring; n: 1
mesh:all_gather(x, axis, d)                 the shards of the ranks, joined along axis d of x
mesh:all_to_all(x, axis, split, concat)     x in equal chunks along axis split, one to each rank; the received
                                            chunks are joined along axis concat
mesh:replicated(t)                          a replicated tensor from outside fn
All are differentiable. axis is an axis of the mesh, mesh.placement; it, d, split and concat are 0 by default.]],
    args = [[
fn: function(mesh, ...); receives local tensors and returns local tensors
inputs: list of layouts, S (also with a unit) or B, one per argument; an argument is moved to its layout
outputs: list of layouts, one per result: S joins the shards, P adds them, B needs equal shards]],
    returns = "a function of global tensors that are on one placement; it returns global tensors",
    errors = "equal shards are required: ranks must divide each split axis, or its number of units; fn compares a local tensor by ==, or branches on one",
    code = [[
P = rille.placement('cpu', {0, 1})
product = rille.per_rank(function(mesh, x, w) return mesh:psum(x:matmul(w)) end,
  {inputs = {"S(1)", "S(0)"}, outputs = {"B"}})]],
    shows = "product(rille.ones({2, 4}, {placement = P}), rille.ones({4, 3}, {placement = P})):sum():item()",
    gives = "24.0",
    see = "to_global to_local from_local parallel",
    words = "shard_map local_map ring attention ppermute collective spmd",
  },
  parallel = {
    sign = "rille.parallel(model, {data =, tensor =, layers =, method =, sequence =, zero =, zero_axes =, reshard =, stages =, members =, chunks =, panels =, blocks =, input =})",
    text = [[
Sets the layouts of a model for data, tensor, sequence or pipeline parallel training, by a recipe.
The model can be any module; only tensor axes need the roles of its layers.
{data = 0, tensor = 1}: the batch over mesh axis 0, heads and hidden sizes over axis 1. {tensor = {0, 1}} is 2D;
{0, 1, 2} with method "2.5d" or "3d". {stages = {P0, P1}} assigns the blocks to placements: a pipeline.
{data = {0, 1}, zero = 3, zero_axes = 1}: HSDP, that is ZeRO over axis 1 and replicas over axis 0.
{tensor = 0, layers = {["*.fc1"] = "column", ["*.fc2"] = "row"}}: your own layers by name,
or by class (?parallel.class).
{tensor = 0, input = x}: finds the roles in a trace of the model: column and row layers in turn.
Where sharding would move more bytes than it saves, layers stay replicated; print(t) says why.
rille.parallel.axis defines more kinds of mesh axes.]],
    args = [[
model: a module
data: mesh axis, or axes, of the batch (data parallel)
tensor: mesh axis, or axes, of heads and hidden sizes (tensor parallel)
layers: roles by name; * stands for any characters. "column" shards a weight by outputs, "row" by
  inputs; "head", "embedding", "positions", "norm"; "expert" shards a parameter along dimension 0
method: "1d", "2d", "2.5d" or "3d"; default by the number of axes
sequence: boolean; also shards norms and residuals along the sequence
zero: 1 shards optimiser state over the data axis, 2 gradients, 3 parameters (as FSDP)
zero_axes: the data axes over which ZeRO shards; default all
reshard: boolean, default true; a compiled step frees gathered weights after forward and gathers them again
  for backward. false gathers once per step and keeps them: fewer bytes moved, more memory
stages: list of placements, one per pipeline stage; {P0, P1, P1, P0} assigns two stages to each
  placement; a value that a later stage uses, such as a skip connection or a shared parameter, is sent there
members: list of names of modules that are assigned to stages, {"down.*", "mid", "up.*"}; default the longest
  list of modules or of lists; without lists, the model's parts; without modules, its parameters;
  in the order in which the fields were set: a.x, a.y = f(), g() sets a.y first
chunks: integer, default 1; stages per placement: {P0, P1} with 2 is {P0, P1, P0, P1} (interleaved)
panels: integer; 2D gathers in panels, the next one while one is multiplied
blocks: {input = ids, micro_batches =, memory_limit =, schedule =} balances the stages by estimated cost;
  {cost = {2, 2, 3}} by given costs, with memory, activations (bytes) and hop (ns)
input: example of the model's input, a tensor or the list of forward's arguments, which may be tables; only
  the shapes count; layers without a role get one from a trace of forward and backward on meta devices]],
    returns = [[a table of all layouts set, by name; it prints, can be edited, and passed instead of the recipe.
It has the bytes of each gather, and the roles that a trace found, with the bytes that they move.
Its last line names the parameters that no tensor axis shards]],
    errors = [[
model must be a module with parameters; a pattern must match a name
a mesh axis must exist, and have one role; a tensor axis must shard a parameter
zero needs a data axis; panels and method need tensor axes; method 2.5d or 3d needs three]],
    code = [[
m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}
set = rille.parallel(m, {data = 0})]],
    shows = "set['wte.weight'].sbp",
    gives = "B",
    see = "graph parallel.input to_global whatif",
    words = "pipeline fsdp ddp megatron distributed recipe data tensor sequence zero mesh all-reduce pmap deepspeed",
  },
  ["parallel.axis"] = {
    sign = "rules = rille.parallel.axis(name[, rules])",
    text = [[
Returns the rules of a kind of mesh axis, such as "data" or "tensor".
With rules, defines a new kind. Recipes name the kind as they name data: {[name] = mesh axis}.]],
    args = [[
name: string
rules: table that maps names of parameters (column, row, column_bias, row_bias, norm_weight, positions,
  experts) and activations (stream, norm, inner, wide, row_in, routed, logits, ids, labels) to
  "S(axis)"; "S(1)/B": a parameter gathered for use. The head of lua/parallel/axes.lua explains the names]],
    returns = "a copy of the rules",
    errors = [[
name must be a word, and new if rules are given;
rules may have only the known names, with "S(axis)" as values]],
    code = 'rules = rille.parallel.axis("tensor")',
    shows = "rules.column",
    gives = "S(0)",
    see = "parallel parallel.class",
  },
  ["parallel.class"] = {
    sign = "roles = rille.parallel.class(Class[, roles])",
    text = [[
Returns the roles of the layers in a class of modules, which tensor parallelism needs.
With roles, sets them, as Class.parallel = roles does. A class without roles has those of its base class.]],
    args = [[
Class: a class, from nn.Module:extend
roles: table; column, row, head, embedding, positions, norm, expert: a name of a part, such as "mlp.up",
  or a list of names; stream = true: the result is what blocks read and write, (batch, ..., width);
  heads = {q = "heads", k = "kv_heads", out = "heads"}: layers whose output (column) or input (row)
  consists of heads, and the fields with their numbers; a rank gets complete heads, so shards differ
  if the ranks do not divide the number; if heads lacks the row layer, the column layer is replicated]],
    returns = "the roles; nil if neither the class nor a base class has any",
    errors = [[
Class must be a class of modules;
roles may have only the known names, with names of parts as values]],
    code = "roles = rille.parallel.class(rille.nn.SwiGLU)",
    shows = "roles.row",
    gives = "down_proj",
    see = "parallel parallel.axis",
  },
  ["parallel.input"] = {
    sign = "rille.parallel.input(model)",
    text = "Returns the placement and layout that the input of a distributed model should have.",
    args = "model: a model, after rille.parallel",
    returns = "options for a tensor's creation: {placement =, sbp =}",
    errors = "model must be a module with parameters",
    code = [[
m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}
rille.parallel(m, {data = 0})]],
    shows = "rille.parallel.input(m).sbp",
    gives = "S(0)",
    see = "parallel parallel.labels",
  },
  ["parallel.labels"] = {
    sign = "rille.parallel.labels(model)",
    text = "Returns the placement and layout that the labels of a distributed model should have.",
    args = "model: a model, after rille.parallel",
    returns = "options for a tensor's creation: {placement =, sbp =}",
    errors = "model must be a module with parameters",
    code = [[
m = rille.models.gpt2.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}
rille.parallel(m, {data = 0})]],
    shows = "rille.parallel.labels(m).sbp",
    gives = "S(0)",
    see = "parallel parallel.input",
  },
}
