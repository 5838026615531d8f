#!/usr/bin/perl
# messages.pl FILE... - prints a sorted list of the messages in C and Lua sources, one per line: "file: text".
#
# A message is a string literal of two words or more that a user can read in an error, a warning, a report or a
# picture. Adjacent literals are one message. Comments, assertions, operators' records and generated code are left
# out.
use strict;
use warnings;

my $string = qr/"(?:\\.|[^"\\\n])*"/;
my $other = qr/'(?:\\.|[^'\\\n])*'/;

sub source {    # returns a source without comments, and without strings that no user sees
  my ($file) = @_;
  open my $f, '<', $file or die "$file: $!\n";
  my $text = join '', <$f>;
  my $comment = $file =~ /\.lua$/ ? qr/--\[(=*)\[.*?\](?:\g{-1})\]|--[^\n]*/s : qr{/\*.*?\*/|//[^\n]*}s;
  $text =~ s{($string|$other)|$comment}{$1 // ' '}ge;
  return $text if $file =~ /\.lua$/;
  $text =~ s/^(?:#include|#pragma)[^\n]*|\b\w*(?:assert|__asm__ volatile)\([^;]*;//mgi;
  $text =~ s/^const struct op \w+ = \{.*?^\};//msg;
  $text =~ s/\.doc = (?:$string\s*)+//g;
  return $text;
}

sub is_code {    # returns true if a string is CUDA, SVG, JSON, or a sample of an operator's operands
  my ($text, $file) = @_;
  return 1 if $file =~ m{^kernels/cuda/} && $text =~ /[;{}]\\n|\\n\{|METHOD|\bstruct |\bconst |int64_t|\(%d, |\b(?:enum|typedef) |operator\(\)|now[._]|0x/;
  return $text =~ /[a-z]='|\bfont-|\{\\"|"\w+\\":|^(?:[a-z]{1,4}\d+|bool)\{/;
}

sub messages {
  my ($file) = @_;
  my $text = source($file);
  my $join = $file =~ /\.lua$/ ? qr/\s*\.\.\s*/ : qr/\s*(?:PRI\w+\s*)?/;
  my @found;
  while ($text =~ /((?:$string|$other)(?:$join$string)*)/g) {
    next if substr($1, 0, 1) eq "'";
    my $message = join '', map { /^"(.*)"$/s } $1 =~ /$string/g;
    push @found, $message if $message =~ /[a-z%].* .* ?\S/ && $message =~ /[a-z]{2}.* .*[a-z%]/ && !is_code($message, $file);
  }
  return @found;
}

for my $file (sort @ARGV) {
  my %seen;
  print "$file: $_\n" for sort grep { !$seen{$_}++ } messages($file);
}
