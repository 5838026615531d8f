#!/bin/bash
# cli.sh path/to/rille - tests the program's options, init file, environment variables and exit codes. Prints TAP.
rille=$(realpath "$1")
. t/lib/tap.sh
cd "$dir" || exit 2
export HOME=$dir XDG_CONFIG_HOME=$dir/config
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_CHECK RILLE_THREADS LUA_INIT LUA_INIT_5_4

go() { timeout $hang "$rille" "$@" >out 2>err </dev/null; code=$?; stdout=$(cat out); stderr=$(cat err); }
tell() { echo "exit $code; stdout: $stdout; stderr: $stderr"; }
has() { ok "$1" grep -qF -e "$3" <<<"$2"; }

# ---- order of chunks, modules and scripts

echo 'print("script", x, ...)' >script.lua
echo 'return "module"' >mod.lua
go -e 'x = 1' -l mod -e 'x = mod' script.lua a b
is "chunks and modules run in the order in which they are given, then the script" "$stdout" $'script\tmodule\ta\tb'
go -l other=mod -e 'print(other, mod)'
is "-l NAME=MOD loads a module under another name" "$stdout" $'module\tnil'
go -E '1, nil, "two"'
is "-E prints all values of the list" "$stdout" $'1\tnil\ttwo'
go -E ''
is "-E of nothing prints an empty line, for it has no values" "$code:$stdout" "0:"
go -e 'print(arg[0] ~= nil, arg[1])'
is "without a script arg[0] is the program, as in lua(1)" "$stdout" $'true\t-e'
go script.lua -- -i
is "arguments after the script are the script's, with dashes, too" "$stdout" $'script\tnil\t--\t-i'
timeout $hang "$rille" - <<<'print("from stdin", #arg)' >out 2>err; code=$?; stdout=$(cat out)
is "- is stdin as a script" "$code:$stdout" $'0:from stdin\t0'
printf '#!/usr/bin/env rille\nprint("with a first line for the system")\n' >sharp.lua
go sharp.lua
has "a script may begin with #!" "$stdout" "first line"

# ---- init file

mkdir -p config/rille
echo 'from_init = 7' >config/rille/init.lua
go -e 'print(from_init)'
is "the init file runs first" "$stdout" 7
go --no-init -e 'print(from_init)'
is "--no-init skips the init file" "$stdout" nil
LUA_INIT='print("LUA_INIT")' go -e 'print(1)'
is "LUA_INIT is not used" "$stdout" 1
echo 'error("broken init")' >config/rille/init.lua
go -e 'print(1)'
is "an error in the init file exits 1" "$code:$stdout" "1:"
has "the error names the line of the init file" "$stderr" "init.lua:1"
rm config/rille/init.lua

# ---- errors and exit codes

go -e 'local function f() error("deep") end f()'
has "an error has a traceback" "$stderr" "stack traceback"
go -e 'error(setmetatable({}, {__tostring = function() return "an object" end}))'
is "an error object exits 1" "$code" 1
has "an error object prints by its __tostring" "$stderr" "an object"
go -e 'os.exit(false)'
is "os.exit(false) is 1" "$code" 1
go -e 'os.exit(5, true)'
is "os.exit may close the state" "$code" 5
for what in "launch -n" "coordinator --bind" "worker --join"; do
  read -r word option <<<"$what"
  go "$word"
  is "$word without $option is an error of usage" "$code" 2
  has "$word: the message says what is missing" "$stderr" "$option"
done
for rank in -1:2 0:1 255:1 256:1 1023:1 1024:2 x:2; do
  go worker --join tcp://127.0.0.1:1 --wait 1 --rank "${rank%:*}"
  is "rank ${rank%:*} exits ${rank#*:}, as a world has at most 1,024 workers" "$code" "${rank#*:}"
done
for address in ipc:///tmp/rille-x/control ipc:///x; do
  go coordinator --bind "$address" --world 1 -e ''
  is "$address is refused as an address" "$code" 2
  has "$address: the message says which addresses are valid" "$stderr" "expected tcp://HOST:PORT"
done
for options in "-d" "-l" "-E" "--devices" "--color" "--color=blue" "--versio=1" "-x"; do
  go $options
  is "$options alone is an error of usage" "$code:$stdout" "2:"
done
# Command lines with misspelt words, and a part of each expected message.
while IFS='|' read -r words want; do
  go $words
  is "rille $words is an error of usage" "$code:$stdout" 2:
  has "rille $words: the message names a remedy" "$stderr" "$want"
done <<'ROWS'
doctor|cannot open doctor: No such file or directory; the nearest command is rille --doctor
help|the nearest command is rille --help
version|the nearest command is rille --version
lanch -n 2|the nearest command is rille launch
-d cpu:1 launch -n 2|the command must come before the options: rille launch
train|expected a script or a command: launch, coordinator, worker, keys, attach, status, serve or verify
--calibate|unknown option --calibate; the nearest is --calibrate
--foo|unknown option --foo
--version=1|--version=1 accepts no argument
launch --foo|unknown option --foo
launch -n 2 --hostfil x|unknown option --hostfil; the nearest is --hostfile
launch -n 2 --collor never|unknown option --collor; the nearest is --color
launch -n 2 doctor|the nearest command is rille --doctor
launch -n 2 --join tcp://a:1|launch: expected one of the options
worker --join tcp://127.0.0.1:1 script.lua|worker: expected only options, found script.lua
worker --join tcp://127.0.0.1:1 --metrics 9400|worker: expected only options of rille launch --help, found --metrics
verify|verify: expected the name of one file
ROWS
go folder/no.lua
is "a script that does not exist is an error" "$code:$stdout" 1:
has "the message names the script" "$stderr" "cannot open folder/no.lua: No such file or directory"
for words in "" launch; do
  go $words --help
  is "rille $words --help has lines of at most 100 columns" "$code:$(awk 'length > 100' out)" 0:
done

for devices in late:2 cpu:1,late:2 async:2; do
  go -d "$devices" -e 'print(rille.placement("async", {1}))'
  is "$devices: the devices have kind async" "$code:$stdout" "0:async[1]"
  is "$devices: the old name gives a warning" "$(grep -c 'late.*renamed to.*async' <<<"$stderr")" "$(grep -c late <<<"$devices")"
done
go -d async:2 -e 'print(rille.placement("late", {0}))'
is "a placement of the old name works" "$code:$stdout" "0:async[0]"
has "a placement of the old name gives a warning" "$stderr" '"late" will be an error in the next release'
for devices in "cpu:0" "cpu:x" "cpu:2,,cpu:3" "gpu" "cpu:-1" ":4" "cpu:2,cpu:3" "cuda:all"; do
  go -d "$devices" -e 'print(1)'
  is "-d $devices is an error of usage" "$code:$stdout" "2:"
done
for pair in RILLE_SEED=x RILLE_THREADS=-1 RILLE_THREADS=x RILLE_CHECK=all RILLE_BUS=x RILLE_TRANSPORT=x RILLE_DEVICES=x \
  RILLE_COST=none RILLE_LUA_DIR=none; do
  export "$pair"; go -e 'print(1)'; unset "${pair%%=*}"
  is "$pair is an error of usage" "$code" 2
  has "$pair: the message names the variable" "$stderr" "${pair%%=*}"
done

# ---- Ctrl-C without a terminal

interrupt() { # interrupt CHUNK: runs the chunk and sends SIGINT shortly after it has begun
  rm -f begun
  timeout -s KILL $hang bash -c 'trap "" INT; set -m; "$0" "$@" >out 2>err & p=$!
    until [ -e begun ]; do sleep 0.1; done
    sleep 0.3; kill -INT $p; wait $p' "$rille" -e "io.open('begun', 'w'):close() $1" 2>/dev/null
  code=$?; stdout=$(cat out); stderr=$(cat err)
}
interrupt 'while true do end'
is "an interrupted loop exits 130" "$code" 130
has "an interrupted loop reports the interrupt" "$stderr" interrupted
interrupt 'local co = coroutine.wrap(function() while true do end end) co()'
is "an interrupted loop in a coroutine exits 130" "$code" 130
interrupt 'coroutine.resume(coroutine.create(function() local x <close> = setmetatable({}, {__close = function() print("closed") end}) while true do end end)) error("stop")'
is "an interrupted loop in a resumed coroutine exits 130" "$code" 130
interrupt 'local t <close> = setmetatable({}, {__close = function() print("closed") end}) while true do end'
is "an interrupt closes to-be-closed variables" "$stdout" closed
# presses N CHUNK: runs the chunk and sends SIGINT N times, each time after another call of begin().
presses() {
  rm -f begun*
  timeout -s KILL $hang bash -c 'trap "" INT; set -m; n=$1; shift; "$0" --no-init -d cpu:1 -e "$@" >out 2>err & p=$!
    for ((k = 1; k <= n; k++)); do until [ -e begun$k ]; do sleep 0.1; done; kill -INT $p; done
    wait $p' "$rille" "$1" "local k = 0; local function begin() k = k + 1 io.open('begun' .. k, 'w'):close() end $2" 2>/dev/null
  code=$?; stdout=$(cat out); stderr=$(cat err)
}
catch='local function spin() begin() while true do end end
  for k = 1, 9 do print((select(2, pcall(spin)):gsub(".*: ", ""))) if k == 2 then break end end print("end")'
presses 2 "$catch"
is "a script may catch the first and the second interrupt" "$code:$stdout" $'0:interrupted\ninterrupted\nend'
presses 3 "${catch/k == 2/k == 4}"
is "the third interrupt ends the script" "$code" 130

# ---- hostile input

go -d $'cpu:2\e[31mX'
has "control characters of an option are escaped in messages" "$stderr" '\27[31mX'
go $'no\esuch.lua'
has "control characters of a file name are escaped in messages" "$stderr" 'no\27such.lua'
ok "no control character reaches the terminal" bash -c '! grep -q $'"'\\e'"' err'
if command -v luac5.4 >/dev/null; then
  echo 'print(1)' >plain.lua; luac5.4 -o plain.luac plain.lua
  go plain.luac
  is "a binary chunk is refused" "$code" 1
fi
cat >bytes.lua <<'EOF2'
local f = assert(io.open("dumped.lua", "wb"))
f:write(string.dump(function() return 1 end)) f:close()
local function refused(good, err) return not good and err:find("attempt to load a binary chunk") ~= nil end
print(refused(load(string.dump(print and function() end))), refused(load(string.dump(function() end), "x", "b")),
  refused(loadfile("dumped.lua")), refused(pcall(dofile, "dumped.lua")), refused(pcall(require, "dumped")))
f = assert(io.open("whole.lua", "w"))
f:write("return ...") f:close()
print(load("return ...")(2), load(function() end), loadfile("whole.lua", nil, {})(3), dofile("whole.lua"), require("whole"))
print(select("#", load("return 1", "=x", "t", nil)), coroutine.wrap(function() return dofile("yields.lua") end)())
EOF2
echo 'return coroutine.yield(5)' >yields.lua
go bytes.lua
is "load, loadfile, dofile and require refuse binary chunks" "$(sed -n 1p <<<"$stdout")" $'true\ttrue\ttrue\ttrue\ttrue'
ok "load, loadfile, dofile and require run text like Lua's own" grep -qE $'^2\tfunction: [^\t]*\t3\tnil\twhole\t./whole.lua$' <<<"$stdout"
is "dofile works if the file yields" "$(sed -n 3p <<<"$stdout")" $'1\t5'
mkdir -p config/rille
init() { # init BYTES...: writes the bytes to an init file and runs the program
  printf "$1" >config/rille/init.lua
  go -d cpu:1 -e 'print(1)'
}
init 'error("boom")'
is "an error in the init file names its line" "$code:$(grep -c 'init.lua:1: boom' err)" 1:1
init '\033Lua\0\377'
is "a binary init file is refused" "$code:$(grep -c init.lua err)" 1:1
init 'print = nil; setmetatable(_G, {__index = function() error("no") end}); rille.full = nil'
is "an init file that removes globals affects -e" "$code:$(grep -c 'init.lua:1: no' err)" 1:1
go -d cpu:1 -E 1
is "an init file that removes globals affects -E" "$code:$(grep -c 'call a nil value' err)" 1:1
go -d cpu:1 -l x=io -e 'assert(x == io)'
is "-l works without these globals" "$code:$stderr" 0:
go -d cpu:1 -i
is "the shell works without these globals" "$code" 0
rm config/rille/init.lua
"$rille" --no-init -d cpu:1 -e 'print(1)' >/dev/full 2>err
is "failed output exits 1" "$?" 1
ok "failed output is reported" grep -q 'could not be written: No space left' err
"$rille" --no-init -d cpu:1 -E 1 >&- 2>err
is "closed output exits 1 and is reported" "$?:$(grep -c 'could not be written' err)" 1:1
"$rille" --no-init -d cpu:1 -e 'x = io.read()' <&- >out 2>err
is "closed input reads as empty" "$?:$(cat out err)" 0:
finish
