# damage.pl PID VALUE - searches the first 64 MiB of the shared memory that process PID has open for runs of 64 floats
# that equal VALUE. Flips one bit in each. Prints "damaged" or "not found".
use strict;
use warnings;
my ($pid, $value) = @ARGV;
my ($want, $hits, %seen) = (pack("f<", $value) x 64, 0);
for my $fd (glob "/proc/$pid/fd/*") {
  next unless (readlink($fd) // "") =~ /memfd/ && open my $memory, "+<", $fd;
  next if $seen{(stat $memory)[1]}++;
  sysread $memory, my $bytes, 64 << 20;
  for (my $at = index $bytes, $want; $at >= 0; $at = index $bytes, $want, $at + length $want) {
    sysseek $memory, $at + 8, 0;
    syswrite $memory, pack("C", 1 ^ ord substr $bytes, $at + 8, 1);
    $hits++;
  }
}
print $hits > 0 ? "damaged\n" : "not found\n";
