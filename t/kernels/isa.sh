#!/bin/bash
# isa.sh - runs tests of products and halves with AVX2 only, as on a processor without AVX-512 and bf16 instructions.
# Runs this run's share of the large tests, and a share of the small tests completely.
. t/lib/tap.sh
grep -qw avx512f /proc/cpuinfo || { echo "1..0 # SKIP this machine has no AVX-512, so these tests already run with AVX2"; exit; }
passes() { # passes TEST SHARE: runs this share of the test with AVX2 only; succeeds if every check holds
  SHARE=$2 ONEDNN_MAX_CPU_ISA=AVX2 sh "$build/t/$1.t" >"$dir/out" 2>&1 && grep -q '^ok' "$dir/out" || { grep -v '^ok' "$dir/out"; false; }
}
build=$(dirname "$1")
for test in products/gemm products/attention; do ok $test passes $test "${SHARE:-all}"; done
for test in rows/halves-ranks kernels/fused nn/autocast op/halves; do
  ! share || ok $test passes $test all
done
finish
