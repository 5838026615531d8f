#!/usr/bin/perl
# pty.pl PROGRAM [ARG...] <STEPS - a terminal for tests. Runs the program on a new pseudo-terminal, executes the steps,
# and prints the terminal's output, without carriage returns and bracketed-paste marks. The exit code is the program's.
# Steps, one per line:
#   type TEXT     types TEXT; \n, \t, \e and \003 as in C
#   wait TEXT     waits until the output since the last wait contains TEXT (30 seconds at most)
#   match REGEX   waits until the output since the last wait matches REGEX (30 seconds at most)
#   within N TEXT   like wait, for N seconds at most; on timeout kills the program and exits with 99
#   columns N     resizes the window to N columns
#   hangup        closes the terminal; must be the last step
#   pause         waits one to two seconds, so that two signals are not merged
#   prompt        waits until the output ends with a prompt, "rille> " or " .. "; then the line editor echoes typed text
#                 after the prompt
use strict;
use warnings;
use Fcntl;
use POSIX qw(setsid :sys_wait_h);

# request numbers from <asm-generic/ioctls.h>
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
  my $window = pack("S4", 40, $ENV{PTY_COLUMNS} // 200, 0, 0); # size of the terminal: rows, columns
  ioctl($tty, $size, $window);
  POSIX::dup2(fileno($tty), $_) for 0 .. 2;
  close($master);
  # restores the default handling of SIGINT and SIGQUIT, because a shell ignores them in tests that it starts in the
  # background
  $SIG{$_} = "DEFAULT" for qw(INT QUIT);
  exec(@ARGV) or die "pty.pl: $ARGV[0]: $!\n";
}

my ($seen, $waited, $open, $hung, $code) = ("", 0, 1, 0, undef);

# Reads available output, waiting for at most $_[0] seconds. Returns false when the program has ended.
sub pull {
  my $set = "";
  vec($set, fileno($master), 1) = 1;
  return 1 unless select($set, undef, undef, $_[0]);
  $open = 0 unless sysread($master, $seen, 65536, length $seen);
  return $open;
}

# Waits until the output contains the text. Returns false after the given seconds.
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

# Waits up to 30 s for the program to end by itself, and keeps its exit status.
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
