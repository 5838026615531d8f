#!/bin/bash
# layering.sh - what holds of the sources as text: arrows point down, foreign headers stay in their folder, nobody asks
# which operator a node is.
#
# A rule is a function that prints violations of the tree it stands in. Each is tried twice: on the sources, where it
# must find nothing, and on a small planted tree that breaks it, where it must find something.
#
# What it reads of the sources is their text. What calls what is read of the objects that were made of them: an undefined
# symbol of one is a call of the file that defines it.
#
#   layering.sh build/release/rille [arrows]      arrows: says what takes what, and tries nothing
set -u
n=0 failed=0
built=${1:+$(cd "$(dirname "$1")" && pwd)} # where the objects are: beside the program

declare -A rank=([runtime]=1 [sbp]=2 [boxing]=3 [kernels]=3 [actors/plan]=4 [actors/act]=5 [actors/cluster]=6
  [actors/session]=7 [shell]=8)
folders=(runtime sbp boxing kernels actors shell)
core=(runtime sbp boxing kernels actors)

# sources FOLDER...: their C and CUDA files.
sources() { find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' 2>/dev/null; }
# find_text PATTERN FOLDER...: lines of their sources that match the extended pattern.
find_text() { local pattern=$1; shift; sources "$@" | xargs -r -d '\n' grep -nEH -e "$pattern"; }
# quoted FOLDER...: "file:header" for every include with quotes.
quoted() { find_text '^ *# *include "' "$@" | sed -nE 's/^([^:]*):[0-9]+:[^"]*"([^"]*)".*/\1:\2/p'; }
# only_in FOLDER PATTERN: includes of headers that match, outside the folder.
only_in() { find_text "^ *# *include [<\"]($2)[>\"]" "${folders[@]}" examples | grep -v "^$1/"; }

# house PATH: the folder that has a rank; the houses of actors/ have one each.
house() { case $1 in actors/*/*) local rest=${1#actors/}; echo "actors/${rest%%/*}" ;; *) echo "${1%%/*}" ;; esac; }
arrows_point_down() {
  local file header from to
  while IFS=: read -r file header; do
    from=$(house "$file") to=$(house "$header")
    [ "$header" = rille.h ] && to=actors/session # the public face is the session's work
    [ "$from" = "$to" ] && continue
    [ -n "${rank[$to]:-}" ] && [ "${rank[$to]}" -lt "${rank[$from]:-0}" ] || echo "$file includes $header"
  done < <(quoted "${folders[@]}")
}
# list_calls: "file symbol file" for each symbol that an object takes from another, as nm says. Of objects whose source is
# there: a folder in which something was built may hold older ones. In the file $calls, by which the rules go.
list_calls() {
  find "$built/CMakeFiles" -path '*rille*.dir/*' -name '*.c.o' 2>/dev/null | sort | while IFS= read -r object; do
    file=${object#*.dir/} && [ -f "${file%.o}" ] && echo "$object"
  done | xargs -r -d '\n' nm -A 2>/dev/null |
    sed -nE 's#^.*\.dir/([^:]*)\.o: *[0-9a-f]* ([A-Za-z]) ([A-Za-z_0-9]+)$#\1 \2 \3#p' |
    awk '$2 ~ /[TDBRC]/ { at[$3] = $1 } $2 == "U" { from[++n] = $1; takes[n] = $3 }
      END { for (i = 1; i <= n; i++) if (takes[i] in at) print from[i], takes[i], at[takes[i]] }' | sort -u
}
# Folders by what they take of each other: "folder folder includes", "... calls" or "... both", each once.
arrows() {
  {
    quoted "${folders[@]}" | sed -E 's#:rille\.h$#:actors/session/rille.h#; s#^([^:]*)/[^/:]*:(.*)/[^/]*$#\1 \2 includes#'
    sed -E 's#^([^ ]*)/[^/ ]* [^ ]* (.*/|)[^/]*$#\1 \2 calls#; s#/ calls$# calls#' "$calls"
  } | awk '$1 != $2 && NF == 3' | sort -u |
    awk '{ two = $1 " " $2; also = two in how; how[two] = also ? "both" : $3 } END { for (two in how) print two, how[two] }' | sort
}
calls_point_down() { # one call for each two folders: a list of all would be long
  local from to file symbol other
  awk '{ from = $1; to = $3; sub(/[^\/]*$/, "", from); sub(/[^\/]*$/, "", to) } !seen[from, to]++ { print from, to, $0 }' "$calls" |
    while read -r from to file symbol other; do
      from=$(house "$from") to=$(house "$to")
      [ "$from" = "$to" ] && continue
      [ -n "${rank[$to]:-}" ] && [ "${rank[$to]}" -lt "${rank[$from]:-0}" ] || echo "$file calls $symbol of $other"
    done
}
shell_calls_the_public_face_alone() { grep -E '^shell/' "$calls" | grep -vE ' (rille_[a-z0-9_]+ actors/session/|[a-z0-9_]+ shell/)'; }
folders_go_round_nowhere() { # what tsort cannot bring into an order
  arrows | cut -d' ' -f1,2 | tsort 2>&1 >/dev/null | sed 's/^tsort: //'
}
# docs/structure.svg says in a comment of what it was made. With a GPU's compiler there is more to call: not drawn.
picture_is_of_these_sources() {
  [ -s "$calls" ] && diff <(sed -nE '/^<!-- made by/,/^-->/p' docs/structure.svg 2>/dev/null | sed '1d;$d') <(arrows) | grep '^[<>]' |
    sed 's/^</drawn, and not so:/; s/^>/so, and not drawn:/'
}
includes_name_a_file_from_the_root() {
  quoted "${folders[@]}" t examples bench | while IFS=: read -r file header; do
    [ -f "$header" ] || echo "$file includes $header, which is not there"
  done
}
shell_sees_the_public_face_alone() { quoted shell | grep -vE ':(rille\.h|shell/.*)$'; }
examples_see_the_public_face_alone() { quoted examples | grep -vE ':rille\.h$'; }
lua_is_only_in_shell() { only_in shell '(lua[0-9.]*/)?(lua|lauxlib|lualib|luaconf)\.h'; }
readline_is_only_in_shell() { only_in shell '(readline|editline)/.*'; }
# A notebook's sockets carry no message of actors, and its protocol is ZeroMQ's own: one file of the shell speaks it.
zmq_is_only_in_actors() { only_in actors 'zmq.*\.h' | grep -v '^shell/jupyter_sockets\.c:'; }
dnnl_is_only_in_kernels() { only_in kernels '(oneapi/dnnl/)?dnnl.*\.h' | grep -v '"kernels/cpu/base/dnnl.h"'; }
cuda_is_only_in_its_plugin() { only_in kernels/cuda 'cu(da|blas|dnn).*\.h|nccl\.h' | grep -v '^runtime/device_'; }

# A cost network is numbers: no file of the search, nor any header that it takes, has heard of layouts.
nets_know_no_layout() {
  quoted sbp runtime | awk -F: '{ to[$1, ++n[$1]] = $2 }
    function reach(file, i) { if (file in seen) return; seen[file] = 1; for (i = 1; i <= n[file]; i++) reach(to[file, i]) }
    END { for (file in n) if (file ~ /^sbp\//) { split("", seen); reach(file)
      if ("sbp/net/net.h" in seen && "runtime/tensor/layout.h" in seen) print file " knows nets and layouts" } }'
}
# A proof is worth something if what checks it has nothing in common with what wrote it.
the_checker_shares_nothing_with_the_search() {
  quoted sbp | sed -nE 's#^(sbp/proof[a-z_]*\.[ch]):#\1 includes #p' | grep -vE ' (runtime/|sbp/proof)[^ ]*$'
  grep -E '^sbp/proof' "$calls" | grep -vE ' (runtime/|sbp/proof)[^ ]*$'
}

# A record may be named to build with it; nobody compares a node's operator with one, but the record's own file.
nobody_asks_which_operator() {
  find_text '[=!]= *&?op_[a-z0-9_]+\b *[^a-z0-9_(]|strcmp\([^;]*op->name[^;]*, *"' "${folders[@]}" |
    while IFS= read -r line; do
      file=${line%%:*} own=$(basename "${line%%:*}" .c)
      [[ $file = kernels/op/* && $line =~ \&op_$own[^a-z0-9_] ]] || echo "$line"
    done
}
# Nor which kind a task has, outside of the kinds' own files: what others must know is in the kind's record.
nobody_asks_which_kind() { find_text '[=!]= *&?kind_[a-z0-9_]+|&?\bkind_[a-z0-9_]+ *[=!]=' actors | grep -v '^actors/plan/kind_'; }
# Only the host's lack of memory for bookkeeping ends the process (runtime/base/arena.c).
core_neither_prints_nor_exits() {
  find_text '(^|[^a-z0-9_])(printf|vprintf|puts|putchar|perror|exit|_exit|abort) *\(|fprintf *\( *(stdout|stderr)' \
    "${core[@]}" | grep -v '^runtime/arena\.c:'
}
# The shell has a clock of its own, since it sees rille.h alone; a notebook's messages have a date.
clocks_are_read_in_one_place() {
  find_text '(clock_gettime|gettimeofday) *\(' "${folders[@]}" t examples bench |
    grep -vE '^(runtime/clock\.h|shell/clock\.h|shell/jupyter_wire\.c|bench/peers/[^:]*):'
}
# tap.has is a question: as a statement it is a check that cannot fail.
every_check_counts() { find t -name '*.lua' -exec grep -nEH '^ *tap\.has\(' {} +; }
structs_are_called_struct() { find_text 'typedef +(struct|union|enum)' "${folders[@]}"; }
nothing_is_left_open() {
  local words='TO''DO|FIX''ME|X''XX|HA''CK'
  find "${folders[@]}" lua t examples bench -type f 2>/dev/null | xargs -r -d '\n' grep -nEHIw -e "$words"
}
files_hold_one_idea() {
  find "${folders[@]}" lua t examples bench -name '*.[ch]' -o -name '*.cu' -o -name '*.lua' 2>/dev/null |
    grep -v '^t/golden/values' | # data
    xargs -r -d '\n' wc -l | awk '$2 != "total" && $1 > 800 { print $2 " has " $1 " lines" }'
}
files_begin_with_their_idea() { # "/* box.c - moving a tensor ...", or the operator's name alone
  sources "${folders[@]}" | grep '\.[ch]$' | while IFS= read -r file; do
    name=$(basename "$file")
    IFS= read -r first <"$file"
    [[ $first = "/* $name - "* || $first = "/* ${name%.c} - "* ]] || echo "$file begins with: $first"
  done
}
headers_say_whose_they_are() { # in the first comment: who owns what is in it, which thread may touch it
  sources "${folders[@]}" | grep '\.h$' | while IFS= read -r file; do
    sed '/\*\//q' "$file" | grep -qiE 'thread|belongs|\bowns?\b|owner|pure|read-only|constants' || echo "$file does not say"
  done
}
# Their comments are contracts: a function, struct or file that they name is there. (In quotes stands what users see.)
headers_speak_of_what_is_there() {
  { sources "${folders[@]}"; find lua t -name '*.lua' -o -name '*.[ch]' 2>/dev/null; } | sort -u | xargs -r -d '\n' perl -0777 -e '
    for my $file (@ARGV) {
      open(my $f, "<", $file) or next;
      my $text = <$f>;
      (my $name = $file) =~ s{^.*/|\.\w+$}{}g;
      my @comments = $file =~ /\.h$/ ? $text =~ m{/\*(.*?)\*/}gs : ();
      $file =~ /\.lua$/ ? $text =~ s{--[^\n]*}{}g : $text =~ s{/\*.*?\*/}{}gs;
      $there{$_} = 1 for $name, $text =~ /\w+/g;
      s/"[^"]*"//g, push @said, map { [$file, $_] } /\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b/g for @comments;
    }
    $there{$_->[1]} or print "$_->[0] says $_->[1], and nothing is called so\n" for @said'
}
headers_have_guards_of_their_own() {
  sources "${folders[@]}" t rille.h | grep '\.h$' | while IFS= read -r file; do
    guard=$(sed -nE 's/^#ifndef (RILLE_([A-Z0-9_]+_)?H)$/\1/p' "$file" | head -1)
    echo "${guard:-none} $file"
  done | awk '$1 == "none" { print $2 " has no guard" } seen[$1]++ && $1 != "none" { print $2 " shares " $1 }'
}

rules=(arrows_point_down calls_point_down shell_calls_the_public_face_alone folders_go_round_nowhere picture_is_of_these_sources
  includes_name_a_file_from_the_root shell_sees_the_public_face_alone
  examples_see_the_public_face_alone lua_is_only_in_shell readline_is_only_in_shell zmq_is_only_in_actors
  dnnl_is_only_in_kernels cuda_is_only_in_its_plugin nets_know_no_layout the_checker_shares_nothing_with_the_search
  nobody_asks_which_operator nobody_asks_which_kind core_neither_prints_nor_exits
  clocks_are_read_in_one_place every_check_counts structs_are_called_struct nothing_is_left_open files_hold_one_idea files_begin_with_their_idea
  headers_say_whose_they_are headers_speak_of_what_is_there headers_have_guards_of_their_own)

# A tree in which every rule is broken.
plant() {
  mkdir -p runtime sbp boxing kernels/op actors shell t examples bench lua
  printf '%s\n' 'int x;' '#include "actors/bus.h"' '#include <zmq.h>' '#include <lua.h>' '#include <dnnl.h>' \
    '#include <cuda_runtime.h>' '#include <readline/readline.h>' 'typedef struct a a;' 'printf("x");' 'clock_gettime(0, 0);' \
    "/* TO""DO */" 'if (n->op == &op_matmul) return;' >runtime/bad.c
  echo 'if (t->kind == &kind_box) return;' >actors/bad.c
  printf '%s\n' '/* bad.h - see bad_gone() */' '#ifndef BAD' >runtime/bad.h
  echo '#include "runtime/tensor/type.h"' >shell/bad.c
  echo '#include "runtime/tensor/type.h"' >examples/bad.c
  echo '#include "runtime/tensor/layout.h"' >sbp/sig.h
  printf '#include "%s"\n' sbp/net/net.h sbp/sig.h | tee sbp/proof/proof.c >sbp/search.c
  seq 900 >lua/long.lua
  echo 'tap.has("x", "y")' >t/bad.lua
  mkdir -p actors/act CMakeFiles/librille.dir/{runtime,shell,actors/act}
  echo 'int upper(void); int lower_down(void) { return upper(); }' >runtime/calls.c
  echo 'int lower_down(void); int upper(void) { return lower_down(); }' >actors/act/called.c
  echo 'int upper(void); int main(void) { return upper(); }' >shell/calls.c
  for file in runtime/calls.c actors/act/called.c shell/calls.c; do
    cc -c "$file" -o "CMakeFiles/librille.dir/$file.o"
  done
}

ok() { # ok NAME VIOLATIONS: passes when there are none
  n=$((n + 1))
  [ -z "$2" ] && { echo "ok $n - $1"; return; }
  failed=$((failed + 1))
  echo "not ok $n - $1"
  head -20 <<<"$2" | sed 's/^/#   /'
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
calls=$planted/calls
list_calls >"$calls"
[ -s "$calls" ] || echo "# no objects in ${built:-no folder}: what calls what is not looked at"
if [ "${2:-}" = arrows ]; then # for docs/structure.lua
  arrows
  exit
fi
(cd "$planted" && plant && built=. && list_calls >calls.planted)
for rule in "${rules[@]}"; do
  ok "${rule//_/ }" "$($rule)"
  [ -n "$(cd "$planted" && calls=calls.planted $rule)" ] && missed="" || missed="it finds nothing in a tree that breaks it"
  ok "${rule//_/ }: a breach is found" "$missed"
done
echo "1..$n"
[ "$failed" = 0 ]
