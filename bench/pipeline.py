"""pipeline.py - a pipeline in PyTorch whose stages sleep: the peer of bench/pipeline.lua.

Prints lines "name, devices, micro-batches, least time" (milliseconds).
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

SLEEP, ROUNDS, WIDTH = float(os.environ.get("SLEEP", 0.01)), int(os.environ.get("ROUNDS", 2)), 8


class Slow(torch.autograd.Function):
    """A product whose forward takes SLEEP seconds, and whose backward (both gradients) takes twice as long."""

    @staticmethod
    def forward(ctx, x, w):
        time.sleep(SLEEP)
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        time.sleep(2 * SLEEP)
        x, w = ctx.saved_tensors
        return g @ w.T, x.T @ g


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(WIDTH, WIDTH))

    def forward(self, x):
        return torch.tanh(Slow.apply(x, self.w))


def schedule_of(name, rank, p, m):
    loss = lambda y, target: (y - target).pow(2).mean()
    chunks = 2 if name == "interleaved" else 1
    stages = [PipelineStage(Layer(), c * p + rank, chunks * p, torch.device("cpu")) for c in range(chunks)]
    if chunks > 1:
        return ScheduleInterleaved1F1B(stages, m, loss_fn=loss)
    return (Schedule1F1B if name == "1f1b" else ScheduleGPipe)(stages[0], m, loss_fn=loss)


def one(rank, p, m, name):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=p)
    schedule = schedule_of(name, rank, p, m)
    x, target, best = torch.zeros(2 * m, WIDTH), torch.ones(2 * m, WIDTH), 1e9
    for _ in range(1 + ROUNDS):
        dist.barrier()
        begin = time.perf_counter()
        schedule.step(*([x] if rank == 0 else []), **({"target": target} if rank == p - 1 else {}))
        dist.barrier()
        best = min(best, time.perf_counter() - begin)
    if rank == 0:
        print(f"PyTorch {name}\t{p}\t{m}\t{1e3 * best:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for p in map(int, sys.argv[1:] or ["4", "8"]):
        for m in (8, 16):
            for name in ("gpipe", "1f1b", "interleaved"):
                mp.spawn(one, (p, m, name), nprocs=p)
