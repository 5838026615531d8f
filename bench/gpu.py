"""gpu.py - the cases of bench/gpu.lua in PyTorch, eager and compiled, on the same card.

    build/venv/bin/python bench/gpu.py torch|compile [rounds] [peak] [only]      bench/venv.sh makes the environment

only: runs the cases whose names contain this text.

Prints lines "case, who, least, median, rate, unit" (milliseconds). Operations and bytes are counted as in bench/gpu.lua.
"""
import sys
import time

import torch
from torch.nn import functional as F

WHO = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
PEAK = float(sys.argv[3]) if len(sys.argv) > 3 else 0
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""
DEVICE = "cuda"


def tell(case, least, median, work, unit):
    print(f"{case}\t{WHO}\t{least * 1e3:.3f}\t{median * 1e3:.3f}\t{work / least:.1f}\t{unit}", flush=True)


def report(case, work, unit, run):
    """Times single runs, and waits for each. Prints least and median."""
    if ONLY not in case:
        return
    run()  # warms up and compiles
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    times.sort()
    tell(case, times[0], times[len(times) // 2], work, unit)


def report_all(case, work, unit, run):
    """Times two series of ROUNDS runs, and waits only for the last run of a series. Prints the lesser and the greater mean per run."""
    if ONLY not in case:
        return
    means = []
    for _ in range(2):
        run()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(ROUNDS):
            run()
        torch.cuda.synchronize()
        means.append((time.perf_counter() - start) / ROUNDS)
    tell(case, min(means), max(means), work, unit)


def made(f):
    return torch.compile(f) if WHO == "compile" else f


def random(*shape, dtype):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def products():
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for n in (512, 1024, 2048, 4096, 8192):
            x, w = random(n, n, dtype=dtype), random(n, n, dtype=dtype)
            f = made(lambda: x @ w)
            report(f"product {n} {name}", 2 * n**3 / 1e12, "TFLOP/s", f)


def convolutions():
    batch, c, size = 64, 128, 28
    back = torch.ops.aten.convolution_backward
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        x, g = (random(batch, c, size, size, dtype=dtype) for _ in range(2))
        w = random(c, c, 3, 3, dtype=dtype)
        ways = (
            ("conv2d", lambda: F.conv2d(x, w, padding=1)),
            ("conv2d_grad_x", lambda: back(g, x, w, None, *rest, [True, False, False])),
            ("conv2d_grad_w", lambda: back(g, x, w, None, *rest, [False, True, False])),
        )
        for way, f in ways:
            case = f"{way} {batch} x {c} x {size} x {size}, 3 x 3 {name}"
            report(case, 2 * batch * size**2 * c**2 * 9 / 1e12, "TFLOP/s", made(f))


def attention():
    for t in (1024, 4096):
        b, h, d = 8, 12, 64
        q, k, v = (random(b, h, t, d, dtype=torch.bfloat16) for _ in range(3))
        f = made(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        report(f"attention {b} x {h} x {t} x {d} bf16", 2 * b * h * t * t * d / 1e12, "TFLOP/s", f)


def norms():
    rows, width = 16384, 1600
    x = random(rows, width, dtype=torch.bfloat16)
    norm = torch.nn.LayerNorm(width, device=DEVICE, dtype=torch.bfloat16)
    report(f"layer_norm {rows} x {width} bf16", 4 * rows * width / 1e9, "GB/s", made(lambda: norm(x)))


def updates():
    n, count = 8 << 20, 16
    parameters = [torch.nn.Parameter(random(n, dtype=torch.float32)) for _ in range(count)]
    opt = torch.optim.AdamW(parameters, lr=1e-3, fused=True)

    def step():
        sum(p.sum() for p in parameters).backward()
        opt.step()
        opt.zero_grad()

    report(f"AdamW of {count} x {n} f32", 7 * 4 * count * n / 1e9, "GB/s", step)


class Block(torch.nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.fc1, self.fc2 = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class GPT(torch.nn.Module):
    def __init__(self, vocab, length, layers, heads, width):
        super().__init__()
        self.table, self.place = torch.nn.Embedding(vocab, width), torch.nn.Embedding(length, width)
        self.block = torch.nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, ids, labels):
        x = self.table(ids) + self.place.weight
        for block in self.block:
            x = block(x)
        scores = F.linear(self.norm(x), self.table.weight)
        return F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())


def training(name, layers, heads, width, batch):
    vocab, length = 50304, 1024
    case = f"GPT-2 {name} step {batch} x {length} bf16"
    if ONLY not in case:
        return
    model = GPT(vocab, length, layers, heads, width).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    forward = made(model)
    x, y = (torch.randint(0, vocab, (batch, length), device=DEVICE) for _ in range(2))

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = forward(x, y)
        loss.backward()
        opt.step()
        opt.zero_grad()

    tokens, n = batch * length, sum(p.numel() for p in model.parameters())
    report(case, tokens, "tokens/s", step)
    report_all(case + ", not waited for", tokens, "tokens/s", step)
    if PEAK:
        report(case + ", MFU", tokens * (6 * n + 12 * layers * width * length) / (PEAK * 1e10), "%", step)


torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
for part in (products, convolutions, attention, norms, updates):
    part()
for m in (("124M", 12, 12, 768, 8), ("1558M", 48, 25, 1600, 2)):
    training(*m)
