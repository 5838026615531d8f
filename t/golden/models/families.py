#!/usr/bin/env python3
"""Writes families.lua: results of Hugging Face's decoders, for weights computed by a formula.

    pip install torch transformers
    python3 t/golden/models/families.py > t/golden/models/families.lua
    python3 t/golden/models/families.py NAME...         # writes only these entries, to inspect them

Each entry has: config.json; logits at two positions; a weighted sum of all logits, with weights from a formula; the loss of
predicting the next id; a weighted sum of all gradients, and the sum of their absolute values; the ids of greedy generation; the
number of tensors in the file, and a digest of their names and shapes.

The last digits depend on the instruction sets that torch's matrix products use. On one processor, logits differ by 1e-6 and
sums by 1e-6 of their value with ATEN_CPU_CAPABILITY=avx2 and without it. t/models/golden-families.lua allows for such differences.
"""
import json
import os
import sys
import tempfile
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import numpy as np
import torch
import transformers as T
from safetensors.torch import load_file, save_file

T.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

VOCAB, ROWS, LENGTH, PROMPT, NEW = 64, 2, 24, 10, 16


def hash_of(name):
    h = 0x811C9DC5
    for b in name.encode():
        h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


def spread(name, n):
    """Returns n numbers in [-1, 1), f64, that depend only on the name and the index."""
    h = (hash_of(name) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return (h ^ (h >> np.uint64(16))).astype(np.float64) / 2.0**31 - 1


def weight(name, shape):
    v = spread(name, int(np.prod(shape)))
    if len(shape) > 1:
        v = 0.35 * v
    else:
        v = 1 + 0.5 * v if name.endswith("weight") else 0.5 * v
    return torch.tensor(v.astype(np.float32)).reshape(tuple(shape))


BASE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
OLD = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
MOE = dict(num_experts_per_tok=2, moe_intermediate_size=16)
LATENT = dict(MOE, num_key_value_heads=4, n_routed_experts=8, n_shared_experts=1, kv_lora_rank=16, qk_nope_head_dim=8,
              qk_rope_head_dim=4, v_head_dim=12, first_k_dense_replace=1)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=10000.0)
ERNIE = dict(moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1, moe_intermediate_size=16)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32,
              rope_theta=500000.0)


def base(cls, **more):
    return lambda: getattr(T, cls + "Config")(**{k: v for k, v in {**BASE, **more}.items() if v is not None})


def only(cls, **words):
    return lambda: getattr(T, cls + "Config")(**words)


def longrope(original):
    return dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.25, 1.5, 2.0], long_factor=[1.0, 2.0, 3.0, 5.0],
                original_max_position_embeddings=original)


FALCON = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_hidden_size=80, max_position_embeddings=64,
              bos_token_id=1, eos_token_id=2)
OPT = dict(vocab_size=VOCAB, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
           bos_token_id=1, eos_token_id=2, pad_token_id=0)

ENTRIES = {
    "llama": base("Llama"),
    "llama llama3 tied": base("Llama", rope_parameters=LLAMA3, tie_word_embeddings=True),
    "llama head_dim biases": base("Llama", head_dim=16, attention_bias=True, mlp_bias=True),
    "llama yarn": base("Llama", rope_parameters=YARN),
    "llama linear": base("Llama", rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=10000.0)),
    "llama dynamic": base("Llama", rope_parameters=dict(rope_type="dynamic", factor=2.0, rope_theta=10000.0)),
    "llama longrope": base("Llama", rope_parameters=dict(longrope(32), factor=4.0)),
    "llama gelu": base("Llama", hidden_act="gelu"),
    "mistral": base("Mistral", sliding_window=8, head_dim=16),
    "mistral no window": base("Mistral", sliding_window=None),
    "ministral": base("Ministral", sliding_window=8, head_dim=8, layer_types=["sliding_attention", "full_attention"]),
    "mixtral": base("Mixtral", num_local_experts=4, num_experts_per_tok=2),
    "qwen2": base("Qwen2"),
    "qwen2 window": base("Qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=1),
    "qwen2_moe": base("Qwen2Moe", num_experts=4, shared_expert_intermediate_size=24, **MOE),
    "qwen2_moe dense layer": base("Qwen2Moe", num_experts=4, shared_expert_intermediate_size=24, norm_topk_prob=True, mlp_only_layers=[0], **MOE),
    "qwen3": base("Qwen3", head_dim=16),
    "qwen3_moe": base("Qwen3Moe", head_dim=16, num_experts=4, norm_topk_prob=True, **MOE),
    "seed_oss": base("SeedOss", head_dim=8),
    "smollm3": base("SmolLM3", num_hidden_layers=4),
    "cwm": base("Cwm", head_dim=8, sliding_window=8, num_hidden_layers=4, mlp_bias=True),
    "arcee": base("Arcee", head_dim=8),
    "helium": base("Helium", head_dim=8, mlp_bias=True),
    "ernie4_5": base("Ernie4_5", head_dim=8, use_bias=True),
    "ernie4_5_moe": base("Ernie4_5_Moe", **ERNIE),
    "ernie4_5_moe biases": base("Ernie4_5_Moe", use_bias=True, **ERNIE),
    "hunyuan_v1_dense": base("HunYuanDenseV1", head_dim=8),
    "gemma": base("Gemma", head_dim=16),
    "gemma2": base("Gemma2", head_dim=16, sliding_window=8, query_pre_attn_scalar=24, attn_logit_softcapping=5.0, final_logit_softcapping=4.0),
    "gemma2 gelu": base("Gemma2", head_dim=16, sliding_window=8, hidden_activation="gelu"),
    "gemma3_text": base("Gemma3Text", attn_logit_softcapping=0.5, head_dim=16, sliding_window=8, query_pre_attn_scalar=24, num_hidden_layers=6),
    "gemma3_text linear": base("Gemma3Text", head_dim=8, sliding_window=8, num_hidden_layers=6, rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}),
    "phi": base("Phi"),
    "phi qk_layernorm": base("Phi", qk_layernorm=True),
    "phi3": base("Phi3", sliding_window=8),
    "phi3 longrope short": base("Phi3", original_max_position_embeddings=32, rope_parameters=longrope(32)),
    "phi3 longrope long": base("Phi3", original_max_position_embeddings=8, rope_parameters=longrope(8)),
    "olmo": base("Olmo", clip_qkv=1.5),
    "olmo2": base("Olmo2"),
    "olmo3": base("Olmo3", sliding_window=8, num_hidden_layers=4),
    "olmoe": base("Olmoe", num_experts=4, num_experts_per_tok=2),
    "olmoe clip": base("Olmoe", clip_qkv=0.5, num_experts=4, num_experts_per_tok=2),
    "exaone4": base("Exaone4", sliding_window=8, num_hidden_layers=4),
    "exaone4 no window": base("Exaone4", sliding_window=None),
    "granite": base("Granite", embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.5, attention_multiplier=0.25),
    "granitemoe": base("GraniteMoe", num_local_experts=4, num_experts_per_tok=2, residual_multiplier=0.5),
    "granitemoeshared": base("GraniteMoeShared", num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=24),
    "cohere": base("Cohere"),
    "cohere qk norm": base("Cohere", use_qk_norm=True, logit_scale=0.5),
    "cohere2": base("Cohere2", sliding_window=8, num_hidden_layers=4, logit_scale=0.5),
    "stablelm": base("StableLm", use_qkv_bias=True),
    "stablelm parallel": base("StableLm", use_parallel_residual=True),
    "starcoder2": base("Starcoder2", sliding_window=8),
    "nemotron": base("Nemotron", head_dim=8),
    "jais2": base("Jais2", head_dim=8),
    "glm": base("Glm", head_dim=8),
    "glm4": base("Glm4", head_dim=8),
    "glm4_moe": base("Glm4Moe", head_dim=8, n_routed_experts=8, n_group=4, topk_group=2, first_k_dense_replace=1, use_qk_norm=True,
                     routed_scaling_factor=1.5, **MOE),
    "dots1": base("Dots1", head_dim=8, n_routed_experts=8, n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1, **MOE),
    "deepseek_v2": base("DeepseekV2", q_lora_rank=None, routed_scaling_factor=1.5, **LATENT),
    "deepseek_v2 groups yarn": base("DeepseekV2", q_lora_rank=16, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                    rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.9), **LATENT),
    "deepseek_v3": base("DeepseekV3", q_lora_rank=16, n_group=4, topk_group=2, **LATENT),
    "deepseek_v3 yarn halves": base("DeepseekV3", q_lora_rank=None, n_group=1, topk_group=1, rope_interleave=False, norm_topk_prob=False,
                                    rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0), **LATENT),
    "gpt_oss": base("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, rope_parameters=dict(
        YARN, beta_fast=32.0, beta_slow=1.0, truncate=False)),
    "gpt_oss alpha": base("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, swiglu_alpha=1.3),
    "falcon": only("Falcon", multi_query=True, parallel_attn=True, bias=False, alibi=False, **FALCON),
    "falcon new": only("Falcon", new_decoder_architecture=True, num_kv_heads=2, bias=True, alibi=False, **FALCON),
    "falcon sequential": only("Falcon", multi_query=False, parallel_attn=False, bias=True, alibi=False, **FALCON),
    "flex_olmo": base("FlexOlmo", num_experts=4, num_experts_per_tok=2),
    "vaultgemma": base("VaultGemma", head_dim=16, sliding_window=8, query_pre_attn_scalar=24),
    "persimmon": base("Persimmon", num_key_value_heads=None),
    "solar_open": base("SolarOpen", head_dim=8, n_routed_experts=8, n_group=2, topk_group=1, **MOE),
    "glm4_moe_lite": base("Glm4MoeLite", q_lora_rank=16, n_group=1, topk_group=1, mlp_layer_types=["sparse", "dense"],
                          **{k: v for k, v in LATENT.items() if k != "first_k_dense_replace"}),
    "minimax_m2": base("MiniMaxM2", head_dim=8, num_local_experts=4, num_experts_per_tok=2),
    "youtu": base("Youtu", q_lora_rank=16, pad_token_id=None, **{k: v for k, v in LATENT.items() if k.startswith(("num_key", "kv", "qk", "v_"))}),
    "exaone": base("Exaone", head_dim=8),
    "internlm3": base("InternLM3", head_dim=8, attention_bias=True, mlp_bias=True),
    "iquestcoder": base("IQuestCoder", head_dim=8),
    "ministral3": base("Ministral3", head_dim=16, sliding_window=8, rope_parameters=dict(YARN, original_max_position_embeddings=32,
                       llama_4_scaling_beta=0.5, mscale=1.0, mscale_all_dim=1.0)),
    "mellum": base("Mellum", head_dim=16, sliding_window=8, num_experts=4, layer_types=["sliding_attention", "full_attention"],
                   mlp_layer_types=["sparse", "dense"], **MOE),
    "aria_text": base("AriaText", moe_num_experts=4, moe_topk=2, moe_num_shared_experts=2),
    "hunyuan_v1_moe": base("HunYuanMoEV1", head_dim=8, num_experts=4, moe_topk=2),
    "hyperclovax": base("HyperCLOVAX", embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.5, attention_multiplier=0.25),
    "granite_swa": base("GraniteSWA", sliding_window=8, attention_multiplier=0.25, layer_types=["full_attention", "sliding_attention"],
                        layer_rope_theta=[0, 10000.0], embedding_multiplier=3.0, residual_multiplier=0.5),
    "granitemoe_swa": base("GraniteMoeSWA", sliding_window=8, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=24,
                           attention_multiplier=0.25),
    "exaone_moe": base("ExaoneMoe", head_dim=8, sliding_window=8, num_hidden_layers=4, num_experts=8, n_group=4, topk_group=2, **MOE),
    "hy_v3": base("HYV3", head_dim=8, num_experts=8, **MOE),
    "sarvam_moe": base("SarvamMoE", head_dim=8, n_routed_experts=8, n_group=4, topk_group=2, first_k_dense_replace=1, **MOE),
    "sarvam_mla": base("SarvamMLA", n_group=4, topk_group=2, **LATENT),
    "minicpm3": base("MiniCPM3", q_lora_rank=16, scale_emb=3, dim_model_base=16, **{k: v for k, v in LATENT.items() if k.startswith(
        ("num_key", "kv", "qk", "v_"))}),
    "codegen": only("CodeGen", rotary_dim=4, **OLD),
    "biogpt": base("BioGpt", num_key_value_heads=None, num_hidden_layers=1),
    "modernbert-decoder": base("ModernBertDecoder", num_key_value_heads=None, local_attention=16, num_hidden_layers=4, cls_token_id=1, sep_token_id=2),
    "modernbert-decoder biases": base("ModernBertDecoder", num_key_value_heads=None, local_attention=16, norm_bias=True, attention_bias=True, mlp_bias=True,
                                      decoder_bias=False, classifier_bias=True, cls_token_id=1, sep_token_id=2),
    "gpt_neo": only("GPTNeo", vocab_size=VOCAB, hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=64, window_size=8,
                    attention_types=[[["global", "local"], 1]], bos_token_id=1, eos_token_id=2),
    "gpt_neox": base("GPTNeoX", num_key_value_heads=None),
    "gpt_neox sequential": base("GPTNeoX", num_key_value_heads=None, use_parallel_residual=False),
    "gptj": only("GPTJ", rotary_dim=4, **OLD),
    "gpt_bigcode": only("GPTBigCode", **OLD),
    "gpt_bigcode heads": only("GPTBigCode", multi_query=False, **OLD),
    "gpt_bigcode unscaled": only("GPTBigCode", scale_attn_weights=False, **OLD),
    "opt": only("OPT", word_embed_proj_dim=32, **OPT),
    "opt projected": only("OPT", word_embed_proj_dim=16, **OPT),
    "bloom": only("Bloom", vocab_size=VOCAB, hidden_size=48, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2),
    "mpt": only("Mpt", vocab_size=VOCAB, d_model=32, n_layers=2, n_heads=4, max_seq_len=64, attn_config=dict(clip_qkv=1.5)),
}

# Keys of config.json that Rille does not use.
NEEDLESS = """architectures transformers_version dtype use_cache initializer_range pretraining_tp router_aux_loss_coef router_jitter_noise
output_router_logits attention_dropout attn_pdrop resid_pdrop embd_pdrop emb_pdrop hidden_dropout classifier_dropout_prob classifier_dropout
summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout bos_token_id eos_token_id pad_token_id
embedding_dropout residual_dropout num_nextn_predict_layers init_device verbose dropout layerdrop init_std attention_softmax_in_fp32
scale_attention_softmax_in_fp32 slow_but_exact qk_head_dim aux_loss_alpha seq_aux ep_size""".split()


def numbers(list_of, form="%.6f"):
    return ", ".join(form % x for x in list_of)


def digest_of(shapes):
    return sum(hash_of(n + " " + "x".join(map(str, s))) for n, s in shapes.items()) & 0xFFFFFFFF


def summed(t, name):
    return (t.reshape(-1) * torch.tensor(spread(name, t.numel()).astype(np.float32))).sum()


def gradient_sums(model, folder):
    """Returns a weighted sum of a model's gradients, and the sum of their absolute values. Overwrites the model's parameters with the
    gradients, so that save_pretrained() writes the gradients under the names of the file."""
    with torch.no_grad():
        for b in model.buffers():
            b.zero_()
        for p in model.parameters():
            p.copy_(p.grad if p.grad is not None else torch.zeros_like(p))
            p.grad = None
    model.save_pretrained(folder)
    weighted = absolute = 0.0
    for n, g in load_file(folder + "/model.safetensors").items():
        g = g.double().numpy().ravel()
        weighted += float((g * spread("gradient " + n, g.size)).sum())
        absolute += float(abs(g).sum())
    return weighted, absolute


def run(name, config):
    with tempfile.TemporaryDirectory() as d:
        T.AutoModelForCausalLM.from_config(config).save_pretrained(d)
        path = d + "/model.safetensors"
        shapes = {n: list(t.shape) for n, t in load_file(path).items()}
        save_file({n: weight(n, s) for n, s in shapes.items()}, path, metadata={"format": "pt"})
        model = T.AutoModelForCausalLM.from_pretrained(d, attn_implementation="eager", dtype=torch.float32).eval()
        words = json.load(open(d + "/config.json"))
        ids = torch.tensor(((spread("ids", ROWS * LENGTH) + 1) / 2 * (VOCAB - 3) + 3).astype(np.int64)).reshape(ROWS, LENGTH)
        with torch.no_grad():
            logits = model(ids).logits.double()
            greedy = model.generate(ids[:, :PROMPT], attention_mask=torch.ones_like(ids[:, :PROMPT]), max_new_tokens=NEW, do_sample=False,
                                    eos_token_id=None, pad_token_id=0)[:, PROMPT:]
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        loss.backward()
        weighted, absolute = gradient_sums(model, d)
        digest = digest_of(shapes)
        some = torch.cat([logits[0, -1, :6], logits[1, LENGTH // 2, :6]])
        total = float((logits.numpy().ravel() * spread("logits", logits.numel())).sum())
    kept = {k: v for k, v in words.items() if k not in NEEDLESS and v is not None}
    if "attn_config" in kept:
        kept["attn_config"] = {k: v for k, v in kept["attn_config"].items() if k in ("alibi", "alibi_bias_max", "clip_qkv", "qk_ln")}

    print(f'  {{name = "{name}", config = [=[{json.dumps(kept)}]=],')
    print(f"    logits = {{{numbers(some.tolist(), '%.6f')}}}, all_logits = {total:.6f},")
    print(f"    loss = {loss.item():.7f}, gradient = {weighted:.7f}, absolute = {absolute:.6f},")
    print(f"    greedy = {{{', '.join('{' + numbers(row, '%d') + '}' for row in greedy.tolist())}}}, tensors = {len(shapes)}, digest = {digest}}},")


if __name__ == "__main__":
    print("-- families.lua - results of Hugging Face's decoders, made by families.py.\n")
    print(f"return {{\n  vocab = {VOCAB}, rows = {ROWS}, length = {LENGTH}, prompt = {PROMPT}, new = {NEW},")
    for entry, make in ENTRIES.items():
        if len(sys.argv) == 1 or entry in sys.argv[1:]:
            try:
                run(entry, make())
            except Exception as e:
                print(f"{entry}: {type(e).__name__}: {str(e)[:300]}", file=sys.stderr)
    print("}")
