# terminal.sh - what tests of the shell on a terminal begin with: tap.sh, a folder to be in, session and answer. $rille is the program;
# the terminal is t/lib/pty.pl's. The file `seen` has what stood on it.
pty=$(realpath "${BASH_SOURCE%/*}/pty.pl")
. "${BASH_SOURCE%/*}/tap.sh"
cd "$dir" || exit 2
export HOME=$dir XDG_STATE_HOME=$dir/state TERM=xterm INPUTRC=/dev/null
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_CHECK NO_COLOR

tell() { cat seen; }
shows() { ok "$1" grep -qF -e "$2" seen; }
hides() { ok "$1" bash -c '! grep -qF -e "$1" seen' hides "$2"; }

# session STEP...: follows the steps of t/lib/pty.pl, then leaves. On $devices.
session() {
  printf '%s\n' 'wait rille> ' "$@" 'type :quit\n' | perl "$pty" "$rille" --no-init --color "${color:-never}" -d "${devices:-cpu:4}" >seen 2>&1
  code=$?
}
# answer CHUNK...: types one after the other; $got is what is printed behind the last chunk, without the prompt.
answer() {
  local last=${*: -1} steps=()
  for chunk; do steps+=("type ${chunk//\\/\\\\}\n" prompt); done
  printf '%s\n' 'wait rille> ' "${steps[@]}" 'type :quit\n' | perl "$pty" "$rille" --no-init --color never -d cpu:4 >seen 2>&1
  code=$?
  got=$(awk -v last="$last" 'index($0, "rille> " last) || ($0 ~ /^ *\.\. / && index($0, last)) { on = 1; next } /^rille> / { on = 0 } on' seen)
}

# What runs without an end, and hears Ctrl-C; and what does not hear it.
spin='io.stderr:write("spin", "ning\\n") while true do end'
endless='io.stderr:write("end", "less ") table.insert(setmetatable({}, {__len = function() return 1e15 end}), 1, 5)'
