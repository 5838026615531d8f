#!/usr/bin/env python3
"""Writes tables of characters from the behaviour of PyPI's tokenizers. In runtime/text/characters:

scripts.inc: the scripts by which the pre-tokenizer UnicodeScripts splits, enumerated over all code points.
added.inc: the characters that Oniguruma (in tokenizers) knows and Unicode 14 does not, by category and script.
kept.inc: marks and format characters that are too new for StripAccents and for BertNormalizer's clean_text.
late.inc: characters that are too new for NFC, NFD, NFKC and NFKD, which leave them as they are.
lower.inc: characters whose lower-case form Unicode 14 lacks, and the distance to that form.

characters.lua, beside this file: digests of the ids of texts that contain every code point, for each step; for the test
t/files/text-characters.lua.

    python3 t/golden/text/characters.py       (needs tokenizers, and a Python with Unicode 14: 3.11)
"""
import json
import os
import unicodedata

from tokenizers import Regex, Tokenizer, normalizers as N, pre_tokenizers as P

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../runtime/text/characters")
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()
SCRIPTS = "Arabic Cyrillic Han Hiragana Katakana Latin Greek Hangul Hebrew Thai Devanagari Bengali Tamil Telugu Kannada Common Inherited".split()


def runs(values):
    """Returns runs [first, last, value] of equal values at consecutive code points; None: no value."""
    out = []
    for c, v in values:
        if v is None:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == v:
            out[-1][1] = c
        else:
            out.append([c, c, v])
    return out


def members(name):
    """Returns the code points that \\p{name} matches."""
    split, found = P.Split(Regex(rf"\p{{{name}}}+"), "removed", True), set()
    for at in range(0, len(POINTS), 4096):
        for text, _ in split.pre_tokenize_str("".join(map(chr, POINTS[at:at + 4096]))):
            found.update(map(ord, text))
    return found


def scripts():
    """Yields each code point and the number of its script; None: the character joins every script."""
    split, first, last = P.UnicodeScripts(), [], None
    for c in POINTS:
        def joins(script): return len(split.pre_tokenize_str(chr(first[script]) + chr(c) + chr(first[script]))) == 1
        if not split.pre_tokenize_str(chr(c)):
            yield c, None
            continue
        if last is None or not joins(last):
            last = next((i for i in range(len(first)) if joins(i)), len(first))
            first[last:] = first[last:] or [c]
        yield c, last


def added():
    for name in CATEGORIES + SCRIPTS:
        for run in runs((c, name) for c in sorted(members(name)) if unicodedata.category(chr(c)) == "Cn"):
            yield run


def kept():
    """Returns runs of characters with 1: StripAccents keeps them, 2: BertNormalizer keeps them, 3: both."""
    base = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    strip, accents, clean = N.StripAccents(), N.BertNormalizer(**{**base, "strip_accents": True}), N.BertNormalizer(**{**base, "clean_text": True})
    found, nonspacing = {}, members("Mn") | {c for c in POINTS if unicodedata.category(chr(c)) == "Mn"}
    for bit, step, points in (1, strip, members("M")), (2, accents, nonspacing), (2, clean, members("Cf")):
        for c in points:
            if step.normalize_str(chr(c)):
                found[c] = found.get(c, 0) | bit
    return runs(sorted(found.items()))


def late():
    forms = {form: (getattr(N, form)().normalize_str, form) for form in ("NFD", "NFKD")}

    def differs(text):
        return any(f(text) != unicodedata.normalize(form, text) for f, form in forms.values())
    found = {c for c in POINTS if differs(chr(c)) or differs("a\u0345" + chr(c) + "\u0334") or differs("a\u0323" + chr(c) + "\u0323\u0334")}
    parts = {ord(p) for c in found for p in unicodedata.normalize("NFD", chr(c))}
    newer = {c for first, last, _ in added() for c in range(first, last + 1)}
    return runs((c, "late") for c in sorted(found | parts | newer))


def lower():
    f = N.Lowercase().normalize_str
    return runs((c, ord(f(chr(c))) - c) for c in POINTS if f(chr(c)) != chr(c).lower())


def write(name, rows, show):
    with open(os.path.join(FOLDER, name), "w") as f:
        f.write("/* made by t/golden/text/characters.py: first and last code point" + show[0] + " */\n")
        cells = [f"{{0x{a:x}, 0x{b:x}{show[1].format(v)}}}," for a, b, v in rows]
        f.write("".join(" ".join(cells[i:i + 4]) + "\n" for i in range(0, len(cells), 4)))


def steps():
    """Yields name, normalizer, pre-tokenizer, and the text on both sides of each code point."""
    for name in "NFC NFD NFKC NFKD Lowercase StripAccents Nmt".split():
        yield name, {"type": name}, None, "a", "1"
    for name in "NFC NFD NFKC NFKD".split():
        yield name + ", between marks", {"type": name}, None, "a\u0345", "\u0334\u0301"
    plain = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    for key in "clean_text handle_chinese_chars strip_accents lowercase".split():
        yield "BertNormalizer, " + key, {**plain, key: True}, None, "a", "1"
    for name in "Whitespace WhitespaceSplit Punctuation BertPreTokenizer UnicodeScripts".split():
        yield name, None, {"type": name}, "a", "1"
    for name, each in ("Digits", False), ("Digits, individual", True):
        yield name, None, {"type": "Digits", "individual_digits": each}, "a", "1"
    patterns = [rf"\p{{{name}}}" for name in "L N M P S Lu Ll Lt Lm Lo Nd Nl No Han Hiragana Katakana Cyrillic Arabic Latin Greek Hangul Thai".split()]
    for pattern in patterns + [r"\P{L}", r"\s", r"\d", r"\D", r"\w", r"\W", r"[\w]", r"[^\w\s]+", r"[^\s\p{L}\p{N}]+", r"(?i)\p{L}", r"(?i)\p{Lu}", r"(?i)\w", r"(?i)\d", r"[\P{L}]",
                               r"[^\P{L}]", r"[\P{L}a]+", r"[^\P{Lo}\p{Nd}1]+", r"[\Da]", r"[\P{Mn}\p{Lo}]"]:
        yield pattern, None, {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, "a", "1"


def texts(before, after):
    """Yields 256 code points each, between two texts; of planes 4 to 16, which have few characters, only some."""
    for at in range(0, 0x110000, 256):
        few = 0x33000 <= at < 0x10FF00 and at % 0x10000 and not 0xE0000 <= at < 0xE0200
        if not 0xD800 <= at < 0xE000 and not few:
            yield "".join(before + chr(c) + after for c in range(at, at + 256))


def digest(step, pieces, before, after):
    mark = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}
    vocab = {f"<0x{i:02X}>": i for i in range(256)}
    model = {"type": "BPE", "byte_fallback": True, "fuse_unk": False, "vocab": vocab, "merges": []}
    t = Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "normalizer": step, "model": model, "pre_tokenizer":
                                       pieces and {"type": "Sequence", "pretokenizers": [pieces, mark]}}))
    h = 1469598103934665603
    for text in texts(before, after):
        for i in t.encode(text, add_special_tokens=False).ids + [0xFFFFFFFF]:
            h = ((h ^ i) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return h


def write_digests():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "characters.lua"), "w") as f:
        f.write("-- made by characters.py\nreturn {\n")
        for name, step, pieces, before, after in steps():
            shown = ", ".join(f"[=[{json.dumps(x)}]=]" for x in (step, pieces))
            ends = ", ".join(json.dumps("".join(f"\\u{{{ord(c):x}}}" for c in x)).replace("\\\\", "\\") for x in (before, after))
            f.write(f"  {{[=[{name}]=], {shown}, {ends}, 0x{digest(step, pieces, before, after):016x}}},\n")
        f.write("}\n")


if __name__ == "__main__":
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    write("added.inc", list(added()), (", and category or script", ', "{}"'))
    write("scripts.inc", runs(scripts()), (", and number of the script", ", {}"))
    write("kept.inc", kept(), (", and steps that keep the character", ", {}"))
    write("late.inc", late(), ("", ", 0"))
    write("lower.inc", lower(), (", and distance", ", {}"))
    write_digests()
