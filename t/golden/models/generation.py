#!/usr/bin/env python3
"""Writes generation.lua: ids that generate() of transformers returns, with the decoders of families.py.

    pip install torch transformers
    python3 t/golden/models/generation.py > t/golden/models/generation.lua

torch.multinomial is replaced by a function that draws with Rille's random numbers: it chooses the first id whose cumulative
probability exceeds the number. So sampled texts are comparable id by id. Each entry has the family, Rille's options as Lua,
and the new ids of each row.
"""
import tempfile

import families as F
import numpy as np
import torch
import transformers as T

PROMPT, NEW, MASK = 10, 12, (1 << 64) - 1


def integers(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


class Numbers:
    """Replaces torch.multinomial: draws an id for each row with Rille's random numbers."""

    def __init__(self, seed, rows):
        mix = integers(seed)
        self.rows = [integers(next(mix)) for _ in range(rows)]

    def __call__(self, p, num_samples):
        u = torch.tensor([[(next(row) >> 40) * 2.0**-24] for row in self.rows])
        sums = p.cumsum(-1)
        return (sums > u * sums[:, -1:]).long().argmax(-1, keepdim=True)


class Penalties(T.LogitsProcessor):
    """OpenAI's presence and frequency penalties. Counts only the new ids, not those of the prompt."""

    def __init__(self, presence, frequency):
        self.presence, self.frequency = presence, frequency

    def __call__(self, ids, scores):
        new = ids[:, PROMPT:]
        count = torch.zeros_like(scores).scatter_add(1, new, torch.ones(new.shape))
        return scores - self.frequency * count - self.presence * (count > 0)


class Halves(T.LogitsProcessor):
    def __call__(self, ids, scores):
        return torch.where(torch.arange(F.VOCAB) % 2 == ids[:, -1:] % 2, scores * 0.5, scores)


def lua(v):
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, dict):
        return "{" + ", ".join((f"[{k}]" if isinstance(k, int) else k) + f" = {lua(x)}" for k, x in v.items()) + "}"
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(map(lua, v)) + "}"
    return f'"{v}"' if isinstance(v, str) else repr(v)


def theirs(o):
    """Converts Rille's options to those of transformers."""
    g, processors = {}, []
    names = dict(temperature="temperature", top_k="top_k", top_p="top_p", min_p="min_p", typical_p="typical_p",
                 repetition_penalty="repetition_penalty", beams="num_beams", n="num_return_sequences", min_new_tokens="min_new_tokens",
                 length_penalty="length_penalty", early_stopping="early_stopping", bad_words="bad_words_ids", stop="eos_token_id")
    for name, value in o.items():
        if name in names:
            g[names[name]] = value
        elif name == "logit_bias":
            g["sequence_bias"] = {(k,): float(v) for k, v in value.items()}
        elif name == "allowed_step":
            g["prefix_allowed_tokens_fn"] = lambda row, ids: [(int(ids[-1]) + k) % F.VOCAB for k in (1, 7, value)]
        elif name == "halves":
            processors.append(Halves())
    if "presence_penalty" in o or "frequency_penalty" in o:
        processors.append(Penalties(o.get("presence_penalty", 0.0), o.get("frequency_penalty", 0.0)))
    g.setdefault("eos_token_id", None)
    g["do_sample"] = o.get("temperature", 0) > 0
    if not g["do_sample"]:
        g.pop("temperature", None)
    elif "top_k" not in g:
        g["top_k"] = 0
    return g, processors


CASES = [
    dict(temperature=0.9), dict(temperature=1.2, min_p=0.1), dict(temperature=1.5, typical_p=0.4), dict(temperature=1.5, typical_p=0.9),
    dict(temperature=0.8, top_k=9, top_p=0.8, min_p=0.02, typical_p=0.95), dict(temperature=1.0, top_p=0.6, typical_p=0.7),
    dict(temperature=0, repetition_penalty=1.5), dict(temperature=0, repetition_penalty=0.8), dict(temperature=1.1, repetition_penalty=1.3),
    dict(temperature=0, presence_penalty=1.0), dict(temperature=0, frequency_penalty=0.7),
    dict(temperature=1.3, presence_penalty=-0.5, frequency_penalty=1.2, repetition_penalty=1.1),
    dict(temperature=0, logit_bias={5: 3.0, 9: -4.0}, repetition_penalty=1.2), dict(temperature=1.0, logit_bias={k: 1.5 for k in range(3, 20)}),
    dict(temperature=0, bad_words=[[30], [7, 8], [41], [12, 30, 5]]), dict(temperature=1.2, bad_words=[[k] for k in range(3, 40)]),
    dict(temperature=1.2, stop=list(range(3, 30)), min_new_tokens=5), dict(temperature=1.2, stop=list(range(3, 16))),
    dict(temperature=1.0, allowed_step=11), dict(temperature=0, allowed_step=3), dict(temperature=0.7, halves=True, top_k=20),
    dict(temperature=0, halves=True, repetition_penalty=1.2),
    dict(beams=3), dict(beams=4, n=4, length_penalty=0.0), dict(beams=3, n=2, stop=list(range(3, 24)), length_penalty=1.0),
    dict(beams=3, n=3, stop=list(range(3, 24)), length_penalty=2.0, early_stopping=True),
    dict(beams=2, n=2, stop=list(range(3, 12)), length_penalty=-1.0), dict(beams=4, n=2, stop=list(range(3, 24)), early_stopping="never"),
    dict(beams=3, n=2, repetition_penalty=1.4, bad_words=[[7]]), dict(beams=3, stop=list(range(3, 30)), min_new_tokens=4),
]
FAMILIES = ["llama", "gemma2", "mistral"]


def run(model, family, ids, o, seed):
    g, processors = theirs(o)
    kept, torch.multinomial = torch.multinomial, Numbers(seed, len(ids))
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, pad_token_id=0, return_dict_in_generate=True,
                         output_logits=True, output_scores=True, logits_processor=T.LogitsProcessorList(processors), **g)
    torch.multinomial = kept
    rows = [row[PROMPT:].tolist() for row in out.sequences]
    for row in rows:
        ends = [i for i, id in enumerate(row) if id in (g["eos_token_id"] or [])]
        if ends:
            del row[ends[0] + 1:]
    text = f'  {{family = "{family}", seed = {seed}, options = {lua(o)},\n    rows = {lua(rows)}'
    if "beams" in o:
        text += f", scores = {{{', '.join('%.6f' % s for s in out.sequences_scores)}}}"
    else:
        p = torch.stack(out.logits, 1).log_softmax(-1)
        own = [[p[r, i, id].item() for i, id in enumerate(row)] for r, row in enumerate(rows)]
        text += ", logprobs = {%s}" % ", ".join("%.5f" % sum(row) for row in own)
        top = p[0, len(rows[0]) - 1].topk(3)
        text += ", top = {%s}, top_ids = %s" % (", ".join("%.5f" % v for v in top.values), lua(top.indices.tolist()))
    print(text + "},")


if __name__ == "__main__":
    print(f"-- generation.lua - texts of transformers' generate, made by generation.py.\n\nreturn {{\n  prompt = {PROMPT}, new = {NEW},")
    for f, family in enumerate(FAMILIES):
        with tempfile.TemporaryDirectory() as d:
            T.AutoModelForCausalLM.from_config(F.ENTRIES[family]()).save_pretrained(d)
            path = d + "/model.safetensors"
            shapes = {n: list(t.shape) for n, t in F.load_file(path).items()}
            F.save_file({n: F.weight(n, s) for n, s in shapes.items()}, path, metadata={"format": "pt"})
            model = T.AutoModelForCausalLM.from_pretrained(d, attn_implementation="eager", dtype=torch.float32).eval()
            model.generation_config = T.GenerationConfig()
        ids = torch.tensor(((F.spread("ids", F.ROWS * F.LENGTH) + 1) / 2 * (F.VOCAB - 3) + 3).astype(np.int64)).reshape(F.ROWS, F.LENGTH)
        with torch.no_grad():
            for i, o in enumerate(CASES):
                if f == 0 or i % 3 == f:
                    run(model, family, ids[:, :PROMPT], o, 100 + i)
    print("}")
