"""step.py - the digits step of bench/step.lua in PyTorch and JAX: perceptron 64-256-256-10, batch 64, AdamW.

    build/venv/bin/python bench/step.py jax|torch      bench/venv.sh makes the environment

Prints lines "name, layout, least, median" (microseconds), as bench/step.lua does. Four devices are JAX's host devices
in one process, and PyTorch's processes with gloo: DistributedDataParallel (dp), DTensor (tp: the first layer by
columns, the second by rows).
"""
import math
import os
import sys
import time

ROUNDS, STEPS = 15, 60
WIDTH = (64, 256, 256, 10)


def report(name, layout, step, rounds=ROUNDS, steps=STEPS):
    times = []
    for _ in range(rounds + 1):  # the first round warms up
        start = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - start) / steps * 1e6)
    times = sorted(times[1:])
    if name:
        print(f"{name}\t{layout}\t{times[0]:.0f}\t{times[len(times) // 2]:.0f}", flush=True)


# ---- JAX ----


def jax_step(layout):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((1 if layout == "one" else 4,), ("d",), axis_types=(AxisType.Auto,))
    put = lambda a, spec: jax.device_put(a, NamedSharding(mesh, spec))
    split = {"one": [P()] * 3, "dp": [P()] * 3, "tp": [P(None, "d"), P("d", None), P()]}[layout]
    bias = [P("d") if layout == "tp" else P(), P(), P()]
    rows = P("d") if layout == "dp" else P()
    rng = np.random.default_rng(3)

    def start(*shape):
        return (rng.random(shape, dtype=np.float32) * 2 - 1) / math.sqrt(shape[0])

    params = [(put(start(WIDTH[i], WIDTH[i + 1]), split[i]), put(start(WIDTH[i + 1]), bias[i])) for i in range(3)]
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    x = put(rng.standard_normal((64, 64), dtype=np.float32), rows)
    y = put(np.arange(64) * 7 % 10, rows)

    def loss_of(params, x, y):
        for i, (w, b) in enumerate(params):
            x = x @ w + b
            if i < 2:
                x = jax.nn.gelu(x, approximate=False)
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1).mean()

    def update(state, x, y):
        params, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(params, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        params = jax.tree.map(
            lambda p, m, v: p * (1 - 1e-3 * 0.01) - 1e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, m, v
        )
        return (params, m, v, t), loss

    compiled = jax.jit(update, donate_argnums=0)
    state = [(params, zeros(), zeros(), jnp.float32(0))]

    def step():
        state[0], loss = compiled(state[0], x, y)
        return float(loss)

    return step


def run_jax():
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    for layout in ("one", "dp", "tp"):
        report("JAX, jit", layout, jax_step(layout))


# ---- PyTorch ----


def torch_step(layout, mesh=None):
    import torch
    import torch.nn as nn

    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))
    rows = 64
    if layout == "dp":
        net, rows = nn.parallel.DistributedDataParallel(net), 16
    if layout == "tp":
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    x, y = torch.randn(rows, 64), torch.arange(rows) * 7 % 10

    def step():
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    return step


def torch_rank(rank, port):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="4")
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (4,))
    for layout, name in (("dp", "PyTorch, DDP, gloo"), ("tp", "PyTorch, DTensor, gloo")):
        report(name if rank == 0 else None, layout, torch_step(layout, mesh), rounds=3, steps=15)
    dist.destroy_process_group()


def run_torch():
    import torch

    report("PyTorch, eager", "one", torch_step("one"))
    torch.multiprocessing.spawn(torch_rank, args=(29511,), nprocs=4)


if __name__ == "__main__":
    {"jax": run_jax, "torch": run_torch}[sys.argv[1]]()
