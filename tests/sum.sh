#!/bin/sh
# The logs of the parts that have run, failures and skips first, then the counts.
cd "$(dirname "$0")/../build/part" || exit 1
for part; do
  [ -s "$part.log" ] || echo "$part: 0 passed, 1 failed" >"$part.log"
  sed '$d' "$part.log" | sed "s/^/$part| /"
done
echo
for part; do tail -n 1 "$part.log"; done
echo
for part; do tail -n 1 "$part.log"; done | awk '
  match($0, /: [0-9]+ passed, [0-9]+ failed/) {
    split(substr($0, RSTART + 2), w, " ")
    p += w[1]; f += w[3]; next
  }
  { f++ }
  END { print p + 0 " passed, " f + 0 " failed"; exit f > 0 }'
