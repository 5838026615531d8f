#!/bin/bash
# The shell on a terminal: shell-repl.sh path/to/rille. Prints TAP. t/pty.pl makes the terminal.
rille=$(realpath "$1") pty=$(realpath "${0%/*}/pty.pl")
. "${0%/*}/tap.sh"
cd "$dir" || exit 2
export HOME=$dir XDG_STATE_HOME=$dir/state TERM=xterm INPUTRC=/dev/null
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_CHECK NO_COLOR

tell() { cat seen; }
shows() { ok "$1" grep -qF -e "$2" seen; }
hides() { ok "$1" bash -c '! grep -qF -e "$1" seen' hides "$2"; }

# session STEP...: follows the steps of t/pty.pl, then leaves.
session() {
  printf '%s\n' 'wait rille> ' "$@" 'type :quit\n' | perl "$pty" "$rille" --no-init --color "${color:-never}" -d cpu:4 >seen 2>&1
  code=$?
}
# answer CHUNK...: types one after the other; $got is what is printed behind the last chunk, without the prompt.
answer() {
  local last=${*: -1} steps=()
  for chunk; do steps+=("type ${chunk//\\/\\\\}\n" prompt); done
  printf '%s\n' 'wait rille> ' "${steps[@]}" 'type :quit\n' | perl "$pty" "$rille" --no-init --color never -d cpu:4 >seen 2>&1
  code=$?
  got=$(awk -v last="$last" 'index($0, "rille> " last) || ($0 ~ /^ *\.\. / && index($0, last)) { on = 1; next } /^rille> / { on = 0 } on' seen)
}

answer '6 * 7'
is "an expression is printed" "$got" 42
is ":quit ends the shell with 0" "$code" 0
answer '6 * 7;'
is "a trailing ; silences" "$got" ""
answer '6 * 7;' '_ + 1'
is "but _ is the value all the same" "$got" 43
answer '1, nil, "a"'
is "all values but nil are printed" "$got" $'1\na'
answer 'x = 5' 'x'
is "an assignment prints nothing and stays" "$got" 5
answer 'rille.nn.Linear("x")'
ok "an expression's error names its line, also where it is a call of Lua" grep -q '^shell:1:1: ' <<<"$got"
answer 'k = 2; rille.nn.Linear("x") -- no size'
ok "also behind another statement" grep -q '^shell:1:1: ' <<<"$got"
answer '{1, 2, {a = "b"}}'
is "tables are opened" "$got" '{1, 2, {a = "b"}}'
answer '{string.char(65, 0, 66, 27, 49, 10, 200, 34, 92)}'
is "a text in a table is what one would write, and does nothing to the terminal" "$got" '{"A\0B\0271\n\200\"\\"}'
answer 'rille.matmul, {rille.nn.Linear}'
is "a function of ours is how it is called" "$got" $'matmul(a, b)\n{rille.nn.Linear(in, out, {bias = true})}'
answer 'C = rille.nn.Module:extend("Net"); C'
is "a class of one's own is its name" "$got" 'class Net'
answer 'rille'
ok "the module does not list all it has" grep -qx 'rille 0.*; rille.help() lists its names.*' <<<"$got"
answer 'error({code = 1})'
is "an error that is a table is opened" "$got" '(the error is {code = 1})'

answer 'local t = os.clock() while os.clock() < t + 0.6 do end'
ok "what took long tells how long" grep -qE '^ +[0-9]+\.[0-9]+ s$' <<<"$got"

answer 'do local r <close> = rille end' ':devices' 'rille.ones{1}' '"al" .. "ive"'
shows "who closes the prompt's session is told so" 'shell:3:1: the session was closed'
is "and keeps the prompt" "$got" alive

# ---- locals stay

answer 'local x = 5' 'x + 1'
is "a local of one line is there on the next" "$got" 6
answer 'local a, b <const>, c = 1, 2' 'a, b, c'
is "several names, attributes, missing values" "$got" $'1\n2'
answer 'local function f(k) return k == 0 and 1 or k * f(k - 1) end' 'f(5)'
is "a local function can call itself" "$got" 120
answer 'local k = 0; local function inc() k = k + 1 end' 'inc()' 'inc()' 'k'
is "a function of one line and the next line share a local" "$got" 2
answer 'local print = 5' 'rille.help("item")' 'print'
is "a local hides a global from the user alone" "$got" 5
answer 'y = 7' 'local y' 'y == nil'
is "a local without a value hides a global" "$got" true
answer 'y = 7' 'local y' 'y = 8' '_G.y, y'
is "and assigning it leaves the global" "$got" $'7\n8'
answer 'y = nil' 'local y = y or 3' 'y'
is "the value is computed before the name is there" "$got" 3
answer 'do local inner = 1 end' 'inner'
is "a local of a block stays in its block" "$got" "shell:2:1: no global is called 'inner'"
answer 'if true then local function hidden() end end' 'hidden'
is "so does a local function" "$got" "shell:2:1: no global is called 'hidden'"
answer 'z, w = nil' 'local s = "local z = 1" -- local w = 2' 's, z, w'
is "text and comments are not code" "$got" 'local z = 1'
answer 'local t = {local_ = 1, [ [[local q]] ] = 2}' 't.local_, t["local q"]'
is "nor are names that contain the word" "$got" $'1\n2'
answer 'for i = 1, 1 do local v = i end local after = 9' 'after'
is "a local behind a loop is top-level again" "$got" 9
answer 'repeat local r = 1 until r == 1 local after = 10' 'after'
is "and behind repeat" "$got" 10

answer 'getmetatable(_ENV).__index(print, "losss")'
shows "who calls the environment's metamethods with another's self is told" 'table expected, got function'
answer 'x = nil' 'local x' 'getmetatable(_ENV).__newindex(print, "x", 1)'
shows "also where a local would be set" 'table expected, got function'

# ---- many lines

answer 'for i = 1, 2 do' 'print(i)' 'end'
is "a chunk may have many lines" "$got" $'1\n2'
answer '{1,' '2}'
is "so may an expression" "$got" '{1, 2}'
answer '1 +' '2'
is "also one that breaks behind an operator" "$got" 3
answer 'local text = [[' 'two lines]]' '#text'
is "and a long text" "$got" 9
answer 'x = = 1'
ok "an error of syntax does not wait for more" grep -q "near '='" seen

# ---- what is printed, what is a name

answer 'a = 20; a + 1'
is "the last expression of a line is printed" "$got" 21
answer 'a = 2 b = 3; math.max(a, b)'
is "also a call behind statements" "$got" 3
answer 'return 5'
is "what a chunk returns is its value too" "$got" 5
answer 'a = 2 return a, -a'
is "also behind statements, and several" "$got" $'2\n-2'
answer 'do return 7 end'
is "and out of a block" "$got" 7
answer 'f = function(x) return x end' 'local t = f (5)' 't'
is "an argument is no expression of its own" "$got" 5
answer 'for i = 1, 2 do print(i) end print("done")'
is "a call that gives nothing prints nothing" "$got" $'1\n2\ndone'
answer 'x = "abc'
shows "an open quote is an error at once" 'unfinished string'
answer 'lossss = 1; loss = 2' 'losss'
shows "a global that is not there is an error with the nearest name" "no global is called 'losss'; the nearest name is 'loss'"
answer 'torch'
shows "or with Rille's form of another framework's" "no global is called 'torch'; it is 'rille' here"
answer 'rille.ones({2}).size'
shows "so are fields" "no field or method 'size': write x.shape"
answer 'y = nil' 'y == nil'
is "a global that was set to nil is one" "$got" true
echo 'return missing == nil' >mod.lua
answer 'dofile("mod.lua")'
is "names of a script are not asked" "$got" true
answer 'function r() return 1 + r() end' 'r()'
ok "of a recursion without end few lines are told" bash -c '[ "$(grep -c "in function" seen)" -lt 20 ]'
shows "and how often they were the same" 'times more'

# What other languages write, a line each, and what the error says.
forms=(
  'x @ y' 'write x:matmul(y)' 'z = x @ y' 'write x:matmul(y)' 'x += 1' 'write x = x + 1' 'x -= 1' 'write x = x - 1'
  'x *= 2' 'write x = x * 2' 'x /= 2' 'write x = x / 2' 'x++' 'write x = x + 1' 'x != y' 'write x ~= y' '1 != 2' 'write x ~= y'
  'x ** 2' 'write x ^ 2' '!x' 'write not x' 'x && y' 'write x and y' 'x || y' 'write x or y' 'c ? x : y' 'write c and x or y'
  'None' 'it is nil in Lua' 'x = True' 'it is true in Lua' 'False' 'it is false in Lua' 'len(x)' 'write #x'
  'x is None' 'write x == nil' 'del x' 'write x = nil' 'import torch' 'write local name = require "name"'
  'from a import b' 'write local name = require "name"' 'lambda x: x' 'write function(x) return ... end'
  'x[0:2]' 'a range is x[{{0, 2}}], a whole axis {}' 'x[i:j]' 'a range is' 'x[:, 0]' 'a range is' 'x[1:]' 'a range is'
  'x = [1, 2]' 'write {1, 2}' '{"a": 1}' 'write {name = value}' 'f(x=1)' 'write f{name = value}' 'x = 1 # and so on' 'a comment begins with --'
  'def f(x):' 'write function name(x) ... end' 'def f(' 'write function name(x) ... end' 'if x == 1:' 'write if x then ... end'
  'for i in range(3):' 'write for i = 0, n - 1 do ... end' 'while True:' 'write while x do ... end' 'try:' 'write pcall(f)'
  'class A:' 'write a table of functions' 'else:' 'write else ... end')
# What is wrong otherwise, or is Lua, is told nothing of that kind.
plain=('x = 1 )' 'return #x )' 'f(function() x = 1 end, )' 'y[x:size()] = = 1' 'from = 1 from = )' 't = {[1] = 2 )' '::top:: )'
  'x = "a @ b" )')
lines=()
for ((k = 0; k < ${#forms[@]}; k += 2)); do lines+=("${forms[k]}"); done
printf '%s\n' "${lines[@]}" "${plain[@]}" | timeout 60 "$rille" --no-init -i -e '' 2>&1 | sed 's/^rille> //' >seen
for k in "${!lines[@]}"; do
  ok "'${lines[k]}' is told: ${forms[2 * k + 1]}" grep -qF "; ${forms[2 * k + 1]}" <(grep "^shell:$((k + 1)):" seen)
done
for k in "${!plain[@]}"; do
  is "'${plain[k]}' is told nothing of other languages" \
    "$(grep "^shell:$((${#lines[@]} + k + 1)):" seen | grep -cvE "; (write|a range|a comment)")" 1
done
# What Lua goes on with is waited for, as before.
answer 'print(1 == 2, 2 <= 3, 2 ~= 3, 3 >= 2,' '"on")'
is "a comparison that goes on is no assignment" "$got" $'false\ttrue\ttrue\ttrue\ton'
answer 'y = {a = 1,' 'b = #"xyz"}' '#{y.b,' 'y["a"]}'
is "nor is what begins a value with # a comment" "$got" 2
answer 'function root(x) local sqrt = math.sqrt; if x < 0 then return sqrt end' 'local exp = sqrt' 'return exp(x) end' 'root(4)'
is "nor is a local of such a name a word of Python" "$got" 2.0
ok "so is -e" bash -c '"$1" -e "x += 1" 2>&1 | grep -F "syntax error near '"'+'"'; write x = x + 1"' - "$rille"
answer 'for i in range(3):' '6 * 7'
is "and a line that ends in a colon is not waited on" "$got" 42

# ---- errors keep the session alive

answer 'error("boom")' '1 + 1'
shows "an error is shown" boom
is "and the session goes on" "$got" 2
answer 'local function inner() error("deep") end' 'function outer() inner() return 1 end' 'outer()' '2'
shows "the functions an error came through are shown" "in function 'outer'"
answer 'setmetatable({}, {__tostring = function() error("in tostring") end})' '3'
is "an error while printing is one like others" "$got" 3

# ---- commands and pages

answer ':help'
for word in :help :time :whos :actors :devices :mem :explain :plan :trace :doctor :quit; do shows ":help lists $word" "  $word"; done
answer '?placement'
ok "?name prints its page" grep -q "mesh of devices" seen
answer ':help to_global'
ok "so does :help name" grep -q "in another layout" seen
for ask in '?:plan' ':help :plan'; do
  answer "$ask"
  is "$ask: a command's line" "$(sed 's/  */ /g' <<<"$got")" $' :plan EXPR its tasks, registers and memory'
done
answer '?nosuchthing'
shows "an unknown page is named" "'nosuchthing'"
answer ':help placements'
shows "with the nearest" "the nearest page is ?placement;"
answer 'rille.matmul?'
ok "name? is a page as well" grep -qx 'matmul(a, b)' seen
answer 'local f, net = rille.matmul, rille.nn.ReLU()' '?f'
ok "a variable's page is that of the function it holds" grep -qx 'matmul(a, b)' seen
answer 'net = rille.nn.ReLU()' ':help net'
ok "or of what its value is one of" grep -qx 'rille.nn.ReLU()' seen
answer '?'
shows "? alone tells of commands" '  :explain'
answer ':nosuchcommand'
shows "an unknown command is named" "':nosuchcommand'"
answer 'local mine = 1' 'theirs = "x"' ':whos'
is ":whos lists what the user made" "$got" $'  name    what\n  mine    1\n  theirs  "x"'
answer ':time 6 * 7'
ok ":time prints the value and a time" grep -qE '^[0-9.]+ (us|ms|s)$' <<<"$got"
answer ':doctor'
shows ":doctor tells the version" "rille 0."
local_x='local x = rille.ones({2, 3})'
answer "$local_x" 'x + 1'
is "a tensor is printed with its head" "$got" $'f32 {2, 3} B on cpu[0]\n  2. 2. 2.\n  2. 2. 2.'
answer "$local_x" '{x, x.shape}'
is "inside a table a small tensor is its head and values" "$got" '{f32 {2, 3} B on cpu[0]: {{1., 1., 1.}, {1., 1., 1.}}, {2, 3}}'
answer "$local_x" ':whos'
ok "and in :whos, with its bytes" grep -qE '^  x +f32 \{2, 3\} B  cpu\[0\]  \(?24 B\)?$' <<<"$got"

answer "$local_x" ':explain x:relu()'
ok ":explain shows operators" grep -q relu <<<"$got"
answer "$local_x" ':plan x:relu()'
ok ":plan shows tasks" grep -q relu <<<"$got"
answer 'local step = rille.graph(function(a) return a * 2 end)' 'step(rille.ones({2}));' ':trace step run.json'
ok ":trace writes what a step did" grep -q traceEvents run.json
answer 'local step = rille.graph(function(a) return a:relu() end)' 'step(rille.ones({2}));' ':plan step'
ok ":plan of a step is its plan" grep -q relu <<<"$got"
answer "$local_x" ':time x:matmul(x:transpose(0, 1))'
ok ":time computes" grep -q '3. 3.' <<<"$got"
answer "$local_x" 'x:matmul(x)' '2'
ok "an error names the line typed" grep -q '^shell:2:1: matmul' seen
answer ':mem'
ok ":mem shows memory" grep -q 'in values' <<<"$got"
for key in q '\003'; do
  session 'type rille.ones({2}):sum():item()\n' 'wait 2.0' prompt 'type :top\n' 'wait q leaves' 'wait a second' "type $key" 'wait rille> ' \
    'type "al" .. "ive"\n' 'wait alive'
  ok ":top shows devices until $key" grep -q 'cpu:0 .*MiB live .*idle' seen
  ok "and gives the prompt back" grep -qx alive seen
done
# The second stage sleeps: the first waits for what it gives back.
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
ok ":top shows what an idle thread waits for" grep -qE '%  .* \(pipe.lua:4\) waits for .* \(pipe.lua:4\) on cpu:1' <<<"$got"
# Workers on this host are looked at, those of another are not.
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
  report $? ":top shows what a worker does while it runs (hosts: $hosts)" || tell
  is "and that host's threads alone (hosts: $hosts)" "$(grep -o 'thread [0-9]' seen | sort -u | wc -l)" $((3 - hosts))
  is "and that they are idle after it (hosts: $hosts)" "$(grep -c 'MiB live .*idle' seen) $(grep -c 'MiB live .*another host' seen)" "$((3 - hosts)) $((hosts - 1))"
done
answer ':devices'
ok ":devices counts them" grep -q '4 of kind cpu' <<<"$got"
answer ':actors'
ok ":actors counts runs" grep -q 'runs' <<<"$got"
session 'type for i = 1, 2 do\n' 'wait .. ' 'type \004' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-D in a chunk that was begun gives the chunk up" alive
session 'type 1 + 1\n' 'wait rille> ' 'type \004'
is "Ctrl-D ends the shell with 0" "$code" 0
printf '%s\n' '6 * 7' '{1,' | timeout 20 "$rille" --no-init -i -e '' >seen 2>&1
is "so does the end of a pipe, also in a chunk that was begun" "$?" 0

# ---- what is printed fits the terminal

printf 'for _, s in ipairs{{1000}, {7}, {3, 200}, {40, 40}, {2, 3, 50}, {0}, {}} do print(rille.randn(s)) end print("all")\n' >wide.lua
for columns in 1 20 40 80 120; do
  PTY_COLUMNS=$columns session 'type dofile("wide.lua")\n' 'wait all'
  tr -d '\r' <seen >lines
  ok "rows fit $columns columns" awk -v most=$((columns < 20 ? 20 : columns)) '/^ [ -][ 0-9.-]*$/ && length > most { print; bad = 1 } END { exit bad }' lines
done

# ---- Ctrl-C

spin='io.stderr:write("spin", "ning\\n") while true do end'
session "type $spin\\n" 'wait spinning' 'type \003' 'wait interrupted' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C stops a loop, and the session goes on" alive
session "type co = coroutine.wrap(function() $spin end); co()\\n" 'wait spinning' 'type \003' 'wait interrupted' 'wait rille> ' \
  'type "al" .. "ive"\n' 'wait alive'
shows "also one in a coroutine" alive
session "type while true do pcall(function() $spin end) end\\n" 'wait spinning' 'type \003' 'wait spinning' 'type \003' \
  'wait interrupted' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "twice it stops a loop around pcall" alive
# The kernel sleeps on; a press before it began is caught, and the loop comes to it all the same.
slow='rille._slow_op("relu", 4); for k = 1, 9 do pcall(function() io.stderr:write("slee", "ping "); rille.ones({2}):relu():sum():item() end) end'
session "type $slow\\n" 'wait sleeping' 'type \003' 'pause' 'type \003' 'wait waiting for' 'wait rille> ' \
  'type "al" .. "ive"\n' 'wait alive'
shows "a second press says what is waited for" 'waiting for '
shows "and the session goes on" alive
# One call of a kernel that takes many seconds: it is left between its panels.
session 'type x = rille.ones({9000, 9000}); x:sum():item()\n' 'wait 8' prompt 'type io.stderr:write("mul", "ti") x:matmul(x):sum():item()\n' \
  'wait multi' pause 'type \003\003\003' 'within 10 interrupted' 'within 10 rille> ' 'type "al" .. "ive"\n' 'wait alive'
ok "a single large product gives the prompt back" grep -qx alive seen
# Lua's own functions, of which no hook is asked meanwhile. What they worked at is whole afterwards.
# ASan's memcmp reads both texts whole before it compares them, which makes hours of the last one.
export ASAN_OPTIONS=strict_memcmp=0:$ASAN_OPTIONS
begin='keep = "a*a*a*a*a*a*a*b" io.stderr:write("beg", "un ")' many='("a"):rep(9999)'
for call in "$many:find(keep)" "$many:match(keep)" "$many:gsub(keep, '')" "$many:gsub(keep, print)" "$many:gsub('.', function() $many:find(keep) end)" \
  "$many:gsub(keep, setmetatable({}, {__index = {}}))" "table.move({}, 1, 1e15, 7)" "for _ in $many:gmatch(keep) do end" \
  '("x"):rep(5e7):find(("x"):rep(25e6) .. "y", 1, true)'; do
  session "type $begin return pcall(function() $call end)\n" 'wait begun' pause 'type \003' 'within 10 interrupted' 'within 10 rille> ' \
    'type keep, "al" .. "ive"\n' 'wait alive'
  ok "Ctrl-C stops $call, and no text has changed" bash -c 'grep -A1 -x "a\*a\*a\*a\*a\*a\*a\*b" seen | grep -qx alive'
done
session 'type list = {} for k = 1, 6e6 do list[k] = k * 7919 % 6000011 end io.stderr:write("beg", "un ") table.sort(list)\n' 'wait begun' pause \
  'type \003' 'within 10 interrupted' 'within 10 rille> ' 'type table.sort(list) for k = 2, #list do assert(list[k - 1] < list[k]) end\n' prompt \
  'type "al" .. "ive"\n' 'wait alive'
ok "and the sorting of a long list, which has lost nothing" bash -c 'grep -qx alive seen && ! grep -q assert.*failed seen'
session 'type io.stderr:write("beg", "un ") io.lines("/dev/zero")()\n' 'wait begun' pause 'type \003' 'within 10 interrupted' 'within 10 rille> ' \
  'type #("x"):rep(5e6), "al" .. "ive"\n' 'wait alive'
ok "and what gathers without an end" bash -c 'grep -A1 -x 5000000 seen | grep -qx alive'
answer '("x"):find("[")'
is "what is wrong with a pattern is told with its line" "$got" "shell:1:1: malformed pattern (missing ']')"
answer '("x"):gsub(print, "")'
is "and what is no pattern" "$got" "shell:1:1: bad argument #1 to 'gsub' (string expected, got function)"
answer '("x"):gsub("[", print)'
is "also where a function is called" "$got" "shell:1:1: malformed pattern (missing ']')"
answer '("x"):gsub("x", function()' 'error("mine") end)'
is "whose own errors are its own" "$got" "shell:1:2: mine"
answer '#("").rep("", 1e15)'
is "nothing, however often, is nothing" "$got" 0
answer 'table.sort(5)'
is "nor a list" "$got" "shell:1:1: bad argument #1 to 'sort' (table expected, got number)"
answer 'local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[#t + 1] = k .. v end' '{t, ("hello"):gsub("l", "%0%0"), ("hello"):gsub("l", {l = "L"}), ("a1"):match("(%a)(%d)", -2), ("a.b"):find(".", 1, true)}'
is "patterns do what they do" "$got" '{{"a1", "b2"}, "hellllo", "heLLo", "a", 2, 2}'
endless='io.stderr:write("end", "less ") table.insert(setmetatable({}, {__len = function() return 1e15 end}), 1, 5)'
session "type $endless\\n" 'wait endless' pause 'type \003' pause 'type \003' "wait waiting for a function of Lua's own" 'wait ends the program' 'type \003\003\003' pause 'type \034' pause 'type \034'
shows "a function of Lua that cannot be left is told, and how to end the program" 'cannot be stopped; Ctrl-\ ends the program'
is "which no number of presses does, but that" "$code" 131
session 'type half' 'wait half' 'type \003' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "at the prompt it clears the line" alive
session 'type for i = 1, 2 do\n' 'wait .. ' 'type \003' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "and a chunk that was begun" alive

# ---- history, completion, colour

editor=$("$rille" --no-init -i <<<':doctor' 2>/dev/null | sed -nE 's/.*line editor  *([a-z]+).*/\1/p')
if [ "$editor" = readline ]; then
  answer 'first = 1' 'for i = 1, 1 do' 'print("many " .. "lines")' 'end'
  session 'type \e[A\e[A\n' 'wait many lines'
  is "a chunk of many lines is one entry of the next session's history" "$(grep -c '^many lines' seen)" 1
  session 'type rille.placem\t' 'wait placement' 'type ("cpu", {0, 1}).size\n' 'wait 2'
  shows "Tab completes a field" 'rille.placement("cpu", {0, 1}).size'
  session 'type x = rille.ones({2})\n' 'type x:totab\t' 'wait totable' 'type ()\n' 'wait {1'
  shows "and a method of a tensor" 'x:totable()'
  session 'type longname = 41\n' 'type longn\t + 1\n' 'wait 42'
  shows "and a global" 42
  session 'type :doc\t\n' 'wait line editor'
  shows "and a command" "line editor"
fi
if [ "$editor" = readline ]; then
  session 'type x = rille.ones({2})\n' prompt 'type x:matm\t' 'wait matmul' 'type (x\003' prompt 'type x:ma\t' 'wait max_pool2d  maximum' 'wait x:ma' \
    'type \003' prompt 'type rille.placement("c\t' 'wait cuda' 'type u"\t\003' prompt 'type x:softmax{ax\t' 'wait axis = ' 'type 0}\n' 'wait 0.5'
  shows "Tab lists what a name may become" 'matmul      max         max_pool2d  maximum'
  shows "and completes options" 'x:softmax{axis = 0}'
  color=always session 'type x = rille.ones({2})\n' 'wait rille> ' 'type x:softmax(' 'wait axis = -1)' 'type 0):sum():item() + 1\n' 'wait 2.0'
  shows "what it takes is told while a call is typed" $'\e[2m  (axis = -1)'
  shows "and the session sees what was typed alone" '2.0'
  color=always session 'type local t = 1 -- one\n' 'wait rille> ' 'type "a" .. t\n' 'wait a1'
  shows "Lua's words have a colour" $'\e[35mlocal\e[m'
  shows "and comments" $'\e[2m-- one\e[m'
  color=always session 'type for i = 1, 2 do\n' 'wait .. ' 'type print(i + 5)\n' 'wait .. ' 'type \e[A\e[A\001' 'type print("first") \n' \
    'wait .. ' 'type \e[B\e[B\e[B\005end\n' 'wait 6'
  ok "a painted chunk has many lines too" grep -qx first seen
  color=always session 'type half' 'wait half' 'type \003' 'wait ^C' 'wait rille> ' 'type \022' 'wait reverse-i-search' \
    'type prin' 'type \007' 'wait rille> ' 'type \003' 'wait ^C' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
  ok "Ctrl-C and a search leave the prompt whole" grep -qx alive seen
  long=$(printf 'x%.0s' {1..50000})
  for color in always never; do
    session "type \\e[200~y = \"$long\"\\e[201~\n" 'wait rille> ' 'type #y\n' 'wait 50000'
    ok "a line of 50 kB is read, --color $color" grep -qx 50000 seen
    session "type \\e[200~$(printf 'n = 1\\n%.0s' {1..199})n + 199\\e[201~\n" 'wait 200'
    ok "a paste of 200 lines is one chunk, --color $color" grep -qx 200 seen
  done
  color=never
  rm -rf state
  session 'type mine = 4\n' 'wait rille> ' 'type ext = 1\n' 'wait rille> '
  ok "an entry is in the history at once" grep -q 'mine = 4' state/rille/history
  printf '#!/bin/sh\nprintf "#1\\nother = 5 + 5; other\\n" >>state/rille/history\n' >append && chmod +x append
  session 'type os.execute("./append");\n' 'wait rille> ' 'type \e[A\n' 'wait 10'
  ok "and another shell's is seen" grep -qx 10 seen
  session 'type for i = 1, 2 do\n' 'wait .. ' 'type print(i + 5)\n' 'wait .. ' 'type \e[A\e[A\001' 'type print("first") \n' \
    'wait .. ' 'type \e[B\e[B\e[B\005end\n' 'wait first'
  shows "Up moves within a chunk" first
  rm -rf state
  session 'type for i = 1, 2 do\n' 'wait .. ' 'type local t = {1,\n' 'wait .. ' 'type 2}\n' 'wait .. ' 'type if i == 2 then\n' 'wait .. ' \
    'type print(#t + 5)\n' 'wait .. ' 'type end\n' 'wait .. ' 'type end\n' 'wait 7'
  is "lines of a chunk stand as far in as their blocks" "$(grep -v '^#' state/rille/history | head -7)" "$(printf '%s\n' \
    'for i = 1, 2 do' '  local t = {1,' '    2}' '  if i == 2 then' '    print(#t + 5)' '  end' end)"
  session 'type \e[200~rille> 1 + 2\n3\nrille> for i = 1, 2 do\n    .. print(i + 40)\n    .. end\n41\e[201~\n' 'wait 42'
  ok "a transcript with our prompts runs" grep -qx 42 seen
  session 'type \e[200~>>> 30 + 3\e[201~\n' 'wait 33'
  ok "and one with Python's" grep -qx 33 seen
fi
session 'type kill = os.execute("kill -TERM $PPID")\n' 'wait nothing'
is "SIGTERM ends the shell" "$code" 143
# remembers NAME TEXT: the history has it; libedit writes \040 for a space, and plain lines have no history.
remembers() {
  if [ "$editor" = none ]; then skip "$1" "without an editor there is no history"
  else ok "$1" grep -qF -e "$2" <(sed 's/\\040/ /g' state/rille/history); fi
}
remembers "and keeps the history" 'kill = os.execute'

# closed COMMAND STEP...: types, then closes the terminal.
closed() {
  local program=("$rille" $1); shift
  printf '%s\n' 'wait rille> ' "$@" hangup | perl "$pty" "${program[@]}" --no-init --color never >seen 2>&1
  code=$?
}
gone() { for _ in {1..100}; do kill -0 $(cat pids) 2>/dev/null || return 0; sleep 0.1; done; return 1; }
closed "-d cpu:2" 'type before = 1\n' 'wait rille> ' 'type half'
is "a closed terminal ends the shell" "$code" 129
remembers "and keeps the history" 'before = 1'
closed "-d cpu:2" "type $spin -- mine\\n" 'wait spinning'
is "also while something runs" "$code" 129
remembers "with it in the history" '-- mine'
closed "-d cpu:2" "type $endless -- deaf\\n" 'wait endless' pause
is "or would run for ever and hear nothing" "$code" 129
remembers "which is in the history, too" '-- deaf'
closed "launch -n 2 -d cpu:1" 'type os.execute("cat /proc/$PPID/task/*/children >pids");\n' 'wait rille> ' "type $spin\\n" 'wait spinning'
is "with workers too" "$code" 129
ok "which there were" [ "$(wc -w <pids)" -ge 3 ]
ok "and which end" gone
# ---- bad input: a clear reaction, nothing lost

TERM=dumb color=auto session 'type 20 + 1\n' 'wait 21' 'type error("plain")\n' 'wait plain'
ok "a terminal that cannot move its cursor is one of lines" grep -qx 21 seen
ok "and of no colours" bash -c '! grep -q $'"'\\e'"' seen'
NO_COLOR=1 color=auto session 'type error("plain")\n' 'wait plain'
ok "NO_COLOR is obeyed" bash -c '! grep -q $'"'\\e\\[3'"' seen'
session 'type y = "\347\214\253\347\214\253" #y\n' prompt 'type #("\377\376")\n' prompt
ok "wide letters are letters, and bytes that are none are bytes" [ "$(grep -cxE '6|2' seen)" = 2 ]
session 'type rille.nosuch\347\214\253\n' prompt 'type "al" .. "ive"\n' prompt
ok "a name of them is an error" grep -qx alive seen
for color in always never; do
  session 'type x = "some words, more than fit into a line' 'columns 20' 'columns 1' 'columns 3' 'columns 200' 'type "; #x\n' 'wait 37'
  ok "what is typed survives a window that changes its size, --color $color" grep -qx 37 seen
done
color=never
PTY_COLUMNS=1 session 'type for i = 1, 2 do\n' 'wait ..' 'type print(i + 40) end\n' 'wait 42' 'type :whos\n' 'wait no variables'
ok "one column is enough" grep -qx 42 seen
if [ "$editor" != none ]; then
  for what in bytes folder pipe full; do
    rm -rf state/rille/history
    case $what in
      bytes) printf '#1\n\033[31mevil\a\377\0\n#x\n%s' "$(head -c 9000 /dev/urandom | tr -d '\0')" >state/rille/history ;;
      folder) mkdir state/rille/history ;;
      pipe) mkfifo state/rille/history ;;
      full) ln -s /dev/full state/rille/history ;;
    esac
    session 'type \e[A\e[A\003' prompt 'type "al" .. "ive"\n' 'within 20 alive' 'within 20 rille> '
    ok "a history of $what hinders nobody" grep -qx alive seen
  done
  rm -rf state/rille/history
fi
color=auto session 'type error("red")\n' 'wait red'
ok "errors are red on a terminal" grep -q $'\e\\[31m' seen
color=never session 'type error("red")\n' 'wait red'
ok "and plain with --color never" bash -c '! grep -q $'"'\e\\\\[31m'"' seen'
timeout 20 "$rille" --no-init -i -e 'x = 4' <<<$'x + 1\n' >seen 2>&1
shows "-i is the shell after the chunks, without a terminal too" 5

finish
