# Steps of generations as `vram estimate --generate --csv` has them (second file) beside the golden
# ones (first file): what differs.
FNR == NR {
  if (!/^#/) want[$1 " " $2 " " $3 " " $4 " " $5 " " $6 " " $7 " " $8 " " $9] = $10 " " $11 " " $12 " " $13
  next
}
{
  key = $1 " " $2 " " $3 " " $4 " " $5 " " $6 " " $7 " " $8 " " $9
  n = split(want[key], w, " ")
  if (n != 4) next
  delete want[key]
  same = ($9 == 0 || w[1] == $10) && w[2] == $12
  if (same && w[3] != "-") same = w[3] == $13 && w[4] == $14
  if (!same) print key ": " $10 " " $12 " " $13 " " $14 ", measured " w[1] " " w[2] " " w[3] " " w[4]
}
END { for (k in want) print k ": no step" }
