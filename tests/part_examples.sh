# examples/: each compiles and runs with the command in its first line and prints what stands behind
# it; as C99 and as C++11 no compiler warns: sourced by part.sh.
work=$PWD/build/examples
rm -rf "$work"
mkdir -p "$work/tree"
cp -R vram vram.h vram_cuda.h examples "$work/tree" # what the commands write stays there
strict="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror"
# the implementation is the same in all: one brings its own, the others get the one that the command has
library "$work/bin"
run() { (cd "$work/tree" && PATH=$path sh -c "$1") >"$work/output" 2>&1; }
by_command() { # by_command FILE STATUS: the command, then what it prints, up to an empty line or the end
  awk '
    /^#!/ { next }
    { last = sub(/ *\*\/$/, ""); sub(/^\/\* |^# ?|^   /, "") }
    $0 == "" { exit }
    { print }
    last { exit }' "$1" >"$work/head"
  run "$(sed -n 1p "$work/head")"
  status=$?
  sed 1d "$work/head" >"$work/wanted"
  if [ $status = "$2" ]; then ok; else bad "$1 ends with $status"; fi
  if [ -s "$work/wanted" ]; then ok; else bad "$1 does not say what it prints"; fi
  case $1 in
  */cuda_*) # on a device of its own it says other sizes
    if ! grep -q '^no CUDA device (.*): a pretended one' "$work/output"; then
      skip "$1 is compared on machines without a GPU"
      return
    fi
    sed '/^no CUDA device/d' "$work/output" >"$work/said"
    mv "$work/said" "$work/output" ;;
  esac
  for said in "$work/wanted" "$work/output"; do # times are those of the day
    sed '/^seconds /d' "$said" >"$work/said" && mv "$work/said" "$said"
  done
  same "$1 prints" "$work/wanted" "$work/output"
}
for f in examples/*.c; do
  case $f in
  *_vram.c) ;; # the second file of an example
  *) case $f in *two_units*) path=$PATH ;; *) path=$work/bin:$PATH ;; esac
    have cc && by_command "$f" 0 || skip "no cc: $f" ;;
  esac
  # what the example itself says; the implementation behind it is another part's (link)
  cell "$f, C99" "${CC:-cc}" -std=c99 $strict -DVRAM_IMPLEMENTATION_INCLUDED -fsyntax-only "$f"
  for cc in g++ clang++; do
    have $cc && cell "$f, C++11, $cc" $cc -std=c++11 $strict -DVRAM_IMPLEMENTATION_INCLUDED -x c++ -fsyntax-only "$f"
  done
done
path=$PATH
by_command examples/ci_gate.sh 3
gate() { # gate STATUS TEXT ARGUMENTS
  run "VRAM=./vram sh examples/ci_gate.sh $3"
  if [ $? = "$1" ] && grep -q "$2" "$work/output"; then ok; else
    bad "ci_gate.sh $3"
    cat "$work/output"
  fi
}
gate 0 "bytes of 25769803776: fits" "examples/models/resnet50.vram 24GiB"
gate 2 "cannot open" "examples/none.vram 24GiB"
gate 2 "not a size" "examples/models/resnet50.vram much"

# the tour (docs/tour.md has what it prints): whole in a pipe, by parts, from elsewhere, without the tree; its picture
if sh examples/tour.sh >"$work/tour" 2>&1; then ok; else bad "tour.sh ends with $?"; fi
if grep -q -e "$(printf '\033')" -e '^(exit status [^3]' -e '^(no ' "$work/tour"; then
  bad "tour.sh: colours in a pipe, or what failed"
  grep -e '^(' "$work/tour"
else ok; fi
sh examples/tour.sh --part 6 >"$work/wanted" 2>&1
(here=$PWD && cd "$work/tree/examples" && VRAM="$here/vram" TERM=dumb sh "$here/examples/tour.sh" --part=gguf) >"$work/output" 2>&1
same "tour.sh --part, by number and by word" "$work/wanted" "$work/output"
grep -vxFf "$work/tour" "$work/wanted" >"$work/output"
same "tour.sh: lines of a part alone" /dev/null "$work/output"
cell "tour.sh without the tests" sh "$work/tree/examples/tour.sh" --part replay
if grep -q 'lenet5.pickle is not here' "$work/log"; then ok; else bad "tour.sh does not say what is missing"; fi
refuse "tour.sh: a part" "no part '12'" sh examples/tour.sh --part 12
refuse "tour.sh: a word" "'estimate' (expected --part" sh examples/tour.sh estimate
refuse "tour.sh: no command" "VRAM=./none is no command" env VRAM=./none sh examples/tour.sh
if have cc && [ -e libvram_preload.so ]; then # what the picture shows the tour prints
  grep -o '<text[^>]*>[^<]*' examples/tour.svg | sed -e 's/<[^>]*>//' -e 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' |
    awk -v tour="$work/tour" '
      BEGIN { while ((getline line <tour) > 0) all = all line "\n" }
      length($0) > 2 { n++ }
      !/[.][.][.]/ && !index(all, $0) { print }
      END { if (n < 100) print n + 0 " texts in the picture" }' >"$work/output"
  same "examples/tour.svg: lines (>) that the tour does not print: make tour.svg" /dev/null "$work/output"
else skip "no cc, or not Linux: what examples/tour.svg shows"; fi

# the table of docs/examples.md has every example
ls examples | grep -e '\.cu*$' -e '\.sh$' | grep -v '_vram.c$' >"$work/wanted"
sed -n 's/^| `examples\/\([^`]*\)` |.*/\1/p' docs/examples.md | sort >"$work/output"
same "examples (<) and the table of docs/examples.md (>)" "$work/wanted" "$work/output"
# measured figures in what the examples print: the phases of ResNet-50
for phase in forward backward optimizer; do
  grep "^models/tv_resnet50 train_fp32_adamw $phase " tests/golden/streams.txt |
    awk '{ print $3, $6, $7 }'
done >"$work/wanted"
sed -n 's/^   \([a-z]*\) *\([0-9]*\) bytes at its end, *\([0-9]*\) at most$/\1 \2 \3/p' examples/file.c >"$work/output"
same "examples/file.c and what was measured" "$work/wanted" "$work/output"
