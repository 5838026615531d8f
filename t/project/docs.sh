#!/bin/bash
# docs.sh - tests the links of the pages, and the documents that the program generates from the help registry and the
# operators' records: the pages of help, the man page, and the stubs for the Lua language server.
rille=$(realpath "${1:-build/release/rille}")
. t/lib/tap.sh

links() { perl t/project/links.pl "$@" >"$dir/links"; grep -q ' ' "$dir/links" && ! grep -v '^[0-9]* links$' "$dir/links"; }
mapfile -t pages < <(git ls-files '*.md' 2>/dev/null | grep . || find . -name '*.md' -not -path './build/*')
ok "each link of a page leads to an existing file and heading" links "${pages[@]}"
ok "there are at least 30 links" test "$(grep -o '^[0-9]*' "$dir/links")" -ge 30
printf '%s\n' '# A b' '[one](#a-b) `[no](code)` [two](gone.md) [three](#c) [four](x.md#a-b)' >"$dir/x.md"
is "a link to a missing file or heading is found" "$(perl t/project/links.pl "$dir/x.md" | sed 's,.*/x.md: ,,')" "gone.md: no such file
#c: no such heading
4 links"

# stale PAGE...: prints wrong lines of call trees. A line ("    function  file.c  ...") is wrong if the file does not
# define the function.
stale() {
  perl -ne 'next unless /^ {4,}([a-z]\w+) +([\w\/]+\.c)(?: |$)/; ($name, $file) = ($1, $2); $folder = $ARGV =~ s{[^/]*$}{}r; $n++;
    ($path) = grep { -f } "$folder$file", $file; open $f, "<", $path // "" and $text = join "", <$f> or $text = "";
    print "$ARGV: $name is not in $file\n" unless $text =~ /^\Q$name\E\(/m; END { print "$n functions\n" }' "$@"
}
trees() { stale "${pages[@]}" >"$dir/stale"; ! grep -v '^[0-9]* functions$' "$dir/stale"; }
ok "each function of a call tree is defined in the file named beside it" trees
ok "there are at least 120 such functions" test "$(grep -o '^[0-9]*' "$dir/stale")" -ge 120
printf '    gone_away   t/lib/programs.c   a function that does not exist\n' >"$dir/y.md"
is "a missing function is found" "$(stale "$dir/y.md" | sed 's,.*/y.md: ,,')" "gone_away is not in t/lib/programs.c
1 functions"

# unvisited FILE...: prints the folders of these sources of which the nearest README above names no file in its call tree.
unvisited() {
  local folder page
  printf '%s\n' "${@%/*}" | sort -u | while read -r folder; do
    page=$folder
    while [ ! -e "$page/README.md" ] && [[ $page = */* ]]; do page=${page%/*}; done
    [ "$page" = "$folder" ] || grep -qE "^ {4,}.*(^|[ /])${folder#"$page/"}/\w+\.c( |$)" "$page/README.md" || echo "$page/README.md has no function of $folder"
  done
}
mapfile -t sources < <(git ls-files '*.c' 2>/dev/null | grep . || find * -name '*.c')
mapfile -t sources < <(printf '%s\n' "${sources[@]}" | grep -E '^(runtime|sbp|boxing|kernels|actors|shell)/.*/')
is "each folder of sources occurs in the call tree of its part" "$(unvisited "${sources[@]}")" ""
mkdir -p "$dir/part/sub" && printf '    f   other/f.c\n' >"$dir/part/README.md"
is "a folder without a function in the call tree is found" "$(cd "$dir" && unvisited part/sub/f.c)" "part/README.md has no function of part/sub"

# strays PAGE: prints the functions that the page's section "A walk" names and that no C file named there defines. The
# page may name the end of a file's path.
strays() {
  perl -0777 -ne '($walk) = /^## A walk:(.*?)^## /ms;
    @all = split " ", `git ls-files "*.c" 2>/dev/null || find * -name "*.c"`;
    for my $end ($walk =~ /`([\w\/]+\.c)`/g) { for (grep { m{(^|/)\Q$end\E$} } @all) { open my $f, "<", $_; $text .= join "", <$f> } }
    for ($walk =~ /`(\w+)\(\)`/g) { $n++; print "$_\n" unless $text =~ /^\Q$_\E\(/m } print "$n functions\n"' "$1"
}
walk=$(strays ARCHITECTURE.md)
ok "each function of the walk is defined in a file that the walk names" test "$(grep -vc ' functions$' <<<"$walk")" = 0
ok "the walk names at least 12 functions" test "$(grep -o '^[0-9]*' <<<"$walk")" -ge 12
printf '## A walk: x\n`strays_gone()` (`actors/act/run/actor.c`)\n## y\n' >"$dir/w.md"
is "a function that is not there is found" "$(strays "$dir/w.md")" "strays_gone
1 functions"

brackets() { # brackets: prints the files that the glossary names in brackets and that do not exist
  grep -oE '\[[^]]*\]' GLOSSARY.md | grep -oE '[a-z_]+(/[a-z_0-9]+)+\.(h|c|lua)' | sort -u | while read -r file; do [ -e "$file" ] || echo "$file"; done
}
is "each file in brackets of the glossary exists" "$(brackets)" ""

made() { "$rille" --no-init -d cpu:1 "docs/$1.lua" >"$dir/$1.md" && [ "$(grep -c "$2" "$dir/$1.md")" -ge "$3" ]; }
ok "every operator has a page" made operators '^## ' 90
ok "every other public name has a page" made pages '^rille' 100
# completes SHELL-WORD...: prints what bash offers for the last word of the command line.
"$rille" --no-init -d cpu:1 docs/completions.lua bash >"$dir/completions"
"$rille" --no-init -d cpu:1 docs/completions.lua zsh >"$dir/_rille"
completes() { (. "$dir/completions"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rille; echo "${COMPREPLY[*]}"); }
is "bash completes the options of the program" "$(completes rille --d)" "--devices --doctor"
is "bash completes the options of a command" "$(completes rille worker --k)" "--keep --key-file"
is "bash completes values" "$(completes rille --color a)" "auto always"
named=$("$rille" no-such-command-at-all 2>&1 | sed -n 's/.*a command: //p' | sed 's/,//g; s/ or / /' | tr ' ' '\n' | sort | tr '\n' ' ')
is "bash completes the commands that the program knows" "$(cd "$dir" && mkdir none && cd none && completes rille "") " "$named"
if command -v zsh >/dev/null; then ok "zsh reads its completions" zsh -n "$dir/_rille"
else skip "zsh reads its completions" "there is no zsh"; fi

"$rille" --no-init -d cpu:1 docs/man.lua >"$dir/rille.1"
"$rille" --no-init -d cpu:1 docs/stubs.lua >"$dir/rille.lua"
for word in 'devices LIST' 'rille coordinator' ':tutorial \[N\]' 'RILLE_CHECK' 'init.lua' '130' 'rille.nn.Linear(in, out'; do
  ok "the man page contains $word" grep -q -e "$word" "$dir/rille.1"
done
if command -v man >/dev/null; then ok "the man page has no troff warnings" test -z "$(man -l --warnings "$dir/rille.1" 2>&1 >/dev/null)"
else skip "the man page has no troff warnings" "there is no man"; fi
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
ok "the stubs are valid Lua and have every name" "$rille" --no-init -d cpu:1 "$dir/check.lua" "$dir/rille.lua"
finish
