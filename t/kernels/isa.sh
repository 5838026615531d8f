#!/bin/bash
# isa.sh - runs tests of products and halves with AVX2 only, as on a processor without AVX-512 and bf16 instructions.
. t/lib/tap.sh
grep -qw avx512f /proc/cpuinfo || { echo "1..0 # SKIP this machine has no AVX-512, so these tests already run with AVX2"; exit; }
passes() { # passes TEST SHARE: runs this share of the test with AVX2 only; succeeds if every check holds
  SHARE=$2 ONEDNN_MAX_CPU_ISA=AVX2 sh "$build/t/$1.t" >"$dir/out" 2>&1 && grep -q '^ok' "$dir/out" || { grep -v '^ok' "$dir/out"; false; }
}
build=$(dirname "$1") case=1
ok products/gemm passes products/gemm "${SHARE:-all}"
# runs these tests completely
for test in rows/halves-ranks products/attention kernels/fused nn/autocast op/halves; do
  ! share $((case++)) || ok $test passes $test all
done
finish
