#!/bin/bash
# run.sh - libFuzzer drives the subjects of t/fuzz.c, one after the other, and how many inputs it tried is told.
#
#   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz      (clang, libclang-rt-14-dev)
#   t/fuzz/run.sh [SECONDS a subject] [SUBJECT...]
#   t/fuzz/run.sh files [INPUTS in all, 10^7]      what comes in files, an equal part each
#
# What it learns lies in build/fuzz/corpus/, from where `run.sh merge` takes what is new into t/fuzz/, the least that
# reaches as much. An input that does harm is left in build/fuzz/.
set -u
cd "$(dirname "$0")/../.."
fuzz=build/fuzz/fuzz learnt=build/fuzz/corpus
of_files=(safetensors gguf npz npy llmc tokens files tokenizer tiktoken)
much=${1:-60}
[ $# -gt 0 ] && shift
if [ "$much" = files ]; then
  until=-runs=$((${1:-10000000} / ${#of_files[@]}))
  subjects=("${of_files[@]}")
else
  until=-max_total_time=$much
  subjects=("$@")
  [ $# -gt 0 ] || subjects=($(grep -oE '\{"[a-z]+", fuzz_' t/fuzz.c | cut -d'"' -f2))
fi
total=0 failed=0
for s in "${subjects[@]}"; do
  mkdir -p $learnt/"$s"
  if [ "$much" = merge ]; then
    RILLE_FUZZ=$s $fuzz -merge=1 -max_len=8192 t/fuzz/"$s" $learnt/"$s" 2>&1 | tail -1
    continue
  fi
  RILLE_FUZZ=$s $fuzz $until -max_len=8192 -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/"$s"- $learnt/"$s" t/fuzz/"$s" >build/fuzz/"$s".log 2>&1 || failed=1
  n=$(sed -nE 's/^stat::number_of_executed_units: *//p' build/fuzz/"$s".log)
  grep -qE 'ERROR|SUMMARY' build/fuzz/"$s".log && found="harm: build/fuzz/$s.log" || found=
  printf '%-12s %12d %s\n' "$s" "${n:-0}" "$found"
  total=$((total + ${n:-0}))
done
[ "$much" = merge ] || printf '%-12s %12d\n' all $total
exit $failed
