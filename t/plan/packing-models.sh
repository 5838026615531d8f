#!/bin/bash
# Tests that registers of gpt2 and llama in stages need at most 1.05 times the lower bound, for all schedules, with
# recompute and zero.
rille=$1
. t/lib/tap.sh
"$rille" -d cpu:1 t/lib/steps/packed_steps.lua "$dir" >"$dir.out" 2>&1 || { cat "$dir.out"; rm -f "$dir.out"; exit 1; }
rm -f "$dir.out"
"${rille%/*}/t/bin/plan" packing "$dir"/*
