#!/bin/bash
# docs.sh - what is made from the registry of help and the operators' records is what they say: docs/*.md, the man page,
# the stubs of the Lua language server.
rille=$(realpath "${1:-build/release/rille}")
. t/lib/tap.sh
for page in operators pages; do
  "$rille" --no-init "docs/$page.lua" >"$dir/$page.md"
  ok "docs/$page.md is what docs/$page.lua writes" diff -u "docs/$page.md" "$dir/$page.md"
done
ok "there are many operators" test "$(grep -c '^## ' docs/operators.md)" -ge 90
"$rille" --no-init -d cpu:1 docs/man.lua >"$dir/rille.1"
"$rille" --no-init -d cpu:1 docs/stubs.lua >"$dir/rille.lua"
for word in 'devices LIST' 'rille coordinator' ':tutorial \[N\]' 'RILLE_CHECK' 'init.lua' '130' 'rille.nn.Linear(in, out'; do
  ok "the man page tells of $word" grep -q -e "$word" "$dir/rille.1"
done
if command -v man >/dev/null; then ok "and troff likes it" test -z "$(man -l --warnings "$dir/rille.1" 2>&1 >/dev/null)"
else skip "and troff likes it" "there is no man"; fi
cat >"$dir/check.lua" <<'LUA'
local pages, stubs, missing = require "rille.pages", io.open(arg[1]):read("a"), {}
assert(load(stubs, "=stubs", "t"))
for _, name in ipairs(rille.operators()) do
  for _, form in ipairs{"function rille." .. name .. "(", "function Tensor:" .. name .. "("} do
    if not rille._operator(name).source and not stubs:find(form, 1, true) then missing[#missing + 1] = form end
  end
end
for _, name in ipairs(pages.names()) do
  local last, sign = name:match("[^.]*$"), pages.row(name).sign
  if name ~= "index" and not (sign and sign:find("^a %p+ b")) and not stubs:find("[%s.:]" .. last .. "[%s(]") then missing[#missing + 1] = name end
end
assert(#missing == 0, table.concat(missing, " "))
LUA
ok "the stubs are Lua, and have every name" "$rille" --no-init -d cpu:1 "$dir/check.lua" "$dir/rille.lua"
finish
