#!/usr/bin/env python3
"""Writes gguf_files.lua: states how llama.cpp's converter writes the models of families.py as GGUF files.

    pip install torch transformers gguf
    python3 t/golden/models/gguf_files.py > t/golden/models/gguf_files.lua

Each entry has the architecture, metadata {key, kind, value}, and rows {name, operation, names in Hugging Face's file} of tensors.
`common` has the rows that are the same in all entries whose models have tensors of these names. Names of tensors are those of
the package gguf. The operations are those of llama.cpp's convert_hf_to_gguf.py; t/lib/gguf.lua performs them:

    copy                    unchanged
    plus                    adds 1
    flat                    makes one axis of all
    turn                    exchanges the last two axes
    stack                   stacks several tensors
    values A,B,...          writes these values
    pairs N                 reorders the rows of each of N heads, so that the two rows of a rotated pair become neighbours
    half K, part K          half K (0 or 1) along axis 1, along axis 0
    alternate K             every second element of the last axis, from element K; then exchanges the last two of three axes
    blocks N A,B,C          the rows are N blocks, each divided in the ratio A : B : C; collects all first, all second, all third parts
    latentk, latentv N A B  the rows are N heads of A rows of keys and B rows of values: the keys, transposed; the values
"""
import io
import json
import os
import re
import sys
import contextlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
arguments, sys.argv = sys.argv, [sys.argv[0], "none"]
with contextlib.redirect_stdout(io.StringIO()):
    import families as F
import gguf
import torch
import transformers as T

ARCH = {"llama": "LLAMA", "mistral": "LLAMA", "mixtral": "LLAMA", "arcee": "ARCEE", "smollm3": "SMOLLM3", "qwen2": "QWEN2",
        "qwen2_moe": "QWEN2MOE", "qwen3": "QWEN3", "qwen3_moe": "QWEN3MOE", "seed_oss": "SEED_OSS", "ernie4_5": "ERNIE4_5",
        "ernie4_5_moe": "ERNIE4_5_MOE", "hunyuan_v1_dense": "HUNYUAN_DENSE", "gemma": "GEMMA", "gemma2": "GEMMA2",
        "gemma3_text": "GEMMA3", "phi": "PHI2", "phi3": "PHI3", "starcoder2": "STARCODER2", "stablelm": "STABLELM",
        "falcon": "FALCON", "gpt_neox": "GPTNEOX", "bloom": "BLOOM", "mpt": "MPT", "gpt_bigcode": "STARCODER", "olmo": "OLMO",
        "olmo2": "OLMO2", "olmo3": "OLMO2", "olmoe": "OLMOE", "granite": "GRANITE", "granitemoe": "GRANITE_MOE",
        "granitemoeshared": "GRANITE_MOE", "cohere": "COMMAND_R", "cohere2": "COHERE2", "glm": "LLAMA", "glm4": "GLM4", "glm4_moe": "GLM4_MOE",
        "dots1": "DOTS1", "minimax_m2": "MINIMAXM2", "nemotron": "NEMOTRON", "exaone4": "EXAONE4", "gpt_oss": "GPT_OSS",
        "deepseek_v2": "DEEPSEEK2", "deepseek_v3": "DEEPSEEK2"}
PAIRS = {"llama", "mistral", "mixtral", "arcee", "smollm3", "granite", "granitemoe", "granitemoeshared", "olmo"}
PLUS = {"gemma", "gemma2", "gemma3_text", "nemotron"}
# models with features that GGUF files do not describe
SKIP = {"gemma2 gelu", "olmoe clip", "gpt_oss alpha", "gpt_bigcode unscaled",
        "llama dynamic", "llama longrope", "llama gelu", "mistral", "qwen2 window", "qwen2_moe dense layer", "phi qk_layernorm",
        "falcon sequential", "cohere qk norm", "gemma2", "gemma3_text",
        "gemma3_text linear", "starcoder2", "deepseek_v2 groups yarn", "deepseek_v3 yarn halves"}
EXTRA = {  # variants whose scale and windows have the values that readers of GGUF assume
    "gemma2 16": F.base("Gemma2", head_dim=16, sliding_window=8, query_pre_attn_scalar=16, attn_logit_softcapping=5.0,
                        final_logit_softcapping=4.0),
    "gemma3_text 16": F.base("Gemma3Text", head_dim=16, sliding_window=8, query_pre_attn_scalar=16, num_hidden_layers=6),
    "gemma3_text linear 8": F.base("Gemma3Text", head_dim=8, sliding_window=8, query_pre_attn_scalar=8, num_hidden_layers=6, rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}),
    "deepseek_v2 yarn": F.base("DeepseekV2", q_lora_rank=16, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                               rope_parameters=dict(F.YARN, mscale=0.7, mscale_all_dim=0.7), **F.LATENT),
    "starcoder2 no window": F.base("Starcoder2", sliding_window=None)}


def heads_of(c):
    n = getattr(c, "num_attention_heads", None) or c.n_head
    return n, getattr(c, "num_key_value_heads", None) or getattr(c, "num_kv_heads", None) or n


def operations(kind, c, name, shape):
    """Returns how a tensor is written: a list of (ending of the name in the GGUF file, operation)."""
    n, kv = heads_of(c)
    if kind in PAIRS and re.search(r"q_proj\.", name):
        return [("", f"pairs {n}")]
    if kind in PAIRS and re.search(r"k_proj\.", name):
        return [("", f"pairs {kv}")]
    if kind in PLUS and name.endswith("norm.weight"):
        return [("", "plus")]
    if kind in ("bloom", "gpt_neox") and "query_key_value" in name:
        return [("", f"blocks {n} 1,1,1")]
    if kind == "falcon" and "query_key_value" in name:
        kv = 1 if not c.new_decoder_architecture and c.multi_query else c.num_kv_heads if c.new_decoder_architecture else n
        return [("", f"blocks {kv} {n // kv},1,1")]
    if kind == "gpt_bigcode" and "c_attn" in name and not c.multi_query:
        return [("", f"blocks {n} 1,1,1")]
    return [("", "copy")]


def experts(kind, name):
    """Returns how a tensor that the file divides, most of them weights of all experts, is written: a list of (name, operation); None:
    not such a tensor."""
    if kind == "gpt_oss":
        m = re.match(r"(.*layers\.(\d+)\.mlp)\.experts\.(gate_up_proj|down_proj)(_bias)?$", name)
        if m:
            at, suffix = f"blk.{m[2]}.", ".bias" if m[4] else ".weight"
            if m[3] == "down_proj":
                return [(at + "ffn_down_exps" + suffix, "copy" if m[4] else "turn")]
            return [(at + f"ffn_{p}_exps" + suffix, f"alternate {k}") for k, p in enumerate(("gate", "up"))]
    m = kind == "glm" and re.match(r".*layers\.(\d+)\.mlp\.gate_up_proj\.weight$", name)
    if m:
        return [(f"blk.{m[1]}.ffn_{p}.weight", f"part {k}") for k, p in enumerate(("gate", "up"))]
    m = re.match(r".*layers\.(\d+)\.block_sparse_moe\.(input|output)_linear\.weight$", name)
    if m:
        at = f"blk.{m[1]}."
        if m[2] == "output":
            return [(at + "ffn_down_exps.weight", "copy")]
        return [(at + f"ffn_{p}_exps.weight", f"half {k}") for k, p in enumerate(("gate", "up"))]
    m = re.match(r".*layers\.(\d+)\.shared_mlp\.(input|output)_linear\.weight$", name)
    if m:
        at = f"blk.{m[1]}."
        if m[2] == "output":
            return [(at + "ffn_down_shexp.weight", "copy")]
        return [(at + f"ffn_{p}_shexp.weight", f"part {k}") for k, p in enumerate(("gate", "up"))]
    return None


def metadata(kind, arch, c, tensors):
    d = c.to_dict()
    rope = d.get("rope_parameters") or {}
    far, near = rope.get("full_attention", rope), rope.get("sliding_attention")
    n, kv = heads_of(c)
    width = d.get("hidden_size") or d.get("n_embd") or d.get("d_model")
    size = d.get("head_dim") or width // n
    if kind == "falcon":
        kv = c.num_kv_heads if c.new_decoder_architecture else 1 if c.multi_query else n
    if kind == "gpt_bigcode":
        kv = 1 if c.multi_query else n
    out = [("general.architecture", "s", arch)]

    def put(key, form, value):
        if value is not None:
            out.append((f"{arch}.{key}", form, value))

    put("context_length", "u", d.get("max_position_embeddings") or d.get("n_positions") or d.get("max_seq_len") or d.get("seq_length"))
    put("embedding_length", "u", width)
    put("block_count", "u", d.get("num_hidden_layers") or d.get("n_layer") or d.get("n_layers"))
    put("feed_forward_length", "u", d.get("intermediate_size") or d.get("ffn_hidden_size") or d.get("n_inner") or 4 * width)
    put("attention.head_count", "u", n)
    put("attention.head_count_kv", "u", kv)
    if d.get("head_dim"):
        put("attention.key_length", "u", size)
        put("attention.value_length", "u", size)
    put("attention.layer_norm_rms_epsilon", "f", d.get("rms_norm_eps"))
    put("attention.layer_norm_epsilon", "f", d.get("layer_norm_eps") or d.get("layer_norm_epsilon") or d.get("norm_epsilon") or d.get("norm_eps"))
    put("rope.freq_base", "f", far.get("rope_theta"))
    part = far.get("partial_rotary_factor") or d.get("partial_rotary_factor") or d.get("rotary_pct") or 1
    if far.get("rope_theta"):
        put("rope.dimension_count", "u", d["rotary_dim"] if kind == "minimax_m2" and d.get("rotary_dim") else int(size * part))
    if near and near["rope_theta"] != far["rope_theta"]:
        put("rope.freq_base_swa", "f", near["rope_theta"])
    scaling = {k: far.get(k) or d.get(k) for k in ("factor", "original_max_position_embeddings")}
    if far.get("rope_type") in ("linear", "yarn"):
        put("rope.scaling.type", "s", far["rope_type"])
        put("rope.scaling.factor", "f", far["factor"])
        put("rope.scaling.original_context_length", "u", scaling["original_max_position_embeddings"])
    if far.get("rope_type") == "longrope":
        put("rope.scaling.original_context_length", "u", scaling["original_max_position_embeddings"])
        put("rope.scaling.attn_factor", "f", (1 + torch.tensor(d["max_position_embeddings"] / scaling["original_max_position_embeddings"]).log() /
                                              torch.tensor(float(scaling["original_max_position_embeddings"])).log()).sqrt().item())
    if "kv_lora_rank" in d:
        out[:] = [m for m in out if not re.search("head_count_kv|key_length|value_length|dimension_count", m[0])]
        put("attention.head_count_kv", "u", 1)
        put("attention.q_lora_rank", "u", d.get("q_lora_rank"))
        put("attention.kv_lora_rank", "u", c.kv_lora_rank)
        put("attention.key_length", "u", c.kv_lora_rank + c.qk_rope_head_dim)
        put("attention.value_length", "u", c.kv_lora_rank)
        put("attention.key_length_mla", "u", c.qk_nope_head_dim + c.qk_rope_head_dim)
        put("attention.value_length_mla", "u", c.v_head_dim)
        put("rope.dimension_count", "u", c.qk_rope_head_dim)
        put("expert_gating_func", "u", 2 if kind == "deepseek_v3" else 1)
        if far.get("mscale_all_dim"):
            put("rope.scaling.yarn_log_multiplier", "f", 0.1 * far["mscale_all_dim"])
    put("attention.sliding_window", "u", d.get("sliding_window") if kind in ("gemma2", "gemma3_text", "cohere2", "exaone4", "gpt_oss", "phi3", "olmo3") else None)
    put("attn_logit_softcapping", "f", d.get("attn_logit_softcapping"))
    put("final_logit_softcapping", "f", d.get("final_logit_softcapping"))
    put("attention.scale", "f", d.get("attention_multiplier"))
    put("embedding_scale", "f", d.get("embedding_multiplier"))
    put("residual_scale", "f", d.get("residual_multiplier"))
    put("logit_scale", "f", d.get("logits_scaling") or d.get("logit_scale"))
    put("attention.clamp_kqv", "f", d.get("clip_qkv") or (d.get("attn_config") or {}).get("clip_qkv"))
    if kind in ("gpt_neox", "stablelm"):
        put("use_parallel_residual", "b", d.get("use_parallel_residual"))
    put("expert_count", "u", d.get("num_local_experts") or d.get("num_experts") or d.get("n_routed_experts") or d.get("moe_num_experts"))
    put("expert_used_count", "u", d.get("num_experts_per_tok") or d.get("moe_k"))
    hidden = d.get("moe_intermediate_size")
    put("expert_feed_forward_length", "u", hidden)
    put("expert_shared_feed_forward_length", "u", d.get("shared_expert_intermediate_size") or d.get("shared_intermediate_size"))
    put("expert_shared_count", "u", d.get("n_shared_experts") or d.get("moe_num_shared_experts"))
    put("expert_group_count", "u", d.get("n_group"))
    put("expert_group_used_count", "u", d.get("topk_group"))
    put("expert_weights_scale", "f", d.get("routed_scaling_factor"))
    put("expert_weights_norm", "b", d.get("norm_topk_prob") if "n_routed_experts" in d else None)
    lead = d.get("first_k_dense_replace") or d.get("moe_layer_start_index")
    put("leading_dense_block_count", "u", lead)
    return out


def convert(name, config):
    import tempfile
    kind = config.model_type
    arch = getattr(gguf.MODEL_ARCH, ARCH[kind])
    if kind == "gpt_bigcode" and not config.multi_query and "gpt2" in name:
        arch = gguf.MODEL_ARCH.GPT2
    with torch.device("meta"):
        model = T.AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as d:
        T.AutoModelForCausalLM.from_config(config).save_pretrained(d)
        shapes = {n: list(t.shape) for n, t in F.load_file(d + "/model.safetensors").items()}
        words = json.load(open(d + "/config.json"))
    layers = words.get("num_hidden_layers") or words.get("n_layer") or words.get("n_layers")
    names = gguf.get_tensor_name_map(arch, layers)
    tensors, stacks = [], {}
    for n in sorted(shapes):
        more = experts(kind, n)
        m = re.match(r"(.*)\.(\d+)\.(\w+)\.weight$", n)
        if more:
            tensors += [(g, op, [n]) for g, op in more]
        elif m and m[1].endswith("experts"):
            stacks.setdefault((m[1], m[3]), []).append((int(m[2]), n))
        elif kind == "gpt_oss" and n.endswith("sinks"):
            tensors.append((names.get_name(n) + ".weight", "copy", [n]))
        elif n.endswith("e_score_correction_bias"):
            at = re.search(r"layers\.(\d+)\.", n)[1]
            tensors.append((f"blk.{at}.exp_probs_b.bias", "flat" if len(shapes[n]) > 1 else "copy", [n]))
        elif n.endswith("kv_b_proj.weight"):
            at = re.search(r"layers\.(\d+)\.", n)[1]
            sizes = f"{config.num_attention_heads} {config.qk_nope_head_dim} {config.v_head_dim}"
            tensors += [(f"blk.{at}.attn_{p}_b.weight", f"latent{p} {sizes}", [n]) for p in "kv"]
        else:
            key = n.replace("transformer.", "") if kind == "bloom" else n
            g = names.get_name(key, try_suffixes=(".weight", ".bias"))
            assert g, (name, n)
            tensors += [(g + ending, op, [n]) for ending, op in operations(kind, config, n, shapes[n])]
    for (at, part), list_of in stacks.items():
        layer, ours = at.split("layers.")[1].split(".")[0], {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w2": "down", "w3": "up"}
        g = f"blk.{layer}.ffn_{ours[part]}_exps.weight"
        tensors.append((g, "stack", [n for _, n in sorted(list_of)]))
    for g, factors in rope_factors(config):
        tensors.append((g, "values " + ",".join(f"{v:.9g}" for v in factors), ["-"]))
    out = metadata(kind, gguf.MODEL_ARCH_NAMES[arch], config, tensors)
    return words, out, tensors


def rope_factors(c):
    """Returns the tensors with factors of rotary frequencies, which some kinds of rope scaling need: (name, values)."""
    rope = c.to_dict().get("rope_parameters") or {}
    if rope.get("rope_type") == "longrope":
        return [("rope_factors_long.weight", rope["long_factor"]), ("rope_factors_short.weight", rope["short_factor"])]
    if rope.get("rope_type") != "llama3":
        return []
    size = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    plain = 1 / rope["rope_theta"] ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    scaled, _ = T.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](c, device="cpu")
    return [("rope_freqs.weight", (plain / scaled.double()).float().tolist())]


def text(value):
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


def short(names):
    """Returns the names as one text. The names of experts 0 to 3 become a.[0-3].b."""
    first = re.match(r"(.*experts\.)\d+(\..*)$", names[0])
    return f"{first[1]}[0-{len(names) - 1}]{first[2]}" if len(names) > 1 else names[0]


def rows_of(tensors):
    """Returns the rows (name, operation, names) without repetition: % stands for the number of the layer."""
    rows = []
    for g, op, n in tensors:
        layer = re.match(r"blk\.(\d+)\.", g)
        row = (g, op, short(n))
        if layer:
            here = layer[1]
            row = (g.replace(f"blk.{here}.", "blk.%.", 1), op, re.sub(rf"(layers|h|blocks)\.{here}\.", r"\1.%.", short(n), count=1))
        if row not in rows:
            rows.append(row)
    return rows


def listed(rows):
    return "[[" + "\n".join("; ".join("  ".join(r) for r in rows[i:i + 3]) for i in range(0, len(rows), 3)) + "]]"


def common_rows(entries):
    """Returns the rows that are the same in all entries whose models have tensors of these names."""
    found, differ = {}, set()
    for _, _, rows, _ in entries:
        here = {}
        for row in rows:
            here.setdefault(row[2], []).append(row)
        for name, list_of in here.items():
            # leaves out values, and tensors of several experts
            if found.setdefault(name, list_of) != list_of or name == "-" or "[" in name:
                differ.add(name)
    return sorted(row for name, list_of in found.items() if name not in differ for row in list_of)


def main():
    entries = []
    for entry, make in {**F.ENTRIES, **EXTRA}.items():
        config = make()
        if config.model_type not in ARCH or entry in SKIP or len(arguments) > 1 and entry not in arguments[1:]:
            continue
        try:
            words, out, tensors = convert(entry, config)
        except Exception as e:
            print(f"{entry}: {type(e).__name__}: {str(e)[:300]}", file=sys.stderr)
            continue
        entries.append((entry, out, rows_of(tensors), words))
    common = common_rows(entries)
    print("-- gguf_files.lua - GGUF files of entries of families.lua, made by gguf_files.py.\n\nreturn {")
    print(f"  common = {listed(common)},")
    for entry, out, rows, words in entries:
        print(f'  {{name = "{entry}", metadata = {{{", ".join("{" + ", ".join(map(text, m)) + "}" for m in out)}}},')
        if entry in EXTRA:
            kept = {k: v for k, v in words.items() if k not in F.NEEDLESS and v is not None}
            print(f"    config = [=[{json.dumps(kept)}]=],")
        print(f"    tensors = {listed([r for r in rows if r not in common])}}},")
    print("}")


if __name__ == "__main__":
    main()
