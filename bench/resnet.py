"""resnet.py - the network of bench/resnet.lua in PyTorch: a training step, and a forward pass alone.

    build/venv/bin/python bench/resnet.py [batch = 32 [width = 16]]      bench/venv.sh makes the environment

Prints lines "name, what, least, median": milliseconds of processor time, one thread; images in NCHW and in NHWC
memory order.
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F

from processor import report

BATCH, WIDTH = (int(a) for a in (sys.argv[1:] + ["32", "16"][len(sys.argv) - 1:])[:2])
BLOCKS, STEPS, SIZE = (2, 2, 2), 20, 32
torch.set_num_threads(1)
torch.set_flush_denormal(True)
torch.manual_seed(1)


def conv(n_in, n_out, window, stride=1):
    return nn.Conv2d(n_in, n_out, window, stride, window // 2, bias=False)


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(n_in, n_out, 3, stride), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = conv(n_out, n_out, 3), nn.BatchNorm2d(n_out)
        other = stride != 1 or n_in != n_out
        self.downsample = nn.Sequential(conv(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out)) if other else nn.Identity()

    def forward(self, x):
        return F.relu(self.downsample(x) + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, n = [], WIDTH
        for stage, count in enumerate(BLOCKS):
            for i in range(count):
                blocks.append(Block(n, WIDTH << stage, 2 if stage and not i else 1))
                n = WIDTH << stage
        self.first = nn.Sequential(conv(3, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU())
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(n, 10)

    def forward(self, x):
        return self.fc(self.blocks(self.first(x)).mean((2, 3)))


for name, lies in (("PyTorch, eager", torch.contiguous_format), ("PyTorch, channels last", torch.channels_last)):
    model = ResNet().to(memory_format=lies)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    x = torch.randn(BATCH, 3, SIZE, SIZE).to(memory_format=lies)
    y = torch.randint(0, 10, (BATCH,))

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    report(name, "training", step, STEPS, 3)
    model.eval()
    with torch.no_grad():
        report(name, "inference", lambda: model(x).sum().item(), STEPS, 3)
