#!/bin/bash
# jupyter.sh path/to/rille - tests the Jupyter kernel. jupyter.py contains the tests that need a front end; they are
# skipped if jupyter_client is missing. Prints TAP.
rille=$(realpath "$1") here=$(realpath "$(dirname "$0")")
. t/lib/tap.sh
tell() { cat "$dir/out" 2>/dev/null; }
refused() { # refused CONNECTION TEXT: the kernel rejects the connection file with exit code 2 and the text
  printf '%s' "$1" >"$dir/connection.json"
  timeout $hang "$rille" --jupyter "$dir/connection.json" >"$dir/out" 2>&1 </dev/null
  [ $? = 2 ] && grep -qF -e "$2" "$dir/out"
}

for python in python3 /usr/bin/python3; do
  "$python" -c 'import jupyter_client' 2>/dev/null && exec_python=$python && break
done
if [ -n "${exec_python:-}" ]; then
  timeout $hang "$exec_python" "$here/jupyter.py" "$rille" >"$dir/tap" 2>"$dir/errors"
  code=$?
  grep -v '^1\.\.' "$dir/tap"
  n=$(grep -cE '^(not )?ok ' "$dir/tap")
  [ $code = 0 ] || { failed=$((failed + 1)); sed 's/^/# /' "$dir/errors" | tail -20; }
  ok "jupyter.py runs to its end" [ $code = 0 ]
else
  skip "a front end" "there is no jupyter_client (Debian: python3-jupyter-client)"
fi
ok "a connection file that is no JSON is refused" refused '{"ip": ' jupyter:
ok "a connection file without ports is refused" refused '{"ip": "127.0.0.1", "transport": "tcp", "key": ""}' 'shell_port'
ok "an unknown signature scheme is refused" \
  refused '{"ip": "127.0.0.1", "transport": "tcp", "key": "k", "signature_scheme": "hmac-md5"}' hmac-md5
ports=$(for k in shell control stdin iopub hb; do printf ', "%s_port": %d' $k "$(free_port)"; done)
printf '{"ip": "127.0.0.1", "transport": "tcp", "key": ""%s}' "$ports" >"$dir/connection.json"
# few_files: for each limit of open files that is too small, the kernel exits with code 2 and prints the reason
few_files() {
  local most code
  for most in $(seq 5 80); do
    (ulimit -n $most; timeout 3 "$rille" --jupyter "$dir/connection.json" >"$dir/out" 2>&1 </dev/null)
    code=$?
    [ $code = 124 ] && return
    [ $code = 2 ] && grep -qE 'Too many open files|not be' "$dir/out" || return 1
  done
}
ok "too few descriptors are a reported error, for every limit" few_files
# few_threads: for each limit of processes that is too small, the kernel exits with code 2 and prints the reason. Each
# limit has a user without other processes, because the kernel of the system does not limit root. LeakSanitizer would need a
# thread of its own.
few_threads() {
  local most code user=$((1200000000 + $$ * 4 % 100000000))
  for most in $(seq 1 20); do
    OMP_NUM_THREADS=1 ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout 3 setpriv --reuid=$((user + most)) --regid=$user --clear-groups bash -c 'ulimit -u $0; exec "$@"' \
      $most "$rille" --jupyter "$dir/connection.json" >"$dir/out" 2>&1 </dev/null
    code=$?
    [ $code = 124 ] && return
    [ $code = 2 ] && grep -q 'cannot start its threads.*ulimit -u' "$dir/out" || return 1
  done
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$dir"
  ok "too few threads are a reported error, for every limit" few_threads
else
  skip "too few threads are a reported error, for every limit" "only root can become a user without processes"
fi
finish
