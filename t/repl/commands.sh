#!/bin/bash
# commands.sh path/to/rille - tests the prompt's hints about syntax of other languages, its commands, and its help
# pages. Prints TAP.
rille=$(realpath "$1")
. t/lib/terminal.sh

# Lines in the syntax of other languages, each with the hint that the error must contain.
forms=(
  'x @ y' 'write x:matmul(y)' 'z = x @ y' 'write x:matmul(y)' 'x += 1' 'write x = x + 1' 'x -= 1' 'write x = x - 1'
  'x *= 2' 'write x = x * 2' 'x /= 2' 'write x = x / 2' 'x++' 'write x = x + 1' 'x != y' 'write x ~= y' '1 != 2' 'write x ~= y'
  'x ** 2' 'write x ^ 2' '!x' 'write not x' 'x && y' 'write x and y' 'x || y' 'write x or y' 'c ? x : y' 'write c and x or y'
  'None' 'write nil' 'x = True' 'write true' 'False' 'write false' 'len(x)' 'write #x'
  'x is None' 'write x == nil' 'del x' 'write x = nil' 'import torch' 'write local name = require "name"'
  'from a import b' 'write local name = require "name"' 'lambda x: x' 'write function(x) return ... end'
  'x[0:2]' 'a range is x[{{0, 2}}], a whole axis {}' 'x[i:j]' 'a range is' 'x[:, 0]' 'a range is' 'x[1:]' 'a range is'
  'x = [1, 2]' 'write {1, 2}' '{"a": 1}' 'write {name = value}' 'f(x=1)' 'write f{name = value}' 'x = 1 # and so on' 'a comment begins with --'
  'def f(x):' 'write function name(x) ... end' 'def f(' 'write function name(x) ... end' 'if x == 1:' 'write if x then ... end'
  'for i in range(3):' 'write for i = 0, n - 1 do ... end' 'while True:' 'write while x do ... end' 'try:' 'write pcall(f)'
  'class A:' 'write a table of functions' 'else:' 'write else ... end')
# Lines that are valid Lua, or have another mistake: their errors must not contain a hint about other languages.
plain=('x = 1 )' 'return #x )' 'f(function() x = 1 end, )' 'y[x:size()] = = 1' 'from = 1 from = )' 't = {[1] = 2 )' '::top:: )'
  'x = "a @ b" )')
lines=()
for ((k = 0; k < ${#forms[@]}; k += 2)); do lines+=("${forms[k]}"); done
printf '%s\n' "${lines[@]}" "${plain[@]}" | timeout $hang "$rille" --no-init -i -e '' 2>&1 | sed 's/^rille> //' >seen
for k in "${!lines[@]}"; do
  ok "'${lines[k]}' gets the hint: ${forms[2 * k + 1]}" grep -qF "; ${forms[2 * k + 1]}" <(grep "^shell:$((k + 1)):" seen)
done
for k in "${!plain[@]}"; do
  is "'${plain[k]}' gets no hint about other languages" \
    "$(grep "^shell:$((${#lines[@]} + k + 1)):" seen | grep -cvE "; (write|a range|a comment)")" 1
done

# ---- commands and pages

answer ':help'
for word in :help :time :whos :actors :devices :mem :explain :plan :trace :doctor :quit; do shows ":help lists $word" "  $word"; done
answer '?placement'
ok "?name prints its page" grep -q "mesh of devices" seen
answer ':help to_global'
ok ":help name prints the page" grep -q "in another layout" seen
for ask in '?:plan' ':help :plan'; do
  answer "$ask"
  is "$ask prints the command's line" "$(sed 's/  */ /g' <<<"$got")" $' :plan EXPR tasks, registers and memory of the plan of EXPR'
done
answer '?nosuchthing'
shows "an unknown page is named" "'nosuchthing'"
answer ':help placemint'
shows "a misspelt word lists the pages on the nearest word" "no page has the words 'placemint'; pages on 'placement'"
answer ':help nn.Liner'
shows "an unknown name suggests the nearest page" "the nearest page is ?nn.Linear;"
answer '?learning rate'
ok "?words lists the pages on these words" grep -q '?optimizer.lr' seen
answer 'rille.matmul?'
ok "name? prints the page" grep -qx 'matmul(a, b)' seen
answer 'local f, net = rille.matmul, rille.nn.ReLU()' '?f'
ok "the page of a variable is that of its function" grep -qx 'matmul(a, b)' seen
answer 'net = rille.nn.ReLU()' ':help net'
ok "the page of an object is that of its class" grep -qx 'rille.nn.ReLU()' seen
answer '?'
shows "? alone lists commands" '  :explain'
answer ':nosuchcommand'
shows "an unknown command is named" "':nosuchcommand'"
for word in whos devices workers mem quit; do
  answer ":$word x y"
  shows ":$word refuses an argument" ":$word accepts no argument, found 'x y'"
done
prints ":whos lists the user's variables" $'  name    what\n  mine    1\n  theirs  "x"' 'local mine = 1' 'theirs = "x"' ':whos'
echo 'scripted = rille.nn.Linear(3, 2)' >w.lua
echo 'return {weight = rille.ones(4)}' >mine.lua
printf '%s\n' 'nn, optim = rille.nn, rille.optim' ':whos' ':mem' |
  timeout $hang "$rille" --no-init -i -e 'net = rille.nn.Linear(3, 2)' -l mine w.lua >seen 2>&1
ok ":whos lists variables of -e" grep -q 'net *module of 8 parameters' seen
ok ":whos lists variables of a script" grep -q 'scripted *module of 8 parameters' seen
ok ":whos lists modules of -l" grep -q 'mine *table of 1' seen
ok ":mem lists variables of -e, -l and a script" [ "$(grep -cE '(net|scripted) *module *\(32 B\)|mine *table *\(16 B\)' seen)" = 3 ]
answer ':time 6 * 7'
ok ":time prints the value and a time" grep -qE '^[0-9.]+ (us|ms|s)$' <<<"$got"
answer ':doctor'
shows ":doctor prints the version" "rille 0."
local_x='local x = rille.ones({2, 3})'
prints "a tensor is printed with its head" $'f32 {2, 3} B on cpu[0]\n  2. 2. 2.\n  2. 2. 2.' "$local_x" 'x + 1'
prints "inside a table a small tensor prints as head and values" '{f32 {2, 3} B on cpu[0]: {{1., 1., 1.}, {1., 1., 1.}}, {2, 3}}' "$local_x" '{x, x.shape}'
answer "$local_x" ':whos'
ok ":whos prints a tensor with its bytes" grep -qE '^  x +f32 \{2, 3\} B  cpu\[0\]  \(?24 B\)?$' <<<"$got"

answer "$local_x" ':explain x:relu()'
ok ":explain shows operators" grep -q relu <<<"$got"
answer "$local_x" ':plan x:relu()'
ok ":plan shows tasks" grep -q relu <<<"$got"
answer 'local step = rille.graph(function(a) return a * 2 end)' 'step(rille.ones({2}));' ':trace step run.json'
ok ":trace writes a step's events" grep -q traceEvents run.json
answer 'local step = rille.graph(function(a) return a:relu() end)' 'step(rille.ones({2}));' ':plan step'
ok ":plan of a step prints its plan" grep -q relu <<<"$got"
answer "$local_x" ':time x:matmul(x:transpose(0, 1))'
ok ":time computes the value" grep -q '3. 3.' <<<"$got"
answer "$local_x" 'x:matmul(x)' '2'
ok "an error names the typed line" grep -q '^shell:2:1: matmul' seen
answer ':mem'
ok ":mem shows memory" grep -q 'in tensors' <<<"$got"
for key in q '\003'; do
  session 'type rille.ones({2}):sum():item()\n' 'wait 2.0' prompt 'type :top\n' 'wait q leaves' 'wait per second' "type $key" 'wait rille> ' \
    'type "al" .. "ive"\n' 'wait alive'
  ok ":top shows devices until $key" grep -q 'cpu:0 .*MiB live .*idle' seen
  ok "after :top the prompt returns" grep -qx alive seen
done
# A pipeline whose second stage sleeps, so that the first stage waits for its result.
cat >pipe.lua <<'EOF2'
local P0, P1 = rille.placement("cpu", {0}), rille.placement("cpu", {1})
local x, w = rille.ones({8, 64}, {placement = P0}), rille.ones({64}, {placement = P0, requires_grad = true})
local step = rille.graph(function(x)
  local loss = (x * w):exp():to_global{placement = P1, sbp = "B"}:sin():sum()
  loss:backward()
  return loss
end, {micro_batches = 8, schedule = "1f1b"})
rille._slow_op("sin", 0.1)
return function() return step(x) end
EOF2
answer 'step = dofile("pipe.lua")' ':top step()'
ok ":top shows the task that an idle thread waits for" grep -qE '%  .* \(pipe.lua:4\) waits for .* \(pipe.lua:4\) on cpu:1' <<<"$got"
# :top shows only workers of this host.
steps=('wait rille> ' 'type P = rille.placement("cpu", {0, 1})\n' prompt
  'type a = rille.randn({1024, 1024}, {placement = P, sbp = "S(0)"})\n' prompt
  'type b = rille.zeros({1024, 1024}, {placement = P, sbp = "B"})\n' prompt
  'type a:sum():item() > -1e9\n' 'wait true' prompt
  'type :top (function() local c = a; for _ = 1, 3000 do c = c:matmul(b) end return c:sum():item() end)()\n'
  'wait q leaves this' 'match thread 0 .*█.* %' 'match %  matmul \(\(command\):1\)' 'type \003' 'wait interrupted' 'wait rille> ' 'type :top\n' 'wait q leaves' 'type q' 'wait rille> '
  'type :quit\n')
for hosts in 1 2; do
  printf '%s\n' "${steps[@]}" | RILLE_HOSTS=$hosts perl "$pty" "$rille" launch -n 2 --no-init --color never -d cpu:1 >seen 2>&1
  grep -q "thread 0 .*█.* %" seen && grep -q "%  matmul ((command):1)" seen
  report $? ":top shows the task of a worker during a run (hosts: $hosts)" || tell
  is ":top shows only this host's threads (hosts: $hosts)" "$(grep -o 'thread [0-9]' seen | sort -u | wc -l)" $((3 - hosts))
  is ":top shows idle threads after the run (hosts: $hosts)" "$(grep -c 'MiB live .*idle' seen) $(grep -c 'MiB live .*another host' seen)" "$((3 - hosts)) $((hosts - 1))"
done
answer ':devices'
ok ":devices counts devices" grep -q '4 of kind cpu' <<<"$got"
answer ':actors'
ok ":actors counts runs" grep -q 'runs' <<<"$got"

# ---- output fits the terminal

printf 'for _, s in ipairs{{1000}, {7}, {3, 200}, {40, 40}, {2, 3, 50}, {0}, {}} do print(rille.randn(s)) end print("all")\n' >wide.lua
for columns in 1 20 40 80 120; do
  PTY_COLUMNS=$columns session 'type dofile("wide.lua")\n' 'wait all'
  tr -d '\r' <seen >lines
  ok "rows fit $columns columns" awk -v most=$((columns < 20 ? 20 : columns)) '/^ [ -][ 0-9.-]*$/ && length > most { print; bad = 1 } END { exit bad }' lines
done

finish
