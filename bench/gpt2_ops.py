"""gpt2_ops.py - a training step of GPT-2 124M, operator by operator, in Rille and in PyTorch.

    build/venv/bin/python bench/gpt2_ops.py [build/release [steps [batch length [layers]]]]

bench/venv.sh makes the environment. One core, f32. Times are those of step:trace() (Rille) and of the profiler, without nested
calls (PyTorch): the least time per kind of operator over the steps. Rille's steps run first, then PyTorch's.

The limit of matrix products is the time for their floating-point operations at the rate of a product of 1024 x 1024 matrices.
The limit of AdamW is the time to read and write its tensors at the rate of a copy. Each operator belongs to one row; operators
that take a millisecond or more are listed below the table.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import gpt2
import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build/release"
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
BATCH, LENGTH = (int(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 4 else (4, 64)
LAYERS = int(sys.argv[5]) if len(sys.argv) > 5 else 12

# Rows of the table: title, pattern for names of Rille's operators, pattern for names of PyTorch's. An operator
# belongs to the first row whose pattern matches its name.
KINDS = (
    ("products, and what follows them", r"(matmul|contract)(\+.*)?|attention.*|softmax.*|.*gelu.*",
     r"(add|b?ba|b)?mm|matmul|linear|gelu.*|_?scaled_dot.*"),
    ("norms", r"layer_norm|norm_.*", r"(native_)?layer_norm.*|NativeLayerNorm.*"),
    ("loss", r"cross_entropy.*|label_count|log_softmax.*", r"_?log_softmax.*|nll_loss.*|cross_entropy.*|LogSoftmax.*"),
    ("embeddings, sums of gradients and residuals", r"embedding|index_.*|add",
     r"embedding.*|Embedding.*|index_select|fill_|add_?"),
    ("AdamW", r"adamw.*", r"_fused_adamw_?|Optimizer.*"),
    ("sums over rows", r"sum", r"sum"),
    ("the rest", r".*", r".*"),
)


def by_kind(times, side):
    row = collections.Counter()
    for name, us in times.items():
        kind = next(k[0] for k in KINDS if re.fullmatch(k[side], name))
        row[kind] += us
    return row


def rille_steps():
    with tempfile.TemporaryDirectory() as folder:
        numbers = {"--steps": STEPS, "--batch": BATCH, "--length": LENGTH, "--layers": LAYERS}
        subprocess.run([f"{BUILD}/rille", "-d", "cpu:1", "bench/gpt2_ops.lua", "--out", folder,
                        *(word for option, n in numbers.items() for word in (option, str(n)))], check=True)
        for i in range(1, STEPS + 1):
            times = collections.Counter()
            with open(f"{folder}/{i}.json") as f:
                for e in json.load(f)["traceEvents"]:
                    if e["ph"] == "X":
                        times[e["name"]] += e["dur"]
            yield times


def torch_steps():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    gpt2.LAYERS = LAYERS
    model = gpt2.torch_model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    x, y = torch.randint(0, gpt2.VOCAB, (2, BATCH, LENGTH))

    def step():
        loss = F.cross_entropy(model(x).view(-1, gpt2.VOCAB), y.view(-1))
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    step()
    for _ in range(STEPS):
        times = collections.Counter()
        with profile(activities=[ProfilerActivity.CPU]) as p:
            step()
        for e in p.key_averages():
            times[e.key.removeprefix("autograd::engine::evaluate_function: ").removeprefix("aten::")] += e.self_cpu_time_total
        yield times


def least(steps):
    """Returns the least time of each operator over all steps."""
    steps = list(steps)
    return {name: min(s[name] for s in steps) for name in set().union(*steps)}


def limits():
    """Returns the least possible times of products and of AdamW (head of this file), microseconds."""
    asked = "matmul\tf32{1024,1024} f32{1024,1024}\nadamw\tf32{8388608} f32{8388608} f32{8388608} f32{8388608} #0.001 #3\n"
    answer = subprocess.run([f"{BUILD}/bench/kernels", "-"], input=asked, capture_output=True, text=True, check=True).stdout
    product, update = (line.split("\t") for line in answer.splitlines())
    tokens, width = BATCH * LENGTH, gpt2.WIDTH
    multiplied = LAYERS * 12 * width**2 + gpt2.VOCAB * width
    scores = LAYERS * 2 * BATCH * LENGTH**2 * width / 2  # half of the scores are masked
    parameters = multiplied + LAYERS * 13 * width + 2 * width + gpt2.LENGTH * width
    flops = 6 * (tokens * multiplied + scores)
    # bench/kernels prints the time of a copy of 8 arrays; AdamW reads 4 arrays and writes 3
    return {"products, and what follows them": float(product[0]) * flops / (2 * 1024**3),
            "AdamW": float(update[1]) * parameters / 8388608 * 7 / 8}


def main():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    limit = limits()
    ours = least(rille_steps())
    theirs = least(torch_steps())
    one, other = by_kind(ours, 1), by_kind(theirs, 2)
    title = f"milliseconds a step, {BATCH} x {LENGTH}, {LAYERS} layers, one core"
    print(f"{title:<53} {'Rille':>9} {'PyTorch':>9} {'limit':>9} {'times':>6}")
    for kind, _, _ in KINDS:
        shown = f"{limit[kind] / 1e3:9.1f}" if kind in limit else f"{'-':>9}"
        print(f"{kind:<53} {one[kind] / 1e3:9.1f} {other[kind] / 1e3:9.1f} {shown} {other[kind] / max(one[kind], 1e-9):6.2f}")
    print(f"{'all':<53} {sum(one.values()) / 1e3:9.1f} {sum(other.values()) / 1e3:9.1f} {sum(limit.values()) / 1e3:9.1f} "
          f"{sum(other.values()) / sum(one.values()):6.2f}")
    for name, times, side in (("Rille", ours, 1), ("PyTorch", theirs, 2)):
        print(f"\n{name}, of a millisecond and more:")
        for op, us in sorted(times.items(), key=lambda t: -t[1]):
            if us >= 1000:
                kind = next(k[0] for k in KINDS if re.fullmatch(k[side], op))
                print(f"    {op:<49} {us / 1e3:9.2f}   {kind}")


main()
