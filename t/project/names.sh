#!/bin/bash
# names.sh - tests that replaced names do not come back, and that function names are unique, so that grep finds a
# function.
#
# names.tsv lists replaced names: old<TAB>new. An old name must not be an identifier in the sources. A function may be
# defined in one file only. Exempt are the members of operators' records (grad, infer, reals, ...), and the functions
# of runtime/base/system.h, which have a version per operating system. Each rule is also tried on a small tree that
# breaks it. Prints TAP.
set -u
n=0 failed=0
list=$PWD/t/project/names.tsv
folders=(runtime sbp boxing kernels actors shell)

sources() { find "${folders[@]}" -name '*.[ch]' -o -name '*.inc' -o -name '*.def' 2>/dev/null | sort; }
old_names_in_use() { # searches sources without comments and strings for old names
  sources | xargs -r -d '\n' perl -0777 -e '
    open my $list, "<", shift or die; my %new = map { (split /\t/)[0, 1] } split /\n/, <$list>;
    for my $file (@ARGV) {
      open my $f, "<", $file or next; my $text = <$f>;
      $text =~ s{/\*.*?\*/|"(?:\\.|[^"\\\n])*"}{}gs;
      my %seen = map { $_ => 1 } $text =~ /(?:struct )?\b[a-z]\w+/g, $text =~ /\b\w+/g;
      exists $seen{$_} and print "$file: $_ is called $new{$_}\n" for sort keys %new;
    }' "$list"
}
names_of_two_files() { # relies on the format: a function's name begins a line, after a line with its type
  sources | grep '\.c$' | grep -vE '^kernels/op/|/system_posix\.c$' | xargs -r -d '\n' perl -ne '
    print "$1 $ARGV\n" if /^([a-z]\w*)\(/ and $type; $type = /^[A-Za-z_][^;{}]*$/' |
    sort -u | awk '{ if ($1 == name && $2 != file) print name " is defined in " file " and " $2; name = $1; file = $2 }'
}
# A bare verb in a profile or a debugger does not say which file it is in. Functions of operators' records are called
# like the record's fields.
bare_verbs() {
  sources | grep -E '\.(c|inc)$' | grep -v '^kernels/op/' |
    xargs -r -d '\n' grep -nE '^(take|give|put|find|say|make|meet|settle|lines|run|build|fill|add|keep|let)\(.*[^;]$'
}

plant() {
  mkdir -p runtime/base sbp
  printf '%s\n' 'static int' "$(tail -1 "$list" | cut -f1)(void)" '{ return 0; }' 'static void' 'take(int x)' '{ }' >runtime/base/a.c
  printf '%s\n' 'static void' 'take(char *x)' '{ }' >sbp/b.c
}
ok() { # ok NAME VIOLATIONS [ALLOWED]: passes if there are no violations except allowed ones
  n=$((n + 1))
  [ "$(grep -c . <<<"$2")" -le "${3:-0}" ] && { echo "ok $n - $1"; return; }
  failed=1
  echo "not ok $n - $1"
  head -40 <<<"$2" | sed 's/^/#   /'
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
(cd "$planted" && plant)
ok "no replaced name is in use" "$(old_names_in_use)"
ok "a planted replaced name is found" "$([ -n "$(cd "$planted" && old_names_in_use)" ] || echo missed)"
ok "each function name is defined in one file, except for gelu_one and gelu_derivative_one, which macros name" "$(names_of_two_files)" 2
ok "a planted duplicate is found" "$([ -n "$(cd "$planted" && names_of_two_files)" ] || echo missed)"
ok "no function outside of operators' records has a bare verb as its name" "$(bare_verbs)"
ok "a planted bare verb is found" "$([ -n "$(cd "$planted" && bare_verbs)" ] || echo missed)"
echo "1..$n"
exit $failed
