#!/bin/bash
# interrupt.sh path/to/rille - tests Ctrl-C during Lua code, Lua's library functions, and kernels. Prints TAP.
rille=$(realpath "$1")
. t/lib/terminal.sh

session "type co = coroutine.wrap(function() $spin end); co()\\n" 'wait spinning' 'type \003' 'wait interrupted' 'wait rille> ' \
  'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C stops a loop in a coroutine" alive
session "type while true do pcall(function() $spin end) end\\n" 'wait spinning' 'type \003' 'wait spinning' 'type \003' \
  'wait interrupted' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
shows "Ctrl-C twice stops a loop around pcall" alive
# Code with a kernel that sleeps. If an interrupt arrives before the kernel begins, pcall catches it, and the loop
# begins the next kernel.
slow='rille._slow_op("relu", 4); for k = 1, 9 do pcall(function() io.stderr:write("slee", "ping "); rille.ones({2}):relu():sum():item() end) end'
session "type $slow\\n" 'wait sleeping' 'type \003' 'pause' 'type \003' 'wait waiting for' 'wait rille> ' \
  'type "al" .. "ive"\n' 'wait alive'
shows "a second Ctrl-C reports the running operator" 'waiting for '
shows "after the second Ctrl-C the session continues" alive
# Sends Ctrl-C while the program waits for asynchronous devices: in a step that waits for two devices, and while the
# program frees the plan of a step with unfinished work.
for ranks in 0 0,1; do
  share || continue
  devices=async:2
  session "type f, x = rille.graph(function(x) return x:relu() end), rille.ones({2}, {placement = rille.placement('async', {$ranks})})\\n" prompt \
    'type for k = 1, 4 do f(x) end rille._slow_op("relu", 8)\n' prompt 'type io.stderr:write("slee", "ping ") f(x) f = nil collectgarbage()\n' \
    'wait sleeping' pause 'type \003' pause 'type \003' 'wait waiting for' 'wait rille> ' 'type "al" .. "ive"\n' 'wait alive'
  shows "a second Ctrl-C reports the running work of async:$ranks" "waiting for relu (shell:1:1) on async:0, which cannot be stopped at once"
  shows "after the second Ctrl-C the session continues" alive
done
unset devices
# Interrupts a single kernel call of many seconds; it must stop between two panels.
share && session 'type x = rille.ones({9000, 9000}); x:sum():item()\n' 'wait 8' prompt 'type io.stderr:write("mul", "ti") x:matmul(x):sum():item()\n' \
  'wait multi' pause 'type \003\003\003' 'within 10 interrupted' 'within 10 rille> ' 'type "al" .. "ive"\n' 'wait alive' &&
  ok "Ctrl-C stops a single large product" grep -qx alive seen
# Interrupts Lua's library functions, which call no hook while they run. The data of these functions must be unchanged
# afterwards. ASan's memcmp reads both texts completely before comparing, so the last case would take hours without
# strict_memcmp=0.
export ASAN_OPTIONS=strict_memcmp=0:$ASAN_OPTIONS
begin='keep = "a*a*a*a*a*a*a*b" io.stderr:write("beg", "un ")' many='("a"):rep(9999)'
for call in "$many:find(keep)" "$many:match(keep)" "$many:gsub(keep, '')" "$many:gsub(keep, print)" "$many:gsub('.', function() $many:find(keep) end)" \
  "$many:gsub(keep, setmetatable({}, {__index = {}}))" "table.move({}, 1, 1e15, 7)" "for _ in $many:gmatch(keep) do end" \
  '("x"):rep(5e7):find(("x"):rep(25e6) .. "y", 1, true)'; do
  share || continue
  session "type $begin return pcall(function() $call end)\n" 'wait begun' pause 'type \003' 'within 10 interrupted' 'within 10 rille> ' \
    'type keep, "al" .. "ive"\n' 'wait alive'
  ok "Ctrl-C stops $call, and no text has changed" bash -c 'grep -A1 -x "a\*a\*a\*a\*a\*a\*a\*b" seen | grep -qx alive'
done
share && session 'type list = {} for k = 1, 2e6 do list[k] = k * 7919 % 2000003 end io.stderr:write("beg", "un ") table.sort(list)\n' 'wait begun' \
  'type \003' 'within 10 interrupted' 'within 10 rille> ' 'type table.sort(list) for k = 2, #list do assert(list[k - 1] < list[k]) end\n' prompt \
  'type "al" .. "ive"\n' 'wait alive' &&
  ok "Ctrl-C stops sorting a long list, and no element is lost" bash -c 'grep -qx alive seen && ! grep -q assert.*failed seen'
share && session 'type io.stderr:write("beg", "un ") io.lines("/dev/zero")()\n' 'wait begun' pause 'type \003' 'within 10 interrupted' 'within 10 rille> ' \
  'type #("x"):rep(5e6), "al" .. "ive"\n' 'wait alive' &&
  ok "Ctrl-C stops an endless read" bash -c 'grep -A1 -x 5000000 seen | grep -qx alive'
prints "an error in a pattern has its line" "shell:1:1: malformed pattern (missing ']')" '("x"):find("[")'
prints "a pattern of a wrong type is an error with its line" "shell:1:1: bad argument #1 to 'gsub' (string expected, got function)" '("x"):gsub(print, "")'
prints "an error in a pattern of gsub with a function has its line" "shell:1:1: malformed pattern (missing ']')" '("x"):gsub("[", print)'
prints "an error in gsub's function has the function's line" "shell:1:2: mine" '("x"):gsub("x", function()' 'error("mine") end)'
prints "repeating an empty string is empty" 0 '#("").rep("", 1e15)'
prints "sorting a number is an error" "shell:1:1: bad argument #1 to 'sort' (table expected, got number)" 'table.sort(5)'
prints "string functions work as in plain Lua" '{{"a1", "b2"}, "hellllo", "heLLo", "a", 2, 2}' 'local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[#t + 1] = k .. v end' '{t, ("hello"):gsub("l", "%0%0"), ("hello"):gsub("l", {l = "L"}), ("a1"):match("(%a)(%d)", -2), ("a.b"):find(".", 1, true)}'
session "type $endless\\n" 'wait endless' pause 'type \003' pause 'type \003' "wait waiting for a function of Lua's own" 'wait ends the program' 'type \003\003\003' pause 'type \034' pause 'type \034'
shows "an uninterruptible Lua function is reported, with the way to end the program" 'cannot be stopped; Ctrl-\ ends the program'
is "Ctrl-\\ ends the program, and Ctrl-C does not" "$code" 131

finish
