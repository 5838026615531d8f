#!/bin/bash
# readme.sh path/to/rille - tests that the README's Lua prints the output shown in the README. Also runs the Lua of docs/files.md.
rille=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
. t/lib/tap.sh
awk '/^```lua$/ { on = 1; next } /^```$/ { if (on) exit } on' README.md >"$dir/twenty.lua"
awk '/^prints$/ { seen = 1 } seen && /^```$/ { if (on) exit; on = 1; next } on' README.md >"$dir/want"
(cd "$dir" && XDG_CONFIG_HOME=$dir "$rille" -d cpu:4 twenty.lua >got 2>&1)
ok "the README shows the output of its program" test -s "$dir/want"
ok "the README's program prints that output" diff "$dir/want" "$dir/got"
awk '/^```lua$/ { on = 1; next } /^```$/ { on = 0 } on' docs/files.md >"$dir/files.lua"
mkdir "$dir/folder"
echo '{{ messages[0].content }}' >"$dir/folder/chat_template.jinja"
(cd "$dir" && "$rille" -e 'rille.tokenizer.train({"Hello"}, {size = 260}):save("folder/tokenizer.json")')
ok "the Lua of docs/files.md runs" bash -c 'cd "$1" && "$2" -d cpu:2 files.lua >files.out' run "$dir" "$rille"
is "it prints the layouts that the page states" "$(head -1 "$dir/files.out" | grep -o 'S(0).B$')" "S(0)	B"
finish
