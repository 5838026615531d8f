#!/usr/bin/perl
# prose.pl - measures how hard comments and pages are to read.
#
#   prose.pl [-n NAME] FILE...  one row per top-level folder or page (or one row NAME): sentences, and per cent with each fault
#   prose.pl -w 20 lua/*.lua    also the 20 worst sentences, with file and line
#   prose.pl -s FILE...         every sentence, with file and line
#   prose.pl -t FILE...         every comment, paragraph, and string with a blank in it, with file and line
#
# A sentence has a fault if it begins with a clause that has no subject (headless), joins two or more relative clauses,
# consists of pronouns to a fifth, or has more than 30 words. Text in parentheses belongs to no sentence.
use strict;
use warnings;

my %RELATIVE = map { $_ => 1 } qw(which what who whom whose that where whatever whoever whichever);
my %PRONOUN = map { $_ => 1 } qw(it its they them their one ones those these such this so other others another none all both each
  some any there);
my $HEADLESS = qr/^(?:(?:what|who|which|whose|whom|where)(?:so)?(?:ever)?|than|but for|nobody|nothing|how (?:many|much|long|often)
  |(?:in|for|by|to|from|on|of) (?:which|whom|what|those|these|them|it)|of (?:two|one)|that which|one that|those (?:that|which|who))\b/xi;
my $C = qr{"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+|//[^\n]*}ms;
my $LUA = qr{--\[\[.*?\]\]|(?:^[ \t]*--[^\n]*\n)+|--[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\[(=*)\[.*?\]\g{-1}\]}ms;
my $PYTHON = qr{[rbf]*""".*?"""|(?:^[ \t]*\#[^\n]*\n)+|\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'}ms;
my $HASH = qr{(?:^[ \t]*\#(?!!)[^\n]*\n)+}m;

sub slurp { my ($path) = @_; open my $f, '<', $path or die "$path: $!\n"; local $/; return scalar <$f> // '' }

# returns [line, prose] for each paragraph and list item of a page; omits code, tables and headings
sub paragraphs {
  my ($text) = @_;
  $text =~ s/^ *```.*?^ *```[^\n]*$/"\n" x (($& =~ tr,\n,,) + 1)/gmse;
  $text =~ s/^(?: {4,}|\||#)[^\n]*//gm;
  my @found;
  while ($text =~ /((?:^[^\n]*\S[^\n]*(?:\n|\z))+)/gm) {
    push @found, [1 + (substr($text, 0, $-[1]) =~ tr/\n//), 'prose', $1 =~ s/`[^`]*`/code/gr =~ s/\]\([^)]*\)/]/gr];
  }
  return @found;
}

sub texts {    # [line, 'prose' or 'string', text] of each comment, paragraph or string constant of a file
  my ($path) = @_;
  my $text = slurp($path);
  return paragraphs($text) if $path =~ /\.md$/;
  my $token = $path =~ /\.(?:c|cuh?|h|inc|def)$/ ? $C : $path =~ /\.lua$/ ? $LUA : $path =~ /\.py$/ ? $PYTHON : $HASH;
  my ($line, $at, @found) = (1, 0);
  while ($text =~ /$token/g) {
    my ($from, $to, $is) = ($-[0], $+[0], $&);
    $line += substr($text, $at, $from - $at) =~ tr/\n//;
    $at = $from;
    push @found, [$line, $is =~ /^(?:["'](?!"")|\[=*\[)/ ? 'string' : 'prose', $is];
    $found[-1][2] =~ s{^[ \t]*(?:/?\*+/?|//+|--+(?:\[\[)?|\#+|""") ?}{}gm if $found[-1][1] eq 'prose';
  }
  return @found;
}

sub sentences {    # returns [line, sentence, words...] for each sentence of a text
  my ($line, $text) = @_;
  1 while $text =~ s/\([^()]*\)/"\n" x ($& =~ tr,\n,,)/e;
  my @found;
  for my $piece (split /(?<=[.;:!?])(?=\s)|(?=\n\s*\n)|(?=\n\s*[-*] )/, $text) {
    my $first = $line + ($piece =~ /^(\s*)/ ? $1 =~ tr/\n// : 0);
    $line += $piece =~ tr/\n//;
    my @words = map { lc } $piece =~ /[A-Za-z][A-Za-z'-]+/g;
    my $letters = () = $piece =~ /[A-Za-z\s]/g;
    push @found, [$first, join(' ', split ' ', $piece), @words] if @words >= 5 && $letters > 0.8 * length $piece;
  }
  return @found;
}

sub faults {
  my ($sentence, @words) = @_;
  my @faults;
  push @faults, 'headless' if $sentence =~ s/^[^A-Za-z]+//r =~ $HEADLESS;
  push @faults, 'relatives' if (grep { $RELATIVE{$_} } @words) >= 2;
  push @faults, 'pronouns' if 5 * (grep { $PRONOUN{$_} } @words) >= @words;
  push @faults, 'long' if @words > 30;
  return @faults;
}

my ($mode, $worst, $name) = ('', 0);
while (@ARGV && $ARGV[0] =~ /^-([nstw])$/) {
  shift;
  if ($1 eq 'w') { $worst = shift } elsif ($1 eq 'n') { $name = shift } else { $mode = $1 }
}
my (%row, @worst);
for my $path (@ARGV) {
  my $folder = $name // ($path =~ m{^(?:\./)?([^/]+)})[0];
  for (texts($path)) {
    my ($line, $kind, $text) = @$_;
    if ($mode eq 't') { print "$path:$line: ", join(' ', split ' ', $text), "\n" if $kind eq 'prose' || $text =~ /\S\s+\S/; next }
    next if $kind eq 'string';
    for (sentences($line, $text)) {
      my ($first, $sentence, @words) = @$_;
      if ($mode eq 's') { print "$path:$first: $sentence\n"; next }
      my @faults = faults($sentence, @words);
      $row{$folder}{$_}++ for 'sentences', @faults, @faults ? 'marked' : ();
      next unless @faults;
      my $share = (grep { $RELATIVE{$_} || $PRONOUN{$_} } @words) / @words;
      push @worst, [@faults + $share, "$path:$first: [@faults] $sentence"];
    }
  }
}
exit if $mode;
printf "%-20s %9s %7s %9s %10s %9s %6s   per cent of sentences\n", '', qw(sentences marked headless relatives pronouns long);
for my $folder (sort keys %row) {
  my %of = %{$row{$folder}};
  printf "%-20s %9d %7.1f %9.1f %10.1f %9.1f %6.1f\n", $folder, $of{sentences},
    map { 100 * ($of{$_} // 0) / $of{sentences} } qw(marked headless relatives pronouns long);
}
print "$_->[1]\n" for grep { defined } (sort { $b->[0] <=> $a->[0] || $a->[1] cmp $b->[1] } @worst)[0 .. $worst - 1];
