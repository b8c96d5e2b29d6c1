# A manual page (mdoc) of the help of a command:
#   awk -v name=fit -v date="Month D, YEAR" -f man.awk MAIN FIT
# MAIN: the text of `vram -h`, whose line of the command is the page's title; FIT: that of `vram fit -h`,
# or of `vram help fit` where it is no command (then the page is one of section 7). In a help a line at
# the margin is prose, or the title of what is below it; options and other words that are explained begin
# with two blanks, or at the margin; what is said of them stands in the 25th column.
function escape(s) { # a line of text
  gsub(/\\/, "\\e", s)
  gsub(/--/, "\\-\\-", s)
  gsub(/\(\)/, "\\\\\\&()", s) # a function's name, to mandoc's lint
  return (s ~ /^[.']/ ? "\\&" : "") s
}
function flush_text(n, word, i, text) { # the paragraph: a sentence begins a line, 70 columns at most
  n = split(paragraph, word, / +/)
  for (i = 1; i <= n; i++) {
    if (text != "" && length(text) + length(word[i]) > 69) { print escape(text); text = "" }
    text = text (text == "" ? "" : " ") word[i]
    if (word[i] ~ /[.?!]["')\]]*$/) { print escape(text); text = "" }
  }
  if (text != "") print escape(text)
  paragraph = ""
}
function say(s) {
  if (!told && part == "DESCRIPTION") told = 1
  paragraph = paragraph (paragraph == "" ? "" : " ") s
}
function end_list() {
  flush_text()
  if (in_list) print ".El"
  in_list = 0
}
function section(title) {
  end_list()
  if (part == "DESCRIPTION" && !told) print toupper(substr(page_title, 1, 1)) substr(page_title, 2) "."
  print ".Sh " title
  part = title
  begun = 1
}
function argument(s) { # of a macro, that neither is one
  gsub(/\\/, "\\e", s)
  return (s ~ /^[A-Z%][A-Za-z0-9]$/ ? "\\&" : "") s
}
function arguments(s, n, word, i, k, m, piece, end, kind, last, to) { # --step first|second|N
  n = split(s, word, / +/)
  for (i = 1; i <= n; i++) {
    end = ""
    if (word[i] ~ /[,:]$/) {
      end = " " substr(word[i], length(word[i]))
      word[i] = substr(word[i], 1, length(word[i]) - 1)
    }
    if (word[i] == "|") { to = to " |"; continue }
    m = 1
    piece[1] = word[i]
    if (word[i] !~ /^-|\[/) m = split(word[i], piece, "|")
    for (k = 1; k <= m; k++) {
      kind = "Ar"
      if (piece[k] ~ /^-/) { kind = "Fl"; piece[k] = substr(piece[k], 2) }
      else if (piece[k] ~ /^[a-z0-9_.:-]+$/) kind = "Cm"
      to = to (k > 1 ? " |" : "") (kind != last || k == 1 ? " " kind : "") " " argument(piece[k])
      last = kind
    }
    to = to end
  }
  sub(/ $/, "", to) # of -
  return substr(to, 2)
}
function explains(s) { # is it a word and what it means?
  return s ~ /^  --?[a-z]/ || s ~ /^ ? ?[^ ].*   *[^ ]/ && substr(s, 23, 3) ~ /^  [^ ]/
}
function goes_on(s) { return s ~ /^                        / }
function item(s, head) {
  if (part == "DESCRIPTION" && options) section("OPTIONS")
  flush_text()
  if (!in_list) print ".Bl -tag -width Ds"
  in_list = 1
  begun = 0
  head = s
  if (match(s, /   *[^ ]/)) head = substr(s, 1, RSTART - 1)
  else if (match(s, / \(/)) head = substr(s, 1, RSTART - 1) # --height N (default: ...)
  print head ~ /^-/ ? ".It " arguments(head) : ".It Li \"" argument(head) "\""
  s = substr(s, length(head) + 1)
  sub(/^ */, "", s)
  if (s != "") say(s)
}
function usage(s, n, word, i, to) {
  n = split(s, word, / +/)
  for (i = 1; i <= n; i++) {
    if (word[i] == "[options]") to = "\n.Op Ar options"
    else if (word[i] ~ /^\[[^\]]*$/) to = "\n.Oo " arguments(substr(word[i], 2))
    else if (word[i] ~ /^[^\[]*\]$/) to = " " arguments(substr(word[i], 1, length(word[i]) - 1)) " Oc"
    else if (word[i] ~ /^\[.*\]$/) to = "\n.Op " arguments(substr(word[i], 2, length(word[i]) - 2))
    else to = (word[i] == "|" || word[i - 1] == "|" || word[i - 1] ~ /^\[?--?[a-z]/ ? " " : "\n.") arguments(word[i])
    printf "%s", to
  }
  print ""
}
FNR == NR { # `  vram fit MODEL        the largest batch`
  if (/^  vram [a-z]/) {
    match($0, /   *[^ ]/)
    command[++commands] = $2 == "help" ? $3 : $2
    known[command[commands]] = $2 == "help" ? 7 : 1
    if (command[commands] == name && match(substr($0, 3), /   *[^ ]/))
      page_title = substr($0, RSTART + RLENGTH + 1)
  }
  next
}
{ line[++lines] = $0 }
/^  --?[a-z]/ { options = 1 }
explains($0) { last_item = lines }
END {
  if (page_title == "") exit 1
  print ".\\\" made of the help of the command by tools/install/man.awk"
  print ".Dd " date
  print ".Dt VRAM-" toupper(name) " " known[name]
  print ".Os"
  print ".Sh NAME"
  print ".Nm vram-" name
  print ".Nd " page_title
  print ".Sh SYNOPSIS"
  printf ".Nm vram"
  synopsis = line[1]
  sub(/^vram /, "", synopsis)
  sub(/   +.*/, "", synopsis)
  usage(synopsis)
  section("DESCRIPTION")
  for (i = 2; i <= lines; i++) {
    s = line[i]
    body = s
    sub(/^ +/, "", body)
    if (s == "") flush_text()
    else if (goes_on(s)) say(body)
    else if (s ~ /^  vram /) {
      flush_text()
      print ".Bd -literal -offset indent\n" escape(body) "\n.Ed"
    } else if (explains(s) || (s ~ /^(vram |--|[A-Z])/ && goes_on(line[i + 1]))) item(body)
    else if (s ~ /^  /) say(body)
    else if (explains(line[i + 1]) && line[i + 1] ~ /^ / || goes_on(line[i + 1])) { # a title
      if (part == "DESCRIPTION" && options) section("OPTIONS")
      end_list()
      print ".Ss " escape(s ~ /:$/ ? substr(s, 1, length(s) - 1) : s)
      begun = 1
    } else {
      was_blank = line[i - 1] == ""
      if (s ~ /^Environment: /) { section("ENVIRONMENT"); sub(/^Environment: /, "", s) }
      else if (s ~ /^Exit status/) { section("EXIT STATUS"); sub(/^Exit status:? /, "", s) }
      else if (i > last_item && part == "OPTIONS") section("NOTES")
      else if (in_list || was_blank) {
        end_list()
        if (!begun) print ".Pp"
      }
      say(s)
      begun = 0
    }
  }
  section("SEE ALSO")
  text = ""
  for (i = 1; i <= lines; i++) text = text " " line[i]
  printf ".Xr vram 1"
  for (i = 1; i <= commands; i++)
    if (command[i] != name && (text ~ "vram ([a-z|]*[|])?" command[i] "[^a-z_.]" || command[i] == "parallel" && text ~ /--parallel/))
      printf " ,\n.Xr vram-%s %d", command[i], known[command[i]]
  print ""
}
