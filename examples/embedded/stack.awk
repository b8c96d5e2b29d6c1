# The bytes of stack that a program needs at most: the deepest chain of calls from a function in what
# gcc -fcallgraph-info=su wrote (*.ci: the frames of -fstack-usage and the calls). Functions of libgcc
# are in none of them: 32 bytes each.
#   awk [-v entry=NAME] [-v chain=1] -f stack.awk *.ci     entry: `start` if not given; chain: who is in it
BEGIN {
  FS = "\""
  if (entry == "")
    entry = "start"
}
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
function show(f,    n, i, to, next_) {
  while (f != "") {
    printf "%6d  %s\n", f in own ? own[f] : 32, f
    next_ = ""
    n = split(calls[f], to)
    for (i = 2; i <= n; i++)
      if (next_ == "" || deepest(to[i]) > deepest(next_))
        next_ = to[i]
    f = next_
  }
}
END {
  if (failed)
    exit 1
  if (!(entry in own))
    stop("no function `" entry "`")
  bytes = int((deepest(entry) + 7) / 8) * 8
  if (chain) {
    show(entry)
    print bytes " bytes of stack, at most"
  } else
    print bytes
}
