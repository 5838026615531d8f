#!/usr/bin/perl
# stop.pl path/to/rille - sends SIGINT at random moments of plain and compiled training loops. No parameter may be
# updated by half a step, an interrupted step must not be counted, and the following losses must equal those of an
# undisturbed process that starts in the same state. RILLE_LONG=1 sends 1,000 signals; SEED= repeats the moments. Prints
# TAP.
use strict;
use warnings;
use File::Temp qw(tempdir);
use IPC::Open2;
use Time::HiRes qw(usleep);

my $rille = shift;
my $seed = $ENV{SEED} // time;
my $trials = $ENV{RILLE_LONG} ? 500 : 25;
srand $seed;
print "# SEED=$seed\n1..6\n";
my ($n, $failed, $dir) = (0, 0, tempdir(CLEANUP => 1));
for my $way ("plain", "compiled") {
  my $pid = open2(my $out, my $in, $rille, "-d", "cpu:4", "t/host/stop.lua", $way, $trials, "$dir/$way");
  my ($sent, $done, $losses, @bad) = (0, 0, "");
  while (my $line = <$out>) {
    if ($line eq "go\n") { usleep(rand 8000); kill INT => $pid; $sent++; usleep(3000); print $in "\n"; $in->flush }
    elsif ($line =~ /^done/) { $done = $line }
    elsif ($line =~ /^losses/) { $losses = $line }
    else { push @bad, $line; push @bad, "(after $sent signals)\n" }
  }
  waitpid $pid, 0;
  print "# $_" for @bad;
  my $whole = !@bad && $sent == $trials;
  print $whole ? "ok " : "not ok ", ++$n, " - $sent interruptions of a $way loop leave no variable half written\n";
  print $done && $? == 0 ? "ok " : "not ok ", ++$n, " - the $way loop continues\n";
  my ($again) = grep /^losses/, `$rille -d cpu:4 t/host/stop.lua $way 0 $dir/$way`;
  my $same = $losses && $again && $losses eq $again;
  print "# $losses# ", $again // "none\n" unless $same;
  print $same ? "ok " : "not ok ", ++$n, " - with the losses of an undisturbed process\n";
  $failed ||= !$whole || !$done || !$same;
}
exit $failed;
