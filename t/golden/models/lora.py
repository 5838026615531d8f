#!/usr/bin/env python3
"""Writes lora.lua: results of PEFT's LoRA with the decoders of families.py.

    pip install torch transformers peft
    python3 t/golden/models/lora.py > t/golden/models/lora.lua

Values of an adapter's tensors are spread(name) * 0.3, plus 1 for magnitude vectors of DoRA; frozen weights of embeddings are the
base model's. Each entry has: the family;
adapter_config.json; the adapter's tensors with their shapes; the first logits of the last position; the losses of three steps of
AdamW; the sum of the absolute values of all gradients of the first step; old: true for a folder with adapters of each expert's
layers, which PEFT joins, so that it trains other numbers. The first entry also has TRL's loss of preferences
(dpo_trainer.py, loss_type "sigmoid", beta = 0.3; without the adapter: the reference), the sum of the absolute values of its
gradients, and the mean loss of the labels from MASK on.
"""
import json
import os
import tempfile
import warnings

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
    ("llama", dict(r=2, lora_alpha=3, use_dora=True, target_modules=["q_proj", "down_proj", "embed_tokens"], modules_to_save=["lm_head", "norm"])),
    ("llama", dict(r=2, lora_alpha=3, target_modules=["embed_tokens", "v_proj"], layers_to_transform=[1], layers_pattern="layers")),
    ("llama", dict(r=2, lora_alpha=3, target_modules=r".*layers\.(?!0).*(q|v)_proj", exclude_modules=["v_proj"])),
    ("llama", dict(r=2, lora_alpha=3, target_modules=["q_proj", "k_proj"], exclude_modules=r".*\.1\..*k_proj",
                   rank_pattern={r"layers\.1\..*": 3}, alpha_pattern={"^model.layers.0.self_attn.(q|k)_proj$": 5})),
    ("llama llama3 tied", dict(r=2, lora_alpha=3, target_modules=["lm_head", "q_proj"], modules_to_save=["embed_tokens"])),
    ("llama llama3 tied", dict(r=2, lora_alpha=3, target_modules=["lm_head", "o_proj"])),
    ("qwen2", dict(r=2, lora_alpha=3, lora_bias=True, target_modules=["q_proj", "v_proj"])),
    ("qwen2", dict(r=2, lora_alpha=3, bias="all", target_modules=["q_proj"], layers_to_transform=0)),
    ("qwen2", dict(r=2, lora_alpha=3, bias="lora_only", use_dora=True, use_rslora=True, target_modules=["q_proj", "k_proj"])),
    ("phi3", dict(r=2, lora_alpha=4, use_dora=True, target_modules=["qkv_proj"], modules_to_save=["gate_up_proj"])),
    ("gpt_neox", dict(r=2, lora_alpha=4, use_dora=True, bias="all", target_modules=["query_key_value"])),
    ("mixtral", dict(r=2, lora_alpha=3, target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    ("qwen3_moe", dict(r=2, lora_alpha=3, target_modules="all-linear")),
    ("gpt_oss", dict(r=2, lora_alpha=4, target_modules=["o_proj"], target_parameters=["experts.gate_up_proj"], rank_pattern={"experts.gate_up_proj": 3})),
    ("gpt_oss", dict(r=3, lora_alpha=4, use_rslora=True, target_modules=[], target_parameters=["1.mlp.experts.down_proj", "router.weight", "0.self_attn.q_proj.weight"])),
    ("granitemoe", dict(r=2, lora_alpha=4, target_modules=[], target_parameters=["experts.gate_up_proj", "experts.down_proj", "router.weight"])),
    ("deepseek_v3", dict(r=2, lora_alpha=4, target_modules=["o_proj"], target_parameters=["experts.down_proj"])),
    # folders of PEFT 0.17 and older, in which each expert has linear layers
    ("mixtral", dict(r=2, lora_alpha=3, target_modules=["w1", "w2", "w3", "gate", "v_proj"], old=True)),
    ("qwen3_moe", dict(r=2, lora_alpha=3, target_modules=["down_proj", "k_proj"], old=True)),
]
MASK = (9, 17)  # positions of the first label in the two rows
IGNORED = ("auto_mapping", "base_model_name_or_path", "megatron_core", "peft_version", "task_type", "qalora_group_size", "inference_mode")


def base(folder):
    return T.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)


def value(name, shape):
    flat = (0.3 * F.spread(name, int(np.prod(shape)))).astype(np.float32) + np.float32(name.endswith("magnitude_vector"))
    return torch.tensor(flat).reshape(shape)


def train(model, ids):
    """Returns the losses of three steps, and the sum of the absolute values of the gradients of the first."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    opt, losses, absolute = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0), [], 0
    for step in range(3):
        logits = model(ids).logits[:, :-1].reshape(-1, F.VOCAB)
        loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        if step == 0:
            absolute = sum(p.grad.abs().sum().item() for p in parameters)
        opt.step()
        losses.append(loss.item())
    return losses, absolute


def log_probabilities(model, ids):
    """Returns the sums of the log probabilities of the labels from MASK on, as TRL does."""
    logits = model(ids).logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    return (logits * torch.stack([torch.arange(1, 24) >= m for m in MASK])).sum(1)


def preferences(model, ids):
    """Returns TRL's loss of preferences, and the sum of the absolute values of its gradients."""
    other = (ids + 3) % F.VOCAB
    with torch.no_grad(), model.disable_adapter():
        reference = log_probabilities(model, ids) - log_probabilities(model, other)
    score = log_probabilities(model, ids) - log_probabilities(model, other) - reference
    loss = -torch.nn.functional.logsigmoid(0.3 * score).mean()
    parameters = [p for p in model.parameters() if p.requires_grad]
    return loss.item(), sum(g.abs().sum().item() for g in torch.autograd.grad(loss, parameters))


def write_old(folder, shapes, options):
    """Writes a folder with adapters of the base model's modules as its file names them. Returns the tensors."""
    tensors = {}
    for name, shape in shapes.items():
        module = name.removesuffix(".weight")
        if module.split(".")[-1] in options["target_modules"]:
            for part, size in (("lora_A", (options["r"], shape[1])), ("lora_B", (shape[0], options["r"]))):
                key = f"base_model.model.{module}.{part}.weight"
                tensors[key] = value(key, size)
    os.makedirs(folder)
    LoraConfig(**options).save_pretrained(folder)
    save_file(tensors, folder + "/adapter_model.safetensors")
    return tensors


def run(family, options):
    config = F.ENTRIES[family]()
    with tempfile.TemporaryDirectory() as d:
        T.AutoModelForCausalLM.from_config(config).save_pretrained(d)
        path = d + "/model.safetensors"
        shapes = {n: list(t.shape) for n, t in load_file(path).items()}
        save_file({n: F.weight(n, s) for n, s in shapes.items()}, path, metadata={"format": "pt"})
        if options.get("old"):
            tensors = write_old(d + "/a", shapes, {k: v for k, v in options.items() if k != "old"})
        else:
            get_peft_model(base(d), LoraConfig(task_type="CAUSAL_LM", **options)).save_pretrained(d + "/a")
            path = d + "/a/adapter_model.safetensors"
            tensors = {n: t if n.endswith("base_layer.weight") else value(n, t.shape) for n, t in load_file(path).items()}
            save_file(tensors, path)
        words = json.load(open(d + "/a/adapter_config.json"))
        model = PeftModel.from_pretrained(base(d), d + "/a", is_trainable=True).eval()
    ids = torch.tensor(((F.spread("ids", 48) + 1) / 2 * (F.VOCAB - 3) + 3).astype(np.int64)).reshape(2, 24)
    logits = model(ids).logits[1, -1, :8].tolist()
    more = ""
    if options is CASES[0][1]:
        masked = -log_probabilities(model, ids).sum().item() / sum(24 - m for m in MASK)
        more = " preferences = {%.7f, %.6f}, masked = %.7f, mask = {%d, %d}," % (*preferences(model, ids), masked, *MASK)
    losses, absolute = train(model, ids)
    if options.get("old"):
        more += " old = true,"
    words = {k: sorted(v) if k in ("target_modules", "target_parameters") and isinstance(v, list) else v for k, v in words.items() if k not in IGNORED and not (v is None or v is False or v == {})}
    shapes = ", ".join('{"%s", {%s}}' % (n, ", ".join(map(str, t.shape))) for n, t in sorted(tensors.items()))
    print(f"  {{family = \"{family}\", config = [=[{json.dumps(words)}]=],")
    print(f"    tensors = {{{shapes}}},")
    print(f"    logits = {{{', '.join('%.6f' % v for v in logits)}}}, losses = {{{', '.join('%.7f' % v for v in losses)}}},{more} absolute = {absolute:.6f}}},")


os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")
print("-- lora.lua - results of PEFT's LoRA, made by lora.py.\n\nreturn {")
for family, options in CASES:
    run(family, options)
print("}")
