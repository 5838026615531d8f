#!/bin/bash
# loaded.sh - tests operators of shared libraries (rille_operator.h). The library of examples/plugin must work like
# built-in operators: on one device, on four, and in two processes. Every invalid library must be refused, with the
# reason.
rille=$(realpath "$1") root=$PWD
. t/lib/processes.sh
unset RILLE_OPERATORS
if ! command -v cc >/dev/null || ! command -v make >/dev/null; then
  skip "a library of operators is built" "no compiler, or no make"
  finish
fi
cp -r "$root/examples/plugin" "$dir/plugin"
example=$dir/plugin/libdistance.so
build() { make -C "$dir/plugin" CPPFLAGS="-I$root"; }
ok "a library of operators is built with rille_operator.h alone" build
command -v c++ >/dev/null && ok "rille_operator.h compiles as C++" c++ -x c++ -std=c++20 -fsyntax-only -Wall -Werror -I"$root" - <<<'#include <rille_operator.h>
static int run(const rille_operator_call *) { return 0; }
static const rille_operator r = {RILLE_OPERATOR_HEAD, .name = "r", .operand = {{"x"}}, .rule = "a->a", .run = run};
RILLE_OPERATORS(&r)'

# ---- a valid library

for devices in 1 4; do
  go -d cpu:$devices "$root/t/lib/steps/loaded.lua" "$example" $devices
  grep '^not ok\|^#' "$dir/out"
  ok "loaded operators work like built-in ones on $devices devices" test "$code" = 0 -a -n "$stdout"
done
go -d cpu:4 "$dir/plugin/distance.lua"
ok "the example trains on four devices" grep -q "layout of the distances: S(0)" "$dir/out"
falls() { awk '/^mean squared/ { sub(",", "", $4); exit !($6 < 0.8 * $4) }' "$dir/out"; }
ok "its loss falls" falls

train='local four = rille.placement("cpu", {0, 1, 2, 3})
  rille.manual_seed(1)
  local x = rille.randn({8, 6}, {placement = four, sbp = "S(0)"})
  local c = rille.randn({4, 6}, {placement = four, sbp = "B", requires_grad = true})
  local opt = rille.optim.SGD({c}, {lr = 0.01})
  local step = rille.graph(function(x)
    local loss = x:distance(c):softsign{scale = 2}:mean()
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end)
  for i = 1, 5 do print(("%a"):format(step(x):item())) end'
RILLE_OPERATORS=$example go -d cpu:4 -e "$train"
one=$stdout
ok "RILLE_OPERATORS loads libraries at the start" test "$code" = 0
RILLE_OPERATORS=$example go launch -n 2 -d cpu:2 -e "$train"
is "two processes compute the bits of one" "$stdout" "$one"
go launch -n 2 -d cpu:2 -e "rille.load_operators('$example') $train"
missing="the operator 'distance' is unknown in this process; set RILLE_OPERATORS to the path of its library for every process"
ok "a worker without the library reports the operator and the remedy" ends 1 "$missing"
RILLE_OPERATORS=$dir/none.so go -d cpu:1 -e 'print(1)'
is "a program without a library of RILLE_OPERATORS computes nothing" "$stdout" ""
ok "a missing library of RILLE_OPERATORS ends the program with its path" says "RILLE_OPERATORS: $dir/none.so: No such file or directory"

ok "a library that uses every field is built" cc -std=c11 -Wall -Werror -shared -fPIC -I"$root" -o "$dir/fields.so" "$root/t/host/fields.c" -lm
go -d cpu:2 "$root/t/lib/steps/loaded_fields.lua" "$dir/fields.so"
grep '^not ok\|^#' "$dir/out"
ok "every field of a record has its effect" test "$code" = 0 -a -n "$stdout"

# ---- refused libraries: a change of a valid record, and a part of the expected message ----

refused() { # refused FILE TEXT: loading the file fails with the text, and adds no operator
  go -d cpu:1 -e "local good, text = pcall(rille.load_operators, '$1')
    assert(not good and not rawget(rille, 'total'), 'it was loaded')
    error(text)"
  ends 1 "$2" || { cat "$dir/err"; false; }
}
compile() { cc -std=c11 -w -shared -fPIC -I"$root" -o "$dir/$1.so" "${@:2}" "$root/t/host/refused.c"; } # compile NAME OPTION...
ok "the operator of the refused libraries is built" compile good
go -d cpu:1 -e "rille.load_operators('$dir/good.so') print(rille.ones({2, 3}):total():sum():item())"
is "without a change it is accepted" "$stdout" 6.0
i=0
while IFS='|' read -r change text; do
  [ -n "$change" ] || continue
  share $((i++)) || continue
  compile changed -D"OVERRIDE=$change" && ok "refused: $change" refused "$dir/changed.so" "$text"
done <<'CHANGES'
.abi = 7|the library has version 7 of the operator interface, expected 1; build it with the rille_operator.h
.size = 8|a record has 8 bytes, expected
.size = 1 << 30|a record has 1073741824 bytes, expected
.name = "relu"|the operator 'relu' exists already; choose another name
.name = "total_dx"|the operator 'total_dx' exists already
.name = "Total"|the name 'Total' must have 1 to 63 small letters
.name = 0|the name '' must have
.name = "save"|rille or a tensor has a function 'save' already
.doc = ""|total: doc must be the formula
.operand = {{0}}|total: operand must list 1 to 10 operands, found 0
.operand = {{"x", 4}}|total: operand 0, 'x', must have a unique lower-case name and known flags
.attribute = {{"n", 9}}|total: attribute 0, 'n', must have a unique lower-case name and a known kind
.attribute = {{"how", RILLE_ATTRIBUTE_WORD}}|total: attribute 0, 'how', must have
.results = 5|total: results must be 0 to 4
.flags = 1|total: flags must be 0 or RILLE_OPERATOR_HIDDEN
.run = 0|total: one of run and element must be set
.rule = 0|total: rule must be set
.rule = "a(b->a"|total: rule "a(b->a"
.rule = "ab,b->a"|total: rule "ab,b->a" has 2 operands and 1 results, expected 1 and 1
.linear = "3"|total: linear must have numbers of operands
.accepts = "FX"|total: accepts must have the letters F, I and B only
.result = 4|total: result must be one of RILLE_RESULT_
.reduce = 9|total: reduce must be one of RILLE_REDUCE_
.fast_dtypes = 1|total: fast and fast_dtypes must both be set
.gradient = {{"total_dx", "0B"}}|total: gradient must read
.gradient = {{"total_dx", "1A"}}|total: gradient must read
.gradient = {{"total_dx", ""}}|total: gradient must read
.gradient = {{"nothing", "A"}}|total: unknown operator 'nothing' in the gradient of x
.gradient = {{"mean", "A"}}|total: the operator 'mean' cannot be a gradient
.gradient = {{"total_dx", "0A0"}}|total: the gradient of x passes 3 operands, but 'total_dx' has 2
.gradient = {{"sin", "0"}}|but the difference quotient is
.gradient = {{"abs", "A"}}|total f32{4,6}: the gradient of x by 'abs' must be f64{4, 6}, found f64{4}
.sample = {0}|total: sample must have at least one call
.sample = {"f32{4"}|total: the sample "f32{4" cannot be read
.sample = {"f32{4}"}|total: x
.reduce = RILLE_REDUCE_MAX|total f32{4,6}: with the layouts S(1)
.linear = "0"|total f32{4,6}: with the layouts P
.run = run_mean|total f32{4,6}: with the layouts S(1)
.run = run_error|total: found 1 operand
.operand = {{"x"}, {"x"}}|total: operand 1, 'x', must have
.attribute = {{"x", RILLE_ATTRIBUTE_INT}}|total: attribute 0, 'x', must have
.attribute = {{"n", RILLE_ATTRIBUTE_INT}, {"n", RILLE_ATTRIBUTE_INT}}|total: attribute 1, 'n', must have
.rule = "ab->[n]", .gradient = {{0}}|total: the rule's letter n has no size
.rule = "ab->[n]", .gradient = {{0}}, .infer = size_negative|total: the rule's letter n has no size
.rule = "ab->[n]", .gradient = {{0}}, .infer = size_large|total: result 0 of the sample
.rule = "ab->[n]", .gradient = {{0}}, .infer = size_largest|total: shape {9223372036854775807} is larger than 2^62 bytes
.rule = "a->a"|total: x has 2 dimensions, expected 1
.infer = infer_error|total: xxxxxxxx
.sample = {"f32{100000,100000}"}|total: operand 0 of the sample "f32{100000,100000}" must have at most 65536 elements, found 10000000000
.sample = {"f32{4294967296,4294967296}"}|must have at most 65536 elements
.sample = {"f32{4,-6}"}|total: the sample "f32{4,-6}" cannot be read
.sample = {"f32{1,1,1,1,1,1,1,1,1,1,1,1}"}|cannot be read
.sample = {"f32{0,6}"}|total: at least one sample must have a float tensor with elements as operand x
.sample = {"i64{4,6}<7"}|total: at least one sample must have a float tensor with elements as operand x
.run = run_silent|total: failed, and its library reports no reason
.fast = run_fast, .fast_dtypes = 1u << RILLE_DTYPE_F32|by the fast function, but
CHANGES
ok "a change was tried: $i" test "$i" -gt 30
compile late -DOVERRIDE='.run = run_later'
go -d cpu:2 -e "rille.load_operators('$dir/late.so')
  local w = rille.ones({4, 3}, {placement = rille.placement('cpu', {0, 1}), sbp = 'S(0)', requires_grad = true})
  local step = rille.graph(function() local loss = w:total():sum() loss:backward() return loss end)
  local good, why
  for i = 1, 1000 do good, why = pcall(step) if not good then break end end
  print(why, w:sum():item())"
ok "a function that fails in a step is an error, and the session goes on" grep -q "total: a late failure.*12.0" "$dir/out"
compile later -DLATER=0
go -d cpu:1 -e "rille.load_operators('$dir/later.so') print(rille.ones({2, 3}):total():sum():item())"
is "a record of a later header that uses no new field is accepted" "$stdout" 6.0
compile later -DLATER=1
ok "a record that uses a new field is refused" refused "$dir/later.so" "has a field that this version of Rille does not know"
compile list -DNO_LIST
ok "a library without rille_operators is refused" refused "$dir/list.so" "has no function rille_operators"
compile list -DLIST=0
ok "a library without a record is refused" refused "$dir/list.so" "has no operators of version 1"
echo text >"$dir/text.so"
ok "a file that is no library is refused" refused "$dir/text.so" "$dir/text.so"
size=$(stat -c %s "$dir/list.so" 2>/dev/null || stat -f %z "$dir/list.so")
for i in $(seq 0 31); do head -c $((size * i / 32)) "$dir/list.so" >"$dir/cut$i.so"; done
go -d cpu:1 -e "for i = 0, 31 do assert(not pcall(rille.load_operators, ('$dir/cut%d.so'):format(i))) end print 'alive'"
is "a file that was cut at any place is refused" "$stdout" alive
ok "the message for half of a library says so" refused "$dir/cut8.so" "expected a shared library"
ok "a missing file is refused" refused "$dir/missing.so" "No such file or directory"
finish
