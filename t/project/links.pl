#!/usr/bin/perl
# links.pl FILE... - checks the links of Markdown files. Prints each link whose file or heading does not exist, and
# the number of all links.
use strict;
use warnings;

my ($nlinks, %headings);

sub prose_of {    # returns the page's text without code
  my ($path) = @_;
  open my $file, '<:encoding(UTF-8)', $path or die "$path: $!\n";
  local $/;
  my $text = <$file>;
  $text =~ s/^```.*?^```$//msg;
  return $text =~ s/`[^`\n]*`/`/gr;
}

sub headings_of {    # returns the headings' anchors, as GitHub makes them
  my ($path) = @_;
  return $headings{$path} //= do {
    open my $file, '<:encoding(UTF-8)', $path or die "$path: $!\n";
    +{map { /^#+ +(.*?)\s*$/ ? (lc($1) =~ s/[^\w\- ]//gr =~ tr/ /-/r => 1) : () } <$file>};
  };
}

for my $path (@ARGV) {
  my $folder = $path =~ s{[^/]*$}{}r;
  for my $link (prose_of($path) =~ /\]\(([^()\s]+)\)/g) {
    next if $link =~ /^[a-z]+:/;
    $nlinks++;
    my ($name, $heading) = split /#/, $link, 2;
    my $target = $name eq '' ? $path : "$folder$name";
    if (!-e $target) { print "$path: $link: no such file\n" }
    elsif (defined $heading && !headings_of($target)->{$heading}) { print "$path: $link: no such heading\n" }
  }
}
printf "%d links\n", $nlinks // 0;
