#!/bin/bash
# metrics.sh path/to/rille - tests the data for monitors: --metrics, --log, and the line about the end of a
# job. Prints TAP.
rille=$(realpath "$1")
. t/lib/tap.sh
cd "$dir" || exit 2
unset RILLE_METRICS RILLE_LOG RILLE_JOB RILLE_DEVICES RILLE_TRACE
"$rille" -d cpu:1 --metrics 0 -e 'x = 1' 2>&1 | grep -q 'no HTTP server' && { skip "metrics" "built without libmicrohttpd"; finish; exit; }

tell() { cat page out told log.jsonl 2>/dev/null; }
port=$(free_port)
fetch() { # fetch PATH [METHOD]: stores the answer of the job's port in the file `page`
  exec 9<>"/dev/tcp/127.0.0.1/$port" && printf '%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' "${2:-GET}" "$1" >&9 && cat <&9 >page
  exec 9>&-
}
status() { fetch "$@" && head -1 page | grep -o ' [0-9]* ' | tr -d ' '; }
value() { sed -n "s/^rille_$1 //p" page | tr -d '\r'; } # value SAMPLE: prints the sample's value on the page
events() { grep -o '"event":"[a-z]*"' log.jsonl | cut -d'"' -f4 | uniq | tr '\n' ' '; }
field() { grep "\"event\":\"$1\"" log.jsonl | tail -1 | grep -o "\"$2\":[^,}]*" | cut -d: -f2- | tr -d '"'; }
# Succeeds if the page is valid OpenMetrics: every sample belongs to the family above it, no family occurs twice, and
# the last line is "# EOF".
well_formed() {
  sed '1,/^\r$/d' page | tr -d '\r' | awk '
    /^# TYPE / { family = $3; suffix = $4 == "counter" ? "_total" : $4 == "info" ? "_info" : ""; if (seen[family]++) exit 1; next }
    /^# HELP / { if ($3 != family) exit 1; next }
    /^# EOF$/ { ended = NR; next }
    { name = $1; sub(/\{.*/, "", name); if (name != family suffix || $NF !~ /^(-?[0-9.e+-]+|NaN|-?inf)$/) { print; exit 1 } }
    END { exit ended != NR }'
}

cat >job.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3})
local w = rille.ones({4, 8}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(x) return x:to_global{placement = P, sbp = "B"} end)
local line = rille.train.progress{total = 10, file = io.tmpfile()}
local function wait(path) -- until the test has made the file
  while true do
    local file = io.open(path)
    if file then file:close() return end
    os.execute("sleep 0.05")
  end
end
for i = 1, 10 do
  step(w):totable()
  line:update(i, 1 / i, 64)
  if i == 5 then
    rille.train.report{lr = 0 / 0}
    io.open("half", "w"):close()
    wait "seen"
  end
end
if arg[1] == "lose" then
  rille.snapshot()
  os.execute("kill -9 " .. rille.workers()[2].pid)
  local good = pcall(function() while true do step(w):totable() end end)
  io.open("lost", "w"):close()
  wait "seen lost"
  rille.recover()
  io.open("whole", "w"):close()
  wait "seen whole"
end
if arg[1] == "fail" then error("no more data") end
if arg[1] == "exit" then os.exit(7, true) end
LUA

touch seen
for want in "0 the program finished" "1 an error fail" "7 os.exit exit"; do
  set -- $want
  code=$1 how=${want#* } arg=; [ "$code" = 0 ] || { arg=${how##* } how=${how% *}; }
  rm -f log.jsonl half
  "$rille" -d cpu:4 --log log.jsonl job.lua $arg >out 2>&1
  is "exit code $code: the log has the events of the job" "$(events)" "$([ "$code" = 1 ] && echo "begin report message report end " || echo "begin report end ")"
  is "exit code $code: the end has its reason and code" "$(field end reason), $(field end code)" "$how, $code"
  is "exit code $code: the last report has the last numbers" "$(field report step) $(field report samples)" "10 640"
done
ok "without workers, the end is not printed" eval '! grep -q ended out'

rm -f log.jsonl half seen "seen lost" "seen whole"
RILLE_JOB=night "$rille" launch -n 2 -d cpu:2 --metrics "$port" --log log.jsonl job.lua lose >out 2>&1 & job=$!
ok "the job reaches its middle" await test -e half
is "a running job is alive" "$(status /healthz)" 200
is "a job with all workers is ready" "$(status /readyz)" 200
is "another page is unknown" "$(status /secret)" 404
is "only reading is allowed" "$(status /metrics POST)" 405
is "metrics are served while the program waits" "$(status /metrics)" 200
ok "the page is well-formed" well_formed
idle=()
for ((k = 0; k < 40; k++)); do exec {fd}<>"/dev/tcp/127.0.0.1/$port" && idle+=($fd); done
is "40 connections without a request do not keep a probe out" \
  "$(timeout 20 bash -c "$(declare -f fetch status); port=$port; status /healthz")" 200
for fd in "${idle[@]}"; do exec {fd}>&-; done
is "metrics are served again" "$(status /metrics)" 200
is "the runs are counted: one for the variable, one a step" "$(value runs_total)" 6
is "the bytes of moves are counted: 4 ranks receive 96 bytes in each of 5 runs" "$(value 'moved_bytes_total{move="all-gather"}')" $((5 * 4 * 96))
is "samples are added up, other numbers replaced" "$(value train_samples_total) $(value train_step) $(value train_loss)" "320 5 0.20000000000000001"
is "a report may be no number" "$(value train_lr)" NaN
is "both workers are present" "$(grep -c '^rille_worker_present{.*} 1' page)" 2
touch seen
ok "the job loses a worker" await test -e lost
is "a job without a worker is not ready" "$(status /readyz) $(tail -1 page)" "503 1 of 2 workers are absent: rank 1"
touch "seen lost"
ok "the job recovers" await test -e whole
is "a recovered job is ready" "$(status /readyz)" 200
is "the page is read again" "$(status /metrics)" 200
is "the loss and the recovery are counted" "$(value losses_total) $(value recoveries_total)" "1 1"
touch "seen whole"
wait $job
"$rille" launch -n 2 -d cpu:2 job.lua exit >told 2>&1
ok "a job with workers that fails prints how it ended" grep -Eq '^rille: job.lua ended at [0-9-]{10} [0-9:]{8} UTC after [0-9.]+ .*: os.exit, exit code 7$' told
is "the log names the job" "$(field end job)" night
is "the recovery is in the log" "$(field recovered text)" "from the last snapshot"

"$rille" -d cpu:1 --metrics "$dir/socket" -e "os.execute('ls -l socket | cut -c1-10 >mode')" 2>out
is "a Unix socket is for this user alone" "$(cat mode)" srw-------
ok "the socket is removed at the end" test ! -e socket
while read -r address why; do
  "$rille" -d cpu:1 --metrics "$address" -e 'x = 1' >out 2>&1
  is "--metrics $address: exit code" $? 2
  ok "--metrics $address: the message says why" grep -qF -e "--metrics: cannot serve at $address: $why" out
done <<'CASES'
many expected PORT (0 to 65535), HOST:PORT or a path with a slash
65536 expected PORT (0 to 65535), HOST:PORT or a path with a slash
./seen File exists
localhost:1 the host must be a numeric address, such as 127.0.0.1 or [::1]
203.0.113.1:9 Cannot assign requested address
/nowhere/socket No such file or directory
CASES
ok "--metrics leaves a file that is no socket" test -f seen
"$rille" -d cpu:1 --log /nowhere/log -e 'x = 1' >out 2>&1
is "--log: a path that cannot be opened is an error of usage" "$? $(cat out)" "2 rille: --log: cannot open /nowhere/log: No such file or directory"
"$rille" -d cpu:1 --log numbers -e 'rille.train.report{a = 0/0, b = 1/0, c = -1/0, d = 3, e = 0.5, f = 2.0^70}' >out 2>&1
for number in '"a":"NaN"' '"b":"Infinity"' '"c":"-Infinity"' '"d":3' '"e":0.5' '"f":1.1805916207174113e21'; do
  ok "the log has $number" grep -qF -e "$number" numbers
done
RILLE_LOG=/nowhere/log "$rille" -d cpu:1 -e 'x = 1' >out 2>&1
is "RILLE_LOG: the message names the variable" "$? $(cat out)" "2 rille: RILLE_LOG: cannot open /nowhere/log: No such file or directory"
RILLE_METRICS=many "$rille" -d cpu:1 -e 'x = 1' >out 2>&1
ok "RILLE_METRICS: the message names the variable" grep -qF "RILLE_METRICS: cannot serve at many: expected PORT" out
ok "a full disk is reported once" eval '"$rille" -d cpu:1 --log /dev/full -e "x = 1" 2>&1 | grep -c "the log /dev/full could not be written: No space left on device" | grep -qx 1'
finish
