# freeze.pl THREAD [MS] - stops one thread of a process until this program ends, at most 2 minutes, as a driver or a
# file system might. As a debugger does, keeps a process that was killed, so its parent cannot remove it.
# MS: first waits until the thread has computed for about this time, ms, so that it is stopped in a kernel. Prints
# "frozen" when the thread has stopped. Needs Linux's ptrace.
use strict;
my ($thread, $ms) = ($ARGV[0] + 0, ($ARGV[1] || 0) + 0);
my $ptrace = `uname -m` =~ /aarch64/ ? 117 : 101;
my ($seize, $interrupt, $all) = (0x4206, 0x4207, 0x40000000);
$| = 1;
syscall($ptrace, $seize, $thread, 0, 0) == 0 or die "freeze: ptrace: $!\n";
for (my $n = 0; 2 * $n < $ms;) {
  select undef, undef, undef, 0.002;
  open my $file, "<", "/proc/$thread/stat" or die "freeze: $thread: $!\n";
  $n = <$file> =~ /\) R / ? $n + 1 : 0;
}
syscall($ptrace, $interrupt, $thread, 0, 0) == 0 or die "freeze: ptrace: $!\n";
waitpid($thread, $all);
print "frozen\n";
sleep 120;
