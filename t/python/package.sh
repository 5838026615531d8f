#!/bin/bash
# package.sh - runs t/python/package.py, reads.py, sweep.py and process.py (t/lib/tap.py) on python/rille and python/examples with this
# build's library. RILLE_PYTHON names the Python. Skips without cffi and NumPy. The manual is docs/python.md.
build=$(dirname "$(realpath "$1")")
. t/lib/tap.sh
export PYTHONPATH=$PWD/python:$PWD/t/lib PYTHONDONTWRITEBYTECODE=1 RILLE_LIBRARY=$build/librille.so RILLE_BUILD=$build
python=${RILLE_PYTHON:-python3}
unset RILLE_DEVICES
if [ ! -e "$RILLE_LIBRARY" ] || grep -q 'RILLE_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  skip "the Python package" "this build has no library that Python can load"
elif ! "$python" -c 'import cffi, numpy; assert tuple(map(int, numpy.__version__.split(".")[:2])) >= (1, 24)' 2>/dev/null; then
  skip "the Python package" "there is no Python with cffi and NumPy 1.24"
else
  for part in package reads sweep process; do # prints each check of a part as a check of this test
    "$python" -W error t/python/$part.py >"$dir/out" 2>"$dir/err"
    status=$?
    while IFS= read -r line; do
      case $line in
      "ok "*" # SKIP "*) line=${line#ok * - } && skip "${line%% # SKIP *}" "${line##* # SKIP }" ;;
      "ok "*) report 0 "${line#ok * - }" ;;
      "not ok "*) report 1 "${line#not ok * - }" ;;
      "# "*) echo "$line" ;;
      esac
    done <"$dir/out"
    ok "t/python/$part.py runs to its end without a word on stderr" test "$status$(cat "$dir/err")" = 0
    [ "$status" = 0 ] || sed 's/^/# /' "$dir/err"
  done
fi
finish
