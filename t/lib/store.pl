#!/usr/bin/perl
# store.pl [KEY VALUE...] - stands in for the store of torchrun's agent (TCPStore of PyTorch) and contains these
# values. Prints its port, and each request that changes a key. Ends when its stdin ends.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

my $server = IO::Socket::INET->new(Listen => 64, LocalAddr => "127.0.0.1") or die "store.pl: $!\n";
$| = 1;
print $server->sockport, "\n";
my $all = IO::Select->new($server, \*STDIN);
my %value = @ARGV;
my %input; # received bytes, by connection

# field BYTES AT N: returns N bytes of a request, and advances AT; dies if the request is incomplete.
sub field { my ($b, $at, $n) = @_; length $$b >= $$at + $n ? substr($$b, ($$at += $n) - $n, $n) : die "more\n" }
sub number { unpack "Q", field(@_, 8) }
sub text { my ($b, $at) = @_; field($b, $at, number($b, $at)) }

# Executes the first request of a connection. Dies with "more" if the request is incomplete, and with "wait" if the
# store does not have the requested key yet.
sub serve {
  my ($c, $b) = @_;
  my $at = 0;
  my $kind = unpack "C", field($b, \$at, 1);
  if ($kind == 0) { unpack("L", field($b, \$at, 4)) == 0x3c85f7ce or die "no magic number\n" }
  elsif ($kind == 1) { my $k = text($b, \$at); $value{$k} = text($b, \$at); print "set $k $value{$k}\n" }
  elsif ($kind == 3) { my $v = $value{text($b, \$at)}; syswrite $c, pack("Q", length $v) . $v }
  elsif ($kind == 6) { my @k = map { text($b, \$at) } 1 .. number($b, \$at); if (grep { !exists $value{$_} } @k) { die $at == length $$b ? "wait\n" : "a request follows WAIT\n" } syswrite $c, "\0" }
  elsif ($kind == 8) { my $k = text($b, \$at); my $had = defined delete $value{$k}; print "delete $k\n"; syswrite $c, pack("Q", $had ? 1 : 0) }
  else { die "unknown kind $kind\n" }
  substr $$b, 0, $at, "";
}

while (1) {
  for my $c ($all->can_read) {
    exit if $c == \*STDIN;
    if ($c == $server) { my $new = $server->accept; $all->add($new); $input{$new} = ""; next }
    sysread($c, $input{$c}, 65536, length $input{$c}) or $all->remove($c);
  }
  for my $c ($all->handles) { # a changed key may end a wait of another connection
    1 while defined $input{$c} && length $input{$c} && eval { serve($c, \$input{$c}); 1 };
    die $@ if $@ && $@ !~ /^(more|wait)$/;
  }
}
