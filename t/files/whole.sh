#!/bin/bash
# whole.sh path/to/rille - tests writes of a text file (picture, curve, trace). A write must replace the old file
# completely, or, on an error, leave it unchanged. TAP.
rille=$(realpath "$1")
. t/lib/tap.sh
cd "$dir" || exit 1

cat >writers.lua <<'LUA'
local step = rille.graph(function(a) return a * 2 end)
local y = step(rille.ones({2}))
step:trace("warm.json") -- from here on the step records its acts
y = step(rille.ones({2})):totable()
local writers = {
  plot = function(path) rille.plot(path, {loss = {3, 2, 1}}) end,
  show = function(path) rille.ones({4}):show(path) end,
  trace = function(path) step:trace(path) end,
}
local what, path = arg[1], arg[2]
local good, why = pcall(writers[what], path)
print(good and "written" or why)
LUA
for what in plot show trace; do
  rm -f x.svg
  echo old >x.svg
  chmod 640 x.svg
  got=$("$rille" writers.lua $what x.svg)
  is "$what: the file has the new text and keeps its mode" "$got $(grep -c old x.svg) $(stat -c %a x.svg) $(ls x.svg*)" "written 0 640 x.svg"
  echo old >x.svg
  got=$(ulimit -f 0 && "$rille" writers.lua $what x.svg 2>&1 | cat)
  is "$what: without free space the old text stays, and the program continues" "$(grep -o 'could not be written completely: File too large' <<<"$got") $(cat x.svg) $(ls x.svg*)" \
    "could not be written completely: File too large old x.svg"
  ln -sf x.svg link.svg
  "$rille" writers.lua $what link.svg >/dev/null
  ok "$what: a link stays a link, and its target has the new text" [ -L link.svg -a "$(head -c 3 x.svg)" != old ]
  rm -f link.svg x.svg
done
if [ "$(id -u)" = 0 ]; then
  skip "a read-only file is not replaced" "root may write any"
else
  echo old >x.svg
  chmod 444 x.svg
  "$rille" writers.lua show x.svg >said
  ok "a read-only file is not replaced" grep -q 'cannot be written: Permission denied' said
  is "the read-only file keeps its text" "$(cat x.svg)" old
  rm -f x.svg
fi
mkfifo pipe.svg
timeout $hang cat pipe.svg >came &
timeout $hang "$rille" writers.lua show pipe.svg >/dev/null
wait
ok "a pipe is written, not replaced" grep -q '</svg>' came
finish
