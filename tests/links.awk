# Headings and links of documents: awk -f links.awk FILES. Prints `anchor FILE#NAME` for every heading,
# with the name that GitHub gives it, and `link FILE:LINE TARGET` for every link to a file of the tree.
function heading(text, base) {
  text = tolower(text)
  gsub(/[^a-z0-9 _-]/, "", text)
  gsub(/ /, "-", text)
  base = text
  if (seen[FILENAME "#" base]++)
    text = base "-" seen[FILENAME "#" base] - 1
  print "anchor " FILENAME "#" text
}
function link(target) {
  if (target ~ /^[a-z]+:/)
    return
  if (target ~ /^#/)
    target = FILENAME target
  else if (FILENAME ~ /\//) {
    folder = FILENAME
    sub(/[^\/]*$/, "", folder)
    target = folder target
  }
  while (target ~ /[^\/]+\/\.\.\//)
    sub(/[^\/]+\/\.\.\//, "", target)
  print "link " FILENAME ":" FNR " " target
}
FNR == 1 { inside = 0 }
/^```/ { inside = !inside }
inside { next }
/^#+ / { heading(substr($0, index($0, " ") + 1)) }
{
  gsub(/`[^`]*`/, "")
  while (match($0, /(\]\(|(src|href)=")[^)"]+/)) {
    at = substr($0, RSTART, RLENGTH)
    $0 = substr($0, RSTART + RLENGTH)
    sub(/^(\]\(|(src|href)=")/, "", at)
    link(at)
  }
}
