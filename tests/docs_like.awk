# Is FOUND what WANTED shows? awk -f docs_like.awk WANTED FOUND. In WANTED `...` stands for any text
# within a line, and for any lines where it is a line of its own. Prints the first line that differs.
function like(wanted, found, part, n, i, at) {
  n = split(wanted, part, /\.\.\./)
  if (n < 2)
    return wanted == found
  if (substr(found, 1, length(part[1])) != part[1])
    return 0
  found = substr(found, length(part[1]) + 1)
  for (i = 2; i < n; i++) {
    at = index(found, part[i])
    if (!at && part[i] != "")
      return 0
    found = substr(found, at + length(part[i]))
  }
  at = length(found) - length(part[n])
  return at >= 0 && substr(found, at + 1) == part[n]
}
FILENAME == ARGV[1] { wanted[++nwanted] = $0; next }
{ found[++nfound] = $0 }
END {
  for (i = j = 1; i <= nwanted; i++) {
    if (wanted[i] != "...") {
      if (j > nfound || !like(wanted[i], found[j])) {
        print "shown: " wanted[i]
        print "found: " (j > nfound ? "(the end)" : found[j])
        exit 1
      }
      j++
    } else if (i == nwanted)
      j = nfound + 1
    else
      while (j <= nfound && !like(wanted[i + 1], found[j]))
        j++
  }
  if (j <= nfound) {
    print "not shown: " found[j]
    exit 1
  }
}
