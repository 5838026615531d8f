#!/usr/bin/perl
# forward.pl TARGET BYTES [SECONDS | mute] - forwards TCP connections to the port TARGET, and prints the port that it
# opened. Ends the first connection after BYTES bytes in both directions. Then forwards nothing for SECONDS seconds:
# later connections are accepted and wait. With `mute`, the first connection stays open and carries nothing more.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes 'time';

my ($target, $left, $pause) = @ARGV;
my $mutes = ($pause || '') eq 'mute';
$pause = 0 if $mutes;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 8) or die "$!\n";
my $wait   = IO::Select->new($server);
my (%other, %first, @held, $until);
$| = 1;
print $server->sockport, "\n";

sub join_ends {    # forwards to a new connection to the target; returns false if there is no target yet
  my ($in) = @_;
  my $out = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $target) or return 0;
  $other{$in}  = $out;
  $other{$out} = $in;
  $first{$in}  = $first{$out} = 1 unless defined $until || %first;
  $wait->add($in, $out);
  return 1;
}

sub end_both {
  my ($end) = @_;
  if ($mutes && $first{$end}) {
    $wait->remove($end, $other{$end});
    $until = 0;
    return;
  }
  if (delete $first{$end}) {
    delete $first{$other{$end}};
    $until = time + ($pause || 0);
  }
  for my $e ($other{$end}, $end) {
    $wait->remove($e);
    delete $other{$e};
    close $e;
  }
}

sub forward {    # forwards the bytes that have arrived; returns false if the connection has ended
  my ($end) = @_;
  my $most = $first{$end} && $left < 4096 ? $left : 4096;
  my $bytes;
  return 0 unless $most && sysread $end, $bytes, $most;
  $left -= length $bytes if $first{$end};
  return syswrite($other{$end}, $bytes) && !($first{$end} && !$left);
}

$SIG{PIPE} = 'IGNORE';
while (1) {
  for my $end ($wait->can_read(0.05)) {
    if ($end == $server) { push @held, scalar $server->accept }
    elsif ($other{$end} && !forward($end)) { end_both($end) }
  }
  next if defined $until && time < $until;
  @held = grep { !join_ends($_) } @held;
}
