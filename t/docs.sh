#!/bin/bash
# docs.sh - docs/operators.md is what the records say.
rille=${1:-build/release/rille}
echo "1..2"
if diff -u docs/operators.md <("$rille" docs/operators.lua) > /tmp/rille-docs.$$; then
  echo "ok 1 - docs/operators.md is what docs/operators.lua writes"
else
  echo "not ok 1 - docs/operators.md is what docs/operators.lua writes"
  head -20 /tmp/rille-docs.$$ | sed 's/^/# /'
fi
rm -f /tmp/rille-docs.$$
pages=$(grep -c '^## ' docs/operators.md)
[ "$pages" -ge 90 ] && echo "ok 2 - there are $pages operators" || echo "not ok 2 - there are only $pages operators"
