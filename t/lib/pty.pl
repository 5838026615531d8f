#!/usr/bin/perl
# A terminal for tests: pty.pl PROGRAM [ARG...] <STEPS. Runs the program on a terminal of its own, follows the steps, and
# prints what the terminal showed, without carriage returns and the marks of bracketed paste. The exit code is the
# program's. Steps, one a line:
#   type TEXT     types it; \n, \t, \e and \003 as in C
#   wait TEXT     until the terminal showed TEXT since the last wait (30 seconds at most)
#   match REGEX   until what the terminal showed since the last wait matches (30 seconds at most)
#   within N TEXT   as wait, for N seconds at most: else the program is ended, and the exit code is 99
#   columns N     the window has so many from now on
#   hangup        closes the terminal; the last step
#   pause         a second or two, so that two signals are two
#   prompt        until a line begins with a prompt, "rille> " or "... .. ", and nothing follows: only then is what is
#                 typed echoed behind it, by the line editor
use strict;
use warnings;
use Fcntl;
use POSIX qw(setsid :sys_wait_h);

# From <asm-generic/ioctls.h>.
my ($lock, $number, $control, $size) = (0x40045431, 0x80045430, 0x540E, 0x5414);

sysopen(my $master, "/dev/ptmx", O_RDWR | O_NOCTTY) or die "pty.pl: no /dev/ptmx: $!\n";
my ($unlocked, $n) = (pack("i", 0), pack("i", 0));
ioctl($master, $lock, $unlocked) && ioctl($master, $number, $n) or die "pty.pl: no terminal: $!\n";
my $slave = "/dev/pts/" . unpack("i", $n);

my $pid = fork // die "pty.pl: $!\n";
if (!$pid) {
  setsid();
  sysopen(my $tty, $slave, O_RDWR) or die "pty.pl: $slave: $!\n";
  ioctl($tty, $control, 0);
  my $window = pack("S4", 40, $ENV{PTY_COLUMNS} // 200, 0, 0); # rows, columns
  ioctl($tty, $size, $window);
  POSIX::dup2(fileno($tty), $_) for 0 .. 2;
  close($master);
  $SIG{$_} = "DEFAULT" for qw(INT QUIT); # who runs tests behind a prompt ignores them
  exec(@ARGV) or die "pty.pl: $ARGV[0]: $!\n";
}

my ($seen, $waited, $open, $hung, $code) = ("", 0, 1, 0, undef);

# Reads what there is, for so many seconds at most; false when the program has ended.
sub pull {
  my $set = "";
  vec($set, fileno($master), 1) = 1;
  return 1 unless select($set, undef, undef, $_[0]);
  $open = 0 unless sysread($master, $seen, 65536, length $seen);
  return $open;
}

# Was it there?
sub wait_for {
  my ($text, $seconds) = @_;
  my ($end, $at) = time + $seconds;
  while (($at = index($seen, $text, $waited)) < 0 && $open && time < $end) { pull(0.1) }
  $waited = $at < 0 ? length $seen : $at + length $text;
  return $at >= 0;
}

sub match {
  my ($regex) = @_;
  my $end = time + 30;
  while (substr($seen, $waited) !~ /$regex/ && $open && time < $end) { pull(0.1) }
  $waited += substr($seen, $waited) =~ /$regex/ ? $+[0] : length($seen) - $waited;
}

sub wait_for_prompt {
  my $end = time + 30;
  while (substr($seen, $waited) !~ /[\r\n](?:\e\[\?2004h)?(?:rille> | *\.\. +)$/ && $open && time < $end) { pull(0.1) }
  $waited = length $seen;
}

sub type {
  my ($text) = @_;
  $text =~ s/\\(n|t|e|\d{3})/$1 eq "n" ? "\n" : $1 eq "t" ? "\t" : $1 eq "e" ? "\e" : chr oct $1/ge;
  syswrite($master, $text);
}

# Gives the program half a minute to end by itself.
sub hang {
  for (1 .. 300) { my $gone = waitpid($pid, WNOHANG); $code = status($?), last if $gone == $pid; select(undef, undef, undef, 0.1) }
}

sub status { return $_[0] & 127 ? 128 + ($_[0] & 127) : $_[0] >> 8 }

while (defined(my $step = <STDIN>) && $open) {
  chomp $step;
  if ($step =~ s/^type //) { type($step) }
  elsif ($step =~ s/^wait //) { wait_for($step, 30) }
  elsif ($step =~ s/^match //) { match($step) }
  elsif ($step =~ s/^within (\d+) //) { kill(9, $pid), $code = 99, last unless wait_for($step, $1) }
  elsif ($step =~ s/^columns //) { my $window = pack("S4", 40, $step, 0, 0); ioctl($master, $size, $window); pull(0.2) }
  elsif ($step eq "hangup") { close($master); ($open, $hung) = (0, 1); hang() }
  elsif ($step eq "prompt") { wait_for_prompt() }
  elsif ($step eq "pause") { my $end = time + 1; pull(0.1) while $open && time <= $end }
  else { die "pty.pl: $step?\n" }
}
my $end = time + 30;
while ($open && time < $end) { pull(0.5) }
if (!defined $code) {
  kill 9, $pid if $open || $hung;
  waitpid($pid, 0);
  $code = status($?);
}
$seen =~ s/\e\[\?2004[hl]|\r//g;
print $seen;
exit $code;
