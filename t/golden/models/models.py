#!/usr/bin/env python3
"""Writes models.lua: results of Hugging Face's GPT-2 and Llama in f64, for weights computed by a formula.

    pip install torch transformers
    python3 t/golden/models/models.py > t/golden/models/models.lua

Logits of one batch, losses of five AdamW steps on the batch, ten ids that continue the first row (greedy), the number of
tensors, and a digest of their names and shapes. AdamW's eps is as large as the gradients, so losses depend on their size. Llama
has fewer heads for keys and values, and Llama 3's scaling of rotary frequencies.
"""
import torch
from families import hash_of
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

torch.set_default_dtype(torch.float64)

VOCAB, LENGTH, LAYERS, HEADS, WIDTH = 19, 16, 2, 4, 16
ROPE = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8, "rope_theta": 500.0}
IDS = [[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]]
LABELS = [[1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9]]


def numbers(shape, seed, low, high):
    n = torch.Size(shape).numel()
    i = torch.arange(n, dtype=torch.int64)
    unit = ((i * 7919 + seed * 104729 + 3571) % 9973).to(torch.float64) / 9973
    return (low + (high - low) * unit).reshape(shape)


def fill(model):
    """Fills the tensors with values that depend on the tensor's position in the order of names. Returns the number of tensors, and
    the digest."""
    digest, named = 0, sorted(model.named_parameters())
    with torch.no_grad():
        for seed, (name, p) in enumerate(named, 1):
            norm = name.endswith("weight") and p.ndim == 1
            p.copy_(numbers(p.shape, seed, *((0.5, 1.5) if norm else (-0.8, 0.8))))
            digest += hash_of(name + " " + "x".join(map(str, p.shape)))
    return [len(named), digest & 0xFFFFFFFF]


def listed(x):
    if isinstance(x, list):
        return "{" + ", ".join(listed(e) for e in x) + "}"
    return repr(x) if isinstance(x, int) else f"{x:.9g}"


def golden(name, model, config):
    tensors = fill(model)
    ids, labels = torch.tensor(IDS), torch.tensor(LABELS)
    model.eval()
    with torch.no_grad():
        logits = model(ids).logits
        text = list(IDS[0])
        for _ in range(10):
            text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, eps=0.05)
    losses = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(ids).logits.reshape(-1, VOCAB), labels.reshape(-1))
        losses.append(loss.item())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"  {name} = {{")
    print(f"    config = {config},")
    print(f"    tensors = {listed(tensors)},")
    print(f"    logits = {listed(logits.flatten().tolist())},")
    print(f"    losses = {listed(losses)},")
    print(f"    greedy = {listed(text)},")
    print("  },")


print("-- Made by models.py: values of Hugging Face's GPT-2 and Llama. Do not edit.")
print(f"return {{ids = {listed(IDS)}, labels = {listed(LABELS)},")
sizes = f"vocab = {VOCAB}, length = {LENGTH}, layers = {LAYERS}, heads = {HEADS}, width = {WIDTH}"
golden("gpt2", GPT2LMHeadModel(GPT2Config(
    vocab_size=VOCAB, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, attn_pdrop=0, embd_pdrop=0,
    resid_pdrop=0)), "{" + sizes + "}")
golden("llama", LlamaForCausalLM(LlamaConfig(
    vocab_size=VOCAB, max_position_embeddings=LENGTH, hidden_size=WIDTH, intermediate_size=24,
    num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=2, rms_norm_eps=1e-5,
    rope_parameters=ROPE, tie_word_embeddings=False)),
    "{" + sizes + ', kv_heads = 2, hidden = 24, eps = 1e-5, theta = 500, rope_scaling = {rope_type = "llama3", '
    "factor = 4, low_freq_factor = 1, high_freq_factor = 4, original_max_position_embeddings = 8}}")
print("}")
