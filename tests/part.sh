#!/bin/sh
# One part of the tests: part.sh NAME. Prints failures, `SKIP what: why`, and at last
# `NAME: N passed, N failed[, N skipped]`.
part=$1
passed=0 failed=0 skipped=0
cd "$(dirname "$0")/.." || exit 1

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $1"; }
skip() { skipped=$((skipped + 1)); echo "SKIP $part: $1"; }
have() { command -v "$1" >/dev/null 2>&1; }
# for parts that have a folder $work
cell() { # cell NAME COMMAND...: must succeed
  cell=$1
  shift
  if "$@" >"$work/log" 2>&1; then ok; else
    bad "$cell"
    head -15 "$work/log"
  fi
}
refuse() { # refuse NAME TEXT COMMAND...: must fail and say TEXT
  cell=$1 text=$2
  shift 2
  if ! "$@" >"$work/log" 2>&1 && grep -q "$text" "$work/log"; then ok; else
    bad "$cell"
    head -15 "$work/log"
  fi
}
same() { # same NAME FILE FILE: and there is something to compare, unless /dev/null is wanted
  if { [ -s "$2" ] || [ "$2" = /dev/null ]; } && diff "$2" "$3" >"$work/log" 2>&1; then ok; else
    bad "$1"
    head -15 "$work/log"
  fi
}
library() { # library DIR: a cc in it, for which an implementation is already there: that of ./vram
  mkdir -p "$1"
  cat >"$1/cc" <<END
#!/bin/sh
for word; do case \$word in -c | -fsyntax-only) exec $(command -v cc) "\$@" ;; esac; done
exec $(command -v cc) -DVRAM_IMPLEMENTATION_INCLUDED "\$@" "$PWD/build/tool/vram_impl.o"
END
  chmod +x "$1/cc"
}
add() { # adds the counts of lines `...: N passed, N failed` in a file
  counts=$(sed -n 's/.*: \([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p' "$1" |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
  passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
}

units() { # units DIR RUN_PREFIX COMPILER FLAGS...: the test programs in one build
  dir=build/$1 run=$2 cc=$3
  shift 3
  have "$cc" || { skip "no $cc"; return; }
  if ! "$MAKE" -s --no-print-directory units B="$dir" RUN="$run" UCC="$cc" UFLAGS="$*"; then
    bad "$part does not build"
    return
  fi
  for log in "$dir"/test_*.log; do
    grep -v ' passed, ' "$log"
    add "$log"
  done
}

runs_static() { # runs_static COMPILER RUN_PREFIX: a program of that machine can be built and run
  mkdir -p build
  echo 'int main(void) { return 0; }' >"build/probe-$1.c"
  "$1" -static "build/probe-$1.c" -o "build/probe-$1" 2>/dev/null && $2 "./build/probe-$1"
}

MAKE=${MAKE:-make}
# for builds that take longer to compile than to run: rooms where tests spend little time are not optimised
hurry() { [ -n "$LONG" ] || export HURRY=1; }
SANITIZE="-O1 -fno-omit-frame-pointer -fno-sanitize-recover=all"
CLANG_SANITIZE="-gline-tables-only $SANITIZE -fsanitize=fuzzer-no-link,address,undefined,integer,implicit-conversion,nullability \
-fno-sanitize=unsigned-integer-overflow,unsigned-shift-base"
case $part in
units) units plain "" "${CC:-cc}" -O2 ;;
units-clang) units clang "" clang -O2 ;;
units-gcc-sanitize) units gcc-sanitize "" gcc -g $SANITIZE -fsanitize=address,undefined ;;
units-clang-sanitize)
  hurry
  if [ -z "$LONG" ]; then export SLOW=1; fi
  units clang-sanitize "" clang $CLANG_SANITIZE ;;
sanitized) # the library for it, as the fuzzers link it, too: built once
  mkdir -p build/clang-sanitize
  hurry
  if ! have clang; then skip "no clang"
  elif "$MAKE" -s --no-print-directory build/clang-sanitize/impl.o B=build/clang-sanitize UCC=clang \
    UFLAGS="$CLANG_SANITIZE"; then ok; else bad "the sanitized library does not build"; fi ;;
units-msan) # where a value comes from takes as long once more
  hurry
  if [ -z "$LONG" ]; then export SLOW=1; fi
  units msan "" clang -gline-tables-only $SANITIZE -fsanitize=memory ${LONG:+-fsanitize-memory-track-origins} ;;
units-valgrind)
  if have valgrind; then
    units valgrind "valgrind -q --error-exitcode=9 --leak-check=full" "${CC:-cc}" -O1 -g
  else skip "no valgrind"; fi ;;
units-i686 | units-powerpc | units-s390x)
  # what this machine's int, pointers and order of bytes show, less optimisation shows too
  machine=${part#units-} run= optimise=-O1
  [ -z "$LONG" ] || optimise=-O2
  hurry
  [ "$machine" = powerpc ] && run=qemu-ppc
  [ "$machine" = s390x ] && run=qemu-s390x
  if [ -n "$run" ] && [ -z "$LONG" ]; then export SLOW=1 EMULATED=1; fi
  if ! have "$machine-linux-gnu-gcc"; then skip "no $machine-linux-gnu-gcc"
  elif ! runs_static "$machine-linux-gnu-gcc" "$run"; then skip "cannot run programs of $machine (qemu-user)"
  else units "$machine" "$run" "$machine-linux-gnu-gcc" $optimise -static; fi ;;
compile)
  sh tests/compile/run.sh >build/part/compile.out 2>&1
  grep -v '^compile: ' build/part/compile.out
  add build/part/compile.out ;;
truth)
  truth=${TRUTH:-../shared/data/truth}
  if ! have python3; then skip "no python3"
  elif [ ! -d "$truth" ]; then skip "no measured data at $truth (its figures are in tests/golden)"
  else
    for tool in truth.py truth_finetune.py events_diff.py; do
      python3 tools/$tool "$truth" >build/part/$tool.out 2>&1
      grep -v -e 'known: ' -e '-\{0,1\}0\.[0-9]* %$' build/part/$tool.out
      grep -q ' passed, ' build/part/$tool.out || bad "$tool stopped"
      add build/part/$tool.out
    done
  fi ;;
coverage)
  if ! sh tests/coverage.sh >build/part/coverage.out 2>&1; then
    bad coverage
    cat build/part/coverage.out
  elif grep -q '^SKIP' build/part/coverage.out; then
    skip "$(sed -n 's/^SKIP coverage: //p' build/part/coverage.out)"
  else
    ok
    cat build/part/coverage.out
  fi ;;
*)
  if [ -f "tests/part_$part.sh" ]; then . "tests/part_$part.sh"; else bad "no such part"; fi ;;
esac
echo "$part: $passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ]
