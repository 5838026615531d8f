#!/bin/bash
# run.sh - runs libFuzzer on the subjects of t/fuzz/fuzz.c, one after the other, and prints the number of inputs tried.
#
#   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz      (clang, libclang-rt-14-dev)
#   t/fuzz/run.sh [SECONDS per subject] [SUBJECT...]
#   t/fuzz/run.sh files [INPUTS in total, 10^7]    the subjects that parse files
#
# The archive t/fuzz/SUBJECT.tar has the inputs of a subject. `tar xf` unpacks the archive; the function pack (below)
# writes the archive. libFuzzer keeps new inputs in build/fuzz/corpus/. `run.sh merge [SUBJECT...]` adds a minimal set
# of new inputs to the archive. `run.sh relearn [SUBJECT...]` reduces archive and corpus to a minimal set with the
# same coverage. Run `relearn` after a change of the meaning of old inputs. Inputs that fail are left in build/fuzz/.
set -u
cd "$(dirname "$0")/../.."
fuzz=build/fuzz/fuzz learnt=build/fuzz/corpus
# SUBJECT:PERCENT for each subject; PERCENT: its share of all inputs, smallest for slow subjects
of_files=(safetensors:14 image:1 torch:15 gguf:15 npz:15 npy:10 llmc:10 tokens:14 files:2 tokenizer:1 tekken:1 tiktoken:1 sentencepiece:1)
much=${1:-60}
[ $# -gt 0 ] && shift
if [ "$much" = files ]; then
  inputs=${1:-10000000}
  subjects=("${of_files[@]%:*}")
else
  subjects=("$@")
  [ $# -gt 0 ] || subjects=($(grep -oE '\{"[a-z]+", fuzz_' t/fuzz/fuzz.c | cut -d'"' -f2))
fi

pack() { # pack FOLDER ARCHIVE: packs the files; equal files give an archive of equal bytes
  (cd "$1" && LC_ALL=C ls) | tar -C "$1" -b1 --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -T - -cf "$2"
}

total=0 failed=0
for s in "${subjects[@]}"; do
  seeds=build/fuzz/seeds/$s
  rm -rf "$seeds"
  mkdir -p $learnt/"$s" "$seeds"
  [ ! -e t/fuzz/"$s".tar ] || tar -C "$seeds" -xf t/fuzz/"$s".tar || exit
  if [ "$much" = merge ]; then
    RILLE_FUZZ=$s $fuzz -merge=1 -max_len=8192 "$seeds" $learnt/"$s" 2>&1 | tail -1
    pack "$seeds" t/fuzz/"$s".tar
    continue
  fi
  if [ "$much" = relearn ]; then
    least=$(mktemp -d)
    RILLE_FUZZ=$s $fuzz -merge=1 -max_len=8192 "$least" "$seeds" $learnt/"$s" 2>&1 | tail -1
    pack "$least" t/fuzz/"$s".tar
    rm -r "$least"
    continue
  fi
  until=-max_total_time=$much
  for of in "${of_files[@]}"; do
    [ "$much $s" != "files ${of%:*}" ] || until=-runs=$((inputs * ${of#*:} / 100))
  done
  RILLE_FUZZ=$s $fuzz "$until" -max_len=8192 -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/"$s"- $learnt/"$s" "$seeds" >build/fuzz/"$s".log 2>&1 || failed=1
  n=$(sed -nE 's/^stat::number_of_executed_units: *//p' build/fuzz/"$s".log)
  grep -qE 'ERROR|SUMMARY' build/fuzz/"$s".log && found="harm: build/fuzz/$s.log" || found=
  printf '%-12s %12d %s\n' "$s" "${n:-0}" "$found"
  total=$((total + ${n:-0}))
done
[[ $much = merge || $much = relearn ]] || printf '%-12s %12d\n' all $total
exit $failed
