#!/usr/bin/env python3
"""Writes lora.lua: results of PEFT's LoRA with the decoders of families.py.

    pip install torch transformers peft
    python3 t/golden/models/lora.py > t/golden/models/lora.lua

Values of adapters are spread(name) * 0.3. Each entry has: the family; adapter_config.json; the modules with rank, input size and
output size; the first logits of the last position; the loss; the sum of the absolute values of all gradients of adapters.
"""
import json
import os
import re
import tempfile

import families as F
import numpy as np
import torch
import transformers as T
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

CASES = [
    ("llama", dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj"])),
    ("llama llama3 tied", dict(r=4, lora_alpha=5, use_rslora=True, target_modules="all-linear", rank_pattern={"o_proj": 2},
                               alpha_pattern={"down_proj": 9})),
    ("qwen2", dict(r=2, lora_alpha=3, target_modules=["k_proj", "up_proj"])),
    ("phi3", dict(r=2, lora_alpha=4, target_modules=["qkv_proj", "gate_up_proj", "o_proj"])),
    ("gpt_neox", dict(r=2, lora_alpha=4, target_modules=["query_key_value", "dense"])),
]
KEYS = "peft_type r lora_alpha lora_dropout target_modules bias use_rslora rank_pattern alpha_pattern use_dora modules_to_save".split()


def run(family, options):
    config = F.ENTRIES[family]()
    with tempfile.TemporaryDirectory() as d:
        T.AutoModelForCausalLM.from_config(config).save_pretrained(d)
        path = d + "/model.safetensors"
        shapes = {n: list(t.shape) for n, t in load_file(path).items()}
        save_file({n: F.weight(n, s) for n, s in shapes.items()}, path, metadata={"format": "pt"})
        base = T.AutoModelForCausalLM.from_pretrained(d, attn_implementation="eager", dtype=torch.float32)
        get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **options)).save_pretrained(d + "/a")
        path = d + "/a/adapter_model.safetensors"
        tensors = load_file(path)
        for n, t in tensors.items():
            tensors[n] = torch.tensor((0.3 * F.spread(n, t.numel())).astype(np.float32)).reshape(t.shape)
        save_file(tensors, path)
        words = json.load(open(d + "/a/adapter_config.json"))
        base = T.AutoModelForCausalLM.from_pretrained(d, attn_implementation="eager", dtype=torch.float32)
        model = PeftModel.from_pretrained(base, d + "/a", is_trainable=True).eval()
    ids = torch.tensor(((F.spread("ids", 48) + 1) / 2 * (F.VOCAB - 3) + 3).astype(np.int64)).reshape(2, 24)
    out = model(ids)
    loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].reshape(-1, F.VOCAB), ids[:, 1:].reshape(-1))
    loss.backward()
    absolute = sum(p.grad.abs().sum().item() for n, p in model.named_parameters() if "lora_" in n)
    modules = []
    for n in sorted(tensors):
        if "lora_A" in n:
            b = tensors[n.replace("lora_A", "lora_B")]
            modules.append('{"%s", %d, %d, %d}' % (re.sub(r"\.lora_A\.weight$", "", n), *tensors[n].shape, b.shape[0]))
    words = {k: sorted(words[k]) if k == "target_modules" else words[k] for k in KEYS if words[k]}
    print(f"  {{family = \"{family}\", config = [=[{json.dumps(words)}]=],")
    print(f"    modules = {{{', '.join(modules)}}},")
    print(f"    logits = {{{', '.join('%.6f' % v for v in out.logits[1, -1, :8].tolist())}}}, loss = {loss.item():.7f}, absolute = {absolute:.6f}}},")


os.environ["HF_HUB_OFFLINE"] = "1"
print("-- lora.lua - results of PEFT's LoRA, made by lora.py.\n\nreturn {")
for family, options in CASES:
    run(family, options)
print("}")
