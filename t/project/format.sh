#!/bin/bash
# format.sh - tests that the C sources in git are formatted as .clang-format says, by clang-format 14.
set -u
wanted=14
tool=$(command -v clang-format-$wanted || command -v clang-format)
version=$("${tool:-false}" --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
if [ "${version:-none}" != $wanted ]; then
  echo "1..0 # SKIP expected clang-format $wanted, found ${version:-none}"
  exit 0
fi
# unformatted FILE...: prints the files that clang-format would change.
unformatted() { printf '%s\n' "$@" | xargs -d '\n' -n 40 "$tool" -n 2>&1 | sed -nE 's/^([^: ]+):[0-9]+:.*warning:.*/\1/p' | sort -u; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp .clang-format "$scratch/"
echo 'int  x;' >"$scratch/planted.c"
[ -n "$(unformatted "$scratch/planted.c")" ] && echo "ok 1 - an unformatted file is found" || echo "not ok 1 - an unformatted file is found"
mapfile -t files < <({ git ls-files || find . -type f -not -path './build*' | cut -c3-; } 2>/dev/null |
  grep -E '^(runtime|sbp|boxing|kernels|actors|shell|t|bench|examples|rille\.h).*\.(c|h|inc|cu)$|^rille(_operator)?\.h$' | grep -v '^bench/peers/')
found=$(unformatted "${files[@]}")
[ -z "$found" ] && echo "ok 2 - ${#files[@]} sources are formatted" || echo "not ok 2 - ${#files[@]} sources are formatted"
[ -z "$found" ] || sed 's/^/# clang-format -i /' <<<"$found"
echo 1..2
[ -z "$found" ]
