"""llama.py - the models of bench/llama.lua in PyTorch: a training step, and a forward pass alone.

    build/venv/bin/python bench/llama.py [llama | moe] [bf16]      bench/venv.sh makes the environment

Prints lines "name, what, least, median": milliseconds of processor time, one thread. An expert computes its chosen
rows, which are gathered before and added back after.
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F

from processor import report

MODEL = "moe" if "moe" in sys.argv else "llama"
BF16 = "bf16" in sys.argv
BATCH, LENGTH, LAYERS, WIDTH, HEADS, KV_HEADS, VOCAB, EXPERTS, TOP_K, STEPS = 4, 128, 4, 512, 8, 4, 8192, 8, 2, 10
SIZE = WIDTH // HEADS
torch.set_num_threads(1)
torch.set_flush_denormal(True)
torch.manual_seed(1)

angle = torch.outer(torch.arange(LENGTH).float(), 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE))
COS, SIN = torch.cat((angle.cos(),) * 2, -1), torch.cat((angle.sin(),) * 2, -1)


def rotated(x):
    a, b = x.chunk(2, -1)
    return x * COS + torch.cat((-b, a), -1) * SIN


class Attention(nn.Module):
    def __init__(self, kv_heads, rotary):
        super().__init__()
        self.kv_heads, self.rotary = kv_heads, rotary
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=not rotary) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, kv_heads * SIZE, bias=not rotary) for _ in range(2))

    def forward(self, x):
        def heads(y, n):
            return y.view(BATCH, LENGTH, n, SIZE).transpose(1, 2)

        q, k, v = heads(self.q(x), HEADS), heads(self.k(x), self.kv_heads), heads(self.v(x), self.kv_heads)
        if self.rotary:
            q, k = rotated(q).to(v.dtype), rotated(k).to(v.dtype)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != HEADS)
        return self.o(y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        hidden = (8 * WIDTH // 3 + 255) // 256 * 256
        self.gate, self.up = (nn.Linear(WIDTH, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 4 * WIDTH) * 0.02)
        self.down = nn.Parameter(torch.randn(EXPERTS, 4 * WIDTH, WIDTH) * 0.02)

    def forward(self, x):
        rows = x.reshape(-1, WIDTH)
        weight, chosen = torch.softmax(self.router(rows).float(), -1).topk(TOP_K, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        y = torch.zeros_like(rows)
        for e in range(EXPERTS):
            row, place = (chosen == e).nonzero(as_tuple=True)
            out = F.gelu(rows[row] @ self.up[e]) @ self.down[e]
            y = y.index_add(0, row, (out * weight[row, place, None]).to(y.dtype))
        return y.view(x.shape)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        llama = MODEL == "llama"
        self.norm1, self.norm2 = (nn.RMSNorm(WIDTH, eps=1e-5) if llama else nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = Attention(KV_HEADS if llama else HEADS, llama)
        self.mlp = SwiGLU() if llama else Experts()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH) if MODEL == "moe" else None
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH) if MODEL == "moe" else nn.RMSNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if MODEL == "moe":
            self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        if self.positions:
            x = x + self.positions(torch.arange(LENGTH))
        return self.head(self.norm(self.blocks(x)))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
x, y = (torch.randint(0, VOCAB, (BATCH, LENGTH)) for _ in range(2))


def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=BF16):
        loss = F.cross_entropy(model(x).view(-1, VOCAB), y.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def infer():
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=BF16):
        return model(x).sum().item()


name = f"{MODEL}: PyTorch{', bf16' if BF16 else ''}"
report(name, "training", step, STEPS, 2)
report(name, "inference", infer, STEPS, 2)
