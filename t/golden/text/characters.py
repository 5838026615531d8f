#!/usr/bin/env python3
"""Writes the tables of characters in runtime/text/characters from the behaviour of PyPI's tokenizers:

scripts.inc: the scripts by which the pre-tokenizer UnicodeScripts splits, enumerated over all code points.
added.inc: the characters that Oniguruma (in tokenizers) knows and Unicode 14 does not, by category and script.

    python3 t/golden/text/characters.py       (needs tokenizers, and a Python with Unicode 14: 3.11)
"""
import os
import unicodedata

from tokenizers import Regex, pre_tokenizers as P

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


def write(name, rows, show):
    with open(os.path.join(FOLDER, name), "w") as f:
        f.write("/* made by t/golden/text/characters.py: first and last code point, and " + show[0] + " */\n")
        cells = [f"{{0x{a:x}, 0x{b:x}, {show[1] % v}}}," for a, b, v in rows]
        f.write("".join(" ".join(cells[i:i + 4]) + "\n" for i in range(0, len(cells), 4)))


if __name__ == "__main__":
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    write("added.inc", list(added()), ("category or script", '"%s"'))
    write("scripts.inc", runs(scripts()), ("number of the script", "%d"))
