#!/usr/bin/env python3
"""Writes encoders.lua: results of Hugging Face's encoders, for weights computed by the formula in families.py.

    pip install torch transformers
    python3 t/golden/models/encoders.py > t/golden/models/encoders.lua
    python3 t/golden/models/encoders.py NAME...         # writes only these entries, to inspect them

Each entry has: config.json; some outputs; a weighted sum of all outputs, with weights from a formula; a weighted sum of all
gradients, and the sum of their absolute values; the mean of the last hidden states over a text; the number of tensors in the
file, and a digest of their names and shapes. The loss is a weighted sum of the outputs. The second text is padded; sums and
means skip the padding.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from families import NEEDLESS, VOCAB, digest_of, gradient_sums, numbers, spread, summed, weight

import numpy as np
import torch
import transformers as T
from safetensors.torch import load_file, save_file

ROWS, LENGTH, SECOND = 2, 24, 15

BERT = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
SMALL = dict(vocab_size=VOCAB, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64)
EURO = dict(BERT, pad_token_id=0, bos_token_id=1, eos_token_id=2, mask_token_id=3)
LABELS = {0: "a", 1: "b", 2: "c"}


def modern(**more):
    return T.ModernBertConfig(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=8,
                              **{**BERT, "num_hidden_layers": 4, **more})


# name -> (NAME of the class AutoModelForNAME; "": AutoModel), config
ENTRIES = {
    "bert": ("MaskedLM", lambda: T.BertConfig(**BERT)),
    "bert classes": ("SequenceClassification", lambda: T.BertConfig(id2label=LABELS, hidden_act="gelu_new", **BERT)),
    "bert base": ("", lambda: T.BertConfig(**{**BERT, "type_vocab_size": 3})),
    "roberta": ("MaskedLM", lambda: T.RobertaConfig(**BERT)),
    "roberta classes": ("SequenceClassification", lambda: T.RobertaConfig(id2label=LABELS, **BERT)),
    "roberta base": ("", lambda: T.RobertaConfig(**BERT)),
    "xlm-roberta": ("MaskedLM", lambda: T.XLMRobertaConfig(**{**BERT, "type_vocab_size": 1})),
    "camembert": ("MaskedLM", lambda: T.CamembertConfig(**{**BERT, "type_vocab_size": 1})),
    "electra": ("MaskedLM", lambda: T.ElectraConfig(**BERT, embedding_size=16)),
    "electra classes": ("SequenceClassification", lambda: T.ElectraConfig(id2label=LABELS, **BERT, embedding_size=16)),
    "electra base": ("", lambda: T.ElectraConfig(**BERT, embedding_size=32)),
    "albert": ("MaskedLM", lambda: T.AlbertConfig(**BERT, embedding_size=16)),
    "albert classes": ("SequenceClassification", lambda: T.AlbertConfig(id2label=LABELS, **{**BERT, "num_hidden_layers": 4}, embedding_size=16, num_hidden_groups=2)),
    "albert base": ("", lambda: T.AlbertConfig(**BERT, embedding_size=32)),
    "mpnet": ("MaskedLM", lambda: T.MPNetConfig(**BERT)),
    "mpnet classes": ("SequenceClassification", lambda: T.MPNetConfig(id2label=LABELS, **BERT)),
    "mpnet base": ("", lambda: T.MPNetConfig(**BERT)),
    "distilbert": ("MaskedLM", lambda: T.DistilBertConfig(**SMALL)),
    "distilbert classes": ("SequenceClassification", lambda: T.DistilBertConfig(**SMALL)),
    "distilbert base": ("", lambda: T.DistilBertConfig(**SMALL)),
    "modernbert": ("MaskedLM", lambda: modern()),
    "modernbert biases": ("MaskedLM", lambda: modern(attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True)),
    "modernbert classes": ("SequenceClassification", lambda: modern(classifier_pooling="mean", id2label=LABELS)),
    "modernbert base": ("", lambda: modern()),
    "eurobert": ("MaskedLM", lambda: T.EuroBertConfig(**EURO)),
    "eurobert biases": ("MaskedLM", lambda: T.EuroBertConfig(**EURO, num_key_value_heads=2, attention_bias=True, mlp_bias=True)),
    "eurobert classes": ("SequenceClassification", lambda: T.EuroBertConfig(**EURO, id2label=LABELS)),
    "eurobert mean": ("SequenceClassification", lambda: T.EuroBertConfig(**EURO, classifier_pooling="mean")),
    "eurobert base": ("", lambda: T.EuroBertConfig(**EURO)),
    "gte": ("MaskedLM", lambda: T.GteConfig(**BERT, pad_token_id=0)),
    "gte classes": ("SequenceClassification", lambda: T.GteConfig(**BERT, pad_token_id=0, id2label=LABELS)),
    "gte no types": ("", lambda: T.GteConfig(**BERT, pad_token_id=0, type_vocab_size=0)),
    "nomic_bert": ("MaskedLM", lambda: T.NomicBertConfig(**BERT)),
    "nomic_bert classes": ("SequenceClassification", lambda: T.NomicBertConfig(**BERT, id2label=LABELS)),
    "nomic_bert base": ("", lambda: T.NomicBertConfig(**BERT)),
}

MORE = """attention_probs_dropout_prob hidden_dropout_prob add_cross_attention qa_dropout seq_classif_dropout label2id cls_token_id sep_token_id
classifier_dropout deterministic_flash_attn initializer_cutoff_factor mlp_dropout sparse_pred_ignore_index sparse_prediction
reference_compile repad_logits_with_grad""".split()


def inputs(config):
    ids = torch.tensor(((spread("ids", ROWS * LENGTH) + 1) / 2 * (VOCAB - 3) + 3).astype(np.int64)).reshape(ROWS, LENGTH)
    mask = torch.ones_like(ids)
    mask[1, SECOND:] = 0
    ids[1, SECOND:] = config.pad_token_id
    words = dict(input_ids=ids, attention_mask=mask)
    kinds = getattr(config, "type_vocab_size", 0)
    if kinds > 1 and config.model_type in ("bert", "electra", "albert", "nomic_bert"):
        words["token_type_ids"] = torch.tensor(((spread("types", ROWS * LENGTH) + 1) / 2 * kinds).astype(np.int64)).reshape(ROWS, LENGTH)
    return words


def run(name, task, config):
    with tempfile.TemporaryDirectory() as d:
        auto = getattr(T, "AutoModelFor" + task if task else "AutoModel")
        auto.from_config(config).save_pretrained(d)
        path = d + "/model.safetensors"
        shapes = {n: list(t.shape) for n, t in load_file(path).items()}
        save_file({n: weight(n, s) for n, s in shapes.items()}, path, metadata={"format": "pt"})
        model = auto.from_pretrained(d, attn_implementation="eager", dtype=torch.float32).eval()
        words, given = json.load(open(d + "/config.json")), inputs(config)
        found = model(**given, output_hidden_states=True)
        out, pooled = (found.logits if task else found.last_hidden_state), getattr(found, "pooler_output", None)
        mask = given["attention_mask"].unsqueeze(-1).float()
        hidden = found.hidden_states[-1] if task else found.last_hidden_state
        if config.model_type in ("modernbert", "eurobert") and task:
            hidden = model.model(**given).last_hidden_state
        vectors = (hidden * mask).sum(1) / mask.sum(1)
        loss = summed(out * mask if out.dim() == 3 else out, "loss") + (summed(pooled, "pooled") if pooled is not None else 0)
        loss.backward()
        weighted, absolute = gradient_sums(model, d)
        digest = digest_of(shapes)
    keeps = ("architectures", "pad_token_id")
    kept = {k: v for k, v in words.items() if (k not in NEEDLESS or k in keeps) and k not in MORE and v is not None}

    print(f'  {{name = "{name}", config = [=[{json.dumps(kept)}]=], types = {given["token_type_ids"].max().item() + 1 if "token_type_ids" in given else 0},')
    print(f"    out = {{{numbers(out.detach()[1].reshape(-1)[:6].tolist())}}}, all = {summed(out.detach() * mask if out.dim() == 3 else out.detach(), 'all').item():.5f},")
    if pooled is not None:
        print(f"    pooled = {{{numbers(pooled.detach()[1, :6].tolist())}}},")
    print(f"    mean = {{{numbers(vectors.detach()[1, :6].tolist())}}}, gradient = {weighted:.6f}, absolute = {absolute:.5f},")
    print(f"    tensors = {len(shapes)}, digest = {digest}}},")


if __name__ == "__main__":
    print("-- encoders.lua - results of Hugging Face's encoders, made by encoders.py.\n")
    print(f"return {{\n  vocab = {VOCAB}, rows = {ROWS}, length = {LENGTH}, second = {SECOND},")
    for entry, (task, make) in ENTRIES.items():
        if len(sys.argv) == 1 or entry in sys.argv[1:]:
            run(entry, task, make())
    print("}")
