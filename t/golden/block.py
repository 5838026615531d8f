#!/usr/bin/env python3
"""block.py - makes block.lua: two layers of a transformer with a causal mask, by PyTorch's own layer, in f64.

    venv/bin/python t/golden/block.py > t/golden/block.lua      (the venv of make.py)

Parameters and input come from the formula of make.py, the k-th tensor with seed k. The gradient is that of
sum(output * weights).
"""
import torch

D, HEADS, HIDDEN, BATCH, LENGTH, LAYERS = 12, 3, 20, 3, 7, 2


def numbers(shape, seed, low, high):
    n = torch.Size(shape).numel()
    v = [low + (high - low) * ((i * 7919 + seed * 104729 + 3571) % 9973) / 9973 for i in range(n)]
    return torch.tensor(v, dtype=torch.float64).reshape(shape).requires_grad_()


seed, names, made = 0, [], {}


def parameter(name, shape, low=-0.6, high=0.6):
    global seed
    seed += 1
    names.append((name, shape, low, high))
    made[name] = numbers(shape, seed, low, high)
    return made[name]


def linear(name, out, into):
    return parameter(name + ".weight", (out, into)), parameter(name + ".bias", (out,))


def layer(i):
    """norm, attention, norm, two linear layers, in the order of nn.TransformerBlock."""
    block = torch.nn.TransformerEncoderLayer(D, HEADS, HIDDEN, dropout=0.0, activation="gelu", batch_first=True,
                                             norm_first=True, dtype=torch.float64)
    given = {"norm1.weight": parameter(f"{i}.norm1.weight", (D,), 0.5, 1.5), "norm1.bias": parameter(f"{i}.norm1.bias", (D,))}
    parts = [linear(f"{i}.attention.{p}_proj", D, D) for p in "qkv"]
    given["self_attn.in_proj_weight"] = torch.cat([w for w, _ in parts])
    given["self_attn.in_proj_bias"] = torch.cat([b for _, b in parts])
    given["self_attn.out_proj.weight"], given["self_attn.out_proj.bias"] = linear(f"{i}.attention.out_proj", D, D)
    given["norm2.weight"], given["norm2.bias"] = parameter(f"{i}.norm2.weight", (D,), 0.5, 1.5), parameter(f"{i}.norm2.bias", (D,))
    given["linear1.weight"], given["linear1.bias"] = linear(f"{i}.fc1", HIDDEN, D)
    given["linear2.weight"], given["linear2.bias"] = linear(f"{i}.fc2", D, HIDDEN)
    return block, given


def flat(t):
    return "{%s}" % ", ".join("%.9g" % v for v in t.detach().flatten().tolist())


x = parameter("x", (BATCH, LENGTH, D), -2, 2)
mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
y = x
for i in range(LAYERS):
    block, given = layer(i)
    y = torch.func.functional_call(block, given, (y,), {"src_mask": mask, "is_causal": True})
(y * numbers(y.shape, 99, -1, 1)).sum().backward()

print("-- Made by block.py with PyTorch %s; not edited by hand." % torch.__version__.split("+")[0])
print(f"return {{d = {D}, heads = {HEADS}, hidden = {HIDDEN}, layers = {LAYERS},")
print("  y = {shape = {%s}, value = %s},\n  tensors = {" % (", ".join(map(str, y.shape)), flat(y)))
for name, shape, low, high in names:
    print('    {name = "%s", shape = {%s}, low = %g, high = %g,\n      grad = %s},'
          % (name, ", ".join(map(str, shape)), low, high, flat(made[name].grad)))
print("}}")
