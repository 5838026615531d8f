"""moves_jax.py - moves between JAX's host devices; a peer in bench/moves.sh.

moves_jax.py N: prints "move, devices, bytes, column, microseconds", with the least time of several rounds. Small moves are
repeated in a loop inside one compiled function. Each large move is a call of its own."""

import os
import sys
import time

count = int(sys.argv[1])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as S

mesh = Mesh(jax.devices(), ("d",))
LOOP, SMALL = 64, 64 * 1024

# Move -> the collective, applied to a device's shard, and a function that brings the collective's result back to the
# shape of the shard, so that moves can be chained.
MOVES = {
    "all-reduce": (lambda x: lax.psum(x, "d"), lambda y, x: y * 0.5),
    "all-gather": (lambda x: lax.all_gather(x, "d", tiled=True), lambda y, x: y[: x.shape[0]]),
    "reduce-scatter": (lambda x: lax.psum_scatter(x, "d", tiled=True), lambda y, x: jnp.tile(y, (count, 1))),
    "P -> S(1)": (lambda x: lax.psum_scatter(x, "d", scatter_dimension=1, tiled=True),
                  lambda y, x: jnp.tile(y, (1, count))),
    "all-to-all": (lambda x: lax.all_to_all(x, "d", 1, 0, tiled=True), lambda y, x: y.reshape(x.shape)),
}
SHAPES = [(2, 1), (32, 32), (256, 256), (1024, 512), (2048, 2048), (4096, 4096)]


def least(f, x):
    best = float("inf")
    for _ in range(15):
        begin = time.perf_counter()
        f(x).block_until_ready()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


for name, (move, back) in MOVES.items():
    for rows, columns in SHAPES:
        # If the tensor has a pending reduction, every device has an addend of full shape. The JAX array stacks these
        # addends along dimension 0.
        whole = name in ("all-reduce", "reduce-scatter", "P -> S(1)")
        if name != "all-reduce" and (rows % count or columns % count):
            continue
        bytes = 4 * rows * columns
        shape = (rows * count, columns) if whole else (rows, columns)
        x = jax.device_put(jnp.ones(shape, jnp.float32), NamedSharding(mesh, S("d")))
        n = LOOP if bytes <= SMALL else 1

        def chain(x):
            if n == 1:
                return move(x)
            return lax.fori_loop(0, n, lambda i, v: back(move(v), v), x)

        f = jax.jit(jax.shard_map(chain, mesh=mesh, in_specs=S("d"), out_specs=S("d"), check_vma=False))
        f(x).block_until_ready()
        print(f"{name}\t{count}\t{bytes}\tJAX\t{least(f, x) / n:.2f}", flush=True)
