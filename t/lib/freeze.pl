# freeze.pl THREAD - stops one thread of a process until this program ends, as a driver or a file system would. Prints
# "frozen" when it has stopped. Needs Linux's ptrace.
use strict;
my $thread = $ARGV[0] + 0;
my $ptrace = `uname -m` =~ /aarch64/ ? 117 : 101;
my ($seize, $interrupt, $all) = (0x4206, 0x4207, 0x40000000);
$| = 1;
syscall($ptrace, $seize, $thread, 0, 0) == 0 or die "freeze: ptrace: $!\n";
syscall($ptrace, $interrupt, $thread, 0, 0) == 0 or die "freeze: ptrace: $!\n";
waitpid($thread, $all);
print "frozen\n";
1 while waitpid(-1, $all) > 0;
