# Cuts the fenced blocks out of documents: awk -v dir=DIR -f docs.awk FILES. DIR/N.head holds
# `FILE:LINE WORDS` (the words behind the fence) and DIR/N.body what is between the fences. A text block
# that begins right below a block of commands is what these print: DIR/N.out.
function head(words) {
  n = sprintf("%03d", ++count)
  print FILENAME ":" FNR, words >(dir "/" n ".head")
  close(dir "/" n ".head")
  to = dir "/" n ".body"
}
FNR == 1 && inside { print last_file ": a fence is not closed" }
FNR == 1 { inside = 0; commands = 0 }
{ last_file = FILENAME }
/^```/ && inside {
  inside = 0
  close(to)
  next
}
/^```/ {
  words = substr($0, 4)
  inside = 1
  if (words == "text" && commands) to = dir "/" n ".out"
  else head(words)
  commands = words ~ /^sh/
  printf "" >to
  next
}
inside { print >to; next }
NF { commands = 0 }
END { if (inside) print last_file ": a fence is not closed" }
