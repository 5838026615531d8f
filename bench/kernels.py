"""kernels.py - compares the operators of a training step with those of PyTorch, and with the limit of the core.

    build/venv/bin/python bench/kernels.py [build/release [part of a name]]      bench/venv.sh makes the environment

Each row is an operator on one thread, f32 by default. Rille's kernel is prepared once (bench/kernels -); PyTorch's operator is
called as a user calls it. Both run in turns, three times each, and the row shows the least processor time of each, microseconds.

The limit is the larger of two times: the time to copy as many bytes as operands and results have, and the time for the row's
floating-point operations at the rate of the best product in the table. A mark shows rows where Rille is slower than PyTorch. A
row that cannot be computed ends the run.
"""
import subprocess
import sys
import time

import torch
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
torch.set_flush_denormal(True)
aten = torch.ops.aten

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build/release"
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
TURNS, ROUNDS, ROUND_S = 3, 5, 1e-3
LOOKED_UP = ("embedding", "gather")  # no limit is known, because most of an operand is not read


def r(*size, dtype=torch.float32):
    return torch.randn(size).to(dtype)


def ids(below, *size):
    return torch.randint(0, below, size)


def grown(*tensors):
    return [t.detach().requires_grad_() for t in tensors]


def backward(f, *tensors):
    """Returns a function that runs only the backward pass of f. The forward pass runs once, here."""
    leaves = grown(*tensors)
    y = f(*leaves)
    g = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, leaves, g, retain_graph=True)


def adamw(n):
    p, g, m, v, one = r(n), r(n), r(n) * 0, r(n).abs(), torch.tensor(3.0)
    return lambda: torch._fused_adamw_([p], [g], [m], [v], [], [one], lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.01,
                                       eps=1e-8, amsgrad=False, maximize=False)


def attention(n, back):
    q, k, v = grown(r(4, 12, n, 64), r(4, 12, n, 64), r(4, 12, n, 64))
    f = lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True)
    return backward(f, q, k, v) if back else (lambda: f(q.detach(), k.detach(), v.detach()))


def rows():
    """Yields rows: (operator, operands and attributes, floating-point operations, PyTorch's operator as a function)."""
    for m, n, k in ((256, 2304, 768), (256, 768, 768), (256, 3072, 768), (256, 768, 3072), (64, 256, 256), (64, 10, 256),
                    (16, 16, 16), (1, 1, 1), (1, 3072, 768)):
        a, b = r(m, k), r(k, n)
        yield "matmul", f"f32{{{m},{k}}} f32{{{k},{n}}}", 2 * m * n * k, lambda a=a, b=b: a @ b
    a, b = r(48, 64, 64), r(48, 64, 64)
    yield "matmul", "f32{48,64,64} f32{48,64,64}", 2 * 48 * 64**3, lambda: a @ b
    for m, n, k in ((3072, 768, 256), (256, 256, 64), (10, 256, 64)):
        x, y = r(k, m), r(k, n)
        yield "contract", f"f32{{{k},{m}}} f32{{{k},{n}}}", 2 * m * n * k, lambda x=x, y=y: x.t() @ y
    x, h = r(256, 768), r(256, 3072)
    small = r(64, 256)
    xb = x.bfloat16()
    yield "add", "f32{256,3072} f32{3072}", 0, lambda b=r(3072): h + b
    yield "add", "f32{256,768} f32{256,768}", 0, lambda b=r(256, 768): x + b
    yield "add", "f32{64,256} f32{256}", 0, lambda b=r(256): small + b
    images, channel = r(32, 16, 32, 32), r(16, 1, 1)
    yield "add", "f32{32,16,32,32} f32{16,1,1}", 0, lambda: images + channel
    for m, n in ((512, 1024), (8192, 64), (4096, 200)):
        yield "sub", f"f32{{{m},{n}}} f32{{{m},1}}", 0, lambda a=r(m, n), b=r(m, 1): a - b
    hb, gb = h.bfloat16(), r(256, 3072, dtype=torch.bfloat16)
    yield "add", "bf16{256,3072} bf16{256,3072}", 0, lambda: hb + gb
    yield "mul", "bf16{256,3072} bf16{256,3072}", 0, lambda: hb * gb
    yield "relu", "bf16{256,3072}", 0, lambda: F.relu(hb)
    hf = h.half()
    for dtype, t in (("bf16", hb), ("f16", hf)):
        for axis in (0, 1):
            yield "sum", f"{dtype}{{256,3072}} axis={axis}", 0, lambda t=t, axis=axis: t.sum(axis)
        w = r(768).to(t.dtype)
        yield ("layer_norm", f"{dtype}{{256,768}} {dtype}{{768}} {dtype}{{768}}", 0,
               lambda t=x.to(t.dtype), w=w: F.layer_norm(t, (768,), w, w))
    yield "sum", "f32{32,16,32,32} axis=0,2,3", 0, lambda: images.sum((0, 2, 3))
    yield "square", "f32{256,3072}", 0, lambda: h**2
    yield "square", "bf16{256,3072}", 0, lambda: hb**2
    yield "clamp", "f32{256,3072} #-0.5 #0.5", 0, lambda: h.clamp(-0.5, 0.5)
    yield "clamp", "bf16{256,3072} #-0.5 #0.5", 0, lambda: hb.clamp(-0.5, 0.5)
    yield "softplus", "f32{256,3072}", 0, lambda: F.softplus(h)
    yield "pow", "f32{256,3072}>0.1 #2.5", 0, lambda t=h.abs() + 0.1: t**2.5
    yield "topk", "f32{512,8} k=2", 0, lambda t=r(512, 8): t.topk(2)
    yield "mul", "f32{256,768} #2.5", 0, lambda: x * 2.5
    yield "relu", "f32{256,3072}", 0, lambda: F.relu(h)
    yield "silu", "f32{256,3072}", 0, lambda: F.silu(h)
    yield "tanh", "f32{256,3072}", 0, lambda: torch.tanh(h)
    yield "sigmoid", "f32{256,3072}", 0, lambda: torch.sigmoid(h)
    yield "exp", "f32{256,3072}", 0, lambda: torch.exp(h)
    for how in ("none", "tanh"):
        yield "gelu", f"f32{{256,3072}} approximate={how}", 0, lambda how=how: F.gelu(h, approximate=how)
        yield "gelu_derivative", f"f32{{256,3072}} approximate={how}", 0, lambda how=how: aten.gelu_backward(h, h, approximate=how)
    yield "gelu", "f32{64,256}", 0, lambda: F.gelu(small)
    yield "layer_norm", "f32{256,768} f32{768} f32{768}", 0, lambda w=r(768), b=r(768): F.layer_norm(x, (768,), w, b)
    w, b = r(768), r(768)
    y, mean, rstd = aten.native_layer_norm(x, (768,), w, b, 1e-5)
    norm_back = lambda mask: aten.native_layer_norm_backward(y, x, (768,), mean, rstd, w, b, mask)
    yield "norm_grad", "f32{256,768} f32{256,768} f32{768}", 0, lambda: norm_back([True, True, True])
    for m, n in ((3072, 64), (1024, 1024), (64, 10)):
        s = r(m, n)
        p = torch.softmax(s, -1)
        yield "softmax", f"f32{{{m},{n}}}", 0, lambda s=s: torch.softmax(s, -1)
        yield "softmax_grad", f"f32{{{m},{n}}} f32{{{m},{n}}}", 0, lambda s=s, p=p: aten._softmax_backward_data(s, p, -1, torch.float32)
        yield "log_softmax", f"f32{{{m},{n}}}", 0, lambda s=s: torch.log_softmax(s, -1)
    for m, n in ((256, 50257), (64, 10)):
        s, t = r(m, n), ids(n, m)
        yield "cross_entropy_rows", f"f32{{{m},{n}}} i64{{{m}}}<{n}", 0, lambda s=s, t=t: F.cross_entropy(s, t, reduction="none")
        yield ("cross_entropy_grad", f"f32{{{m},{n}}} i64{{{m}}}<{n} f32{{{m}}}>9 f32{{{m}}}>1 f32{{{m}}}", 0,
               backward(lambda s, t=t: F.cross_entropy(s, t, reduction="none"), s))
    table, at = r(50257, 768), ids(50257, 256)
    yield "embedding", "i64{256}<50257 f32{50257,768}", 0, lambda: F.embedding(at, table)
    yield "sum", "f32{256,3072} axis=0", 0, lambda: h.sum(0)
    yield "sum", "f32{256,768} axis=0", 0, lambda: x.sum(0)
    yield "sum", "f32{64,256} axis=0", 0, lambda: small.sum(0)
    yield "sum", "f32{256,3072}", 0, lambda: h.sum()
    yield "sum", "f32{256,3072} axis=1", 0, lambda: h.sum(1)
    yield "max", "f32{256,3072} axis=1", 0, lambda: h.amax(1)
    yield "argmax", "f32{256,3072} axis=1", 0, lambda: h.argmax(1)
    for dtype in ("f32", "f64"):
        for m, n in ((256, 3072), (100000, 10)):
            t = r(m, n, dtype=torch.float32 if dtype == "f32" else torch.float64)
            yield "logsumexp", f"{dtype}{{{m},{n}}} axis=1", 0, lambda t=t: t.logsumexp(1)
    yield "square_sum", "f32{3072,768}", 0, lambda g=r(3072, 768): torch.linalg.vector_norm(g)
    yield "adamw", "f32{2359296} f32{2359296} f32{2359296}>0.1 f32{2359296} #0.001 #3", 0, adamw(2359296)
    yield "adamw", "f32{65536} f32{65536} f32{65536}>0.1 f32{65536} #0.001 #3", 0, adamw(65536)
    yield "cast", "f32{256,768} dtype=bf16", 0, lambda: x.bfloat16()
    yield "cast", "bf16{256,768} dtype=f32", 0, lambda: xb.float()
    yield "slice_grad", "f32{256,768} axis=1 start=768 size=2304", 0, lambda: F.pad(x, (768, 768))
    yield "concat", "f32{256,768} f32{256,768} f32{256,768} axis=1", 0, lambda parts=(x, r(256, 768), r(256, 768)): torch.cat(parts, 1)
    yield "dropout", "f32{256,768} #1 #1 p=0.1", 0, lambda: F.dropout(x, 0.1)
    yield "rand", "196608", 0, lambda: torch.rand(196608)
    yield "randn", "196608", 0, lambda: torch.randn(196608)
    yield "cumsum", "f32{256,3072} axis=1", 0, lambda: h.cumsum(1)
    yield "topk", "f32{64,10000} k=10", 0, lambda t=r(64, 10000): t.topk(10)
    yield "gather", "f32{256,50257} i64{256,1}<50257 axis=1", 0, lambda t=r(256, 50257), i=ids(50257, 256, 1): t.gather(1, i)
    for n in (64, 1024):
        each = f"f32{{4,12,{n},64}}"
        work = 2 * 48 * n * n * 64
        yield "attention", f"{each} {each} {each} is_causal=true scale=0.125", work, attention(n, False)
        yield "attention_grad", f"{each} {each} {each} - - - {each} {each} is_causal=true scale=0.125", 2.5 * work, attention(n, True)
    image, filters = r(32, 16, 32, 32), r(32, 16, 3, 3)
    yield "conv2d", "f32{32,16,32,32} f32{32,16,3,3} - padding=1", 2 * 32 * 32 * 32 * 32 * 16 * 9, lambda: F.conv2d(image, filters, padding=1)
    dy, work = r(32, 32, 32, 32), 2 * 32 * 32 * 32 * 32 * 16 * 9
    conv_back = lambda mask: aten.convolution_backward(dy, image, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
    yield "conv2d_grad_x", "f32{32,32,32,32} f32{32,16,3,3} padding=1 size=32,32", work, lambda: conv_back([True, False, False])
    yield "conv2d_grad_w", "f32{32,16,32,32} f32{32,32,32,32} padding=1 size=3,3", work, lambda: conv_back([False, True, False])
    yield "max_pool2d", "f32{32,16,32,32} kernel_size=2", 0, lambda: F.max_pool2d(image, 2)
    yield "avg_pool2d", "f32{32,16,32,32} kernel_size=2", 0, lambda: F.avg_pool2d(image, 2)


def least_us(run):
    n = 1
    while True:
        start = time.thread_time()
        for _ in range(n):
            run()
        took = time.thread_time() - start
        if took >= ROUND_S:
            break
        n *= 2
    best = took / n
    for _ in range(ROUNDS - 1):
        start = time.thread_time()
        for _ in range(n):
            run()
        best = min(best, (time.thread_time() - start) / n)
    return best * 1e6


def main():
    ours = subprocess.Popen([f"{BUILD}/bench/kernels", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(name, sample):
        print(f"{name}\t{sample}", file=ours.stdin, flush=True)
        answer = ours.stdout.readline()
        if not answer:
            sys.exit(f"{name} {sample}: Rille could not compute it")
        us, copy, variant = answer.rstrip("\n").split("\t")
        return float(us), float(copy), variant

    lines = []
    for name, sample, work, peer in rows():
        if ONLY not in name:
            continue
        rille = copy = torch_us = 1e12
        for _ in range(TURNS):
            us, limit, variant = ask(name, sample)
            rille, copy = min(rille, us), min(copy, limit)
            with torch.set_grad_enabled(name.endswith("grad")):
                torch_us = min(torch_us, least_us(peer))
        lines.append((name, sample, variant, rille, torch_us, copy, work))
    peak = max((work / min(a, b) for _, _, _, a, b, _, work in lines), default=0)
    print(f"1 thread, PyTorch {torch.__version__}; at most {peak / 1e3:.0f} Gflop/s\n")
    print(f"{'microseconds, the least':<68} {'Rille':>10} {'PyTorch':>10} {'limit':>10}  of limit  PyTorch / Rille")
    for name, sample, variant, us, peer, copy, work in lines:
        limit = max(0 if name in LOOKED_UP else copy, work / peak if peak else 0)
        share = f"{limit / us * 100:.0f}%" if limit else "-"
        behind = "  behind" if us > peer else ""
        print(f"{name + ' ' + sample[:50]:<59} {variant:>8} {us:10.2f} {peer:10.2f} {limit:10.2f} {share:>9} {peer / us:9.2f}{behind}")


main()
