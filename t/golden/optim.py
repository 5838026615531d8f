# optim.py - writes t/golden/optim.lua: parameters after six steps of every optimiser, schedule, dtype and arrangement.
#
# Parameters and gradients are formulas, which t/nn/golden-optim.lua repeats. A parameter is stored as its weighted sum.
#   python3 t/golden/optim.py > t/golden/optim.lua   (PyTorch 2.15)
import itertools
import warnings

import torch
from torch.optim import lr_scheduler

warnings.filterwarnings("ignore")
STEPS, WARMUP, LATE = 6, 2, 3

OPTIMISERS = [
    ("SGD", {}), ("SGD", {"weight_decay": 0.1}), ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.8, "nesterov": True, "weight_decay": 0.05}), ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("Adam", {}), ("Adam", {"betas": (0.8, 0.95), "eps": 1e-3}), ("Adam", {"weight_decay": 0.1, "eps": 1e-2}),
    ("AdamW", {}), ("AdamW", {"betas": (0.7, 0.9), "weight_decay": 0.2, "eps": 1e-2}),
]
SCHEDULES = ["constant", "cosine", "linear"]
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
# one: one parameter group; groups: a and b are in separate groups; late: b has no gradient before step LATE; added:
# the group of b is
# added at step LATE
ARRANGEMENTS = ["one", "one late", "groups", "groups late", "added"]


def wave(shape, phase, dtype):
    n = torch.Size(shape).numel()
    return (torch.sin(0.7 * torch.arange(n, dtype=torch.float64) + phase) * 0.6).reshape(shape).to(dtype)


def digest(t):
    return (t.detach().double().reshape(-1) * wave([t.numel()], 2, torch.float64)).sum().item()


def scheduler(opt, name):
    """Returns a schedule of lua/optim/schedule.lua, composed of PyTorch's schedulers."""
    if name == "constant":
        return lr_scheduler.ConstantLR(opt, 1, 0)
    warm = lr_scheduler.LinearLR(opt, 1 / WARMUP, 1, WARMUP - 1)
    if name == "cosine":
        then = lr_scheduler.CosineAnnealingLR(opt, STEPS - WARMUP)
    else:
        then = lr_scheduler.LinearLR(opt, 1, 0, STEPS - WARMUP)
    return lr_scheduler.SequentialLR(opt, [warm, then], [WARMUP])


def run(kind, options, schedule, dtype, arrangement):
    a, b = (torch.nn.Parameter(wave(s, i, dtype)) for i, s in enumerate([[3, 4], [5]]))
    second = {"params": [b], "lr": 0.02, "weight_decay": 0.3}
    first = [a, b] if arrangement.startswith("one") else [{"params": [a]}] + ([] if arrangement == "added" else [second])
    opt = getattr(torch.optim, kind)(first, lr=0.05, **options)
    rate = scheduler(opt, schedule)
    for step in range(STEPS):
        if arrangement == "added" and step == LATE:
            # schedulers ignore a group that is added later, so the rate of b stays constant
            opt.add_param_group(second)
        late = "late" in arrangement and step < LATE
        a.grad, b.grad = wave(a.shape, step, dtype), None if late else wave(b.shape, step + 1, dtype)
        opt.step()
        lr = opt.param_groups[1]["lr"] if arrangement == "added" and step >= LATE else None
        if lr is None or schedule == "constant":
            rate.step()
        else:
            break  # ends after one step with the added group, because only this step is comparable
    return digest(a), digest(b)


def lua(value):
    if isinstance(value, bool):
        return str(value).lower()
    return "{%s}" % ", ".join(map(lua, value)) if isinstance(value, tuple) else repr(value)


print("-- optim.lua - written by t/golden/optim.py with PyTorch %s." % torch.__version__.split("+")[0])
print("local optimisers = {")
for kind, options in OPTIMISERS:
    print('  {"%s", {%s}},' % (kind, ", ".join("%s = %s" % (k, lua(v)) for k, v in options.items())))
print("}")
print("-- by optimiser, schedule, dtype and arrangement: digests of both parameters")
print("return {steps = %d, warmup = %d, late = %d, optimisers = optimisers," % (STEPS, WARMUP, LATE))
for name, values in [("schedules", SCHEDULES), ("dtypes", DTYPES), ("arrangements", ARRANGEMENTS)]:
    print("  %s = {%s}," % (name, ", ".join('"%s"' % v for v in values)))
print("  digests = {")
for kind, options in OPTIMISERS:
    for schedule in SCHEDULES:
        row = itertools.chain(*(run(kind, options, schedule, d, x) for d in DTYPES.values() for x in ARRANGEMENTS))
        print("    " + ", ".join("%.8g" % v for v in row) + ",")
print("}}")
