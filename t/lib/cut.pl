#!/usr/bin/perl
# cut.pl SECONDS PID... - ends every TCP connection of these processes again and again, at random moments, for a time.
# Prints the number of connections that it ended. SEED= repeats the moments. Ends with 77 if the kernel does not permit
# to open sockets of other processes.
use strict;
use warnings;
use Time::HiRes qw(time sleep);

use constant {PIDFD_OPEN => 434, PIDFD_GETFD => 438, SHUT_RDWR => 2};
my ($seconds, @pids) = @ARGV;
my $ncut = 0;
srand($ENV{SEED} || 1);

sub cut_one {    # ends a connection, given by its process and descriptor
  my ($pidfd, $number) = @_;
  my $fd = syscall(PIDFD_GETFD, $pidfd, $number + 0, 0);
  exit 77 if $fd < 0 && ($!{EPERM} || $!{ENOSYS});
  return if $fd < 0;
  open my $socket, '+<&=', $fd or return;
  my $peer = getpeername $socket;
  return unless $peer && (unpack 'S', $peer) =~ /^(?:2|10)$/;    # AF_INET, AF_INET6
  $ncut += shutdown($socket, SHUT_RDWR) || 0;
}

my $until = time + $seconds;
while (time < $until) {
  sleep 0.3 + rand 0.5;
  for my $pid (@pids) {
    my $pidfd = syscall(PIDFD_OPEN, $pid + 0, 0);
    next if $pidfd < 0;
    for my $path (glob "/proc/$pid/fd/*") {
      next unless (readlink $path // '') =~ /^socket:/;
      cut_one($pidfd, $path =~ s{.*/}{}r);
    }
    open my $closes, '+<&=', $pidfd;
  }
}
print "$ncut\n";
