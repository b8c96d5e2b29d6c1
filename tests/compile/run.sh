#!/bin/sh
# Compile-time tests of vram.h. Usage: run.sh [INCLUDE_DIR]   (default: the project)
# CC-like tools that are missing print SKIP. Exit status 0: all cells passed.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
include=${1:-$here/../..}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

COMMON=$(cat "$here/../warnings")
CFLAGS="$COMMON -Wstrict-prototypes -Wmissing-prototypes"
CXXFLAGS="$COMMON -Wold-style-cast -Wzero-as-null-pointer-constant"

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $1"; [ -s "$work/log" ] && head -20 "$work/log"; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: not installed"; }
cell() { # cell NAME COMMAND...
  name=$1; shift
  if "$@" >"$work/log" 2>&1; then ok; else bad "$name"; fi
}
# 1 if the compiler takes the flags
takes() { printf 'int x;\n' >"$work/probe.c"; "$@" -fsyntax-only "$work/probe.c" >/dev/null 2>&1; }

awk -f "$here/golden.awk" "$here/golden.txt" >"$work/golden.c" || exit 1
awk -f "$here/nets.awk" "$here"/../golden/embedded/*.txt >"$work/nets.c" || exit 1
cp "$work/nets.c" "$work/nets.cc"
cp "$work/golden.c" "$work/golden.cc"
awk -f "$here/cmsis.awk" "$here/../golden/cmsis.txt" >"$work/cmsis.c" || exit 1
cp "$work/cmsis.c" "$work/cmsis.cc"
cp "$here/dtype_test.c" "$work/dtype_test.cc"
cp "$here/hostile.c" "$work/hostile.cc"
cp "$here/staged.c" "$work/staged.cc"
ct="-I$include -DVRAM_MACROS_ONLY"
awk -f "$here/lines.awk" >"$work/lines.c" || exit 1
cp "$work/lines.c" "$work/lines.cc"

# A. language x compiler: golden table in every standard; run with the oldest and the newest
for cc in gcc clang; do
  command -v $cc >/dev/null || { skip $cc; continue; }
  newest=c2x; takes $cc -std=c23 -x c && newest=c23
  for std in c99 c11 c17 $newest gnu99; do
    cell "$cc -std=$std golden" $cc -std=$std $CFLAGS $ct -fsyntax-only "$work/golden.c"
    cell "$cc -std=$std hostile" $cc -std=$std $CFLAGS $ct -fsyntax-only "$here/hostile.c"
    cell "$cc -std=$std staged" $cc -std=$std $CFLAGS $ct -fsyntax-only "$here/staged.c"
    cell "$cc -std=$std 200 lines" $cc -std=$std $CFLAGS $ct -fsyntax-only "$work/lines.c"
    cell "$cc -std=$std networks" $cc -std=$std $CFLAGS $ct -I"$here/../.." -fsyntax-only "$work/nets.c"
    cell "$cc -std=$std declarations" $cc -std=$std $CFLAGS -I"$include" -fsyntax-only "$here/hostile.c"
  done
  for std in c99 $newest; do
    cell "$cc -std=$std cmsis" $cc -std=$std $CFLAGS $ct -fsyntax-only "$work/cmsis.c"
    cell "$cc -std=$std golden build" $cc -std=$std $CFLAGS $ct -DGOLDEN_MAIN "$work/golden.c" -o "$work/golden"
    cell "$cc -std=$std golden run" "$work/golden"
    cell "$cc -std=$std dtype build" $cc -std=$std $CFLAGS -I"$include" "$here/dtype_test.c" -o "$work/dtype"
    cell "$cc -std=$std dtype run" "$work/dtype"
  done
done
for cc in g++ clang++; do
  command -v $cc >/dev/null || { skip $cc; continue; }
  extra=; [ $cc = g++ ] && extra=-Wuseless-cast
  for std in c++11 c++14 c++17 c++20; do
    cell "$cc -std=$std golden" $cc -std=$std $CXXFLAGS $extra $ct -fsyntax-only "$work/golden.cc"
    cell "$cc -std=$std hostile" $cc -std=$std $CXXFLAGS $extra $ct -fsyntax-only "$work/hostile.cc"
    printf '#include "vram.h"\n' >"$work/decl.cc"
    cell "$cc -std=$std declarations" $cc -std=$std $CXXFLAGS $extra -I"$include" -fsyntax-only "$work/decl.cc"
    cell "$cc -std=$std staged" $cc -std=$std $CXXFLAGS $extra $ct -fsyntax-only "$work/staged.cc"
    cell "$cc -std=$std 200 lines" $cc -std=$std $CXXFLAGS $extra $ct -fsyntax-only "$work/lines.cc"
    cell "$cc -std=$std networks" $cc -std=$std $CXXFLAGS $extra $ct -I"$here/../.." -fsyntax-only "$work/nets.cc"
    cell "$cc -std=$std hostile declarations" $cc -std=$std $CXXFLAGS $extra -I"$include" -fsyntax-only "$work/hostile.cc"
  done
  # what clang++ takes long for, it counts alike in all standards
  [ $cc$LONG = clang++ ] || cell "$cc -std=c++20 cmsis" $cc -std=c++20 $CXXFLAGS $extra $ct -fsyntax-only "$work/cmsis.cc"
  cell "$cc -std=c++11 cmsis" $cc -std=c++11 $CXXFLAGS $extra $ct -fsyntax-only "$work/cmsis.cc"
  for std in c++11 c++20; do
    cell "$cc -std=$std golden build" $cc -std=$std $CXXFLAGS $extra $ct -DGOLDEN_MAIN "$work/golden.cc" -o "$work/golden"
    cell "$cc -std=$std golden run" "$work/golden"
    cell "$cc -std=$std dtype build" $cc -std=$std -Wall -Wextra -Wpedantic -I"$include" "$work/dtype_test.cc" -o "$work/dtype"
    cell "$cc -std=$std dtype run" "$work/dtype"
  done
done
if command -v tcc >/dev/null; then
  cell "tcc golden" tcc -std=c99 $ct -c "$work/golden.c" -o "$work/t.o"
  cell "tcc cmsis" tcc -std=c99 $ct -c "$work/cmsis.c" -o "$work/t.o"
else
  skip tcc
fi

# B. the run-time part under sanitizers
if command -v clang >/dev/null; then
  cell "clang sanitizers build" clang -std=c99 -g -fsanitize=address,undefined,integer,implicit-conversion -fno-sanitize-recover=all \
    -I"$include" "$here/dtype_test.c" -o "$work/dtype"
  cell "clang sanitizers run" "$work/dtype"
fi

printf '#define VRAM_IMPLEMENTATION\n#include "vram.h"\n#include "vram.h"\n' >"$work/impl.c"
# C. width, endianness, no libc: every golden row is a static assertion there
if command -v clang >/dev/null; then
  for target in avr msp430 thumbv6m-none-eabi riscv32-unknown-elf wasm32 i686-linux-gnu mips-linux-gnu s390x-linux-gnu; do
    if takes clang --target=$target -ffreestanding; then
      cell "$target golden" clang --target=$target -ffreestanding -std=c99 $CFLAGS $ct -c "$work/golden.c" -o "$work/t.o"
      # assertions of C11 are another macro with the same constants: on the machine of the smallest int, and on this one
      [ $target != avr ] && [ -z "$LONG" ] || cell "$target golden c11" clang --target=$target -ffreestanding -std=c11 $CFLAGS $ct -c "$work/golden.c" -o "$work/t.o"
      cell "$target networks" clang --target=$target -ffreestanding -std=c99 $CFLAGS $ct -I"$here/../.." -c "$work/nets.c" -o "$work/t.o"
      cell "$target networks c++11" clang++ --target=$target -ffreestanding -std=c++11 $CXXFLAGS $ct -I"$here/../.." -c "$work/nets.cc" -o "$work/t.o"
      cell "$target 200 lines" clang --target=$target -ffreestanding -std=c11 $CFLAGS $ct -c "$work/lines.c" -o "$work/t.o"
      cell "$target cmsis" clang --target=$target -ffreestanding -std=c99 $CFLAGS $ct -c "$work/cmsis.c" -o "$work/t.o"
      cell "$target golden c++11" clang++ --target=$target -ffreestanding -std=c++11 $CXXFLAGS $ct -c "$work/golden.cc" -o "$work/t.o"
      cell "$target implementation" clang -fsyntax-only --target=$target -ffreestanding -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$include" -c "$work/impl.c"
    else
      skip "clang --target=$target"
    fi
  done
fi
if takes gcc -m32 -ffreestanding; then
  cell "gcc -m32 networks" gcc -m32 -ffreestanding -std=c99 $CFLAGS $ct -I"$here/../.." -c "$work/nets.c" -o "$work/t.o"
  cell "gcc -m32 golden" gcc -m32 -ffreestanding -std=c99 $CFLAGS $ct -c "$work/golden.c" -o "$work/t.o"
  cell "gcc -m32 cmsis" gcc -m32 -ffreestanding -std=c99 $CFLAGS $ct -c "$work/cmsis.c" -o "$work/t.o"
fi
if command -v arm-none-eabi-gcc >/dev/null; then
  cell "cortex-m0 networks" arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb -Os -ffreestanding -std=c99 $CFLAGS $ct -I"$here/../.." -c "$work/nets.c" -o "$work/t.o"
  cell "cortex-m0 golden" arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb -Os -ffreestanding -std=c99 $CFLAGS $ct -c "$work/golden.c" -o "$work/t.o"
  cell "cortex-m0 cmsis" arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb -Os -ffreestanding -std=c99 $CFLAGS $ct -c "$work/cmsis.c" -o "$work/t.o"
else
  skip arm-none-eabi-gcc
fi

# D. what must not compile: the message names the budget; the same snippet with GOOD compiles
for f in "$here"/negative/*.inc; do
  name=$(basename "$f" .inc)
  want=$(sed -n '1s|/\* expect: \(.*\) \*/|\1|p' "$f")
  for cc in "gcc -std=c99" "clang -std=c11" "g++ -std=c++11" "clang++ -std=c++17"; do
    command -v ${cc%% *} >/dev/null || continue
    case $cc in *++*) lang=c++ ;; *) lang=c ;; esac
    case $cc in clang\ * | g++*) ;; *) # good in one C, in one C++ compiler
      if $cc -x $lang -Werror=vla $ct -fsyntax-only -DGOOD "$f" >"$work/log" 2>&1; then ok; else bad "negative $name, GOOD ($cc)"; fi ;;
    esac
    if $cc -x $lang -Werror=vla $ct -fsyntax-only "$f" >"$work/log" 2>&1; then
      bad "negative $name compiles ($cc)"
    elif grep -Eq "error.*$want|$want" "$work/log"; then ok; else bad "negative $name, message ($cc)"; fi
  done
done

# E. preprocessed size: the deepest nested model and the header alone
if command -v gcc >/dev/null; then
  bytes=$(gcc -std=c99 -E -P $ct "$here/size.c" | wc -c)
  if [ "$bytes" -lt 200000 ]; then ok; else : >"$work/log"; bad "preprocessed size $bytes"; fi
  echo "preprocessed size of the deepest model: $bytes bytes"
  bytes=$(gcc -std=c99 -E -P $ct "$work/lines.c" | wc -c)
  if [ "$bytes" -lt 2000000 ]; then ok; else : >"$work/log"; bad "preprocessed size of 200 lines: $bytes"; fi
  echo "preprocessed size of a network of 200 lines: $bytes bytes"
  printf '#include "vram.h"\n' >"$work/decl.c"; : >"$work/none.c"
  gcc -std=c99 -dM -E "$work/none.c" | sort >"$work/a"
  gcc -std=c99 -dM -E $ct "$work/decl.c" | sort >"$work/b"
  comm -13 "$work/a" "$work/b" | awk '{print $2}' | grep -v '^VRAM_' >"$work/log"
  if [ -s "$work/log" ]; then bad "macro names without VRAM_"; else ok; fi
fi

# E1. constants are no object code, without optimization neither
for cc in "gcc -std=c99" "clang -std=c99" "g++ -std=c++11" "clang++ -std=c++20"; do
  command -v ${cc%% *} >/dev/null && command -v size >/dev/null || continue
  case $cc in *++*) source=$work/lines.cc ;; *) source=$work/lines.c ;; esac
  cell "$cc -O0 object" $cc -O0 $ct -c "$source" -o "$work/t.o"
  size -A "$work/t.o" | awk '/^\.(text|data|bss|rodata|constdata)/ && $2' >"$work/log"
  if [ -s "$work/log" ]; then bad "$cc -O0: object code"; else ok; fi
done

# E2. no macro expands an argument more than six times
python=${PYTHON:-python3}
if command -v gcc >/dev/null && command -v "$python" >/dev/null; then
  cell "argument_use.py" "$python" "$here/argument_use.py" "$include"
else
  skip "gcc or Python for argument_use.py"
fi

# F. second sources of the dtype figures
if command -v gcc >/dev/null && command -v "$python" >/dev/null; then
  gcc -std=c99 -I"$include" "$here/dtype_test.c" -o "$work/dtype" 2>"$work/log" && "$work/dtype" --csv >"$work/dtypes.csv"
  if "$python" "$here/check_dtypes.py" "$work/dtypes.csv"; then ok; else : >"$work/log"; bad check_dtypes.py; fi
fi

echo "compile: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
