-- training.lua - pages about running a training: command line, precision, checkpoints, progress, curves.

return {
  args = {
    sign = "rille.args(arg, defaults)",
    text = "Parses the command line of a script by a table of defaults; --help prints the usage.",
    args = [[
arg: list of strings, as the global arg
defaults: table; {word, name = default}: a word is required, a name is the option --name; false makes a flag]],
    returns = "a table of values by name",
    errors = "a mistake prints the usage and ends the program with status 2",
    code = "options = rille.args({'gpt2', '--epochs', '3'}, {'folder', epochs = 40, plain = false})",
    shows = "options.folder .. options.epochs",
    gives = "gpt23",
    see = "train.saves_to",
    words = "command line arguments argparse options flags",
  },
  autocast = {
    first = "bf16|f16",
    sign = "rille.autocast(dtype, fn, ...)",
    text = [[
Calls a function with mixed precision: matrix products, convolutions and attention in 16 bits.
Parameters keep their dtype. Norms, softmax, losses and sums are computed in f32.]],
    args = [[
dtype: "bf16" or "f16"
fn: function
...: its arguments]],
    returns = "the results of fn",
    errors = 'dtype must be "bf16" or "f16"; fn must be a function; its errors pass through',
    code = "x = rille.ones(2, 2)",
    shows = "rille.autocast('bf16', function() return x:matmul(x).dtype end)",
    gives = "bf16",
    see = "nn.Module.to cast allow_tf32",
    words = "mixed precision half bf16 f16 fp16 amp float16 bfloat16",
  },
  checkpoint = {
    sign = "rille.checkpoint",
    text = "Saves and resumes training runs; a resumed run continues exactly as the saved one would have.",
    returns = "a table with save and load",
    errors = "a name that the table does not have; the error names the nearest one",
    code = [[
net = rille.nn.Linear(3, 2)
dir = os.tmpname()
os.remove(dir)
rille.checkpoint.save(dir, {model = net, step = 7})]],
    shows = "(rille.checkpoint.load(dir, {model = net}))",
    gives = "7",
    see = "checkpoint.save checkpoint.load save",
    words = "resume restore save training",
  },
  ["checkpoint.load"] = {
    sign = "rille.checkpoint.load(dir, {model =, optimizer =, data =}[, {fallback = false}])",
    text = [[
Loads the newest checkpoint of a folder into model, optimiser and data loader.
Parts that are not given stay as they are. Layouts and meshes may differ from those of the save.]],
    args = [[
dir: string; folder
model: a module
optimizer: an optimiser, or several by name: {generator = a, critic = b}
data: a loader
fallback: boolean, default false; if the newest is damaged, loads the one before it]],
    returns = "the step and the note that were saved",
    errors = "names, shapes, dtypes and settings must match; nothing is changed otherwise",
    code = [[
net = rille.nn.Linear(3, 2)
dir = os.tmpname()
os.remove(dir)
rille.checkpoint.save(dir, {model = net, step = 7, note = 'n'})]],
    shows = "select(2, rille.checkpoint.load(dir, {model = net}))",
    gives = "n",
    see = "checkpoint.save nn.Module.load",
    words = "resume restore continue",
  },
  ["checkpoint.save"] = {
    sign = "rille.checkpoint.save(dir, {model =, optimizer =, data =, step =, note =}[, {async = false, keep =}])",
    text = [[
Saves model, optimiser, data position and random state in one file, complete or not at all.
Until the session ends, no other process may save into the folder.]],
    args = [[
dir: string; folder, created if missing
model: a module
optimizer: an optimiser, or several by name: {generator = a, critic = b}; also saves parameters
that the model does not have
data: a loader
step: integer; returned by load
note: number, string or table of them; returned by load
async: boolean, default false; writes while training continues
keep: integer, optional; keeps only the newest ones]],
    returns = "nothing",
    errors = [[
the folder must be writable, and not in use by another process; each part must have a state;
note as for rille.snapshot]],
    code = [[
net = rille.nn.Linear(3, 2)
dir = os.tmpname()
os.remove(dir)
rille.checkpoint.save(dir, {model = net, step = 7})]],
    shows = "(rille.checkpoint.load(dir, {model = net}))",
    gives = "7",
    see = "checkpoint.load snapshot save",
    words = "resume backup",
  },
  plot = {
    sign = "rille.plot(file, series[, {title =, x =, y =, log = false}])",
    text = "Draws curves, such as losses, as an SVG file.",
    args = [[
file: string; path that ends in .svg
series: table {name = {numbers}}; one curve per name
title: string
x: string; label of the x axis
y: string; label of the y axis
log: boolean, default false; logarithmic y axis]],
    returns = "nothing",
    errors = [[
file must end in .svg and be writable;
each series must be a list of numbers or {x, y}, with a name of its own]],
    code = [[
path = os.tmpname() .. '.svg'
rille.plot(path, {loss = {3, 2, 1}})]],
    shows = "os.remove(path)",
    gives = "true",
    see = "train.progress stats",
    words = "curve chart figure graph loss",
  },
  stopping = {
    sign = 'rille.stopping({signals = {"TERM", "USR1"}, file =})',
    text = [[
Says whether the job was asked to stop, by a signal or by a file; ask after each step.
The first call declares that the script handles the signals; without it, the first signal ends the program.
A second signal, more than a second later, ends the program at once. At a prompt signals always end the program.]],
    args = [[
signals: list of TERM, USR1, USR2, HUP; also signals that a worker receives
file: string; a path; the job must stop once the file exists]],
    returns = 'false, or why: "SIGTERM", "SIGUSR1 of worker 2", "file PATH"; once true, always true',
    errors = "signals must be a list of the four names, file a string",
    shows = "rille.stopping()",
    gives = "false",
    see = "train.exit_if_stopping checkpoint.save",
    words = "sigterm signal preemption notice requeue spot grace shutdown",
  },
  train = {
    sign = "rille.train",
    text = "Has helpers for training scripts: a progress line, peak speed, checkpoints of jobs that must stop.",
    returns = "a table with progress, report, busy_share, peak, saves_to and exit_if_stopping",
    errors = "a name that the table does not have; the error names the nearest one",
    code = [[
line = rille.train.progress{total = 2, file = io.tmpfile()}
for i = 1, 2 do line:update(i, 1 / i, 32) end]],
    shows = "line.samples",
    gives = "64",
    see = "graph optim checkpoint data.loader",
    words = "training loop model",
  },
  ["train.busy_share"] = {
    sign = "rille.train.busy_share(step)",
    text = "Returns the share of time that the devices worked in the last call of a compiled step.",
    args = "step: a compiled step (?graph)",
    returns = "a number from 0 to 1",
    errors = "step must be a compiled step that was called",
    code = [[
step = rille.graph(function(x) return x:exp() end)
step(rille.ones(64)):sum():item()]],
    shows = "rille.train.busy_share(step) <= 1",
    gives = "true",
    see = "graph.stats",
    words = "utilization idle",
  },
  ["train.exit_if_stopping"] = {
    sign = "rille.train.exit_if_stopping([dir, {model =, optimizer =, data =, step =, note =}][, {code = 75, keep =}])",
    text = [[
After a step: if the job was asked to stop (?stopping), saves a checkpoint and ends the program.
The exit code tells a scheduler to queue the job again.]],
    args = [[
dir: string; folder of checkpoints; without dir nothing is saved
model, optimizer, data, step, note: as in checkpoint.save
code: integer, default 75 (EX_TEMPFAIL)
keep: integer, optional; keeps only the newest checkpoints]],
    returns = "nothing, if the job need not stop",
    errors = [[
dir and the table must be given together; code must be an integer from 0 to 255;
errors as of checkpoint.save]],
    shows = "rille.train.exit_if_stopping()",
    gives = "nil",
    see = "stopping checkpoint.save",
    words = "preemption requeue sigterm slurm kubernetes spot grace",
  },
  ["train.peak"] = {
    sign = "rille.train.peak()",
    text = "Measures the flop per second of a large matrix product on this machine, once.",
    returns = "a number",
    errors = "no argument is accepted",
    code = "peak = rille.train.peak()",
    shows = "peak > 0",
    gives = "true",
    see = "train.progress",
    words = "flops benchmark mfu",
  },
  ["train.progress"] = {
    is = "progress",
    sign = 'rille.train.progress{total =, step =, file = io.stderr, unit = "samples", flops =}',
    text = "Makes a progress line with step, loss and speed: line:update(step, loss, samples), line:finish().",
    args = [[
total: integer; number of steps
step: a compiled step; also shows the share of time that devices work, and the bubble
file: default io.stderr
unit: string, default "samples"
flops: number; flop per sample, to show the utilisation (MFU)]],
    returns = "a line",
    errors = [[
total must be a positive integer, step a compiled step, file an open file, flops a number of 0 or
more]],
    code = [[
line = rille.train.progress{total = 1, file = io.tmpfile()}
line:update(1, 0.5, 64)
line:finish()]],
    shows = "line.samples",
    gives = "64",
    see = "progress.update plot",
    words = "loss speed bar log monitor",
  },
  ["train.report"] = {
    sign = "rille.train.report(numbers)",
    text = [[
Passes numbers to monitors (rille --metrics ADDRESS) and to the log (rille --log FILE), for dashboards.
line:update() of a progress line reports step, loss and samples itself.]],
    args = [[
numbers: table from names to numbers, {step =, loss =, samples =, lr =}; samples are added up, other
  numbers replace the last of that name]],
    returns = "nothing",
    errors = "a name must consist of letters, digits and underscores, a value be a number, samples at least 0; a program may have 64 names",
    code = "rille.train.report{step = 1, loss = 0.5, samples = 64}",
    shows = "select('#', rille.train.report{lr = 1e-3})",
    gives = "0",
    see = "train.progress stats",
    words = "prometheus grafana metrics monitor dashboard tensorboard wandb log openmetrics",
  },
  ["train.elastic"] = {
    sign = "rille.train.elastic{steps =, make =, step =, load =, every = 10}",
    text = [[
Trains on the devices of all present workers, and continues on other devices when workers are lost or join.
Workers can join a job with MIN:MAX workers (rille launch -n MIN:MAX, rille coordinator --world MIN:MAX).
When the devices change, make builds the parts again, and the state of the old parts is copied to the new ones.
The next steps have the bits of a training that began on these devices from that state.
After a loss, the training goes back to the last snapshot.]],
    args = [[
steps: integer; number of steps
make: function; make(P) returns the parts {model =, optimizer =, data =, ...}, built on the placement P,
  which has all devices of the present workers. Other fields, such as a compiled step, are for `step`
step: function; step(parts, i) does step i, from 1
load: function, optional; load(parts) is called once, after the first make; it may load a checkpoint, and
  returns the number of steps that are done already
every: integer, default 10; number of steps between two snapshots]],
    returns = "the parts at the end",
    errors = [[
steps and every must be positive integers; make must return a table; model, optimizer and data must have
the same form in each result of make]],
    code = [[
parts = rille.train.elastic{steps = 3,
  make = function(P)
    local net = rille.nn.Linear(2, 1):to_global{placement = P, sbp = 'B'}
    return {model = net, optimizer = rille.optim.SGD(net:parameters(), {lr = 0.1})}
  end,
  step = function(parts, i)
    parts.model(rille.ones({8, 2}, {placement = parts.model.weight.placement, sbp = 'S(0)'})):mean():backward()
    parts.optimizer:step()
    parts.optimizer:zero_grad()
  end}]],
    shows = "parts.optimizer.steps",
    gives = "3",
    see = "recover snapshot workers checkpoint.save",
    words = "elastic scale up down autoscale torchrun torchft workers nodes join grow shrink",
  },
  ["train.resume"] = {
    sign = "rille.train.resume{model =, optimizer =, data =}",
    text = [[
Continues a training from the last snapshot of a controller that was lost.
The workers of that controller waited for this one, which runs the same script (rille launch --keep).
Sets the values of the parts, the random state and the data loader. Layouts may differ from the snapshot's.
From this call on, each rille.snapshot stores the state of the parts with workers that outlive the controller.
If the workers have no snapshot of such parts, prints a line to stderr and changes nothing.]],
    args = [[
model: a module
optimizer: an optimiser, or several by name: {generator = a, critic = b}
data: a loader]],
    returns = "the note of the snapshot (true: it has no note); nil: the training begins anew, or from a checkpoint",
    errors = "the parts must be a module, optimisers and a loader",
    code = [[
net = rille.nn.Linear(3, 2)
note = rille.train.resume{model = net}
i = note and note.step or 0]],
    shows = "i",
    gives = "0",
    see = "snapshot recover checkpoint.load train.elastic",
    words = "restart controller head node failover keep takeover coordinator crash",
  },
  ["train.replicas"] = {
    is = "replicas",
    sign = "rille.train.replicas{every = 100, step = 0}",
    text = [[
Finds silent corruption: compares the replicas of all variables and gradients every few steps.
If replicas differ, restores the last snapshot with equal replicas, so that the steps since are done again.
Then reports the workers whose bits were wrong. Raises an error if replicas differ twice after the same step.
Each comparison takes a snapshot with the note {step = i}; the one before is kept until the replicas are equal.]],
    args = [[
every: integer, default 100; number of steps between two comparisons
step: integer, default 0; last step that was done before]],
    returns = "a guard; i = guard:after(i) returns the next step",
    errors = "every must be a positive integer, step an integer of 0 or more; the replicas must be equal at the start",
    code = [[
net = rille.nn.Linear(2, 2)
guard, i = rille.train.replicas{every = 2}, 1
while i <= 4 do i = guard:after(i) end]],
    shows = "i",
    gives = "5",
    see = "replicas.after snapshot recover",
    words = "silent data corruption sdc bit flip replay digest checksum",
  },
  ["replicas.after"] = {
    sign = "guard:after(step)",
    text = "Compares replicas if it is time; returns the next step, or an earlier one whose work must be repeated.",
    args = "step: integer; the step that was done, from 1",
    returns = "an integer",
    errors = "step must be an integer of 0 or more; raises an error if replicas differ twice after the same steps",
    code = "guard = rille.train.replicas{every = 2}",
    shows = "guard:after(1)",
    gives = "2",
    see = "train.replicas",
  },
  ["train.saves_to"] = {
    sign = 'rille.train.saves_to(path, kind = "file")',
    text = "Checks before a training run that results can be saved at a path.",
    args = [[
path: string
kind: "file" (default), "folder", "picture" or "checkpoints"]],
    returns = "path",
    errors = "the path must be writable, and must not be reserved by another process",
    code = "path = os.tmpname()",
    shows = "rille.train.saves_to(path) == path",
    gives = "true",
    see = "checkpoint.save",
  },
  ["progress.finish"] = {
    sign = "line:finish()",
    text = "Ends the progress line.",
    returns = "nothing",
    errors = "no argument is accepted",
    code = [[
line = rille.train.progress{total = 1, file = io.tmpfile()}
line:update(1, 0.5, 64)
line:finish()]],
    shows = "line.samples",
    gives = "64",
    see = "train.progress",
  },
  ["progress.update"] = {
    sign = "line:update(step, loss, samples)",
    text = "Shows step, loss and speed; on a terminal ten times per second at most.",
    args = [[
step: integer
loss: number
samples: number; samples of this step]],
    returns = "nothing",
    errors = "step must be an integer of 0 or more, loss a number, samples a number of 0 or more",
    code = [[
line = rille.train.progress{total = 1, file = io.tmpfile()}
line:update(1, 0.5, 64)]],
    shows = "line.samples",
    gives = "64",
    see = "train.progress",
  },
}
