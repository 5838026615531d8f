#!/bin/bash
# async_kind.sh - runs Lua tests on async test devices: the same files, with "async" in place of "cpu". Such a device
# does its work later, and its memory faults if host code accesses it. RILLE_LONG=1 runs all tests except those that
# depend on the printed word "cpu" or on the clock.
set -u
some=(session/several-results boxing/grad shell/graph files/save nn/optim-clip session/random-calls nn/ranks shell/tensor nn/optim-update
  nn/layers nn/module op/layouts files/data-loader session/hostile-calls session/live-numbers nn/autocast nn/norm2d nn/pin plan/memory
  parallel/offload session/trace-reuse parallel/zero parallel/zero-memory)
all=(session/steps op/halves op/golden op/pages files/checkpoint planner/choices shell/complete files/data-tokens nn/golden-block nn/golden-models kernels/halves-ranks
  session/hostile kernels/shift nn/models-files nn/models nn/recompute parallel/bytes plan/cache planner/planner shell/plot shell/errors shell/show
  files/text-tokenizer)
[ -n "${RILLE_LONG:-}" ] && some+=("${all[@]}")
n=0 failed=0
rille=$(realpath "$1") folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in * t/* t/*/*; do # links to the complete tree, and changed copies of the Lua tests, because errors contain the tests' paths
  case $file in
  t) mkdir "$folder/t" ;;
  t/*/*.lua) sed 's/"cpu"/"async"/g; s/cpu:/async:/g; s/cpu\[/async[/g' "$file" >"$folder/$file" ;;
  t/*) if [ -d "$file" ]; then mkdir -p "$folder/$file"; else ln -s "$PWD/$file" "$folder/$file"; fi ;;
  *) ln -s "$PWD/$file" "$folder/$file" ;;
  esac
done
for test in "${some[@]}"; do
  n=$((n + 1))
  if (cd "$folder" && "$rille" -d async:8 "t/$test.lua") >"$folder/out" 2>&1 && grep -q '^ok' "$folder/out"; then echo "ok $n - $test"; else
    echo "not ok $n - $test"
    failed=1
    grep -v '^ok' "$folder/out" | head -20 | sed 's/^/#   /'
  fi
done
n=$((n + 1))
"$rille" -d cpu:1,async:1 t/lib/streams.lua >"$folder/out" 2>&1 && echo "ok $n - a trace has a track for each stream, with acts that do not overlap" || {
  echo "not ok $n - a trace has a track for each stream, with acts that do not overlap"
  failed=1
  sed 's/^/#   /' "$folder/out"
}
n=$((n + 1))
if "$rille" -d cpu:1,async:4 t/lib/panels.lua >"$folder/out" 2>&1; then echo "ok $n - a panel of a product waits only for the panel whose register it reuses"; else
  echo "not ok $n - a panel of a product waits only for the panel whose register it reuses"
  failed=1
  sed 's/^/#   /' "$folder/out"
fi
n=$((n + 1))
if "$rille" -d async:1 t/lib/unread.lua >"$folder/out" 2>&1; then echo "ok $n - steps that are not waited for leave the same values as steps that are"; else
  echo "not ok $n - steps that are not waited for leave the same values as steps that are"
  failed=1
  sed 's/^/#   /' "$folder/out"
fi
n=$((n + 1))
"$rille" -d async:1 -e 'local x, step = rille.ones({8}), rille.graph(function(x) return x:sin() end)
  for _ = 1, 3 do step(x) end
  rille._slow_op("sin", 0.05) step(x) step(x) os.exit(3)' >"$folder/out" 2>&1
if [ $? = 3 ]; then echo "ok $n - a program can exit while steps run"; else
  echo "not ok $n - a program can exit while steps run"
  failed=1
  sed 's/^/#   /' "$folder/out"
fi
n=$((n + 1))
if RILLE_THREADS=1 "$rille" -d async:4 t/lib/naps.lua >"$folder/out" 2>&1; then echo "ok $n - sleeping kernels block only their own stream"; else
  echo "not ok $n - sleeping kernels block only their own stream"
  failed=1
  sed 's/^/#   /' "$folder/out"
fi
echo "1..$n"
exit $failed
