#!/bin/bash
# async_kind.sh - runs Lua tests on async test devices: the same files, with "async" in place of "cpu". Work of an
# async device runs some time after it is enqueued, and host code that accesses the device's memory faults.
# RILLE_LONG=1 runs all tests except those that depend on the printed word "cpu" or on the clock.
some=(session/several-results boxing/grad shell/graph files/save nn/optim-clip hostile/random-calls nn/ranks shell/tensor nn/optim-update
  nn/layers nn/module op/layouts files/data-loader hostile/calls step/live-numbers nn/autocast nn/norm2d nn/pin plan/memory
  parallel/offload step/trace-reuse parallel/zero parallel/zero-memory)
all=(step/steps op/halves op/golden op/pages files/checkpoint planner/choices repl/complete files/data-tokens models/golden-models rows/halves-ranks
  hostile/values rows/shift models/files models/models nn/recompute parallel/bytes plan/cache planner/planner shell/plot shell/errors shell/show
  files/text-tokenizer)
[ -n "${RILLE_LONG:-}" ] && some+=("${all[@]}")
rille=$(realpath "$1") case=0
. t/lib/tap.sh
tree=$dir/tree
mkdir "$tree"
for file in * t/* t/*/* t/*/*/*; do # links to the complete tree, and changed copies of the Lua tests, because errors contain the tests' paths
  case $file in
  t) mkdir "$tree/t" ;;
  t/*/*.lua) sed 's/"cpu"/"async"/g; s/cpu:/async:/g; s/cpu\[/async[/g' "$file" >"$tree/$file" ;;
  t/*) if [ -d "$file" ]; then mkdir -p "$tree/$file"; else ln -s "$PWD/$file" "$tree/$file"; fi ;;
  *) ln -s "$PWD/$file" "$tree/$file" ;;
  esac
done
passes() { # passes TEST: runs the Lua test on async devices; succeeds if every check holds
  (cd "$tree" && SHARE=all "$rille" -d async:8 "t/$1.lua") >"$dir/out" 2>&1 && grep -q '^ok' "$dir/out" || { grep -v '^ok' "$dir/out"; false; }
}
for test in "${some[@]}"; do # of the tests in this share, runs each completely
  ! share $((case++)) || ok "$test" passes "$test"
done
ok "a trace has a track for each stream, with acts that do not overlap" "$rille" -d cpu:1,async:1 t/lib/steps/streams.lua
ok "a panel of a product waits only for the panel whose register it reuses" "$rille" -d cpu:1,async:4 t/lib/steps/panels.lua
ok "steps that are not waited for leave the same values as steps that are" "$rille" -d async:1 t/lib/steps/unread.lua
"$rille" -d async:1 -e 'local x, step = rille.ones({8}), rille.graph(function(x) return x:sin() end)
  for _ = 1, 3 do step(x) end
  rille._slow_op("sin", 0.05) step(x) step(x) os.exit(3)' >"$dir/out" 2>&1
is "a program can exit while steps run" $? 3
ok "sleeping kernels block only their own stream" env RILLE_THREADS=1 "$rille" -d async:4 t/lib/steps/naps.lua
finish
