# The parts of src/: packed they are vram.h and vram_cuda.h, each of vram.h compiles alone with no more than its room may use,
# parts can be left out. Sourced by part.sh.
work=$PWD/build/rooms
rm -rf "$work"
mkdir -p "$work"

# A. vram.h is what src/ makes, and says where each part comes from
sh src/pack.sh >"$work/vram.h" 2>"$work/log" || bad "src/pack.sh: $(cat "$work/log")"
same "vram.h is packed from src/" "$work/vram.h" vram.h
sh src/pack.sh parts_cuda >"$work/vram_cuda.h" 2>"$work/log" || bad "src/pack.sh: $(cat "$work/log")"
same "vram_cuda.h is packed from src/cuda/" "$work/vram_cuda.h" vram_cuda.h
parts_of() { sed '/^#/d; /^names$/d; /^unless /d; /^end /d; /^include /d' "src/$1"; }
parts=$(parts_of parts)
(cd src && ls */*.[ch] | grep -v '^api/api.h$' | sort) >"$work/there"
(echo "$parts" && parts_of parts_cuda) | sort >"$work/listed"
same "every part is in src/parts or src/parts_cuda" "$work/there" "$work/listed"
for p in $parts $(parts_of parts_cuda); do
  tag=$(echo "$p" | sed 's:^\([a-z]*\)/\1\.h$:\1:; s/\.[ch]$//')
  case $p in
  frame/* | ct/* | api/* | cuda/*) ;;
  *) head -n 1 "src/$p" | grep -q "^/\* >>$tag    [a-zA-Z]" && ok || bad "$p: its first line is not '/* >>$tag    what it is'" ;;
  esac
  [ "$(wc -l <"src/$p")" -le 1500 ] && ok || bad "$p has more than 1,500 lines"
done
# the contents at the head of vram.h are the sections, in their order
sed -n '/^   Contents/,/^   Behind/s/^     >>\([a-z]*\) .*/\1/p' src/frame/top.h >"$work/contents"
for p in ct/bytes.h $(echo "$parts" | grep '^api/'); do
  sed -n '/>>/{s/.*>>\([a-z]*\).*/\1/p;q}' "src/$p"
done >"$work/sections"
same "the contents of vram.h" "$work/contents" "$work/sections"
echo "$parts" | sed -n 's:^\([a-z]*\)/.*:>>\1/:p' | grep -vE 'frame|ct|api' | uniq | sort -u >"$work/folders"
sed -n '/^   Behind/,/^\*\//p' src/frame/top.h | grep -oE '>>[a-z]+/( |$)' | tr -d ' ' | sort >"$work/named"
same "the folders of the implementation" "$work/named" "$work/folders"
# clang-format fills a line of a list into the prose before it where that is too long for its line
grep -nE '[^ ] VRAM_ERR_[A-Z]+  +[a-z]' src/api/*.h |
  grep -vE ': +(VRAM_ERR_[A-Z]+, )+VRAM_ERR_[A-Z]+  ' >"$work/log"
[ -s "$work/log" ] && bad "a list of errors that became prose: $(head -n 1 "$work/log")" || ok

# B. each part alone, with the headers of the rooms that it may use
uses() { # uses ROOM|FILE: all rooms that it may use
  for room in $(sed -n "s:^$1\:::p" src/rooms); do
    echo "$room"
    uses "$room"
  done
}
headers() { # headers KEY ROOM: a folder with what parts of that key may include, made once
  include=$work/include/$(echo "$1" | tr / -)
  [ -d "$include" ] && return
  for room in ct api "$2" $(uses "$1" | sort -u); do
    mkdir -p "$include/$room"
    cp src/"$room"/*.h "$include/$room" 2>/dev/null # some have none
  done
}
alone() { # alone COMPILER...: compiles it with the headers of $include; what it does is not asked
  "$@" -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$include" -DVRAM__FN= -DVRAM__FN_EXTERN -fsyntax-only "$work/part.c"
}
for p in $parts; do
  case $p in frame/* | api/namespace.h | ct/*) continue ;; esac
  key=${p%.*}
  grep -q "^$key:" src/rooms || key=${p%/*}
  headers "$key" "${p%/*}"
  case $p in
  *.h) # a header needs nothing in front of it
    printf '#include "%s"\nint part_is_not_empty;\n' "$p" >"$work/part.c" ;;
  *) cp "src/$p" "$work/part.c" ;;
  esac
  cell "$p alone" alone "${CC:-cc}" -std=c99
done
# the check can fail: a part of alloc/ that asks for torch/
{ echo '#include "torch/torch.h"'; cat src/alloc/event.c; } >"$work/part.c"
headers alloc alloc
refuse "a forbidden include" "torch/torch.h" alone "${CC:-cc}" -std=c99

# C. parts left out: no warning, and whatever is declared is there
left_out() { # left_out FLAGS COMPILER
  cell "left out: $1" $2 -Wall -Wextra -Wpedantic -Werror $1 -I. -fsyntax-only "$work/left.c"
}
printf '#define VRAM_IMPLEMENTATION\n#include "vram.h"\n' >"$work/left.c"
# (-Wno-misleading-indentation: gcc looks up every line in the file again for it, half of its time)
cc="${CC:-cc} -std=c99 -x c -Wno-misleading-indentation"
# sixteen sets of seven parts, in which any three of them are there and left out in all eight ways:
# the last three are sums of three of the first four
for model in 0 1; do for step in 0 1; do for plan in 0 1; do for net in 0 1; do
  flags=-DVRAM_STATIC
  for part_out in MODEL:$model STEP:$step PLAN:$plan NET:$net WRITE:$(((model + step + plan) % 2)) \
    READ:$(((model + step + net) % 2)) KV:$(((model + plan + net) % 2)); do
    case $part_out in *:1) flags="$flags -DVRAM_NO_${part_out%:1}" ;; esac
  done
  left_out "$flags" "$cc"
done; done; done; done
for part_out in MODEL STEP PLAN NET WRITE READ KV "MODEL -DVRAM_NO_PLAN -DVRAM_NO_WRITE"; do
  left_out "-DVRAM_NO_$part_out" "$cc"
  # what is missing is missing in every compiler: one more, of the other language
  have clang++ && left_out "-DVRAM_NO_$part_out" "clang++ -std=c++11 -x c++"
  [ -n "$LONG" ] || continue
  have g++ && left_out "-DVRAM_NO_$part_out" "g++ -std=c++11 -x c++"
  have clang && left_out "-DVRAM_NO_$part_out" "clang -std=c99 -x c"
done

# D. what a program does not use is not in it
if have size; then
  cell "a program with only a pool" "${CC:-cc}" -std=c99 -Os -c tests/link/pool.c -o "$work/pool.o"
  bytes=$(size "$work/pool.o" | awk 'NR == 2 { print $1 }')
  [ "$bytes" -le 16384 ] && ok || bad "a program with only a pool has $bytes bytes of code (at most 16384)"
else skip "no size"; fi
