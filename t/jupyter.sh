#!/bin/bash
# The Jupyter kernel: jupyter.sh path/to/rille. What needs a front end is in jupyter.py, and skipped where there is
# none. Prints TAP.
rille=$(realpath "$1") here=$(realpath "$(dirname "$0")") n=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ok() { # ok NAME COMMAND...
  local name=$1; shift; n=$((n + 1))
  if "$@"; then echo "ok $n - $name"; else failed=1; echo "not ok $n - $name"; sed "s/^/# /" "$dir/out" 2>/dev/null; fi
}
refused() { # refused CONNECTION TEXT: with exit code 2
  printf '%s' "$1" >"$dir/connection.json"
  timeout 60 "$rille" --jupyter "$dir/connection.json" >"$dir/out" 2>&1 </dev/null
  [ $? = 2 ] && grep -qF -e "$2" "$dir/out"
}

for python in python3 /usr/bin/python3; do
  "$python" -c 'import jupyter_client' 2>/dev/null && exec_python=$python && break
done
if [ -n "${exec_python:-}" ]; then
  timeout 120 "$exec_python" "$here/jupyter.py" "$rille" >"$dir/tap" 2>"$dir/errors"
  code=$?
  grep -v '^1\.\.' "$dir/tap"
  n=$(grep -cE '^(not )?ok ' "$dir/tap")
  [ $code = 0 ] || { failed=1; sed 's/^/# /' "$dir/errors" | tail -20; }
  ok "the front end came to its end" [ $code = 0 ]
else
  n=1
  echo "ok 1 # SKIP there is no jupyter_client (Debian: python3-jupyter-client)"
fi
ok "a connection file that is no JSON is refused" refused '{"ip": ' jupyter:
ok "so is one without ports" refused '{"ip": "127.0.0.1", "transport": "tcp", "key": ""}' 'shell_port'
ok "and another signature scheme" \
  refused '{"ip": "127.0.0.1", "transport": "tcp", "key": "k", "signature_scheme": "hmac-md5"}' hmac-md5
echo "1..$n"
exit $failed
