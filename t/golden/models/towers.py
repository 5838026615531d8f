#!/usr/bin/env python3
"""Writes towers.lua: results of Hugging Face's models of images, of images with texts, of sound, and of encoder-decoders. The
weights follow from the formula in families.py.

    pip install torch transformers
    python3 t/golden/models/towers.py > t/golden/models/towers.lua
    python3 t/golden/models/towers.py NAME...         # writes only these entries, to inspect them

Each entry has: config.json; names of tensors whose presence decides how the model is described; some outputs; a weighted sum of
all outputs, with weights from a formula; the same for the pooled vectors, if any; a weighted sum of all gradients, and the sum of
their absolute values; the ids of greedy generation; the number of tensors in the file, and a digest of their names and shapes. The
loss is a weighted sum of outputs and pooled vectors. Second texts are padded. `mel` has log-mel spectrograms of
WhisperFeatureExtractor.
"""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from families import NEEDLESS, VOCAB, digest_of, gradient_sums, numbers, spread, summed, weight

import numpy as np
import torch
import transformers as T
from safetensors.torch import load_file, save_file

ROWS, LENGTH, SECOND, TARGET, NEW, EOS = 2, 12, 8, 7, 12, 60
IMAGE, BINS, FRAMES = 16, 8, 30

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
VISION = dict(SMALL, image_size=IMAGE, patch_size=4)
TEXT = dict(SMALL, vocab_size=VOCAB, max_position_embeddings=20)
T5 = dict(vocab_size=VOCAB, d_model=32, d_kv=12, d_ff=48, num_layers=3, num_decoder_layers=2, num_heads=4, decoder_start_token_id=0,
          relative_attention_num_buckets=8, relative_attention_max_distance=10)
WHISPER = dict(vocab_size=VOCAB, num_mel_bins=BINS, encoder_layers=2, encoder_attention_heads=4, decoder_layers=3, decoder_attention_heads=2,
               decoder_ffn_dim=48, encoder_ffn_dim=40, d_model=32, max_source_positions=FRAMES // 2, max_target_positions=40,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=[16, 20], begin_suppress_tokens=[11, 56])
RESNET = dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2])
NEXT = dict(hidden_sizes=[8, 16], depths=[2, 1], num_stages=2)
LABELS = {0: "a", 1: "b", 2: "c"}

# name -> class of the model, config
ENTRIES = {
    "vit": ("ViTForImageClassification", lambda: T.ViTConfig(**VISION)),
    "vit base": ("ViTModel", lambda: T.ViTConfig(**VISION, num_channels=1, hidden_act="gelu_new", qkv_bias=False)),
    "deit": ("DeiTForImageClassification", lambda: T.DeiTConfig(**VISION, id2label=LABELS)),
    "deit teacher": ("DeiTForImageClassificationWithTeacher", lambda: T.DeiTConfig(**VISION, id2label=LABELS)),
    "deit base": ("DeiTModel", lambda: T.DeiTConfig(**VISION)),
    "dinov2": ("Dinov2Model", lambda: T.Dinov2Config(**VISION)),
    "dinov2 other size": ("Dinov2Model", lambda: T.Dinov2Config(**{**VISION, "image_size": 24})),
    "dinov2 gated": ("Dinov2ForImageClassification", lambda: T.Dinov2Config(**VISION, id2label=LABELS, use_swiglu_ffn=True, mlp_ratio=2)),
    "clip": ("CLIPModel", lambda: T.CLIPConfig(text_config=dict(TEXT, eos_token_id=EOS), vision_config=VISION, projection_dim=24)),
    "clip old": ("CLIPModel", lambda: T.CLIPConfig(text_config=dict(TEXT, eos_token_id=2, hidden_act="gelu"), vision_config=dict(VISION, patch_size=8),
                                                   projection_dim=24)),
    "siglip": ("SiglipModel", lambda: T.SiglipConfig(text_config=dict(TEXT, projection_size=32), vision_config=VISION)),
    "clip text": ("CLIPTextModel", lambda: T.CLIPTextConfig(**TEXT, eos_token_id=EOS)),
    "clip text projection": ("CLIPTextModelWithProjection", lambda: T.CLIPTextConfig(**TEXT, eos_token_id=EOS, projection_dim=24)),
    "clip vision": ("CLIPVisionModel", lambda: T.CLIPVisionConfig(**VISION)),
    "clip vision projection": ("CLIPVisionModelWithProjection", lambda: T.CLIPVisionConfig(**VISION, projection_dim=24)),
    "siglip text": ("SiglipTextModel", lambda: T.SiglipTextConfig(**TEXT, projection_size=24)),
    "siglip vision": ("SiglipVisionModel", lambda: T.SiglipVisionConfig(**VISION)),
    "t5": ("T5ForConditionalGeneration", lambda: T.T5Config(**T5)),
    "t5 gated": ("T5ForConditionalGeneration", lambda: T.T5Config(**T5, feed_forward_proj="gated-gelu", dense_act_fn="silu", tie_word_embeddings=False)),
    "t5 encoder": ("T5EncoderModel", lambda: T.T5Config(**T5)),
    "mt5": ("MT5ForConditionalGeneration", lambda: T.MT5Config(**T5)),
    "umt5": ("UMT5ForConditionalGeneration", lambda: T.UMT5Config(**T5)),
    "whisper": ("WhisperForConditionalGeneration", lambda: T.WhisperConfig(**WHISPER)),
    "resnet": ("ResNetForImageClassification", lambda: T.ResNetConfig(**RESNET, layer_type="bottleneck", id2label=LABELS)),
    "resnet basic": ("ResNetForImageClassification", lambda: T.ResNetConfig(**RESNET, layer_type="basic", hidden_act="gelu", downsample_in_first_stage=True)),
    "resnet base": ("ResNetModel", lambda: T.ResNetConfig(**RESNET, layer_type="bottleneck", downsample_in_bottleneck=True)),
    "convnext": ("ConvNextForImageClassification", lambda: T.ConvNextConfig(**NEXT, id2label=LABELS)),
    "convnext base": ("ConvNextModel", lambda: T.ConvNextConfig(**NEXT)),
    "convnextv2": ("ConvNextV2ForImageClassification", lambda: T.ConvNextV2Config(**NEXT, id2label=LABELS)),
}

MORE = """encoder_stride pooler_act pooler_output_size attention_probs_dropout_prob hidden_dropout_prob drop_path_rate out_features out_indices
stage_names reshape_hidden_states apply_layernorm label2id initializer_factor logit_scale_init_value activation_dropout apply_spec_augment
mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob median_filter_width
use_weighted_layer_sum classifier_proj_size encoder_layerdrop decoder_layerdrop dropout_rate is_decoder classifier_dropout""".split()
DECIDES = re.compile(r"(pooler\.dense|classifier(\.1)?|mask_token|lm_head|(text|visual)_projection|^(text_model|encoder|decoder)\.final_layer_norm|"
                     r"^vision_model\.post_layernorm)(\.weight)?$")


def numbers_of(name, *shape):
    return torch.tensor(spread(name, int(np.prod(shape))).astype(np.float32)).reshape(shape)


def ids_of(name, length):
    return ((numbers_of(name, ROWS, length).double() + 1) / 2 * (VOCAB - 5) + 3).long().clamp(max=EOS - 1)


def texts():
    ids, mask = ids_of("ids", LENGTH), torch.ones(ROWS, LENGTH, dtype=torch.long)
    ids[0, LENGTH - 1] = ids[1, SECOND - 1] = EOS
    mask[1, SECOND:] = 0
    ids[1, SECOND:] = 0
    return ids, mask


def inputs(config, cls):
    kind = config.model_type
    if kind.endswith("_text_model"):
        ids, mask = texts()
        return dict(input_ids=ids, **(dict(attention_mask=mask) if kind.startswith("clip") else {}))
    if kind in ("clip", "siglip"):
        ids, mask = texts()
        return dict(input_ids=ids, pixel_values=numbers_of("images", 3, 3, IMAGE, IMAGE), **(dict(attention_mask=mask) if kind == "clip" else {}))
    if kind == "whisper":
        return dict(input_features=numbers_of("sound", ROWS, BINS, FRAMES), decoder_input_ids=ids_of("targets", TARGET))
    if kind.endswith("t5"):
        ids, mask = texts()
        if cls.endswith("EncoderModel"):
            return dict(input_ids=ids, attention_mask=mask)
        return dict(input_ids=ids, attention_mask=mask, decoder_input_ids=ids_of("targets", TARGET))
    side = 32 if kind.startswith(("resnet", "convnext")) else IMAGE
    return dict(pixel_values=numbers_of("images", ROWS, config.num_channels, side, side))


def found_in(out):
    """Returns the outputs, and the pooled vectors; None: the model has no pooled vectors."""
    if "logits_per_image" in out:
        return out.logits_per_image, torch.cat([out.image_embeds, out.text_embeds])
    if "logits" in out:
        return out.logits, None
    vectors = next((out[k] for k in ("text_embeds", "image_embeds", "pooler_output") if k in out), None)
    return out.last_hidden_state, None if vectors is None else vectors.flatten(1)


def weight_of(name, t):
    if t.dtype == torch.int64:
        return torch.full_like(t, 7)
    return weight(name + ("weight" if name.endswith("running_var") else ""), t.shape)


def kept_words(words):
    keeps = ("architectures", "eos_token_id") if words.get("model_type") != "whisper" else ("architectures",)
    kept = {k: v for k, v in words.items() if (k not in NEEDLESS or k in keeps) and k not in MORE and v is not None}
    return {k: kept_words(v) if isinstance(v, dict) and k.endswith("_config") else v for k, v in kept.items()}


def run(name, cls, config):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as d:
        getattr(T, cls)(config).save_pretrained(d)
        path = d + "/model.safetensors"
        given = load_file(path)
        if name == "t5 gated":
            given["lm_head.weight"] = given["shared.weight"].clone()
        shapes = {n: list(t.shape) for n, t in given.items()}
        save_file({n: weight_of(n, t) for n, t in given.items()}, path, metadata={"format": "pt"})
        model = getattr(T, cls).from_pretrained(d, attn_implementation="eager", dtype=torch.float32).eval()
        words, given = json.load(open(d + "/config.json")), inputs(config, cls)
        out, pooled = found_in(model(**given))
        loss = summed(out, "loss") + (summed(pooled, "pooled") if pooled is not None else 0)
        loss.backward()
        greedy = None
        if "decoder_input_ids" in given:
            given.pop("decoder_input_ids")
            model.generation_config.eos_token_id = None
            model.generation_config.pad_token_id = 0
            if config.model_type == "whisper":
                model.generation_config.suppress_tokens, model.generation_config.begin_suppress_tokens = [16, 20], [11, 56]
            greedy = model.generate(**given, max_new_tokens=NEW, do_sample=False, num_beams=1).tolist()
        weighted, absolute = gradient_sums(model, d)
        digest = digest_of(shapes)

    def some(t):
        t = t.detach()
        return f"{{{numbers(t[-1].reshape(-1)[:6].tolist())}}}", summed(t, "all").item()

    has = ", ".join('"%s"' % n for n in shapes if DECIDES.search(n) and "layer." not in n)
    print(f'  {{name = "{name}", config = [=[{json.dumps(kept_words(words))}]=],\n    has = {{{has}}},')
    print("    out = %s, all = %.5f," % some(out))
    if pooled is not None:
        print("    pooled = %s, all_pooled = %.5f," % some(pooled))
    if greedy:
        print("    greedy = {%s}," % ", ".join("{" + ", ".join(map(str, row)) + "}" for row in greedy))
    print(f"    gradient = {weighted:.6f}, absolute = {absolute:.5f}, tensors = {len(shapes)}, digest = {digest}}},")


def mels():
    """Prints spectrograms, with 80 and with 128 mel bins, of a sound of 0.3 s and of silence, both padded to 1 s."""
    for bins in (80, 128):
        reader = T.WhisperFeatureExtractor(feature_size=bins, chunk_length=1)
        at = np.arange(4800) / 16000
        sound = (0.5 * np.sin(2 * np.pi * 440 * at) + 0.01 * spread("noise", 4800)).astype(np.float32)
        for n in (4800, 0):
            padded = np.zeros((1, 16000), np.float32)
            padded[0, :n] = sound[:n]
            # this method computes in f64, as Rille does
            mel = torch.tensor(reader._np_extract_fbank_features(padded, "cpu")[0].astype(np.float32))
            some = ", ".join("%.6f" % x for x in mel[:: bins // 8, 5].tolist())
            print(f"    {{bins = {bins}, samples = {n}, some = {{{some}}}, all = {summed(mel, 'mel').item():.5f}}},")


if __name__ == "__main__":
    print("-- towers.lua - results of Hugging Face's models for images, sound, pairs and encoder-decoders, made by towers.py.\n")
    print(f"return {{\n  vocab = {VOCAB}, rows = {ROWS}, length = {LENGTH}, second = {SECOND}, target = {TARGET}, new = {NEW}, eos = {EOS},")
    print(f"  bins = {BINS}, frames = {FRAMES},")
    for entry, (cls, make) in ENTRIES.items():
        if len(sys.argv) == 1 or entry in sys.argv[1:]:
            run(entry, cls, make())
    print("  mel = {")
    mels()
    print("  },\n}")
