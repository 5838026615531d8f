#!/bin/bash
# messages.sh - tests that messages.txt lists the messages of the sources. Messages must use plain words.
#
# messages.txt has a line for each message: file and text (t/project/messages.pl). Check the list by reading it as a user
# would. "bash t/project/messages.sh list" renews it. messages.tsv has the forbidden wordings: a pattern, and better
# words. Messages of the plan verifier are exempt, because users see them only if the planner has a defect.
list() {
  find runtime sbp boxing kernels actors shell lua -name '*.[ch]' -o -name '*.cu' -o -name '*.def' -o -name '*.lua' |
    grep -v '^lua/pages' | xargs perl t/project/messages.pl
}
[ "${1:-}" = list ] && { list >t/project/messages.txt; exit; }
. t/lib/tap.sh

house_words() { # house_words: prints the messages of stdin that have a forbidden wording
  grep -vE '^actors/plan/verify' | perl -ne '
    BEGIN { open my $f, "<", "t/project/messages.tsv" or die; @rule = map { chomp; [split /\t/] } <$f> }
    ($text) = /^[^:]*: (.*)/; for my $rule (@rule) { print s/\n//r, "\n    write: $rule->[1]\n" if $text =~ /$rule->[0]/ }'
}

list >"$dir/now"
ok "messages.txt lists the messages; bash t/project/messages.sh list renews it" diff t/project/messages.txt "$dir/now"
is "no message has a refused wording" "$(house_words <t/project/messages.txt)" ""
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
