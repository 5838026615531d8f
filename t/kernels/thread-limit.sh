#!/bin/bash
# thread-limit.sh - runs the test of fused products under OMP_THREAD_LIMIT. Teams of OpenMP then have fewer threads
# than there are cores.
. t/lib/tap.sh
right() { # right: runs the test; succeeds if every check holds
  OMP_THREAD_LIMIT=1 sh "$build/t/kernels/fused.t" >"$dir/out" 2>&1 && grep -q '^ok' "$dir/out"
}
build=$(dirname "$1")
ok "products are right with fewer threads than cores" right
finish
