#!/bin/bash
# table.sh - makes a table of the properties that tests prove for each operator, from the output of these tests. Each
# line of ops.def has a row, and no cell may be empty. A number counts proofs; a word says why there is no number:
#
#   source    makes a tensor without operands: no operand has a gradient or a layout; tested by position (op-position)
#   update    overwrites a variable (an optimiser's step, the next token's keys); its gradient is never needed
#   integer   results or operands are integers
#   flat      the gradient is zero wherever it exists
#   linear    the gradient does not depend on the operands: the second gradient is zero
#   parts     made of other operators, each with its row; op-layouts runs it in random layouts
#   whole     the gradient is with respect to complete rows, but samples have only statistics of the rows; tested by
#             t/rows/shift.lua and t/rows/norm-parts.lua
#   once      the gradient has no derivative; a second gradient is an error (t/nn/recurrent.lua)
#   session   the session makes the gradient (t/step/scan.lua)
#   move      boxing (redistribution): t/boxing/apply proves every pair of layouts
set -u
bin=$(dirname "${1:-build/release/rille}")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Copies the output of each test; runs a test only if its output is missing. (.ci/prove runs these tests before this
# one.)
for test in shape grad kernel position sound layouts; do
  cp "$bin/t/tap/op/$test" "$out/op-$test" 2>/dev/null || sh "$bin/t/op/$test.t" >"$out/op-$test" 2>&1
done

awk -v names="$(sed -n 's/^OP(\(.*\))$/\1/p' kernels/op/base/ops.def | tr '\n' ' ')" '
function test(file) { sub(/.*\//, "", file); return file }
function owner(line) { sub(/^ok [0-9]+ - /, "", line); sub(/[ :].*/, "", line); return line }
function cell(count, word) { return count > 0 ? count : word }

/^not ok/ { failed++ }
/^ok/ {
  op = owner($0); from = test(FILENAME)
  if (from == "op-shape") shape[op]++
  else if (from == "op-kernel" && / is the reference$/) kernel[op]++
  else if (from == "op-position" && /: is the whole.s$/) placed[op]++
  else if (from == "op-grad" && /: the gradient is the slope$/) slope[op]++
  else if (from == "op-grad" && /: so is the gradient.s$/) again[op]++
  else if (from == "op-grad" && / runs forward and backward$/) runs[op]++
  else if (from == "op-sound" && /is derived, or there is a reason$/) complete[op] = "none"
  else if (from == "op-sound" && /signatures were proved: /) proved = $NF
}
/^# [a-z_0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$/ {
  if (test(FILENAME) == "op-sound") { sound[$2] = 1; for (m = 0; m < 5; m++) on[$2, m] = $(3 + m) }
  if (test(FILENAME) == "op-layouts") { ran[$2] = 1; for (m = 0; m < 5; m++) drawn[$2, m] = $(3 + m) }
}

END {
  split("arange empty eye full linspace ones rand randint randn zeros", list, " ")
  for (i in list) why[list[i]] = "source"
  why["adamw"] = why["sgd"] = why["put"] = "update"
  why["recurrence_grad"] = "once"
  why["scan"] = "session"
  why["divisor"] = why["label_count"] = why["one_hot"] = why["moments_told"] = why["moments_joined"] = why["from_blocks"] = "integer"
  split("2 3 4 2x2 2x3", mesh, " ")
  n = split(names, line, " ")
  printf "# %-29s%6s%9s%9s%9s |%9s%6s%6s%6s%6s  %-9s|%8s\n", "", "shape", "gradient", "second", "kernels", mesh[1], mesh[2],
    mesh[3], mesh[4], mesh[5], "missing", "layouts"
  for (i = 1; i <= n; i++) {
    o = line[i]
    first = cell(slope[o], runs[o] ? "flat" : why[o])
    second = cell(again[o], slope[o] ? "linear" : first)
    if (o == "recurrence") second = "once"
    if (o == "moments_of") first = second = "whole"
    parts = !kernel[o] && slope[o] ? "parts" : ""
    where = o == "to_global" ? "move" : why[o] == "source" ? "source" : parts
    row = sprintf("%6s%9s%9s%9s |", shape[o], first, second, cell(kernel[o], parts))
    hole = shape[o] == "" || first == "" || second == "" || cell(kernel[o], parts) == ""
    for (m = 0; m < 5; m++) {
      c = sound[o] ? on[o, m] : where
      if (c == "" || c == "0") hole = 1
      row = row sprintf(m ? "%6s" : "%9s", m && !sound[o] ? "-" : c)
    }
    left = sound[o] ? complete[o] : where
    if (left == "") hole = 1
    runs_as = 0
    for (m = 0; m < 5; m++) runs_as += drawn[o, m]
    if (parts != "" && !runs_as) hole = 1
    row = row sprintf("  %-9s|%8s", left, ran[o] ? runs_as : "hidden")
    if (why[o] == "source" || where == "move") sub(/hidden$/, "      ", row)
    printf "# %-29s%s\n", o, row
    printf "%s %d - %s has no hole\n", hole ? "not ok" : "ok", ++count, o
  }
  printf "%s %d - the table has %d operators\n", (n >= 90 ? "ok" : "not ok"), ++count, n
  printf "%s %d - nothing failed in the tests that it is made of\n", failed ? "not ok" : "ok", ++count
  printf "%s %d - signatures were proved: %d\n", (proved > 1000 ? "ok" : "not ok"), ++count, proved
  printf "1..%d\n", count
}' "$out"/op-*
