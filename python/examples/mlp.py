"""mlp.py - trains a classifier of handwritten digits on two devices: examples/embed.lua in Python.

    python python/examples/mlp.py            records the step once, and then runs it as a compiled step
    python python/examples/mlp.py --plain    calls every operator again in each step

The batch is split over devices 0 and 1, and the weights are replicated on both. That alone makes the training data parallel:
Rille derives the sum of the gradients. Prints the loss of every step.
"""

import pathlib
import sys

import numpy as np

import rille
from rille import nn, optim

STEPS, BATCH = 20, 64
data = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data"

rille.open(devices="cpu:2", seed=3)
both = rille.placement("cpu", [0, 1])
images = rille.tensor(np.load(data / "digits_x.npy").reshape(-1, 64) / np.float32(16), dtype="f32")
labels = rille.tensor(np.load(data / "digits_y.npy"), dtype="i64")

model = nn.Sequential(nn.Linear(64, 256), rille.gelu, nn.Linear(256, 256), rille.gelu, nn.Linear(256, 10))
model.to_global(both, "B")
opt = optim.AdamW(model.parameters(), lr=1e-2)


def step(x, y):
    loss = model(x).cross_entropy(y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss


if "--plain" not in sys.argv:
    step = rille.graph(step)
for i in range(STEPS):
    rows = slice(i * BATCH, (i + 1) * BATCH)
    opt.lr = 1e-2 * (STEPS - i) / STEPS
    x, y = images[rows].to_global(both, "S(0)"), labels[rows].to_global(both, "S(0)")
    print("%.9g" % step(x, y).item())
