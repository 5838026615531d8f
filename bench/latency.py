"""latency.py - the measurements of bench/latency.lua in PyTorch, its DTensor and JAX: the time to call a small operator, without
and with reading the result.

    build/venv/bin/python bench/latency.py jax|torch
"""
import os
import sys
import time

ROUNDS, CALLS = 15, 500


def report(what, f):
    times = []
    for _ in range(ROUNDS + 1):  # the first round warms up
        start = time.perf_counter()
        for _ in range(CALLS):
            f()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    times = sorted(times[1:])
    print(f"{what}\t{times[0]:.2f}\t{times[len(times) // 2]:.2f}", flush=True)


def run_jax():
    import jax
    import jax.numpy as jnp

    x, y = jnp.ones(1), jnp.ones(1)
    add = jax.jit(lambda a, b: a + b)
    report("JAX: x + y, jit, read", lambda: add(x, y).item())
    report("JAX: x + y, jit", lambda: add(x, y).block_until_ready())
    report("JAX: x + y, eager", lambda: (x + y).block_until_ready())


def run_torch():
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate, distribute_tensor

    torch.set_num_threads(1)
    x, y = torch.ones(1), torch.ones(1)
    report("PyTorch: x + y, read", lambda: (x + y).item())
    report("PyTorch: x + y", lambda: x + y)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    a, b = (distribute_tensor(torch.ones(64, 64), mesh, [Replicate()]) for _ in range(2))
    report("PyTorch: x + y, DTensor", lambda: a + b)
    dist.destroy_process_group()


if __name__ == "__main__":
    {"jax": run_jax, "torch": run_torch}[sys.argv[1]]()
