#!/bin/bash
# repl.sh path/to/rille - tests the prompt on a terminal, including everything that depends on the line editor. Prints TAP.
rille=$(realpath "$1")
. t/lib/terminal.sh

answer '6 * 7'
is "an expression is printed" "$got" 42
is ":quit ends the shell with 0" "$code" 0
prints "a trailing ; suppresses output" "" '6 * 7;'
prints "_ has the value after a trailing ;" 43 '6 * 7;' '_ + 1'
prints "all values but nil are printed" $'1\na' '1, nil, "a"'
prints "an assignment prints nothing and persists" 5 'x = 5' 'x'
answer 'rille.nn.Linear("x")'
ok "an error in an expression names its line" grep -q '^shell:1:1: ' <<<"$got"
answer 'k = 2; rille.nn.Linear("x") -- no size'
ok "an error after another statement names its line" grep -q '^shell:1:1: ' <<<"$got"
prints "tables print their content" '{1, 2, {a = "b"}}' '{1, 2, {a = "b"}}'
prints "a string in a table prints as a Lua literal, with control characters escaped" '{"A\0B\0271\n\200\"\\"}' '{string.char(65, 0, 66, 27, 49, 10, 200, 34, 92)}'
prints "a function of Rille prints its signature" $'matmul(a, b)\n{rille.nn.Linear(in, out, {bias = true})}' 'rille.matmul, {rille.nn.Linear}'
prints "a user-defined class prints its name" 'class Net' 'C = rille.nn.Module:extend("Net"); C'
answer 'rille'
ok "the module prints a short form" grep -qx 'rille 0.*; rille.help() lists its names.*' <<<"$got"
prints "an error that is a table prints its content" '(the error is {code = 1})' 'error({code = 1})'

for terms in 2 62 63 64; do # evaluates expressions with these numbers of terms
  answer "a = 1; $(printf '1+%.0s' $(seq 2 $terms))1"
  is "the value of $terms terms after a statement is printed" "$got" $terms
done

answer 'local t = os.clock() while os.clock() < t + 0.6 do end'
ok "a slow line prints its time" grep -qE '^ +[0-9]+\.[0-9]+ s$' <<<"$got"

answer 'do local r <close> = rille end' ':devices' 'rille.ones{1}' '"al" .. "ive"'
shows "using the session after closing it is an error" 'shell:3:1: the session was closed'
is "the prompt works after the session was closed" "$got" alive

# ---- locals stay

prints "a local persists on the next line" 6 'local x = 5' 'x + 1'
prints "a local statement may have several names, attributes and missing values" $'1\n2' 'local a, b <const>, c = 1, 2' 'a, b, c'
prints "a local function can call itself" 120 'local function f(k) return k == 0 and 1 or k * f(k - 1) end' 'f(5)'
prints "a function of one line and the next line share a local" 2 'local k = 0; local function inc() k = k + 1 end' 'inc()' 'inc()' 'k'
prints "a local hides a global only from typed lines" 5 'local print = 5' 'rille.help("item")' 'print'
prints "a local without a value hides a global" true 'y = 7' 'local y' 'y == nil'
prints "assigning the local leaves the global unchanged" $'7\n8' 'y = 7' 'local y' 'y = 8' '_G.y, y'
prints "the value of a local is computed before the name is visible" 3 'y = nil' 'local y = y or 3' 'y'
prints "a local of a block stays in its block" "shell:2:1: unknown global 'inner'" 'do local inner = 1 end' 'inner'
prints "a local function of a block stays in its block" "shell:2:1: unknown global 'hidden'" 'if true then local function hidden() end end' 'hidden'
prints "'local' in strings and comments is ignored" 'local z = 1' 'z, w = nil' 'local s = "local z = 1" -- local w = 2' 's, z, w'
prints "'local' inside a name is ignored" $'1\n2' 'local t = {local_ = 1, [ [[local q]] ] = 2}' 't.local_, t["local q"]'
prints "a local after a loop persists" 9 'for i = 1, 1 do local v = i end local after = 9' 'after'
prints "a local after repeat persists" 10 'repeat local r = 1 until r == 1 local after = 10' 'after'

answer 'getmetatable(_ENV).__index(print, "losss")'
shows "calling the environment's metamethods with a wrong self is an error" 'table expected, got function'
answer 'x = nil' 'local x' 'getmetatable(_ENV).__newindex(print, "x", 1)'
shows "setting a local through them with a wrong self is an error" 'table expected, got function'

# ---- many lines

prints "a chunk may have many lines" $'1\n2' 'for i = 1, 2 do' 'print(i)' 'end'
prints "an expression may have many lines" '{1, 2}' '{1,' '2}'
prints "an expression may break after an operator" 3 '1 +' '2'
prints "a long string may have many lines" 9 'local text = [[' 'two lines]]' '#text'
answer 'x = = 1'
ok "an error of syntax does not wait for more" grep -q "near '='" seen

# ---- printed values, names

prints "the last expression of a line is printed" 21 'a = 20; a + 1'
prints "the value of a call after statements is printed" 3 'a = 2 b = 3; math.max(a, b)'
prints "a returned value is printed" 5 'return 5'
prints "several values returned after statements are printed" $'2\n-2' 'a = 2 return a, -a'
prints "a value returned from a block is printed" 7 'do return 7 end'
prints "an argument list is not evaluated as an expression" 5 'f = function(x) return x end' 'local t = f (5)' 't'
prints "a call without results prints nothing" $'1\n2\ndone' 'for i = 1, 2 do print(i) end print("done")'
answer 'x = "abc'
shows "an open quote is an error at once" 'unfinished string'
answer 'lossss = 1; loss = 2' 'losss'
shows "an undefined global is an error that suggests the nearest name" "unknown global 'losss'; the nearest name is 'loss'"
answer 'torch'
shows "a global of another framework suggests Rille's name" "unknown global 'torch'; write rille"
answer 'rille.ones({2}).size'
shows "a field of another framework suggests Rille's form" "no field or method 'size': write x.shape"
prints "a global that was set to nil may be read" true 'y = nil' 'y == nil'
echo 'return missing == nil' >mod.lua
prints "scripts may read undefined globals" true 'dofile("mod.lua")'
if share; then
  answer 'function r() return 1 + r() end' 'r()'
  ok "an endless recursion prints a short traceback" bash -c '[ "$(grep -c "in function" seen)" -lt 20 ]'
  shows "the traceback counts repeated lines" 'times more'
fi

# Types incomplete chunks: the prompt waits for more input.
prints "a comparison that continues on the next line gets no hint about assignments" $'false\ttrue\ttrue\ttrue\ton' 'print(1 == 2, 2 <= 3, 2 ~= 3, 3 >= 2,' '"on")'
prints "a value that begins with # gets no hint about comments" 2 'y = {a = 1,' 'b = #"xyz"}' '#{y.b,' 'y["a"]}'
answer 'function root(x) local sqrt = math.sqrt; if x < 0 then return sqrt end' 'local exp = sqrt' 'return exp(x) end' 'root(4)'
is "a local named like a Python keyword gets no hint" "$got" 2.0
ok "-e gives hints about other languages" bash -c '"$1" -e "x += 1" 2>&1 | grep -F "syntax error near '"'+'"'; write x = x + 1"' - "$rille"
prints "a line that ends in a colon is not continued" 42 'for i in range(3):' '6 * 7'

# ---- errors keep the session alive

answer 'error("boom")' '1 + 1'
shows "an error is shown" boom
is "after an error the session continues" "$got" 2
answer 'local function inner() error("deep") end' 'function outer() inner() return 1 end' 'outer()' '2'
shows "the traceback shows the functions" "in function 'outer'"
prints "an error while printing is reported" 3 'setmetatable({}, {__tostring = function() error("in tostring") end})' '3'

# ---- the end of input, Ctrl-C

session 'type for i = 1, 2 do\n' 'wait .. ' 'type \004' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-D in an incomplete chunk discards the chunk" alive
session 'type 1 + 1\n' 'wait rille> ' 'type \004'
is "Ctrl-D ends the shell with 0" "$code" 0
printf '%s\n' '6 * 7' '{1,' | timeout $hang "$rille" --no-init -i -e '' >seen 2>&1
is "the end of a pipe ends the shell with 0, in an incomplete chunk, too" "$?" 0
session "type $spin\\n" 'wait spinning' 'type \003' 'wait interrupted' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C stops a loop, and the session continues" alive
session 'type half' 'wait half' 'type \003' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C at the prompt clears the line" alive
session 'type for i = 1, 2 do\n' 'wait .. ' 'type \003' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C discards an incomplete chunk" alive

# ---- history, completion, colour

editor=$("$rille" --no-init -i <<<':doctor' 2>/dev/null | sed -nE 's/.*line editor  *([a-z]+).*/\1/p')
if [ "$editor" = readline ]; then
  answer 'first = 1' 'for i = 1, 1 do' 'print("many " .. "lines")' 'end'
  session 'type \e[A\e[A\n' 'wait many lines'
  is "a chunk of many lines is one entry of the next session's history" "$(grep -c '^many lines' seen)" 1
  session 'type rille.placem\t' 'wait placement' 'type ("cpu", {0, 1}).size\n' 'wait 2'
  shows "Tab completes a field" 'rille.placement("cpu", {0, 1}).size'
  session 'type x = rille.ones({2})\n' 'type x:totab\t' 'wait totable' 'type ()\n' 'wait {1'
  shows "Tab completes a method of a tensor" 'x:totable()'
  session 'type longname = 41\n' 'type longn\t + 1\n' 'wait 42'
  shows "Tab completes a global" 42
  session 'type :doc\t\n' 'wait line editor'
  shows "Tab completes a command" "line editor"
fi
if [ "$editor" = readline ]; then
  session 'type x = rille.ones({2})\n' prompt 'type x:matm\t' 'wait matmul' 'type (x\003' prompt 'type x:ma\t' 'wait max_pool2d     maximum' 'wait x:ma' \
    'type \003' prompt 'type rille.placement("c\t' 'wait cuda' 'type u"\t\003' prompt 'type x:softmax{ax\t' 'wait axis = ' 'type 0}\n' 'wait 0.5'
  shows "Tab lists completions" 'matmul         max            max_pool2d     maximum'
  shows "Tab completes options" 'x:softmax{axis = 0}'
  color=always session 'type x = rille.ones({2})\n' 'wait rille> ' 'type x:softmax(' 'wait axis = -1)' 'type 0):sum():item() + 1\n' 'wait 2.0'
  shows "a hint shows the arguments of a call while it is typed" $'\e[2m  (axis = -1)'
  shows "the session gets only the typed text, not the hint" '2.0'
  color=always session 'type local t = 1 -- one\n' 'wait rille> ' 'type "a" .. t\n' 'wait a1'
  shows "keywords are coloured" $'\e[35mlocal\e[m'
  shows "comments are coloured" $'\e[2m-- one\e[m'
  color=always session 'type for i = 1, 2 do\n' 'wait .. ' 'type print(i + 5)\n' 'wait .. ' 'type \e[A\e[A\001' 'type print("first") \n' \
    'wait .. ' 'type \e[B\e[B\e[B\005end\n' 'wait 6'
  ok "a coloured chunk may have many lines" grep -qx first seen
  color=always session 'type half' 'wait half' 'type \003' 'wait ^C' 'wait rille> ' 'type \022' 'wait reverse-i-search' \
    'type prin' 'type \007' 'wait rille> ' 'type \003' 'wait ^C' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
  ok "the prompt works after Ctrl-C and a search" grep -qx alive seen
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
  ok "entries of another shell are seen" grep -qx 10 seen
  session 'type for i = 1, 2 do\n' 'wait .. ' 'type print(i + 5)\n' 'wait .. ' 'type \e[A\e[A\001' 'type print("first") \n' \
    'wait .. ' 'type \e[B\e[B\e[B\005end\n' 'wait first'
  shows "Up moves within a chunk" first
  rm -rf state
  session 'type for i = 1, 2 do\n' 'wait .. ' 'type local t = {1,\n' 'wait .. ' 'type 2}\n' 'wait .. ' 'type if i == 2 then\n' 'wait .. ' \
    'type print(#t + 5)\n' 'wait .. ' 'type end\n' 'wait .. ' 'type end\n' 'wait 7'
  is "lines of a chunk are indented by their blocks" "$(grep -v '^#' state/rille/history | head -7)" "$(printf '%s\n' \
    'for i = 1, 2 do' '  local t = {1,' '    2}' '  if i == 2 then' '    print(#t + 5)' '  end' end)"
  session 'type \e[200~rille> 1 + 2\n3\nrille> for i = 1, 2 do\n    .. print(i + 40)\n    .. end\n41\e[201~\n' 'wait 42'
  ok "a pasted transcript with Rille's prompts runs" grep -qx 42 seen
  session 'type \e[200~>>> 30 + 3\e[201~\n' 'wait 33'
  ok "a pasted transcript with Python's prompts runs" grep -qx 33 seen
fi
session 'type kill = os.execute("kill -TERM $PPID")\n' 'wait nothing'
is "SIGTERM ends the shell" "$code" 143
# remembers NAME TEXT: checks that the history contains the text. (libedit writes \040 for a space.) Skips the check
# without an editor, because there is no history then.
remembers() {
  if [ "$editor" = none ]; then skip "$1" "without an editor there is no history"
  else ok "$1" grep -qF -e "$2" <(sed 's/\\040/ /g' state/rille/history); fi
}
remembers "and keeps the history" 'kill = os.execute'

# closed COMMAND STEP...: runs the steps, then closes the terminal.
closed() {
  local program=("$rille" $1); shift
  printf '%s\n' 'wait rille> ' "$@" hangup | perl "$pty" "${program[@]}" --no-init --color never >seen 2>&1
  code=$?
}
gone() { for _ in {1..100}; do kill -0 $(cat pids) 2>/dev/null || return 0; sleep 0.1; done; return 1; }
if share; then
  closed "-d cpu:2" 'type before = 1\n' 'wait rille> ' 'type half'
  is "a closed terminal ends the shell" "$code" 129
  remembers "and keeps the history" 'before = 1'
fi
if share; then
  closed "-d cpu:2" "type $spin -- mine\\n" 'wait spinning'
  is "a closed terminal ends the shell during a loop" "$code" 129
  remembers "with it in the history" '-- mine'
fi
if share; then
  closed "-d cpu:2" "type $endless -- deaf\\n" 'wait endless' pause
  is "a closed terminal ends the shell during an uninterruptible call" "$code" 129
  remembers "which is in the history, too" '-- deaf'
fi
if share; then
  closed "launch -n 2 -d cpu:1" 'type os.execute("cat /proc/$PPID/task/*/children >pids");\n' 'wait rille> ' "type $spin\\n" 'wait spinning'
  is "a closed terminal ends the shell with workers" "$code" 129
  ok "the shell had workers" [ "$(wc -w <pids)" -ge 3 ]
  ok "the workers end" gone
fi
# ---- bad input

TERM=dumb color=auto session 'type 20 + 1\n' 'wait 21' 'type error("plain")\n' 'wait plain'
ok "a terminal that cannot move its cursor works line by line" grep -qx 21 seen
ok "such a terminal gets no colours" bash -c '! grep -q $'"'\\e'"' seen'
NO_COLOR=1 color=auto session 'type error("plain")\n' 'wait plain'
ok "NO_COLOR is obeyed" bash -c '! grep -q $'"'\\e\\[3'"' seen'
session 'type y = "\347\214\253\347\214\253" #y\n' prompt 'type #("\377\376")\n' prompt
ok "wide characters and invalid bytes in strings are kept" [ "$(grep -cxE '6|2' seen)" = 2 ]
session 'type rille.nosuch\347\214\253\n' prompt 'type "al" .. "ive"\n' prompt
ok "a name with such characters is an error" grep -qx alive seen
for color in always never; do
  session 'type x = "some words, more than fit into a line' 'columns 20' 'columns 1' 'columns 3' 'columns 200' 'type "; #x\n' 'wait 37'
  ok "typed text survives a change of the window size, --color $color" grep -qx 37 seen
done
color=never
PTY_COLUMNS=1 session 'type for i = 1, 2 do\n' 'wait ..' 'type print(i + 40) end\n' 'wait 42' 'type :whos\n' 'wait variables'
ok "the shell works in one column" grep -qx 42 seen
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
    ok "the shell works with a history of $what" grep -qx alive seen
  done
  rm -rf state/rille/history
fi
color=auto session 'type error("red")\n' 'wait red'
ok "errors are red on a terminal" grep -q $'\e\\[31m' seen
color=never session 'type error("red")\n' 'wait red'
ok "errors have no colour with --color never" bash -c '! grep -q $'"'\e\\\\[31m'"' seen'
timeout $hang "$rille" --no-init -i -e 'x = 4' <<<$'x + 1\n' >seen 2>&1
shows "-i starts the shell after the chunks, without a terminal, too" 5

finish
