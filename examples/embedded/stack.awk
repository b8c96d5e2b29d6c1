# The bytes of stack that a program needs at most: the deepest chain of calls from `start` in what
# gcc -fcallgraph-info=su wrote (*.ci). Functions of libgcc are in none of them: 32 bytes each.
BEGIN { FS = "\"" }
/^node:/ && $4 ~ / bytes \(static\)/ {
  own[$2] = $4
  sub(/.*\\n/, "", own[$2])
  own[$2] += 0
}
/^node:/ && $4 ~ /\((dynamic|bounded)/ { stop($2 " has no fixed frame") }
/^edge:/ { calls[$2] = calls[$2] "\"" $4 }
function stop(why) {
  print "stack.awk: " why >"/dev/stderr"
  exit failed = 1
}
function deepest(f,    n, i, to, most, below) {
  if (open[f])
    stop(f " calls itself")
  if (f == "__indirect_call")
    stop("a call through a pointer")
  if (!(f in own))
    return 32
  if (!(f in depth)) {
    open[f] = 1
    n = split(calls[f], to)
    for (i = 2; i <= n; i++) {
      below = deepest(to[i])
      if (below > most)
        most = below
    }
    open[f] = 0
    depth[f] = own[f] + most
  }
  return depth[f]
}
END {
  if (failed)
    exit 1
  if (!("start" in own))
    stop("no function `start`")
  print int((deepest("start") + 7) / 8) * 8
}
