#!/bin/bash
# The shell on a terminal, and all that a line editor has to do with: repl.sh path/to/rille. Prints TAP.
rille=$(realpath "$1")
. t/lib/terminal.sh

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

for terms in 2 62 63 64; do # a value begins at each number
  answer "a = 1; $(printf '1+%.0s' $(seq 2 $terms))1"
  is "of $terms terms behind a statement, the value is printed" "$got" $terms
done

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

# ---- the end of input, Ctrl-C

session 'type for i = 1, 2 do\n' 'wait .. ' 'type \004' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-D in a chunk that was begun gives the chunk up" alive
session 'type 1 + 1\n' 'wait rille> ' 'type \004'
is "Ctrl-D ends the shell with 0" "$code" 0
printf '%s\n' '6 * 7' '{1,' | timeout $hang "$rille" --no-init -i -e '' >seen 2>&1
is "so does the end of a pipe, also in a chunk that was begun" "$?" 0
session "type $spin\\n" 'wait spinning' 'type \003' 'wait interrupted' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C stops a loop, and the session goes on" alive
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
timeout $hang "$rille" --no-init -i -e 'x = 4' <<<$'x + 1\n' >seen 2>&1
shows "-i is the shell after the chunks, without a terminal too" 5

finish
