#!/bin/bash
# tokenizer.sh - times the conversion of text to ids and back on one core, in one run: Rille, PyPI's tokenizers and
# tiktoken, in turns.
#
#   bench/tokenizer.sh [build/release] [TEXT]      TEXT: by default this repository's sources and pages
#
# The script trains a vocabulary with PyPI's tokenizers, and checks that all three programs return the same ids. Times
# are processor times, to exclude other programs. The peers are installed from PyPI into build/tokenizers (20 MB).
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
text=${2:-}
peers=build/tokenizers
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p build
[ -x $peers/bin/python ] || python3 -m venv $peers
$peers/bin/python -c 'import tokenizers, tiktoken' 2>/dev/null || $peers/bin/pip install --quiet tokenizers tiktoken
if [ -z "$text" ]; then
  text=$made/text
  git ls-files '*.md' '*.c' '*.h' '*.lua' '*.py' | xargs cat >"$text"
fi
export RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false RILLE_DEVICES=cpu:1
$peers/bin/python bench/peers/tokenizer.py make "$text" "$made" >"$made/lines"
for _ in 1 2 3; do # the programs run in turns, so that other work on the machine slows all of them
  $peers/bin/python bench/peers/tokenizer.py run "$text" "$made" >>"$made/lines"
  "$build/rille" bench/tokenizer.lua "$text" "$made" >>"$made/lines"
done
awk -F '\t' '
  $1 == "ids" { if (have[$2] != "" && have[$2] != $4) print "DIFFERENT IDS: " $2 " by " $3; have[$2] = $4; next }
  { if (!($1 in seen)) { seen[$1] = row[++n] = $1 } if ($3 > best[$1, $2]) best[$1, $2] = $3 }
  function ratio(a, b) { return b ? sprintf("%.1fx", a / b) : "-" }
  END {
    printf "%-34s %9s %12s %10s %14s %12s\n", "MB of text a second of one core", "Rille", "tokenizers", "tiktoken", "to tokenizers", "to tiktoken"
    for (i = 1; i <= n; i++) {
      r = row[i]; a = best[r, "Rille"]; b = best[r, "tokenizers"]; c = best[r, "tiktoken"]
      printf "%-34s %9.1f %12s %10s %14s %12s\n", r, a, b ? sprintf("%.1f", b) : "-", c ? sprintf("%.1f", c) : "-", ratio(a, b), ratio(a, c)
    }
  }' "$made/lines"
wc -c <"$text" | sed 's/$/ bytes of text/'
