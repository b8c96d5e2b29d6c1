# The parts of src/: packed they are vram.h, each compiles alone with no more than its room may use,
# parts can be left out. Sourced by part.sh.
work=$PWD/build/rooms
rm -rf "$work"
mkdir -p "$work"

# A. vram.h is what src/ makes, and says where each part comes from
sh src/pack.sh >"$work/vram.h" 2>"$work/log" || bad "src/pack.sh: $(cat "$work/log")"
same "vram.h is packed from src/" "$work/vram.h" vram.h
parts=$(sed '/^#/d; /^names$/d; /^unless /d; /^end /d' src/parts)
(cd src && ls */*.[ch] | grep -v '^api/api.h$' | sort) >"$work/there"
echo "$parts" | sort >"$work/listed"
same "every part is in src/parts" "$work/there" "$work/listed"
for p in $parts; do
  tag=$(echo "$p" | sed 's:^\([a-z]*\)/\1\.h$:\1:; s/\.[ch]$//')
  case $p in
  frame/* | ct/* | api/*) ;;
  *) head -n 1 "src/$p" | grep -q "^/\* >>$tag    [a-zA-Z]" && ok || bad "$p: its first line is not '/* >>$tag    what it is'" ;;
  esac
  [ "$(wc -l <"src/$p")" -le 1500 ] && ok || bad "$p has more than 1,500 lines"
done
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
alone() { # alone PART COMPILER...: compiles it with the headers of $rooms
  p=$1
  shift
  rm -rf "$work/include"
  mkdir -p "$work/include"
  for room in ct api ${p%/*} $rooms; do
    mkdir -p "$work/include/$room"
    cp src/"$room"/*.h "$work/include/$room"
  done
  "$@" -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$work/include" -DVRAM__FN= -DVRAM__FN_EXTERN -c "$work/part.c" -o "$work/part.o"
}
for p in $parts; do
  case $p in frame/* | api/namespace.h | ct/*) continue ;; esac
  key=${p%.*}
  grep -q "^$key:" src/rooms || key=${p%/*}
  rooms=$(uses "$key" | sort -u)
  case $p in
  *.h) # a header needs nothing in front of it
    printf '#include "%s"\nint part_is_not_empty;\n' "$p" >"$work/part.c"
    cell "$p alone" alone "${p%.h}.c" "${CC:-cc}" -std=c99 -O0 ;;
  *)
    cp "src/$p" "$work/part.c"
    cell "$p alone" alone "$p" "${CC:-cc}" -std=c99 -O0 ;;
  esac
done
# the check can fail: a part of alloc/ that asks for torch/
{ echo '#include "torch/torch.h"'; cat src/alloc/event.c; } >"$work/part.c"
rooms=$(uses alloc | sort -u)
refuse "a forbidden include" "torch/torch.h" alone alloc/event.c "${CC:-cc}" -std=c99 -O0

# C. parts left out: no warning, and whatever is declared is there
left_out() { # left_out FLAGS COMPILER
  cell "left out: $1" $2 -Wall -Wextra -Wpedantic -Werror $1 -I. -O0 -c "$work/left.c" -o "$work/left.o"
}
printf '#define VRAM_IMPLEMENTATION\n#include "vram.h"\n' >"$work/left.c"
# (-Wno-misleading-indentation: gcc looks up every line in the file again for it, half of its time)
cc="${CC:-cc} -std=c99 -x c -Wno-misleading-indentation"
for model in '' -DVRAM_NO_MODEL; do for step in '' -DVRAM_NO_STEP; do for plan in '' -DVRAM_NO_PLAN; do
  for net in '' -DVRAM_NO_NET; do for write in '' -DVRAM_NO_WRITE; do
    left_out "$model $step $plan $net $write -DVRAM_STATIC" "$cc -fsyntax-only"
  done; done
done; done; done
for part_out in MODEL STEP PLAN NET WRITE "MODEL -DVRAM_NO_PLAN -DVRAM_NO_WRITE"; do
  left_out "-DVRAM_NO_$part_out" "$cc"
  for cxx in g++ clang++; do
    have $cxx && left_out "-DVRAM_NO_$part_out" "$cxx -std=c++11 -x c++"
  done
  have clang && left_out "-DVRAM_NO_$part_out" "clang -std=c99 -x c"
done

# D. what a program does not use is not in it
if have size; then
  cell "a program with only a pool" "${CC:-cc}" -std=c99 -Os -c tests/link/pool.c -o "$work/pool.o"
  bytes=$(size "$work/pool.o" | awk 'NR == 2 { print $1 }')
  [ "$bytes" -le 16384 ] && ok || bad "a program with only a pool has $bytes bytes of code (at most 16384)"
else skip "no size"; fi
