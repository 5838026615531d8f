#!/bin/bash
# isa.sh - runs tests of products and halves with AVX2 only, as on a processor without AVX-512 and bf16 instructions.
set -u
grep -qw avx512f /proc/cpuinfo || { echo "1..0 # SKIP this machine has no AVX-512, so these tests already run with AVX2"; exit; }
tests=(kernels/halves-ranks kernels/attention kernels/fused kernels/gemm nn/autocast op/halves)
n=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for test in "${tests[@]}"; do
  n=$((n + 1))
  if ONEDNN_MAX_CPU_ISA=AVX2 sh "$(dirname "$1")/t/$test.t" >"$folder/out" 2>&1 && grep -q '^ok' "$folder/out"; then
    echo "ok $n - $test"
  else
    echo "not ok $n - $test"
    failed=1
    grep -v '^ok' "$folder/out" | head -20 | sed 's/^/#   /'
  fi
done
echo "1..$n"
exit $failed
