"""Makes gguf_tokenizers.lua, for t/files/text-gguf.lua: digests of the ids of the tokenizer.json files that transformers makes of
SentencePiece's BPE models.

  python3.11 -m venv v && v/bin/pip install tokenizers transformers sentencepiece tiktoken && v/bin/python t/golden/text/gguf_tokenizers.py

The strings are those of kinds.py. Normalizer and decoder are those of Llama's tokenizer.json.
"""
import os
import struct

import kinds
from tokenizers import AddedToken, Tokenizer
from tokenizers import decoders as D, models as M, normalizers as N
from transformers.convert_slow_tokenizer import generate_merges

HERE = os.path.dirname(os.path.abspath(__file__))


def pieces(model):
    for key, value in kinds.message(model):
        if key == 1:
            fields = dict(kinds.message(value))
            yield fields[1].decode(), struct.unpack("<f", fields[2])[0], fields.get(3, 1)


def tokenizer(model, prefix):
    list_ = list(pieces(model))
    vocab = {text: i for i, (text, _, _) in enumerate(list_)}
    normal = {text: vocab[text] for text, _, kind in list_ if kind == 1}
    merges = generate_merges(normal, {text: score for text, score, kind in list_ if kind == 1})
    fallback = any(kind == 6 for _, _, kind in list_)
    t = Tokenizer(M.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    t.normalizer = N.Sequence(([N.Prepend("▁")] if prefix else []) + [N.Replace(" ", "▁")])
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()] + ([D.Strip(" ", 1, 0)] if prefix else []))
    for text, _, kind in list_:
        if kind in (2, 3, 4):
            t.add_tokens([AddedToken(text, normalized=False, special=kind != 4)])
    return t


def main():
    kinds.base.BITS[:] = kinds.BITS
    kinds.base.SKIPPED[:] = kinds.strange()
    lines = ["-- Made by gguf_tokenizers.py.", "return {"]
    for name in ("bpe", "bytes"):
        with open(os.path.join(HERE, f"kinds-{name}.model"), "rb") as f:
            model = f.read()
        for prefix in (True, False):
            t = tokenizer(model, prefix)
            found = kinds.digests(lambda s: t.encode(s, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))
            lines.append(f'  {{name = "{name}", prefix = {str(prefix).lower()}, {found}}},')
    with open(os.path.join(HERE, "gguf_tokenizers.lua"), "w") as f:
        f.write("\n".join(lines + ["}"]) + "\n")


main()
