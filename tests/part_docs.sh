# README.md and docs/: every command runs in a copy of the tree and prints what is shown right below it,
# every piece of C is part of the file that it names, every link leads somewhere: sourced by part.sh.
#   ```sh              runs and ends with 0; ```sh exits 3: with 3
#   ```text            what the commands right above print; `...` stands for what is left out
#   ```c examples/X.c  lines of that file; a whole program is all of it
#   ```vram            a model in the text form: vram estimate takes it
#   ```ANY lines of F  lines of that file
#   ```yaml keys of F  its keys, and what an id names, are in that file
#   ```ANY norun: WHY  is not run, and WHY is one of
#     needs WHAT, ...    what CI has not: options are those of the tool's manual page, Python can be read
#     part NAME has WORD another part of the tests runs it: its script has the word
#     tests/FILE runs it
#     what it prints     what a block prints that a test runs
#     of a run on a GPU  what one printed that needs a GPU
#     is the tests themselves
work=$PWD/build/docs
rm -rf "$work"
mkdir -p "$work/tree/build" "$work/block"
for f in *; do
  case $f in build | vram-*.tar.gz) ;; *) cp -Rp "$f" "$work/tree" ;; esac
done
cp -Rp build/models.h build/tool build/man "$work/tree/build" # what is built there is up to date (part install builds it anew)
library "$work/bin"
docs=${DOCS:-README.md CONTRIBUTING.md docs/*.md} # DOCS: some of them

# A. blocks
found=$(awk -v dir="$work/block" -f tests/docs.awk $docs)
if [ -z "$found" ]; then ok; else bad "$found"; fi
commands() { # commands STATUS: those of $block
  if grep -qw cc "$block.body" && ! have cc; then
    skip "no cc: $place"
    return
  fi
  if grep -q '[.]/server' "$block.body" && [ ! -x "$work/tree/server" ]; then
    skip "no server: $place"
    return
  fi
  if grep -q 'vram watch' "$block.body" && [ ! -e "$work/nvml.so" ]; then
    skip "no driver: $place"
    return
  fi
  if grep -q 'vram run' "$block.body" && [ ! -e libvram_preload.so ]; then
    skip "not Linux: $place"
    return
  fi
  # a program of examples/ gets the library that is there (part examples)
  path=$PATH
  grep -q '^cc.* examples/' "$block.body" && path=$work/bin:$PATH
  (unset MAKE MAKEFLAGS MAKELEVEL MFLAGS && export VRAM_NVML="${VRAM_NVML:-$work/nvml.so}" NVML_PID=$$ && cd "$work/tree" && PATH=$path sh -e "$block.body") >"$work/output" 2>&1 </dev/null
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
keys_of() { # keys_of FILE: of $block, beside those that a workflow and a list of hooks have anyway
  sed -n 's/^[ -]*\([a-z_]*\): *\(.*\)$/\1 \2/p' "$block.body" | while read -r key value; do
    case $key in
    uses | with | repo | rev | hooks | args) ;;
    id) grep -q "id: $value$" "$1" || echo "$key: $value" ;;
    *) grep -q "^ *$key:" "$1" || echo "$key" ;;
    esac
  done >"$work/output"
  same "$place: keys (>) that $1 has not" /dev/null "$work/output"
}
not_run() { # not_run WHY: a reason that can be looked at
  echo "not run: $place: $1"
  case $1 in
  "part "*" has "?*)
    script=${1#part } && script=tests/part_${script%% has *}.sh
    if grep -qF -- "${1#* has }" "$script"; then ok; else bad "$place: $script has no '${1#* has }'"; fi ;;
  "tests/"*" runs it") if [ -e "${1% runs it}" ]; then ok; else bad "$place: there is no ${1% runs it}"; fi ;;
  "what it prints") case $last in *" runs it" | "part "*) ok ;; *) bad "$place: nothing runs the block above" ;; esac ;;
  "of a run on a GPU") case $last in needs*) ok ;; *) bad "$place: the block above needs nothing" ;; esac ;;
  "is the tests themselves") ok ;;
  "needs "?*)
    for what in $(echo "${1#needs }" | sed -e 's/ and /,/g' -e 's/ //g' -e 's/,/ /g'); do
      case $what in PyTorch | Lightning | transformers | accelerate | aGPU | aNotebook | ziglang | node | debhelper | dh-python | minutes | vcpkg | Conan) ok ;; *) bad "$place: needs '$what'" ;; esac
    done
    for tool in export measure checkpoint; do # options of a page, without PyTorch
      grep -o "python tools/${tool}_torch.py [^|]*" "$block.body" | grep -o -e ' --[a-z-]*' | sort -u | while read -r option; do
        grep -q "^[.].*Fl.*${option#-}\( \|$\)" tools/install/vram-$tool.1 || echo "$option"
      done >"$work/output"
      same "$place: options (>) that the page of vram-$tool has not" /dev/null "$work/output"
    done
    case $words in
    python*) ! have python3 || cell "$place can be read" python3 -c "compile(open('$block.body').read(), '$place', 'exec')" ;;
    esac ;;
  *) bad "$place: not run, and no reason that can be looked up (the top of tests/part_docs.sh has those that can): $1" ;;
  esac
  case $1 in "what it prints" | "of a run on a GPU") ;; *) last=$1 ;; esac
}
# what some commands find: a server on a CUDA runtime in memory, and an NVIDIA driver
if have g++ && { have llvm-symbolizer || have addr2line; } && g++ -shared -fPIC -DLIBRARY -Wl,-soname,libcudart.so.13 -o "$work/libcudart.so.13" tests/preload/server.cpp; then
  cell "the server" g++ -g -o "$work/tree/server" tests/preload/server.cpp "$work/libcudart.so.13" -Wl,-rpath,"$work"
fi
! have cc || cc -w -shared -fPIC -o "$work/nvml.so" tests/watch/nvml.c
ran=0
for head in "$work"/block/*.head; do
  block=${head%.head}
  read -r place words <"$head"
  case $words in
  *" norun: "?*) not_run "${words#*norun: }" ;;
  sh) ran=$((ran + 1)) && commands 0 ;;
  "sh exits "[0-9]*) ran=$((ran + 1)) && commands "${words#sh exits }" ;;
  "c examples/"*) program "${words#c }" ;;
  *" lines of "*) program "${words#* lines of }" ;;
  *" keys of "*) keys_of "${words#* keys of }" ;;
  vram) cell "$place" ./vram estimate "$block.body" ;;
  *) bad "$place: a fence that says neither what it is nor 'norun: WHY': $words" ;;
  esac
done
# the commands of the first page's table
echo 'print("a program")' >"$work/tree/train.py"
sed -n '/^```sh/,/^```$/p' docs/advise.md | sed -n '/^torch.*CUDA out of memory/p' >"$work/tree/train.log"
sed -n 's/^| [^|]* | `\(\.\/vram [^`]*\)` |.*/\1/p' README.md >"$work/wishes"
while read -r wish; do
  case $wish in *" run "*) [ -e libvram_preload.so ] && have python3 || continue ;; esac
  cell "README.md: $wish" sh -c "cd '$work/tree' && $wish" </dev/null
done <"$work/wishes"
if [ "$(grep -c . "$work/wishes")" = 7 ]; then ok; else bad "README.md has not seven wishes of the command"; fi
if [ $ran -ge 30 ] || [ -n "$DOCS" ]; then ok; else bad "only $ran blocks of commands"; fi

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
