# processor.awk - reads lines "name, what, least, median" of all rounds. Prints one line for each name, with the least
# time and the least median of the training step and of inference.
BEGIN { FS = "\t" }
!($1 in row) { row[$1] = ++n; name[n] = $1 }
{ k = row[$1] SUBSEP $2
  if (!(k in least) || $3 < least[k]) least[k] = $3
  if (!(k in median) || $4 < median[k]) median[k] = $4 }
END {
  printf "%-30s %18s %18s\n", "ms, least / median", "training step", "inference"
  for (i = 1; i <= n; i++) {
    t = i SUBSEP "training"; f = i SUBSEP "inference"
    printf "%-30s %8.1f / %7.1f %8.1f / %7.1f\n", name[i], least[t], median[t], least[f], median[f]
  }
}
