#!/bin/bash
# fold.sh path/to/rille - tests the shell's output on terminals of 40, 80 and 120 columns: no line may be wider than the
# terminal, and the words must be those on a wide terminal. t/lib/pty.pl provides the terminal. Prints TAP.
rille=$(realpath "$1") pty=$(realpath t/lib/pty.pl)
. t/lib/tap.sh
cd "$dir" || exit 2
export HOME=$dir XDG_STATE_HOME=$dir/state TERM=xterm INPUTRC=/dev/null LC_ALL=C.UTF-8
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_CHECK NO_COLOR

cat >i <<'EOF2'
P = rille.placement("cpu", {0, 1, 2, 3})
a = rille.randn({40, 50}, {placement = P, sbp = "S(0)"})
b = rille.randn({50, 80}, {placement = P, sbp = "S(0)"})
y = a:matmul(b):relu()
m = rille.boxing{shape = {8, 8}, from = {placement = P, sbp = "S(0)"}, to = {placement = P, sbp = "S(1)"}}
f = rille.graph(function(x) return x + 1 end)
o = rille.nn.Sequential(rille.nn.Linear(50, 80), rille.nn.Linear(80, 10))
o:to_global{placement = P, sbp = "B"}
s = rille.optim.AdamW(o:parameters(), {lr = 0.1, betas = {0.8, 0.99}})
g = rille.graph(function(x) local l = o(x):sum() l:backward() s:step() s:zero_grad() return l end, {micro_batches = 2})
g(a)
function no() return a + b end
function far() return a:to_global{placement = rille.placement("cpu", {0, 1, 2, 99})} end
function as() return a:to_global{sbp = "S(7)"} end
EOF2
lines=(':explain y' ':plan y' y.shape m 'no()' 'far()' 'as()' '?matmul' '?nn.Linear' '?graph' ':help' 'print(m)' ':explain f'
  'rille.help("softmax")' 'nosuch:matmul(y)' ':doctor' '("x"):rep(300) .. " y"' 'error(("five words that are long "):rep(9))'
  'o' 'y:stats()' 'y:hist()' ':tutorial' 'rille')
# Lines whose output is shorter on narrow terminals, or contains times.
tables=(':time rille.ones({4}, {placement = P, sbp = "P"})' ':actors' ':actors g' ':devices' ':workers' ':mem' ':whos'
  'P:show()' 'o:show()' 'g:show()' 'y:show()' 'm:show()' 'rille.help()' y '{y, o, P}' :top)

# session COLUMNS: types all lines; writes the output to the file COLUMNS.
session() {
  { printf '%s\n' 'wait rille> ' 'type dofile"i"\n'
    for line in "${lines[@]}" "${tables[@]}"; do printf '%s\n' prompt "type $line\\n"; done
    printf '%s\n' 'wait q leaves' 'type q' 'wait rille> ' 'type :quit\n'; } |
    PTY_COLUMNS=$1 perl "$pty" "$rille" --no-init --color never -d cpu:4 >"$1" 2>&1
}
# said COLUMNS LINE: prints the output after the typed line; the line itself may fill several rows.
said() {
  awk -v line="rille> $2" -v columns="$1" '
    index($0, "rille> ") == 1 { on = $0 == line || length($0) == columns && index(line, $0) == 1; next } on' "$1"
}
words() { tr -s ' \n' '\n\n' <<<"$1"; }
too_wide() { [ "$(sed 's/\o33\[[0-9]*[A-Z]//g' <<<"$1" | wc -L)" -gt "$2" ]; }

for columns in 1000 40 80 120; do session "$columns"; done
for line in "${lines[@]}"; do
  wide=$(said 1000 "$line")
  for columns in 40 80 120; do
    got=$(said "$columns" "$line")
    tell() { echo "$got"; }
    case $line in
    *rep\(300*) is "a word that no line of $columns has room for is the terminal's to break" "$got" "$wide" ;;
    :doctor) ok ":doctor breaks no word in $columns columns" grep -qx "  modules in Lua     inside" <<<"$got" ;;
    *) ok "$line fits into $columns columns" eval '[ -n "$got" ] && ! too_wide "$got" "$columns"'
      is "$line prints all its words in $columns columns" "$(words "$got")" "$(words "$wide")" ;;
    esac
  done
done

for line in "${tables[@]}"; do
  for columns in 40 80 120; do
    got=$(said "$columns" "$line")
    tell() { echo "$got"; }
    ok "$line fits into $columns columns" eval '[ -n "$got" ] && ! too_wide "$got" "$columns"'
  done
done
ok "no device of this host is reported on another host" bash -c '! grep -q "on anothe" 40 80 120 1000'
missing=$(said 1000 :help | grep -oE '^  :[a-z]+' | tr -d ' ' | grep -vxE ':(quit|trace)' | while read -r name; do
  printf '%s\n' "${lines[@]}" "${tables[@]}" | grep -q "^$name" || echo "$name"; done)
is "the test covers each command" "$missing" ""
finish
