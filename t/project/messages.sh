#!/bin/bash
# messages.sh - tests that the messages of the sources use plain words.
#
# "bash t/project/messages.sh list" prints all messages, a line each: file and text (t/project/messages.pl). Read new
# messages there as a user would. messages.tsv has the forbidden wordings: a pattern, and better words. Messages of the
# plan verifier are exempt, because users see them only if the planner has a defect.
list() {
  find runtime sbp boxing kernels actors shell lua -name '*.[ch]' -o -name '*.cu' -o -name '*.def' -o -name '*.lua' |
    grep -v '^lua/pages' | xargs perl t/project/messages.pl
}
[ "${1:-}" = list ] && { list; exit; }
. t/lib/tap.sh

house_words() { # house_words: prints the messages of stdin that have a forbidden wording
  grep -vE '^actors/plan/verify' | perl -ne '
    BEGIN { open my $f, "<", "t/project/messages.tsv" or die; @rule = map { chomp; [split /\t/] } <$f> }
    ($text) = /^[^:]*: (.*)/; for my $rule (@rule) { print s/\n//r, "\n    write: $rule->[1]\n" if $text =~ /$rule->[0]/ }'
}

list >"$dir/now"
ok "the sources in C and in Lua have messages" test "$(grep -c '\.c: ' "$dir/now")" -gt 1000 -a "$(grep -c '\.lua: ' "$dir/now")" -gt 500
is "no message has a refused wording" "$(house_words <"$dir/now")" ""
missed=0
while IFS= read -r text; do [ -n "$(house_words <<<"a.c: $text")" ] || { missed=1; echo "# not found: $text"; }; done <<'MESSAGES'
arange: a number is wanted, found %s
save: the options are a table, found %s
graph: zero must be 0 to 3, not %d
there is no device %d
the value lies on %s
the worker told %d bytes
%lld bytes moved a batch
nobody has address %x
MESSAGES
is "planted house words are found" $missed 0
printf '%s\n' 'f("one %d two" /* "no message" */' '  " three");' "/* \"comment a b\" */ assert(x && \"a b c\");" >"$dir/a.c"
is "adjacent literals are one message; comments and assertions are none" "$(perl t/project/messages.pl "$dir/a.c" | sed 's/^[^ ]* //')" 'one %d two three'
finish
