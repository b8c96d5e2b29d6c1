# The text of a help out of a source file that the preprocessor has been through:
#   cc -E -P -DVRAM_H_INCLUDED tools/vram_fit.c | awk -v name=help_fit -f help.awk
# so that no program has to run, which may be one of another machine. Strings have no escapes but \n, \" and \\.
{ text = text $0 "\n" }
END {
  at = index(text, " " name "[] = {")
  if (!at) at = index(text, " " name " = {")
  if (!at) exit 1
  for (text = substr(text, index(substr(text, at), "{") + at); (c = substr(text, 1, 1)) != "}"; text = substr(text, 2)) {
    if (c != "\"") continue
    match(text, /^"([^"\\]|\\.)*"/)
    piece = substr(text, 2, RLENGTH - 2)
    text = substr(text, RLENGTH)
    while (match(piece, /\\./)) {
      c = substr(piece, RSTART + 1, 1)
      printf "%s%s", substr(piece, 1, RSTART - 1), c == "n" ? "\n" : c
      piece = substr(piece, RSTART + 2)
    }
    printf "%s", piece
  }
}
