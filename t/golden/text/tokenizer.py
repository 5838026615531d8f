#!/usr/bin/env python3
"""Makes tokenizer.lua and tokenizer.json: results of PyPI's tokenizers and tiktoken for generated strings.

  python3.11 -m venv v && v/bin/pip install tokenizers tiktoken && v/bin/python t/golden/text/tokenizer.py

A small vocabulary is trained on generated words. For each of CASES (forms of tokenizer.json that known models use) and
PATTERNS (tiktoken), the ids of string(0) .. string(9999) are hashed, with a digest per 1,000 strings.
t/files/text-tokenizer.lua generates the same strings with the same generator, and compares the digests.

A string is a sequence of bytes. tokenizers rejects invalid UTF-8, so stretches of invalid UTF-8 are passed directly to its model,
where each byte is a character of the model's alphabet. tiktoken gets such a stretch as one piece. Rille uses the Unicode 14 of
Debian 12's libraries, as Python 3.11 does; code points that the peers treat by a newer Unicode are left out (SKIPPED).
"""
import json, os, sys, unicodedata
import tiktoken, tokenizers
from tokenizers import Tokenizer, Regex, models, normalizers, pre_tokenizers, decoders, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
M = (1 << 64) - 1
COUNT, EACH = 10000, 1000
assert unicodedata.unidata_version == "14.0.0", "Python 3.11 knows the Unicode that is wanted"

PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "cl100k": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "o200k": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "cl100k-possessive": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "scripts": r"""[\p{Han}]+|\p{Greek}+|[^\r\n\p{L}\p{N}]?\w+|\W|\s+""",
    "qwen2": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
}


def byte_level(regex=False, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", kind="Regex", invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def steps(*list):
    return {"type": "Sequence", "pretokenizers": [*list]}


def template(before, after):
    def token(name): return {"SpecialToken": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [*map(token, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(token, after)],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {n: {"id": n, "ids": [ADDED[n]], "tokens": [n]} for n in {*before, *after}}}


def added(name, id=None, **how):
    return {"id": id or ADDED[name], "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **how}


# in this order, because the package tokenizers numbers added tokens anew in their order
ADDED = {"<|endoftext|>": 600, "<mask>": 601, "<|é|>": 602}
END = [added("<|endoftext|>")]
FORM = {f: {"type": f} for f in ("NFC", "NFD", "NFKC", "NFKD")}
# Tokenizers with the structure of those of GPT-2, Llama 3, Qwen 2, GPT-NeoX, StarCoder, DeepSeek, Whisper and others.
# Tokenizers with the remaining split behaviours follow.
CASES = {
    "gpt2": {"pre_tokenizer": byte_level(True), "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}},
    "roberta": {"pre_tokenizer": byte_level(True, True), "added": [*END, added("<mask>", lstrip=True)],
                "post_processor": {"type": "RobertaProcessing", "cls": ["<|endoftext|>", 600], "sep": ["<mask>", 601], "trim_offsets": True, "add_prefix_space": True}},
    "llama3": {"pre_tokenizer": steps(split(PATTERNS["cl100k"]), byte_level()), "whole": True,
               "post_processor": {"type": "Sequence", "processors": [byte_level(True), template(["<|endoftext|>"], [])]}},
    "qwen2": {"normalizer": FORM["NFC"], "pre_tokenizer": steps(split(PATTERNS["qwen2"]), byte_level()),
              "added": [*END, added("<mask>", normalized=True, special=False), added("<|é|>", normalized=True)]},
    "o200k": {"pre_tokenizer": steps(split(PATTERNS["o200k"]), byte_level())},
    "neox": {"normalizer": {"type": "Sequence", "normalizers": [FORM["NFKD"], FORM["NFC"]]}, "pre_tokenizer": byte_level(True),
             "post_processor": template(["<|endoftext|>", "<mask>"], ["<|endoftext|>"]), "added": [*END, added("<mask>", rstrip=True, lstrip=True)]},
    "starcoder": {"normalizer": FORM["NFD"], "pre_tokenizer": steps({"type": "Digits", "individual_digits": True}, byte_level(True, True))},
    "deepseek": {"normalizer": {"type": "Sequence", "normalizers": []},
                 "pre_tokenizer": steps(split(r"[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+"),
                                        split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split(r"[一-龥ࠀ-一가-퟿]+"),
                                        {"type": "Digits", "individual_digits": False}, byte_level())},
    "lines": {"normalizer": FORM["NFKC"], "pre_tokenizer": steps(split(r"^\s+|\S+$|\d", "MergedWithPrevious"), byte_level())},
    "next": {"pre_tokenizer": steps(split(" ", "MergedWithNext", "String"), split("ll", "Removed", "String"), byte_level())},
    "marks": {"pre_tokenizer": steps({"type": "Punctuation", "behavior": "Contiguous"}, split(r"\p{L}|_", "Removed", invert=True), byte_level(True))},
    "inverted": {"pre_tokenizer": steps({"type": "Punctuation", "behavior": "Isolated"}, split(r"[\p{L}\p{M}]+", "MergedWithNext", invert=True),
                                        split(r"\w+|[^\s\w]|\W\W", "Contiguous"), byte_level())},
    # Patterns that match empty text. A text is split at an empty match, too, for example before groups of three
    # digits, or between all characters that do not match.
    "thousands": {"pre_tokenizer": steps(split(r"(?=(\d{3})+(?!\d))"), byte_level(True, True))},
    "nothing": {"pre_tokenizer": steps(split(r"(?=\p{Lu})|l*|o", "Contiguous"), split(r"$|(?=[\p{N}\p{M}])", "MergedWithPrevious", invert=True), byte_level())},
    "beside": {"pre_tokenizer": steps(split(r"|e", "MergedWithNext"), byte_level(True))},
    "before": {"pre_tokenizer": steps(split(r"[\p{P}\s]*", "MergedWithPrevious"), split(r"(?<=\p{Ll})", "Removed"), byte_level(False, True))},
    "scripts": {"pre_tokenizer": steps(split(r"[\p{Han}\p{Arabic}]+|\p{^Greek}+"), split(r"\P{Latin}", "Contiguous"), byte_level(True))},
    # Added tokens that absorb white space, contain white space, or match single words only.
    "spaces": {"pre_tokenizer": byte_level(True), "added": [*END, added(" <mask> ", 601, lstrip=True, rstrip=True), added("   ", 602, rstrip=True),
                                                            added(" the", 603, lstrip=True), added("\n\n\n", 604)]},
    "words": {"normalizer": FORM["NFC"], "pre_tokenizer": byte_level(True),
              "added": [*END, added("hello", 601, single_word=True), added("_", 602, single_word=True, lstrip=True, rstrip=True),
                        added("12345", 603, single_word=True, normalized=True, special=False), added("a", 604, single_word=True), added("=", 605)]},
}


def generator(seed):
    """splitmix64, as lua/base/random.lua has it."""
    state = seed & M
    def draw(n):
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & M
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
        return ((z ^ (z >> 31)) >> 1) % n
    return draw


# Blocks of code points: first, count. Scripts with different rules of splitting and composition; white space;
# combining marks.
BLOCKS = [(32, 95), (9, 5), (48, 10), (97, 26), (65, 26), (160, 96), (0x100, 128), (0x300, 80), (0x391, 17), (0x410, 64), (0x591, 90),
          (0x627, 20), (0x905, 50), (0xE01, 50), (0x1100, 19), (0x1161, 21), (0x11A8, 27), (0x1E00, 256), (0x1F00, 8), (0x2000, 11),
          (0x2028, 2), (0x2100, 80), (0x2160, 32), (0x2200, 128), (0x3041, 80), (0x4E00, 2000), (0xAC00, 2000), (0xE000, 100),
          (0xF900, 200), (0xFB00, 80), (0xFE00, 16), (0xFF10, 100), (0x10400, 80), (0x1D15E, 7), (0x1D400, 400), (0x1D7CE, 50),
          (0x1F300, 300), (0x1F600, 80), (0x20000, 500), (0x2F800, 200), (0xE0100, 16), (0x10FFF0, 8), (0x180E, 1), (0x85, 1), (0x17F, 1), (0x212A, 1)]
BITS = ["'s", "'LL", "'ve", "'re ", "<|endoftext|>", " <mask> ", "<|e\u0301|>", "\r\n", "   ", "\n\n\n", " the", "hello", "12345", "don't",
        "_", "=", " \t ", "!!!", "\u3000", "a\u0323\u0307", "\u212b"]
# Added tokens with all combinations of flags: in case k, token i has the flags (k + 11 i) % 32. Other parts of
# tokenizer.json follow.
MANNERS = ("single_word", "lstrip", "rstrip", "normalized", "special")
ADDED_TEXTS = ["   ", " <m> ", "ab", "1", "\n", "e\u0301x", "\u3000"]
ADDED_BITS = [*ADDED_TEXTS, " ", "  ", " ", "a", "<m>", "_", "\u00e9x", "\u2460", ".", "\u0301"]
ADDED_COUNT = 150
STRAY = b"\xc0\xc1\xc3\xed\xf5\xf8\xff"
SKIPPED = []


def string(seed, valid=False):
    """Returns a random string, as bytes. valid: the string has no invalid UTF-8."""
    draw = generator(seed)
    out = []
    def one(block):
        c = block[0] + draw(block[1])
        return "" if 0xD800 <= c < 0xE000 or any(a <= c < a + n for a, n in SKIPPED) else chr(c)
    for _ in range(draw(24)):
        kind = draw(10)
        if kind < 3:
            out.append(BITS[draw(len(BITS))].encode())
        elif kind == 3:
            out.append(one(BLOCKS[draw(len(BLOCKS))]).encode() * (1 + draw(40)))      # a long run
        elif kind == 4:
            for _ in range(1 + draw(3)):
                out.append(one((0x10000 * draw(17), 0x10000)).encode())  # characters of any plane of Unicode
        elif kind == 5:
            for _ in range(draw(4)):
                stray = bytes([(STRAY[draw(len(STRAY))], 128 + draw(64))[draw(2)]])  # mostly invalid UTF-8
                out.append(b"" if valid else stray)
        else:
            block = BLOCKS[draw(len(BLOCKS))]
            for _ in range(1 + draw(6)):
                out.append(one(block).encode())
    return b"".join(out)


def valid(bytes):
    try:
        bytes.decode()
        return len(bytes)
    except UnicodeDecodeError as e:
        return e.start


def stretches(text):
    """Splits a string of bytes. Yields stretches of valid UTF-8 as texts, and the others as bytes."""
    while text:
        good = valid(text)
        if good:
            yield text[:good].decode()
        bad = good
        while bad < len(text) and valid(text[bad:bad + 4]) == 0:
            bad += 1
        if bad > good:
            yield text[good:bad]
        text = text[bad:]


def digest(ids, h):
    for i in [*ids, 0xFFFFFFFF]:
        h = ((h ^ i) * 1099511628211) & M
    return h


def digests(encode):
    out, h = [], 1469598103934665603
    for seed in range(COUNT):
        h = digest(encode(string(seed)), h)
        if (seed + 1) % EACH == 0:
            out.append(h)
    return out


def added_string(seed):
    draw = generator(seed)
    return "".join(ADDED_BITS[draw(len(ADDED_BITS))] for _ in range(draw(12)))


def added_ids(root):
    ids, vocab = [], root["model"]["vocab"]
    for text in ADDED_TEXTS:
        ids.append(vocab.get(text, 600 + sum(i >= 600 for i in ids)))
    return ids


def manners(root, form):
    """Yields, for each combination of flags, a digest, and the strings at which tokenizers panics: the white space that an
    added token absorbs can make the token end before it begins."""
    for k in range(32):
        tokens = [added(text, id, **{m: bool((k + 11 * i) % 32 >> b & 1) for b, m in enumerate(MANNERS)})
                  for i, (text, id) in enumerate(zip(ADDED_TEXTS, added_ids(root)))]
        tok = Tokenizer.from_str(json.dumps({**root, "normalizer": FORM.get(form), "pre_tokenizer": byte_level(True), "post_processor": None, "added_tokens": tokens}))
        h, without = 1469598103934665603, []
        for seed in range(ADDED_COUNT):
            try:
                h = digest(tok.encode(added_string(seed), add_special_tokens=False).ids, h)
            except BaseException as e:
                assert "bad split" in str(e), e
                without.append(seed)
        yield h, without


def bytes_to_chars():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in visible]
    return {**{b: chr(b) for b in visible}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


SPELLED = bytes_to_chars()
BYTE_OF = {c: b for b, c in SPELLED.items()}


def newer_characters():
    """Returns ranges of code points that the peers classify or normalise differently from Unicode 14."""
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    text, odd = "".join(every), set()
    ranks = {bytes([b]): b for b in range(256)}
    def category(test): return {c for c in every if test(c)}
    members = {r"\p{L}": category(lambda c: unicodedata.category(c)[0] == "L"), r"\p{N}": category(lambda c: unicodedata.category(c)[0] == "N"),
               r"\p{M}": category(lambda c: unicodedata.category(c)[0] == "M"), r"\p{P}": category(lambda c: unicodedata.category(c)[0] == "P")}
    for k in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Pc"):
        members[r"\p{%s}" % k] = category(lambda c: unicodedata.category(c) == k)
    for pattern, want in members.items():
        odd |= want ^ (set(every) - set(normalizers.Replace(Regex(pattern), "").normalize_str(text)))
        enc = tiktoken.Encoding("c", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        odd |= want ^ set(enc.decode(enc.encode_ordinary(text)))
    marks = category(lambda c: unicodedata.category(c)[0] == "P" or c in "$+<=>^`|~")
    odd |= marks ^ (set(every) - {c for s, _ in pre_tokenizers.Punctuation("removed").pre_tokenize_str(text) for c in s})
    for form in FORM:
        ours = getattr(normalizers, form)()
        for c in every:
            if unicodedata.category(c) != "Co":
                for s in (c, "a" + c + "\u0323\u0301" + c):
                    if ours.normalize_str(s) != unicodedata.normalize(form, s):
                        odd.add(c)
    ranges = []
    for c in sorted(map(ord, odd)):
        if ranges and c <= ranges[-1][0] + ranges[-1][1] + 8:
            ranges[-1][1] = c + 1 - ranges[-1][0]
        else:
            ranges.append([c, 1])
    return ranges


def small_vocabulary():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator((string(i).decode(errors="ignore") for i in range(100000, 103000)), trainer)
    return tok


def text_of(value):
    return "[==[" + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) + "]==]"


def write(name, value):
    with open(os.path.join(HERE, name), "w") as f:
        f.write(value)


def main():
    SKIPPED[:] = newer_characters()
    root = json.loads(small_vocabulary().to_str())
    root["added_tokens"] = END
    write("tokenizer.json", json.dumps(root, ensure_ascii=False, separators=(",", ":")) + "\n")
    order = sorted(root["model"]["vocab"].items(), key=lambda e: e[1])
    ranks = {bytes(BYTE_OF[c] for c in text): i for text, i in order}
    lines = [f"-- Made by tokenizer.py with tokenizers {tokenizers.__version__} and tiktoken {tiktoken.__version__}: digests of the ids of",
             f"-- string(0) .. string({COUNT - 1}), running, one after each {EACH}.", "return {", f"  count = {COUNT}, each = {EACH},"]
    lines.append("  blocks = {" + ", ".join(f"{{{a}, {n}}}" for a, n in BLOCKS) + "},")
    lines.append("  stray = {" + ", ".join(f"0x{b:x}" for b in STRAY) + "},")
    lines.append("  skipped = {" + ", ".join(f"{{{a}, {n}}}" for a, n in SKIPPED) + "},")
    lines.append("  bits = {" + ", ".join('"' + "".join(f"\\x{b:02x}" if b > 126 or b < 32 else chr(b) for b in s.encode()) + '"' for s in BITS) + "},")

    def number(list): return "{" + ", ".join(f"0x{h:016x}" for h in list) + "}"
    lines.append("  tiktoken = {")
    for name, pattern in PATTERNS.items():
        enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 600})
        def encode(text):
            return [i for s in stretches(text) for i in (enc.encode(s, allowed_special="all") if isinstance(s, str) else enc._encode_single_piece(s))]
        lines.append(f"    {{name = \"{name}\", pattern = {text_of(pattern)},\n     ids = {number(digests(encode))}}},")
    lines += ["  },", "  json = {"]
    for name, case in CASES.items():
        full = {**root, "normalizer": None, "post_processor": None, **{k: v for k, v in case.items() if k not in ("added", "whole")}}
        full["added_tokens"] = case.get("added", END if "post_processor" not in case or "<mask>" not in json.dumps(case) else [*END, added("<mask>")])
        full["added_tokens"] = [{**a, "id": root["model"]["vocab"].get(a["content"], a["id"])} for a in full["added_tokens"]]
        full["model"] = {**root["model"], "ignore_merges": case.get("whole", False)}
        tok = Tokenizer.from_str(json.dumps(full))
        bare = Tokenizer.from_str(json.dumps({**root, "pre_tokenizer": None, "added_tokens": [], "model": full["model"]}))
        def encode(text):
            return [i for s in stretches(text) for i in (tok.encode(s, add_special_tokens=False).ids if isinstance(s, str)
                                                         else bare.encode("".join(SPELLED[b] for b in s)).ids)]
        around = tok.encode("", add_special_tokens=True).ids
        parts = {k: full[k] for k in ("normalizer", "pre_tokenizer", "post_processor", "added_tokens")}
        fields = ", ".join(f"{k} = {text_of(v)}" for k, v in parts.items())
        lines.append(f"    {{name = \"{name}\", {fields}, whole = {str(case.get('whole', False)).lower()},\n     template = {{{', '.join(map(str, around))}}}, ids = {number(digests(encode))}}},")
    def quoted(s): return '"' + "".join(chr(b) if 31 < b < 127 else f"\\x{b:02x}" for b in s.encode()) + '"'
    lines += ["  },", "  added = { -- digests of cases 0 to 15; \"special\" changes no id, so cases 16 to 31 have the same", f"    count = {ADDED_COUNT}, manners = {{{', '.join(map(quoted, MANNERS))}}},",
              f"    texts = {{{', '.join(map(quoted, ADDED_TEXTS))}}}, ids = {{{', '.join(map(str, added_ids(root)))}}},", f"    bits = {{{', '.join(map(quoted, ADDED_BITS))}}},"]
    for form in (None, "NFC", "NFKD"):
        lines.append(f"    {{form = {quoted(form) if form else 'nil'},")
        lines += [f"      {{ids = 0x{h:016x}, without = {{{', '.join(map(str, without))}}}}}," for h, without in list(manners(root, form))[:16]]
        lines.append("    },")
    write("tokenizer.lua", "\n".join(lines + ["  },", "}"]) + "\n")


if __name__ == "__main__":
    main()
