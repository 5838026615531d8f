#!/bin/bash
# prose.sh - tests that comments and pages are plain: t/project/prose.pl measures them by folder, and no comment or message has a
# replaced word of words.tsv.
. t/lib/tap.sh

mapfile -t files < <({ git ls-files || find . -type f -not -path './build*' | cut -c3-; } 2>/dev/null |
  grep -E '\.(c|cuh?|h|inc|def|lua|sh|md|cmake)$|CMakeLists\.txt$|^(python|t)/.*\.py$' | grep -v '^t/golden/')
matching() { printf '%s\n' "${files[@]}" | grep -E "$1"; } # matching PATTERN: prints the files whose paths match

# over NAME MARKED ROWS: prints the row NAME of the table in file ROWS if a percentage in it exceeds its limit: MARKED
# for sentences with any fault, fixed limits for two kinds of faults.
over() { awk -v name="$1" -v most="$2" '$1 == name && ($3 > most || $4 > 1.5 || $5 > 4)' "$3"; }
measured= # pattern of the files that the current check measures
tell() { [ -z "$measured" ] || matching "$measured" | xargs -d '\n' perl t/project/prose.pl -n all -w 15; }
plain() { # plain NAME MARKED PATTERN: checks the row NAME of these files; a failed check prints the worst sentences
  measured=$3
  is "$1: at most $2 % of the sentences are marked" "$(over "$1" "$2" "$dir/rows")" ""
  measured=
}

perl t/project/prose.pl "${files[@]}" >"$dir/rows"
matching '^[A-Z]*\.md$' | xargs perl t/project/prose.pl -n pages | tail -n +2 >>"$dir/rows"
for folder in $(matching / | sed 's,/.*,,' | grep -v '^\.' | sort -u); do
  plain "$folder" "$([ "$folder" = docs ] && echo 9 || echo 12)" "^$folder/"
done
plain rille.h 12 '^rille\.h$'
plain rille_operator.h 12 '^rille_operator\.h$'
plain README.md 9 '^README\.md$'
plain pages 12 '^[A-Z]*\.md$'

# replaced FILE...: prints the replaced words in comments, in paragraphs, and in strings that contain a blank. The
# glossary explains the words.
replaced() {
  perl t/project/prose.pl -t "$@" | perl -e '
    open my $list, "<", "t/project/words.tsv" or die;
    my %plain = map { chomp; split /\t/ } <$list>;
    my $any = join "|", map quotemeta, sort { length $b <=> length $a } keys %plain;
    while (my $text = <STDIN>) {
      my ($at) = $text =~ /^(\S+:\d+)/;
      print "$at: $1: write \"$plain{lc $1}\"\n" while $text =~ /\b($any)\b/gi;
    }'
}
mapfile -t texts < <(matching . | grep -v '^GLOSSARY\.md$')
is "no comment and no message has a replaced word" "$(replaced "${texts[@]}")" ""

cat >"$dir/bad.c" <<'C'
/* What is cut before it is that which those others, whose part it was, want there. */
/* Sends the message to every worker. */
const char *said = "a tenant is free";
C
perl t/project/prose.pl -n bad -w 1 "$dir/bad.c" | tr -s ' ' >"$dir/bad"
is "a headless sentence with pronouns and two relative words is found" "$(sed 's,.*bad.c:,,' "$dir/bad" | tail -2)" \
  "bad 2 50.0 50.0 50.0 50.0 0.0
1: [headless relatives pronouns] What is cut before it is that which those others, whose part it was, want there."
is "a folder above its limit is found" "$(over bad 60 "$dir/bad")" "bad 2 50.0 50.0 50.0 50.0 0.0"
is "a replaced word in a message is found" "$(replaced "$dir/bad.c" | sed 's,.*/,,')" 'bad.c:3: tenant: write "live range"'
finish
