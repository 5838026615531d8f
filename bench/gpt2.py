"""gpt2.py - the training step and the text generation of bench/gpt2.lua in PyTorch (eager and compiled) and JAX.

    build/venv/bin/python bench/gpt2.py torch|compile|jax CASE|all [steps] [layers]      bench/venv.sh makes the environment

Prints lines "name, case, least, median, peak" (milliseconds, GB), as bench/gpt2.lua does. Initial weights are N(0, 0.02), the
output layer shares the weights of the token embedding, and AdamW's weight decay is 0.01.
"""
import math
import sys
import time

VOCAB, WIDTH, HEADS, LENGTH = 50257, 768, 12, 1024
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 8
LAYERS = int(sys.argv[4]) if len(sys.argv) > 4 else 12
CASES = {"4x64": (4, 64, False), "4x64 bf16": (4, 64, True), "4x256": (4, 256, False), "1x1024": (1, 1024, False)}
WANTED = [case for case in CASES if sys.argv[2] in (case, "all")]


def peak():
    """Returns the peak resident memory of this process, GB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024 / 1e9


def report(name, case, step, rounds=STEPS):
    step()  # warms up and compiles
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    print(f"{name}\t{case}\t{times[0]:.1f}\t{times[len(times) // 2]:.1f}\t{peak():.2f}", flush=True)


# ---- PyTorch ----


def torch_model():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
            self.norm = nn.LayerNorm(WIDTH)
            for p in self.parameters():
                if p.ndim > 1:
                    nn.init.normal_(p, 0, 0.02)

        def forward(self, ids):
            x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
            return self.norm(self.blocks(x)) @ self.wte.weight.t()

    return GPT2()


def torch_cases(compiled):
    import torch
    from torch.nn import functional as F

    torch.manual_seed(0)
    name = "PyTorch, compiled" if compiled else "PyTorch"
    for case in WANTED:
        batch, length, bf16 = CASES[case]
        model = torch_model()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
        run = torch.compile(model) if compiled else model
        x, y = torch.randint(0, VOCAB, (batch, length)), torch.randint(0, VOCAB, (batch, length))

        def step():
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                logits = run(x)
            loss = F.cross_entropy(logits.float().view(-1, VOCAB), y.view(-1))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            loss.item()

        report(name, case, step)


# ---- JAX ----


def jax_cases():
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape, dtype=np.float32) * 0.02)
    one, zero = lambda n: jnp.ones(n), lambda n: jnp.zeros(n)

    def start():
        d = WIDTH
        block = lambda: dict(g1=one(d), b1=zero(d), qkv=draw(d, 3 * d), qkvb=zero(3 * d), out=draw(d, d), outb=zero(d),
                             g2=one(d), b2=zero(d), fc1=draw(d, 4 * d), fc1b=zero(4 * d), fc2=draw(4 * d, d), fc2b=zero(d))
        return dict(wte=draw(VOCAB, d), wpe=draw(LENGTH, d), blocks=[block() for _ in range(LAYERS)], g=one(d), b=zero(d))

    def norm(x, g, b):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * g + b

    def loss_of(p, ids, labels):
        b, t = ids.shape
        x = p["wte"][ids] + p["wpe"][:t]
        mask = jnp.tril(jnp.ones((t, t), bool))
        for w in p["blocks"]:
            q, k, v = (z.reshape(b, t, HEADS, -1).transpose(0, 2, 1, 3)
                       for z in jnp.split(norm(x, w["g1"], w["b1"]) @ w["qkv"] + w["qkvb"], 3, -1))
            s = jax.nn.softmax(jnp.where(mask, q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]), -jnp.inf), -1)
            x = x + (s @ v).transpose(0, 2, 1, 3).reshape(b, t, -1) @ w["out"] + w["outb"]
            x = x + jax.nn.gelu(norm(x, w["g2"], w["b2"]) @ w["fc1"] + w["fc1b"]) @ w["fc2"] + w["fc2b"]
        logits = norm(x, p["g"], p["b"]) @ p["wte"].T
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()

    def update(p, m, v, t, ids, labels):
        loss, g = jax.value_and_grad(loss_of)(p, ids, labels)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        new = lambda p, m, v: p - 1e-4 * (m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8) + 0.01 * p)
        return jax.tree.map(new, p, m, v), m, v, loss

    for case in WANTED:
        batch, length, bf16 = CASES[case]
        if bf16:
            continue  # JAX has no autocast
        run = jax.jit(update, donate_argnums=(0, 1, 2))
        ids, labels = (jnp.asarray(rng.integers(0, VOCAB, (batch, length))) for _ in range(2))
        p = start()
        state = [p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), 0]

        def step():
            state[3] += 1
            state[0], state[1], state[2], loss = run(state[0], state[1], state[2], jnp.float32(state[3]), ids, labels)
            loss.block_until_ready()

        report("JAX", case, step)


if __name__ == "__main__":
    {"torch": lambda: torch_cases(False), "compile": lambda: torch_cases(True), "jax": jax_cases}[sys.argv[1]]()
