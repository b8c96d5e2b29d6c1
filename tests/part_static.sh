# Static analysis, no finding is let through: sourced by part.sh. LONG=1 adds the analysers of clang
# and gcc on every path of vram.h (minutes).
work=build/static
mkdir -p $work
"$MAKE" -s --no-print-directory build/models.h # the tool includes it
finds() { # finds NAME COMMAND...: fails, or says something about a line
  name=$1
  shift
  if "$@" >$work/log 2>&1 && ! grep -Eq '(warning|error):' $work/log; then ok; else
    bad "$name"
    grep -E -A3 '(warning|error):' $work/log | head -30
  fi
}
tool=$(ls tools/vram*.c | grep -v vram_impl) # which is tests/impl.c
# tests/link/impl.c and hostile.c are vram.h and nothing else; cuda/reroute.c needs CUDA
sources="tests/impl.c $tool tools/preload*.c tests/bench.c $(ls tests/test_*.c tests/fuzz/*.c tests/link/[!ih]*.c tests/compile/*.c tests/cuda/[!r]*.c)"
# all of vram.h is looked at in tests/impl.c; elsewhere only what the file uses of it, without its insides where
# the file does not need them (test_recipes does)
unused() { # unused FILE: flags that leave the rest out
  case $1 in
  tests/cuda/*) echo "-DVRAM_IMPLEMENTATION_INCLUDED -DVRAM_NO_MODEL -DVRAM_NO_STEP -DVRAM_NO_NET -DVRAM_NO_READ -DVRAM_NO_KV" ;;
  tests/compile/*)
    echo "-DVRAM_IMPLEMENTATION_INCLUDED -DVRAM_NO_MODEL -DVRAM_NO_STEP -DVRAM_NO_NET -DVRAM_NO_PLAN -DVRAM_NO_WRITE -DVRAM_NO_READ -DVRAM_NO_KV" ;;
  tests/bench.c) echo -DVRAM_IMPLEMENTATION_INCLUDED ;;
  esac
}
# how far clang's analyser follows the paths of one function; its own limit is 225000
paths="-Xclang -analyzer-config -Xclang max-nodes=50000"
[ -z "$LONG" ] || paths=
if have clang-tidy; then # what is left out and why: .clang-tidy
  for f in $sources; do
    finds "clang-tidy $f" clang-tidy --quiet "$f" -- -std=c99 -I. -Ibuild $(unused "$f") $paths
  done
else skip "no clang-tidy"; fi

# cppcheck 2.10 cannot expand the tables of vram.h: it reads what the preprocessor made. Left out:
#   variableScope                variables stand at the head of a function
#   constParameter               functions of one table have one type
#   knownConditionTrueFalse, uninitvar, ctuuninitvar, nullPointer, ctunullpointer
#                                it loses values that loops set; MSan and ASan look at that
#   unreadVariable, redundantAssignment
#                                nor does it see what goes out through a pointer; clang-tidy does
#   arrayIndexOutOfBounds        it goes into a loop of eight bytes with a text of five; ASan looks at that
#   badBitmaskCheck              the wire type 0 of protobuf stands in a field's tag, too
#   moduloofone                  of a constant expression: most dtypes have blocks of one element
#   shadowFunction, shadowVariable   the tool and all of vram.h are one file
#   duplicateExpression          a call of CUDA that failed is made once more
#   memleakOnRealloc             tests end when there is no memory
if ! have cppcheck; then skip "no cppcheck"
elif ! have gcc; then skip "no gcc: cppcheck needs its preprocessor"
else
  leave=
  for id in variableScope constParameter knownConditionTrueFalse uninitvar ctuuninitvar nullPointer \
    ctunullpointer unreadVariable redundantAssignment moduloofone badBitmaskCheck arrayIndexOutOfBounds shadowFunction shadowVariable \
    duplicateExpression memleakOnRealloc; do
    leave="$leave --suppress=$id"
  done
  for f in tests/impl.c $tool tools/preload*.c tests/test_*.c tests/fuzz/*.c tests/cuda/[!r]*.c; do
    own=-DVRAM_IMPLEMENTATION_INCLUDED # whose insides are looked at in tests/impl.c, once
    [ $f != tests/impl.c ] || own=
    gcc -std=c99 -Ibuild $own $(unused "$f") -E "$f" | sed -E 's/^# ([0-9]+ "[^"]*").*/#line \1/' >$work/expanded.c
    finds "cppcheck $f" cppcheck --std=c99 --enable=warning,style,performance,portability --quiet \
      --error-exitcode=1 $leave --template='{file}:{line}:{column}: error: {message} [{id}]' $work/expanded.c
  done
fi

# The analyser does not follow the loops that set values, nor what hangs from a struct of the caller (test_tool counts that).
# Of vram.h, which has no memory of its own to lose, it takes minutes.
if have gcc && [ "$(gcc -dumpversion | cut -d. -f1)" -ge 12 ]; then
  if [ -n "$LONG" ]; then
    finds "gcc -fanalyzer tests/impl.c" gcc -std=c99 -fanalyzer -Wno-analyzer-use-of-uninitialized-value \
      -Wno-analyzer-malloc-leak -Ibuild -c tests/impl.c -o $work/analyzed.o
  fi
  for f in $tool; do
    finds "gcc -fanalyzer $f" gcc -std=c99 -fanalyzer -Wno-analyzer-use-of-uninitialized-value -Wno-analyzer-malloc-leak \
      -Ibuild -c $f -o $work/analyzed.o
  done
else skip "no gcc 12 or newer: gcc -fanalyzer"; fi

if [ -z "$LONG" ]; then skip "clang --analyze and gcc -fanalyzer of vram.h take minutes (make test-all)"
elif have clang; then
  finds "clang --analyze" clang --analyze -Xclang -analyzer-output=text -std=c99 -x c \
    -DVRAM_IMPLEMENTATION -Xclang -analyzer-disable-checker -Xclang \
    core.NullDereference,core.uninitialized,core.CallAndMessage,core.UndefinedBinaryOperatorResult vram.h
else skip "no clang"; fi
