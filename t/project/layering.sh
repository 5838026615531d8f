#!/bin/bash
# layering.sh - tests rules about the sources as text: includes and calls point to lower folders, headers of other
# libraries are included in one folder only, no code compares a node's operator with an operator.
#
# A rule is a function that prints violations in the current folder. Each rule runs twice: on the sources (it must
# find nothing), and on a small planted tree with violations (it must find something).
#
# Includes are read from the source text. Calls are read from the objects: an undefined symbol of an object is a call of
# the file that defines the symbol.
#
#   layering.sh build/release/rille [arrows|parts]      arrows: only prints which folder uses which; parts: the same for the parts of
#                                                   docs/structure.svg
set -u
n=0 failed=0
built=${1:+$(cd "$(dirname "$1")" && pwd)} # folder of the program and of its object files

# Folders, lowest first. Folders on the same line may use each other.
layers="runtime/base
runtime/data
runtime/tensor
runtime/device
runtime/graph
runtime/file/disk
runtime/file/codec
runtime/file
runtime/text/characters
runtime/text/encode
runtime/text
sbp
sbp/net
sbp/search
sbp/limit
sbp/solve
sbp/proof
boxing
boxing/draw
kernels/cpu/base
kernels/cpu/math
kernels/cpu/rows
kernels/cpu/eltwise
kernels/cpu/gemm
kernels/cpu/layers
kernels/cpu/attention
kernels/cpu/conv
kernels/op/base
kernels/op/lib
kernels/op
kernels/cuda
kernels/cuda/plugin
kernels/exec
kernels/loaded
actors/plan/model
actors/plan/outline
actors/plan/rewrite
actors/plan/lower
actors/plan/memory
actors/plan/verify/flow
actors/plan/verify/value
actors/plan/verify
actors/plan/kinds
actors/plan/sim
actors/plan/assign
actors/plan
actors/act/bus
actors/act/run
actors/cluster/wire
actors/cluster/memory
actors/cluster/coordinator
actors/cluster/transport
actors/cluster/controller
actors/cluster/worker
actors/session/core
actors/session/run
actors/session/build
actors/session/scan
actors/session/batch
actors/session/step
actors/session/planner
actors/session/durable
actors/session/io
actors/session/view
actors/session/face
shell/bind/base
shell/bind/tensor
shell/bind/step
shell/bind/module
shell/run
shell/repl
shell/launch
shell/jupyter
shell/serve
shell"
declare -A rank=()
height=0
while read -r -a line; do
  height=$((height + 1))
  for folder in "${line[@]}"; do rank[$folder]=$height; done
done <<<"$layers"
folders=(runtime sbp boxing kernels actors shell)
core=(runtime sbp boxing kernels actors)

# sources FOLDER...: prints the C and CUDA files of the folders.
sources() { find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' 2>/dev/null; }
# find_text PATTERN FOLDER...: prints source lines that match the extended regular expression.
find_text() { local pattern=$1; shift; sources "$@" | xargs -r -d '\n' grep -nEH -e "$pattern"; }
# quoted FOLDER...: prints "file:header" for each include of the form #include "header".
quoted() { find_text '^ *# *include "' "$@" | sed -nE 's/^([^:]*):[0-9]+:[^"]*"([^"]*)".*/\1:\2/p'; }
# only_in FOLDER PATTERN: prints includes of headers that match the pattern, in files outside the folder.
only_in() { find_text "^ *# *include [<\"]($2)[>\"]" "${folders[@]}" examples | grep -v "^$1/"; }

# lower FROM TO: succeeds if folder FROM may use folder TO.
lower() { [ -n "${rank[$2]:-}" ] && [ "${rank[$2]}" -lt "${rank[$1]:-0}" ]; }
arrows_point_down() {
  local file header from to
  while IFS=: read -r file header; do
    from=${file%/*} to=${header%/*}
    # includes of rille.h count as uses of the session, which defines the public functions
    [ "$header" = rille.h ] && to=actors/session/face
    # a public header without functions, which any folder may include
    [ "$header" = rille_operator.h ] && to=runtime/base
    [ "$from" = "$to" ] || [[ $header = rille.h && $from = actors/session/* ]] && continue
    lower "$from" "$to" || echo "$file includes $header"
  done < <(quoted "${folders[@]}")
}
# list_calls: prints "file symbol file" for each symbol that an object uses from another, from nm. Skips objects without a
# source file, because a build folder may contain outdated objects. The rules read the result from the file $calls.
list_calls() {
  find "$built/CMakeFiles" -path "$built/CMakeFiles/*rille*.dir/*" -name '*.c.o' 2>/dev/null | sort | while IFS= read -r object; do
    file=${object#*.dir/} && [ -f "${file%.o}" ] && echo "$object"
  done | xargs -r -d '\n' nm -A 2>/dev/null |
    sed -nE 's#^.*\.dir/([^:]*)\.o: *[0-9a-f]* ([A-Za-z]) ([A-Za-z_0-9]+)$#\1 \2 \3#p' |
    awk '$2 ~ /[TDBRC]/ { at[$3] = $1 } $2 == "U" { from[++n] = $1; takes[n] = $3 }
      END { for (i = 1; i <= n; i++) if (takes[i] in at) print from[i], takes[i], at[takes[i]] }' | sort -u
}
# arrows: prints which folder uses which, each pair once: "folder folder includes", "folder folder calls" or "folder
# folder both". Leaves out records of operators and of task kinds, because they are data that a lower folder may name.
arrows() {
  {
    quoted "${folders[@]}" | sed -E '/^actors\/session\/.*:rille\.h$/d; s#:rille\.h$#:actors/session/face/rille.h#; s#^([^:]*)/[^/:]*:(.*)/[^/]*$#\1 \2 includes#'
    grep -vE ' (op|kind)_[a-z0-9_]* ' "$calls" | sed -E 's#^([^ ]*)/[^/ ]* [^ ]* (.*/|)[^/]*$#\1 \2 calls#; s#/ calls$# calls#'
  } | awk '$1 != $2 && NF == 3' | sort -u |
    awk '{ two = $1 " " $2; also = two in how; how[two] = also ? "both" : $3 } END { for (two in how) print two, how[two] }' | sort
}
# parts: prints the uses between parts of the program (runtime, sbp, actors/plan and so on), from which
# docs/structure.svg is drawn; then lines "part has folder...", lowest first.
part_of='s#(^| )(actors/[a-z]+|kernels/(op|cpu|cuda)|runtime/(file|text))/[a-z/]*#\1\2#g; s#(^| )shell/bind/[a-z]+#\1shell#g; s#(^| )(runtime|sbp|boxing|shell|kernels)/(base|data|tensor|device|graph|net|search|limit|solve|proof|draw|bind|run|repl|launch|jupyter|serve|exec|loaded)#\1\2#g'
parts() {
  arrows | sed -E "$part_of" | awk '$1 != $2' | sort -u |
    awk '{ two = $1 " " $2; how[two] = two in how && how[two] != $3 ? "both" : $3 } END { for (two in how) print two, how[two] }' | sort
  paste -d' ' <(sed -E "$part_of" <<<"$layers") - <<<"$layers" |
    awk '$1 != $2 { names[$1] = names[$1] " " substr($2, length($1) + 2) } END { for (part in names) print part " has" names[part] }' | sort
}
# Records of operators and of task kinds are exempt: they are data, which a lower folder may name to make nodes and
# tasks.
calls_point_down() { # prints one call per pair of folders, because the complete list would be long
  local from to file symbol other
  awk '$2 !~ /^(op|kind)_/ { from = $1; to = $3; sub(/[^\/]*$/, "", from); sub(/[^\/]*$/, "", to) } !seen[from, to]++ { print from, to, $0 }' "$calls" |
    while read -r from to file symbol other; do
      from=${from%/*} to=${to%/*}
      [ "$from" = "$to" ] && continue
      lower "$from" "$to" || echo "$file calls $symbol of $other"
    done
}
shell_calls_the_public_face_alone() { grep -E '^shell/' "$calls" | grep -vE ' (rille_[a-z0-9_]+ actors/session/|system_[a-z_]+ runtime/base/system[_.]|[a-z0-9_]+ shell/)'; }
folders_go_round_nowhere() { # prints the cycles that tsort finds
  arrows | cut -d' ' -f1,2 | tsort 2>&1 >/dev/null | sed 's/^tsort: //'
}
# Files of the session must not call one another in a cycle: an upper file passes a function or a result to a lower one.
files_of_the_session_go_round_nowhere() { # prints the cycles that tsort finds
  awk '$1 != $3 && $1 ~ /^actors\/session\// && $3 ~ /^actors\/session\// { print $1, $3 }' "$calls" | tsort 2>&1 >/dev/null |
    sed 's/^tsort: //'
}
# The picture docs/structure.svg shows which folders call which, and a comment in this file lists the same calls.
# Prints the differences between that list and the calls in the sources. Calls of the GPU plug-in are in neither.
picture_is_of_these_sources() {
  [ -s "$calls" ] && diff <(sed -nE '/^<!-- made by/,/^-->/p' docs/structure.svg 2>/dev/null | sed '1d;$d') <(parts) | grep '^[<>]' |
    sed 's/^</only in the picture:/; s/^>/only in the sources:/'
}
includes_name_a_file_from_the_root() {
  quoted "${folders[@]}" t examples bench | while IFS=: read -r file header; do
    [ -f "$header" ] || echo "$file includes $header, which is not there"
  done
}
# Exempt are calls of the operating system, which are compiled into the program a second time, for the shell.
shell_sees_the_public_face_alone() { quoted shell | grep -vE ':(rille\.h|runtime/base/system\.h|shell/.*)$'; }
examples_see_the_public_face_alone() { quoted examples | grep -vE ':rille\.h$'; }
lua_is_only_in_shell() { only_in shell '(lua[0-9.]*/)?(lua|lauxlib|lualib|luaconf)\.h'; }
readline_is_only_in_shell() { only_in shell '(readline|editline)/.*'; }
# The Jupyter protocol uses ZeroMQ, so one file of the shell may include ZeroMQ, too. Its sockets carry no messages of
# actors.
zmq_is_only_in_actors() { only_in actors 'zmq.*\.h' | grep -v '^shell/jupyter/jupyter_sockets\.c:'; }
dnnl_is_only_in_kernels() { only_in kernels '(oneapi/dnnl/)?dnnl.*\.h' | grep -v '"kernels/cpu/base/dnnl.h"'; }
cuda_is_only_in_its_plugin() { only_in kernels/cuda 'cu(da|blas|dnn).*\.h|nccl\.h' | grep -v '^runtime/device/device_'; }

# A cost network contains only numbers: no file of the search includes the layout header, directly or indirectly.
nets_know_no_layout() {
  quoted sbp runtime | awk -F: '{ to[$1, ++n[$1]] = $2 }
    function reach(file, i) { if (file in seen) return; seen[file] = 1; for (i = 1; i <= n[file]; i++) reach(to[file, i]) }
    END { for (file in n) if (file ~ /^sbp\//) { split("", seen); reach(file)
      if ("sbp/net/net.h" in seen && "runtime/tensor/layout.h" in seen) print file " knows nets and layouts" } }'
}
# A proof is trustworthy only if the checker shares no code with the search that wrote the proof.
the_checker_shares_nothing_with_the_search() {
  quoted sbp | sed -nE 's#^(sbp/proof/[a-z_]*\.[ch]):#\1 includes #p' | grep -vE ' (runtime/|sbp/proof/)[^ ]*$'
  grep -E '^sbp/proof/' "$calls" | grep -vE ' (runtime/|sbp/proof)[^ ]*$'
}

# Code may name an operator's record to make a node of this operator. Only the record's own file may test whether a
# node has this operator.
nobody_asks_which_operator() {
  find_text '[=!]= *&?op_[a-z0-9_]+\b *[^a-z0-9_(]|strcmp\([^;]*op->name[^;]*, *"' "${folders[@]}" |
    while IFS= read -r line; do
      file=${line%%:*} own=$(basename "${line%%:*}" .c)
      [[ $file = kernels/op/* && $line =~ \&op_$own[^a-z0-9_] ]] || echo "$line"
    done
}
# Only the files of the task kinds may test a task's kind; other code reads fields of the kind's record.
nobody_asks_which_kind() { find_text '[=!]= *&?kind_[a-z0-9_]+|&?\bkind_[a-z0-9_]+ *[=!]=' actors | grep -v '^actors/plan/kinds/kind_'; }
# The core must not end the process, except in one file: if the host has no memory for bookkeeping
# (runtime/data/arena.c).
core_neither_prints_nor_exits() {
  find_text '(^|[^a-z0-9_])(printf|vprintf|puts|putchar|perror|exit|_exit|abort) *\(|fprintf *\( *(stdout|stderr)' \
    "${core[@]}" | grep -v '^runtime/data/arena\.c:'
}
# Only runtime/base/clock.h reads the clock. The shell has its own clock.h, because it includes only rille.h.
clocks_are_read_in_one_place() {
  find_text '(clock_gettime|gettimeofday) *\(' "${folders[@]}" t examples bench |
    grep -vE '^(runtime/base/clock\.h|shell/bind/base/clock\.h|bench/peers/[^:]*):'
}
# Calls that only Linux has are in runtime/base/system_linux.c, so that all other sources compile on macOS and FreeBSD.
calls_of_linux_are_in_one_place() {
  local calls='accept4|pipe2|eventfd|memfd_create|pidfd_[a-z_]*|epoll_[a-z0-9_]*|signalfd|timerfd_[a-z]*|ppoll|explicit_bzero'
  find_text "(^|[^a-z0-9_])($calls) *\\(|SOCK_(CLOEXEC|NONBLOCK)" "${folders[@]}" | grep -v '^runtime/base/system_linux\.c:'
}
# tap.has() only returns a bool. A statement that ignores the bool checks nothing.
every_check_counts() { find t -name '*.lua' -exec grep -nEH '^ *tap\.has\(' {} +; }
structs_are_called_struct() { find_text 'typedef +(struct|union|enum)' "${folders[@]}"; }
nothing_is_left_open() {
  local words='TO''DO|FIX''ME|X''XX|HA''CK'
  find "${folders[@]}" lua t examples bench -type f 2>/dev/null | xargs -r -d '\n' grep -nEHIw -e "$words"
}
files_hold_one_idea() {
  find "${folders[@]}" lua t examples bench -name '*.[ch]' -o -name '*.cu' -o -name '*.lua' 2>/dev/null |
    grep -v '^t/golden/values' | # except test data
    xargs -r -d '\n' wc -l | awk '$2 != "total" && $1 > 800 { print $2 " has " $1 " lines" }'
}
files_begin_with_their_idea() { # expects "/* box.c - moving a tensor ...", or an operator's name without suffix
  sources "${folders[@]}" | grep '\.[ch]$' | while IFS= read -r file; do
    name=${file##*/}
    IFS= read -r first <"$file"
    [[ $first = "/* $name - "* || $first = "/* ${name%.c} - "* ]] || echo "$file begins with: $first"
  done
}
# prints headers whose first comment does not name the owner of the data and the thread that may use it
headers_say_whose_they_are() {
  sources "${folders[@]}" | grep '\.h$' | xargs -r -d '\n' perl -0777 -ne '
    my $head = m{\A(.*?\*/)}s ? $1 : $_;
    print "$ARGV does not say\n" unless $head =~ /thread|belongs|\bowns?\b|owner|pure|read-only|constants/i'
}
# Header comments are contracts: a function, struct or file that they name must exist. Quoted text is exempt, because it
# is text that users see.
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
# A header declares only functions of the source with its name. The functions of draft.c are declared in draft.h, or in
# draft_inner.h if only files of their folder may call them. A source is a C or CUDA file, or one file for each operating
# system (system_linux.c, system_posix.c). Loops that are compiled once per processor level are made by macros in .inc
# files, so no file defines them as text. Prints functions that a header declares and that only other sources define.
headers_declare_functions_of_their_own_source() {
  sources "${folders[@]}" | grep -E '\.(c|cu|h)$' | xargs -r -d '\n' perl -0777 -e '
    for my $file (@ARGV) {
      open(my $f, "<", $file) or next;
      (my $text = <$f>) =~ s{/\*.*?\*/}{}gs;
      (my $source = $file) =~ s{(_inner|_linux|_posix)?\.\w+$}{};
      if ($file !~ /\.h$/) { $in{$1}{$source} = $file while $text =~ /^(?!static\b)\w[\w *]*[\s*]([a-z_]\w*)\([^;{}]*\)\s*\{/mg; next }
      push @declared, [$file, $source, $1] while $text =~ /^(?!static|typedef|_Static)\w[\w *]*?\b([a-z_]\w*)\([^;{}]*\)[^;{}]*;/mg;
    }
    for (@declared) {
      my ($file, $source, $name) = @$_;
      my @other = sort values %{$in{$name} // {}};
      print "$file declares $name, which $other[0] defines\n" if @other && !$in{$name}{$source};
    }'
}
# prints includes of X_inner.h by files of other folders
inner_headers_are_included_in_their_folder() {
  quoted "${folders[@]}" | grep '_inner\.h$' | while IFS=: read -r file header; do
    [ "${file%/*}" = "${header%/*}" ] || echo "$file includes $header"
  done
}
headers_have_guards_of_their_own() {
  sources "${folders[@]}" t rille.h rille_operator.h | grep '\.h$' | xargs -r -d '\n' perl -0777 -ne '
    my ($guard) = /^#ifndef (RILLE_(?:[A-Z0-9_]+_)?H)$/m;
    print "$ARGV has no guard\n" unless $guard;
    print "$ARGV shares $guard\n" if $guard && $seen{$guard}++'
}

rules=(arrows_point_down calls_point_down shell_calls_the_public_face_alone folders_go_round_nowhere
  files_of_the_session_go_round_nowhere picture_is_of_these_sources
  includes_name_a_file_from_the_root shell_sees_the_public_face_alone
  examples_see_the_public_face_alone lua_is_only_in_shell readline_is_only_in_shell zmq_is_only_in_actors
  dnnl_is_only_in_kernels cuda_is_only_in_its_plugin nets_know_no_layout the_checker_shares_nothing_with_the_search
  nobody_asks_which_operator nobody_asks_which_kind core_neither_prints_nor_exits
  clocks_are_read_in_one_place calls_of_linux_are_in_one_place every_check_counts structs_are_called_struct nothing_is_left_open
  files_hold_one_idea files_begin_with_their_idea headers_say_whose_they_are headers_speak_of_what_is_there
  headers_declare_functions_of_their_own_source inner_headers_are_included_in_their_folder
  headers_have_guards_of_their_own)

# plant: makes a tree that breaks every rule.
plant() {
  mkdir -p runtime/base sbp/{net,proof,search} boxing kernels/op actors/{plan/{model,sim},act/run,session/core} shell/repl t examples bench lua
  printf '%s\n' 'int x;' '#include "actors/act/bus/bus.h"' '#include "actors/act/bus/bus_inner.h"' '#include <zmq.h>' '#include <lua.h>' '#include <dnnl.h>' \
    '#include <cuda_runtime.h>' '#include <readline/readline.h>' 'typedef struct a a;' 'printf("x");' 'clock_gettime(0, 0);' 'accept4(0);' \
    "/* TO""DO */" 'if (n->op == &op_matmul) return;' >runtime/base/bad.c
  echo 'if (t->kind == &kind_box) return;' >actors/act/run/bad.c
  printf '%s\n' '/* bad.h - see bad_gone() */' '#ifndef BAD' >runtime/base/bad.h
  echo 'int made(void);' >actors/session/core/one.h # two.c defines it
  echo '#include "runtime/tensor/type.h"' >shell/repl/bad.c
  echo '#include "runtime/tensor/type.h"' >examples/bad.c
  echo '#include "runtime/tensor/layout.h"' >sbp/sig.h
  printf '#include "%s"\n' sbp/net/net.h sbp/sig.h | tee sbp/proof/proof.c >sbp/search/search.c
  seq 900 >lua/long.lua
  echo 'tap.has("x", "y")' >t/bad.lua
  mkdir -p CMakeFiles/librille.dir/{actors/plan/model,actors/plan/sim,actors/session/core,shell/repl}
  echo 'int upper(void); int lower_down(void) { return upper(); }' >actors/plan/model/calls.c # a call within one part
  echo 'int lower_down(void); int upper(void) { return lower_down(); }' >actors/plan/sim/called.c
  echo 'int upper(void); int main(void) { return upper(); }' >shell/repl/calls.c
  echo 'int made(void); int make(void) { return made(); }' >actors/session/core/one.c # a call between files of one folder
  printf '%s\n' 'int make(void);' 'int made(void) { return make(); }' >actors/session/core/two.c
  for file in actors/plan/model/calls.c actors/plan/sim/called.c actors/session/core/{one,two}.c shell/repl/calls.c; do
    cc -c "$file" -o "CMakeFiles/librille.dir/$file.o"
  done
}

ok() { # ok NAME VIOLATIONS: passes if there are no violations
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
case ${2:-} in arrows | parts) # the words `arrows` and `parts` are used by docs/structure.lua
  "$2"
  exit ;;
esac
(cd "$planted" && plant && built=. && list_calls >calls.planted)
for rule in "${rules[@]}"; do
  ok "${rule//_/ }" "$($rule)"
  [ -n "$(cd "$planted" && calls=calls.planted $rule)" ] && missed="" || missed="the rule finds nothing in a tree that breaks it"
  ok "${rule//_/ }: a breach is found" "$missed"
done
echo "1..$n"
[ "$failed" = 0 ]
