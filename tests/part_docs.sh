# README.md and docs/: every command runs in a copy of the tree and prints what is shown right below it,
# every piece of C is part of the file that it names, every link leads somewhere: sourced by part.sh.
#   ```sh              runs and ends with 0; ```sh exits 3: with 3
#   ```text            what the commands right above print; `...` stands for what is left out
#   ```c examples/X.c  lines of that file; a whole program is all of it
#   ```vram            a model in the text form: vram estimate takes it
#   ```ANY norun: WHY  is not run
work=$PWD/build/docs
rm -rf "$work"
mkdir -p "$work/tree/build" "$work/block"
for f in *; do
  case $f in build | vram-*.tar.gz) ;; *) cp -Rp "$f" "$work/tree" ;; esac
done
cp -Rp build/models.h build/tool build/man "$work/tree/build" # what is built there is up to date (part install builds it anew)
library "$work/bin"
docs="README.md CONTRIBUTING.md docs/*.md"

# A. blocks
found=$(awk -v dir="$work/block" -f tests/docs.awk $docs)
if [ -z "$found" ]; then ok; else bad "$found"; fi
commands() { # commands STATUS: those of $block
  if grep -qw cc "$block.body" && ! have cc; then
    skip "no cc: $place"
    return
  fi
  if grep -q 'vram run' "$block.body" && [ ! -e libvram_preload.so ]; then
    skip "not Linux: $place"
    return
  fi
  # a program of examples/ gets the library that is there (part examples)
  path=$PATH
  grep -q '^cc.* examples/' "$block.body" && path=$work/bin:$PATH
  (unset MAKE MAKEFLAGS MAKELEVEL MFLAGS && cd "$work/tree" && PATH=$path sh -e "$block.body") >"$work/output" 2>&1 </dev/null
  status=$?
  if [ $status = "$1" ]; then ok; else
    bad "$place ends with $status"
    tail -5 "$work/output"
    return
  fi
  [ -f "$block.out" ] || return
  if awk -f tests/docs_like.awk "$block.out" "$work/output" >"$work/log"; then ok; else
    bad "$place prints something else"
    cat "$work/log"
  fi
}
program() { # program FILE: $block is it, or lines of it
  sed 's#examples/\([a-z_]*\.c\)#\1#g; s#"\.\./vram#"vram#' "$1" >"$work/whole"
  if grep -q '^int main' "$block.body"; then
    same "$place and $1 are one" "$work/whole" "$block.body"
    return
  fi
  grep -vxFf "$work/whole" "$block.body" >"$work/output"
  same "$place: lines (>) that $1 has not" /dev/null "$work/output"
}
ran=0
for head in "$work"/block/*.head; do
  block=${head%.head}
  read -r place words <"$head"
  case $words in
  *" norun: "?*) echo "not run: $place: ${words#*norun: }" ;;
  sh) ran=$((ran + 1)) && commands 0 ;;
  "sh exits "[0-9]) ran=$((ran + 1)) && commands "${words#sh exits }" ;;
  "c examples/"*) program "${words#c }" ;;
  vram) cell "$place" ./vram estimate "$block.body" ;;
  *) bad "$place: a fence that says neither what it is nor 'norun: WHY': $words" ;;
  esac
done
# the commands of the first page's table
echo 'print("a program")' >"$work/tree/train.py"
sed -n 's/^| [^|]* | `\(\.\/vram [^`]*\)` |.*/\1/p' README.md >"$work/wishes"
while read -r wish; do
  case $wish in *" run "*) [ -e libvram_preload.so ] && have python3 || continue ;; esac
  cell "README.md: $wish" sh -c "cd '$work/tree' && $wish" </dev/null
done <"$work/wishes"
if [ "$(grep -c . "$work/wishes")" = 6 ]; then ok; else bad "README.md has not six wishes"; fi
if [ $ran -ge 30 ]; then ok; else bad "only $ran blocks of commands"; fi

# B. links, the index, the length of the first page
awk -f tests/links.awk $(find . -name '*.md' ! -path './build/*' | sed 's:^\./::' | sort) >"$work/links"
sed -n 's/^anchor //p' "$work/links" >"$work/anchors"
sed -n 's/^link //p' "$work/links" >"$work/targets"
while read -r place target; do
  if [ ! -e "${target%%#*}" ]; then bad "$place: no file ${target%%#*}"
  elif [ "${target#*#}" = "$target" ] || grep -qxF "$target" "$work/anchors"; then ok
  else bad "$place: no heading $target"; fi
done <"$work/targets"
for f in docs/*.md CONTRIBUTING.md CHANGELOG.md LICENSE; do
  if grep -q "^README.md:[0-9]* $f\$" "$work/targets"; then ok; else bad "README.md does not lead to $f"; fi
done
sed -n '/^ \* Licence/,/^ \* ===/p' vram.h | sed -e '$d' -e 's/^ \*$//' -e 's/^ \* //' >"$work/licence"
same "LICENSE and the end of vram.h" LICENSE "$work/licence"
if [ "$(wc -l <README.md)" -le 250 ]; then ok; else bad "README.md has more than 250 lines: docs/ has the rest"; fi
