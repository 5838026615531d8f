"""Runs a script of Rille on the nodes of a Ray cluster; see docs/guide/clusters.md.

    ray job submit --working-dir . -- python ray_job.py 4 -d cpu:2 train.lua

starts four workers with two CPUs each. Worker 0 also runs the script. The first argument is the number of workers; all
others are arguments of rille, which must be in the PATH of every node. The processes share a key, which encrypts their
traffic.
"""

import os
import socket
import subprocess
import sys
import tempfile

import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

CPUS = 2  # of each worker; for GPUs, add "GPU": 1 to the bundle and num_gpus to the options


@ray.remote(max_retries=0)
def address():
    """Returns an address of this node with a free port."""
    with socket.socket() as s:
        s.bind(("", 0))
        return get_node_ip_address(), s.getsockname()[1]


@ray.remote(max_retries=0)
def work(rank, size, host, port, key, arguments):
    """Runs a worker until the job ends. Returns its exit code."""
    with tempfile.NamedTemporaryFile("wb") as file:  # only its owner can read it, as rille demands
        file.write(key)
        file.flush()
        variables = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": host, "MASTER_PORT": port}
        env = os.environ | {name: str(value) for name, value in variables.items()}
        return subprocess.call(["rille", "--key-file", file.name, *arguments], env=env)


def main():
    size, arguments = int(sys.argv[1]), sys.argv[2:]
    ray.init()
    group = placement_group([{"CPU": CPUS}] * size, strategy="SPREAD")
    ray.get(group.ready())

    def on_bundle(function, rank):
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
        return function.options(num_cpus=CPUS, scheduling_strategy=strategy)

    host, port = ray.get(on_bundle(address, 0).remote())
    key = subprocess.check_output(["rille", "keys"])
    ranks = [on_bundle(work, r).remote(r, size, host, port, key, arguments) for r in range(size)]
    sys.exit(max(ray.get(ranks)))


main()
