# terminal.sh - setup of tests of the shell on a terminal. Reads tap.sh, makes a working folder, and defines the
# functions session, answer and prints. $rille must be the program. t/lib/pty.pl provides the terminal, and the file
# `seen` receives its output.
pty=$(realpath "${BASH_SOURCE%/*}/pty.pl")
. "${BASH_SOURCE%/*}/tap.sh"
cd "$dir" || exit 2
export HOME=$dir XDG_STATE_HOME=$dir/state TERM=xterm INPUTRC=/dev/null
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_CHECK NO_COLOR

tell() { cat seen; }
shows() { ok "$1" grep -qF -e "$2" seen; }
hides() { ok "$1" bash -c '! grep -qF -e "$1" seen' hides "$2"; }

# session STEP...: runs the program on $devices in a terminal, executes the steps (t/lib/pty.pl), then quits.
session() {
  printf '%s\n' 'wait rille> ' "$@" 'type :quit\n' | perl "$pty" "$rille" --no-init --color "${color:-never}" -d "${devices:-cpu:4}" >seen 2>&1
  code=$?
}
# answer CHUNK...: types the chunks in order. Sets $got to the output after the last chunk, without the prompt.
answer() {
  local last=${*: -1} steps=()
  for chunk; do steps+=("type ${chunk//\\/\\\\}\n" prompt); done
  printf '%s\n' 'wait rille> ' "${steps[@]}" 'type :quit\n' | perl "$pty" "$rille" --no-init --color never -d cpu:4 >seen 2>&1
  code=$?
  got=$(awk -v last="$last" 'index($0, "rille> " last) || ($0 ~ /^ *\.\. / && index($0, last)) { on = 1; next } /^rille> / { on = 0 } on' seen)
}
# prints NAME WANT CHUNK...: checks that the output after the last chunk is WANT. Each call is a case of share.
prints() { share || return 0; answer "${@:3}"; is "$1" "$got" "$2"; }

# Two endless programs: Ctrl-C interrupts the first, but not the second, which runs in a C function.
spin='io.stderr:write("spin", "ning\\n") while true do end'
endless='io.stderr:write("end", "less ") table.insert(setmetatable({}, {__len = function() return 1e15 end}), 1, 5)'
