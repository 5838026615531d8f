#!/bin/bash
# endurance.sh path/to/rille - tests that repeated calls of every feature do not increase memory, descriptors, threads,
# mappings, shared memory or the time of a call. Tests one process, and a job of a controller and two workers, with killed
# workers and attached prompts. Calls each feature 60 times; with SHARE=all 10,000 times. Prints TAP.
rille=$(realpath "$1") job=endure$$.lua
. t/lib/processes.sh
count=60
[ "${SHARE:-}" = all ] && count=10000
cp t/lib/steps/endure.lua "$dir/$job"
mkdir "$dir/files"
export ENDURE_FOLDER=$dir/files ENDURE_RILLE=$rille

tell() { grep -A8 "^not ok" "$dir/out"; tail -3 "$dir/out"; cat "$dir/err"; }

go -d cpu:2 t/lib/steps/endure.lua $count
is "one process does not grow" "$code" 0
export ENDURE_JOB=1
# permits a long silence of workers, so that none is lost on a busy machine
go launch -n 2 -d cpu:1 --silence 60 "$dir/$job" $count
is "a controller and its workers do not grow" "$code" 0
finish
