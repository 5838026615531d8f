#!/usr/bin/env python3
"""Makes tokenizer.lua and tokenizer.json: what PyPI's tokenizers and tiktoken give for generated strings.

  python3 -m venv v && v/bin/pip install tokenizers tiktoken && v/bin/python t/golden/tokenizer.py

A small vocabulary is trained here on generated words; it is kept as tokenizer.json and as tokenizer.tiktoken. For each of
the patterns and the strings of string(seed) the ids are hashed, so that the values kept are small: t/text-tokenizer.lua
generates the same strings, by the same generator, and compares. COUNT=10000 checks more strings than are kept.
"""
import base64, json, os, sys, unicodedata
import tiktoken, tokenizers
from tokenizers import Tokenizer, Regex, models, pre_tokenizers, decoders, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
M = (1 << 64) - 1
# GPT-2's, GPT-4's (Llama 3 has the same), GPT-4o's, and GPT-4's as tiktoken spells it now.
PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "cl100k": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "o200k": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "cl100k-possessive": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
}


def generator(seed):
    """splitmix64, as lua/data.lua has it."""
    state = seed & M
    def draw(n):
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & M
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
        return ((z ^ (z >> 31)) >> 1) % n
    return draw


# Code points by block: first, how many. All are assigned since Unicode 14 or unassigned everywhere it matters.
BLOCKS = [(32, 95), (9, 5), (48, 10), (97, 26), (65, 26), (160, 96), (0x100, 128), (0x391, 17), (0x410, 64), (0x5D0, 27),
          (0x627, 20), (0x905, 50), (0xE01, 50), (0x1F00, 8), (0x2000, 11), (0x2028, 2), (0x2160, 32), (0x2200, 128), (0x3041, 80),
          (0x4E00, 2000), (0xAC00, 2000), (0xE000, 100), (0xFE00, 16), (0xFF10, 10), (0x10400, 80), (0x1D7CE, 50), (0x1F300, 300),
          (0x1F600, 80), (0x20000, 500), (0xE0100, 16), (0x10FFF0, 8), (0x180E, 1), (0x85, 1), (0x17F, 1), (0x212A, 1)]
BITS = ["'s", "'LL", "'ve", "'re ", "<|endoftext|>", "\r\n", "   ", "\n\n\n", " the", "hello", "12345", "don't", "_", "=", " \t ", "!!!", "\u3000"]


def string(seed):
    draw = generator(seed)
    out = []
    for _ in range(draw(24)):
        kind = draw(10)
        if kind < 3:
            out.append(BITS[draw(len(BITS))])
        elif kind == 3:
            first, n = BLOCKS[draw(len(BLOCKS))]
            out.append(chr(first + draw(n)) * (1 + draw(40)))      # a long run
        else:
            first, n = BLOCKS[draw(len(BLOCKS))]
            for _ in range(1 + draw(6)):
                out.append(chr(first + draw(n)))
    return "".join(out)


def digest(ids, h=1469598103934665603):
    for i in ids + [0xFFFFFFFF]:
        h = ((h ^ i) * 1099511628211) & M
    return h


def small_vocabulary():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator((string(i) for i in range(100000, 103000)), trainer)
    return tok


def main():
    count = int(os.environ.get("COUNT", "2000"))
    tok = small_vocabulary()
    root = json.loads(tok.to_str())
    root["added_tokens"] = [{"id": 600, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
                             "normalized": False, "special": True}]
    results = {}
    def write(name, value):
        with open(os.path.join(HERE, name), "w") as f:
            f.write(value)
    write("tokenizer.json", json.dumps(root, ensure_ascii=False, separators=(",", ":")) + "\n")
    byte_of = {c: b for b, c in bytes_to_chars()}
    ranks = {}
    order = sorted(root["model"]["vocab"].items(), key=lambda e: e[1])
    for text, i in order:
        ranks[bytes(byte_of[c] for c in text)] = i
    write("tokenizer.tiktoken", "".join(f"{base64.b64encode(b).decode()} {i}\n" for b, i in ranks.items()))
    for name, pattern in PATTERNS.items():
        root["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
        fast = Tokenizer.from_str(json.dumps(root))
        h = 1469598103934665603
        if name != "cl100k-possessive":
            for seed in range(count):
                h = digest(fast.encode(string(seed)).ids, h)
            results["json " + name] = h
        enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 600})
        h = 1469598103934665603
        for seed in range(count):
            h = digest(enc.encode(string(seed), allowed_special="all"), h)
        results["tiktoken " + name] = h
    lines = [f"-- Made by tokenizer.py with tokenizers {tokenizers.__version__} and tiktoken {tiktoken.__version__}: digests of the ids of",
             f"-- string(0) .. string({count - 1}).", "return {", f"  count = {count},", "  patterns = {"]
    for name, pattern in PATTERNS.items():
        lines.append(f"    [\"{name}\"] = [==[{pattern}]==],")
    lines.append("  },")
    lines.append("  blocks = {" + ", ".join(f"{{{a}, {n}}}" for a, n in BLOCKS) + "},")
    lines.append("  bits = {" + ", ".join(json.dumps(b, ensure_ascii=True).replace("\\u3000", "\\u{3000}") for b in BITS) + "},")
    for name, h in results.items():
        lines.append(f"  [\"{name}\"] = 0x{h:016x},")
    write("tokenizer.lua", "\n".join(lines + ["}"]) + "\n")


def bytes_to_chars():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    pairs = [(b, chr(b)) for b in visible]
    n = 0
    for b in range(256):
        if b not in visible:
            pairs.append((b, chr(256 + n)))
            n += 1
    return pairs


main()
