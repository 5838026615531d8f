"""Makes gguf_patterns.lua, for t/files/text-gguf.lua: name in tokenizer.ggml.pre -> digests of the ids of a tokenizer. The tokenizer
splits texts by the patterns in the tokenizer.json of the models with that name, and has the byte-level BPE of t/golden/text/tokenizer.json.

  pip install tokenizers transformers sentencepiece tiktoken && python3 t/golden/text/gguf_patterns.py

The strings are those of kinds.py.
"""
import json
import os

import kinds
from tokenizers import Regex, Tokenizer
from tokenizers import decoders as D, models as M, pre_tokenizers as P

HERE = os.path.dirname(os.path.abspath(__file__))

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}%s]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}%s]"
KANA = "[一-龥぀-ゟ゠-ヿ]+"
ASCII = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"""
RUNS = "".join(r"|\s{%s}(?!\S)" % n for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2"))
ASIA = "一-\u9fff㐀-\u4dbf\uf900-\ufaff぀-ゟ゠-ヿ\uff65-ﾟ⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff가-\ud7af\u1100-\u11ff"


def cased(digits, but="", slash="/"):
    start = r"[^\r\n\p{L}\p{N}]?"
    upper, lower = UPPER % but, LOWER % but
    return f"{start}{upper}*{lower}+{ENGLISH}?|{start}{upper}+{lower}*{ENGLISH}?|" + r"\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n" + slash + "]*|" + SPACES


PATTERNS = {
    "ufakzeka": [WORDS % "" + SPACES],
    "laguna": [r"[^\n]+|[\n]+", ENGLISH + "|" + WORDS % "" + SPACES],
    "minicpm5": [r"\p{N}{1,3}", ENGLISH + "|" + WORDS % "+" + SPACES],
    "jais-2": [ENGLISH + "|" + WORDS % "{1,3}" + r"\s*[\r\n]+" + RUNS + r"|\s{1}"],
    "spark2_5": [r"\p{N}{1,3}", KANA, ASCII + r"|[\r\n]|\s+(?!\S)|\s+", r"\p{N}"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", f"[{ASIA}]+", ASCII + r"[\r\n]*|" + SPACES],
    "granite-embed-multi-97m": [cased("{1,3}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", cased("{1,3}")],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + KANA, cased("")],
    "kimi-k2": [r"[\p{Han}]+|" + cased("{1,3}", r"&&[^\p{Han}]", "")],
    "deepseek-llm": [r"[\r\n]", r"\s?(?:(?![\u0560-\u0588\u10c7-\u10ff\u1c80-\u1c88\u2d00-\u2d2d\ua790-\uab68\x{10570}-\x{105bc}\x{16e40}-\x{1df1e}])[\p{Lu}\p{Ll}\p{Lt}])+",
                     r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"],
    "exaone-moe": [ENGLISH + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
}


# tokenizers that do not divide a piece that is itself a token
WHOLE = ("minicpm5", "granite-embed-multi-97m", "youtu")


def tokenizer(name, patterns):
    with open(os.path.join(HERE, "tokenizer.json"), encoding="utf-8") as f:
        model = json.load(f)["model"]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    t = Tokenizer(M.BPE(vocab=model["vocab"], merges=merges, ignore_merges=name in WHOLE))
    t.pre_tokenizer = P.Sequence([P.Split(Regex(p), "isolated") for p in patterns] + [P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = D.ByteLevel()
    return t


def main():
    kinds.base.BITS[:] = kinds.BITS
    kinds.base.SKIPPED[:] = kinds.strange()
    lines = ["-- Made by gguf_patterns.py.", "return {"]
    for name, patterns in PATTERNS.items():
        t = tokenizer(name, patterns)
        found = kinds.digests(lambda s: t.encode(s, add_special_tokens=False).ids, lambda i: t.decode(i, skip_special_tokens=False))
        lines.append(f'  ["{name}"] = {{{found}}},')
    with open(os.path.join(HERE, "gguf_patterns.lua"), "w") as f:
        f.write("\n".join(lines + ["}"]) + "\n")


main()
