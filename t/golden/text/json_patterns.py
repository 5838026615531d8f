"""Writes json_patterns.lua: for regular expressions, which of all strings over an alphabet Python's re finds them in."""
import itertools
import json
import re

ALPHABET, MOST = 'a1-"é', 3
PATTERNS = r'''
a|^a|a$|^a$|^$|^a*$|^a+1?$|^(a|1)*$|^(?:a1|1a)+$|^[a1]{2}$|^a{2,}$|^a{1,3}-$|^a{0}1$|^.$|^..$|^[^a]$|^[^a1]+$|^\d+$|^\D$|^\w+$|^\W$|^\S*$
^[a-z0-9]+(-[a-z0-9]+)*$|^["]$|^\"a\"$|^é$|^[é1]+$|a.1|^a.*1$|^(a|)1$|^(a*)*$|^((a1?)+-?)*$|^[\d-]+$|^[-a]$|^[a\-]$|^\x61\u0031$|^-?\d{1,2}$|a{2}|[^\d]$
^a*?1$|^(a+)+1$|^[\s\S]$|^\u00e9a$|^[\w-]+$|^a{3}|1{2}$
'''
# alternatives at the top, with and without anchors; a "|" in the list above separates patterns
WITH_BAR = ["^a|1$", "a|11", "^(a|1|-)$", "^a$|^1$", "^(?:a|1){2,3}$", "^(a|b|c)$|é"]

words = ["".join(w) for n in range(MOST + 1) for w in itertools.product(ALPHABET, repeat=n)]
listed = []
for line in PATTERNS.strip().split("\n"):
    depth, start = 0, 0
    for i, c in enumerate(line):
        depth += (c == "(") - (c == ")")
        if c == "|" and depth == 0:
            listed.append(line[start:i])
            start = i + 1
    listed.append(line[start:])

with open("t/golden/text/json_patterns.lua", "w") as out:
    out.write("-- json_patterns.lua - which strings contain a match of a regular expression, by Python's re; json_patterns.py makes this file.\n")
    out.write("-- found: a bit per string, four to a digit; strings are ordered by length, then by their characters' order in alphabet.\n\n")
    out.write("return {\n  alphabet = %s, most = %d,\n" % (json.dumps(list(ALPHABET), ensure_ascii=False).replace("[", "{").replace("]", "}"), MOST))
    for p in listed + WITH_BAR:
        bits = "".join("1" if re.search(p, w, re.ASCII) else "0" for w in words)
        bits += "0" * (-len(bits) % 4)
        out.write("  {pattern = %s, found = \"%s\"},\n" % (json.dumps(p, ensure_ascii=False), "".join("%x" % int(bits[i:i + 4], 2) for i in range(0, len(bits), 4))))
    out.write("}\n")
