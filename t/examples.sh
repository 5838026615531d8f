#!/bin/bash
# Every example runs, prints what its first lines promise, and ends well.
rille=$1
n=0 failed=0

# name, words that its output must hold...
example() {
  local name=$1 out code
  shift
  out=$("$rille" -d cpu:4 "examples/$name.lua" </dev/null 2>&1)
  code=$?
  n=$((n + 1))
  for word in "$@"; do
    grep -qF -- "$word" <<<"$out" || { echo "# $name does not print: $word"; code=1; }
  done
  if [ "$code" = 0 ]; then echo "ok $n - examples/$name.lua"; return; fi
  sed 's/^/# /' <<<"$out"
  echo "not ok $n - examples/$name.lua"
  failed=1
}

example tensor "shape" "3 x 4" "matmul"
example sbp "A0 S(0) times B0 B gives Y0 S(0)" "Y0 B times B1 S(1) gives Y2 S(1)" "device 3 holds 4 x 3 from column 3" "bytes move"
example autograd "12.0 3.0" "12.0 -6.0" "comes as P" "3.14159"
example pipeline "gpipe" "1f1b"

"$rille" -d cpu:4 examples/digits.lua --layout sideways >/dev/null 2>&1
code=$? n=$((n + 1))
if [ "$code" = 1 ]; then echo "ok $n - a layout that is not there is an error"; else echo "not ok $n - a layout that is not there is an error"; failed=1; fi
echo "1..$n"
exit $failed
