# nccl.sh - simulated NCCL for tests of several workers: four GPUs of the simulated toolkit, and an NCCL stand-in
# whose communicators connect processes. Reads processes.sh and toolkit.sh. Skips the test if NCCL's header is
# missing.
. t/lib/processes.sh
. t/lib/kernel/toolkit.sh
if [ ! -f "$headers/nccl.h" ]; then
  skip "NCCL among workers" "its header is not installed"
  finish
fi
alone=gpus=4,memory=2000000000
export FAKE_CUDA=$alone,each FAKE_CUDA_LOG=$dir/told FAKE_NCCL_BOARD=$dir/board
anew() { rm -f "$dir"/told "$dir"/board*; }
nccl() { anew; go launch --collectives nccl "$@"; }

# fails DEVICES ROWS WEIGHT MOVED: looks up rows of a table on two workers with DEVICES. Every second run fails,
# because its ids contain an invalid one. ROWS, WEIGHT: layouts of ids and table; MOVED: layout to which the result is
# moved.
fails() {
  local want chunk="local first, second = rille.placement('cuda', {0}), rille.placement('cuda', {1})
    local w = rille.ones({4, 2}):to_global{$3}
    for i = 1, 3 do
      for _, ids in ipairs{{0, 1, 2, 3}, {0, 9, 2, 3}} do
        local rows = rille.tensor(ids, {dtype = 'i64'}):to_global{$2}
        local ok, e = pcall(function() return rows:embedding(w):sum(0):to_global{$4}:sum():item() end)
        print(ok, ok and e or e:match('embedding: [^,;(]*'))
      end
    end"
  FAKE_CUDA=$alone go -d cuda:all,cpu:1 -e "$chunk"
  want=$stdout
  nccl -n 2 -d "$1,cpu:1" -e "$chunk"
  is "a run that fails on one worker ends on all, and the next is right" "$(wc -l <<<"$stdout") $stdout" "6 ${want:-nothing}"
}

# loses X MOVED: moves a tensor in layout X to layout MOVED on two workers, whose GPUs are lost at several calls.
loses() {
  local at chunk="local first, second = rille.placement('cuda', {0}), rille.placement('cuda', {1})
    local x = rille.ones({8}, {$1})
    local n, ok, e = 0
    repeat ok, e = pcall(function() return (x + n):to_global{$2}:sum():item() end) n = n + 1 until not ok or n == 50
    print(ok, tostring(e):find('can no longer use cuda devices', 1, true) ~= nil or e)
    print(rille.ones({8}, {placement = rille.placement('cpu', {0, 1}), sbp = 'S(0)'}):sum():item())"
  for at in 5 11 20; do
    FAKE_CUDA=$FAKE_CUDA,lost=$at nccl -n 2 -d cuda:0,cpu:1 -e "$chunk"
    is "workers' GPUs that are lost at call $at are an error, and cpus continue" "$code $stdout" $'0 false\ttrue\n8.0'
  done
}

# outlives WORD X MOVED: two workers move a tensor in layout X to layout MOVED in an endless loop, by the library's
# call WORD. Checks that both workers end when their controller ends.
outlives() {
  local signal word=$1 chunk="for _, w in ipairs(rille.workers()) do print(w.pid) end
    io.stdout:flush()
    local x = rille.ones({64}, {$2})
    local step = rille.graph(function(x) return x:to_global{$3}:sum() end)
    while true do step(x):item() end"
  under_way() { [ "$(wc -l <"$dir/out")" = 2 ] && [ "$(grep -c "^$word" "$dir/told")" -gt 20 ]; }
  gone() { for pid in $(cat "$dir/out"); do ! kill -0 "$pid" || return 1; done; }
  for signal in INT KILL; do
    anew
    "$rille" launch --collectives nccl -n 2 -d cuda:0,cpu:1 -e "$chunk" >"$dir/out" 2>"$dir/err" </dev/null & controller=$!
    ok "two workers communicate by $word" await under_way
    kill -$signal $controller
    wait $controller 2>/dev/null
    ok "the workers end when SIG$signal ends their controller" await gone
  done
}
