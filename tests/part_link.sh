# Translation units, standards, symbols: sourced by part.sh.
work=build/link
mkdir -p $work
WARN=$(cat tests/warnings)
CWARN="$WARN -Wstrict-prototypes -Wmissing-prototypes"
takes() { echo 'int x;' >$work/probe.c && "$@" -fsyntax-only $work/probe.c >/dev/null 2>&1; }
src=tests/link

# -Wmisleading-indentation, for which gcc looks every line up in the file again, takes most of its
# time: clang's (in -Wall, too) looks at it in C and in C++
once="-Wno-misleading-indentation"

# A. every standard: the implementation, a user of it, linked and run; with clang, which warns alike
# in all of them, those between the oldest and the newest in test-all
for cc in gcc clang g++ clang++; do
  have $cc || { skip "no $cc"; continue; }
  case $cc in
  *++) list="c++11 c++14 c++17 c++20" lang="-x c++" warn=$WARN ;;
  *) list="c99 c11 c17 gnu99 $(takes $cc -std=c23 && echo c23 || echo c2x)" lang= warn=$CWARN ;;
  esac
  user=$warn
  case $cc in
  g++) user="$warn -Wold-style-cast -Wuseless-cast -Wzero-as-null-pointer-constant" ;;
  clang++) user="$warn -Wold-style-cast -Wzero-as-null-pointer-constant" ;;
  esac
  for std in $list; do # users in the oldest and the newest are linked with the oldest implementation and run
    o=$work/$cc-$std
    case $std in c99 | c2? | c++11 | c++20) ;; *)
      case $cc$LONG in clang | clang++) continue ;; esac
      cell "$cc -std=$std implementation" $cc -std=$std $warn $once -I. $lang -fsyntax-only $src/impl.c
      cell "$cc -std=$std user" $cc -std=$std $user -I. -DFUNCTION=use_a $lang -fsyntax-only $src/use.c
      continue ;;
    esac
    case $cc in g*) seen=$once ;; *) seen= ;; esac
    case $std$LONG in c99 | c++11 | *1) oldest=$o
      cell "$cc -std=$std implementation" $cc -std=$std -O0 $warn $seen -I. $lang -c $src/impl.c -o $o-impl.o ;;
    *) cell "$cc -std=$std implementation" $cc -std=$std $warn $seen -I. $lang -fsyntax-only $src/impl.c ;;
    esac
    cell "$cc -std=$std user" $cc -std=$std $user -I. -DFUNCTION=use_a $lang -c $src/use.c -o $o-a.o
    cell "$cc -std=$std user" $cc -std=$std $user -I. -DFUNCTION=use_b $lang -c $src/use.c -o $o-b.o
    cell "$cc -std=$std main" $cc -std=$std -c $lang $src/main.c -o $o-main.o
    cell "$cc -std=$std link" $cc $o-main.o $o-a.o $o-b.o $oldest-impl.o -o $o
    cell "$cc -std=$std run" ./$o
  done
  cell "$cc hostile macros" $cc $warn $once -I. -fsyntax-only $lang $src/hostile.c
done

# B. kinds of build: static copies, renamed copies, C beside C++, freestanding, sizes of optimisation
gcc=gcc; have gcc || gcc=${CC:-cc}
build() { # build NAME COMPILER FLAGS FILE...
  name=$1 compiler=$2 flags=$3
  shift 3
  cell "$name" $compiler -std=c99 $CWARN $once -I. $flags "$@"
}
# all of it once in each kind; beside it what the program needs, by the quicker compiler
quick=clang; have clang || quick=$gcc
printf '#define VRAM_IMPLEMENTATION\n#include "use.c"\n' >$work/copy.c
less="-DVRAM_NO_PLAN -DVRAM_NO_WRITE -DVRAM_NO_READ -DVRAM_NO_KV"
for f in a b; do
  without= by=$gcc
  [ $f = a ] || without=$less by=$quick
  build "static copy $f" $by "-DVRAM_STATIC -I$src -DFUNCTION=use_$f $without -c" $work/copy.c -o $work/static-$f.o
  build "renamed copy $f" $by "-DVRAM_NAMESPACE=copy_${f}_ -I$src -DFUNCTION=use_$f $without -c" $work/copy.c -o $work/renamed-$f.o
  build "plain copy $f" $quick "-I$src -DFUNCTION=use_$f $less -c" $work/copy.c -o $work/plain-$f.o
done
for kind in static renamed; do
  cell "two $kind copies link" $gcc $src/main.c $work/$kind-a.o $work/$kind-b.o -o $work/two-$kind
  cell "two $kind copies run" ./$work/two-$kind
done
refuse "two plain copies must not link" "multiple definition" $gcc $src/main.c $work/plain-a.o $work/plain-b.o -o $work/two-plain
if have g++; then
  cell "C user, C++ implementation" g++ $work/g++-c++11-main.o $work/gcc-c99-a.o $work/g++-c++11-b.o $work/g++-c++11-impl.o -o $work/mixed
  cell "C user, C++ implementation, run" ./$work/mixed
  cell "C++ user, C implementation" g++ $work/g++-c++11-main.o $work/gcc-c99-a.o $work/g++-c++11-b.o $work/gcc-c99-impl.o -o $work/mixed
  cell "C++ user, C implementation, run" ./$work/mixed
  printf 'extern "C" {\n#include "vram.h"\n}\n' >$work/externc.cc
  cell 'inside extern "C"' g++ -std=c++11 $WARN -I. -fsyntax-only $work/externc.cc
fi
# what the library calls shows without optimisation, and clang warns alike at any; gcc has warned at -O2 in the
# library of the command (STRICT in the Makefile); at -O3 gcc 12 guesses at array bounds through several inlined calls: those
# warnings stay off there
free=clang-O0
have clang || free=gcc-O0
for build in $free ${LONG:+gcc-O1 gcc-O2 gcc-O3 gcc-Os clang-O1 clang-O2 clang-Os}; do
  cc=${build%-*} guess=$once
  [ $build = gcc-O3 ] && guess="$once -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized"
  have $cc && cell "$build" $cc -std=c99 -${build#*-} -ffreestanding -fno-pie $CWARN $guess -I. -c $src/impl.c -o $work/$build.o
done
[ -n "$LONG" ] && have g++ && cell "g++-O2" g++ -std=c++11 -O2 $WARN -I. -x c++ -c $src/impl.c -o $work/g++.o

# C. symbols
nm -g --defined-only $work/$free.o | awk '{ print $3 }' >$work/symbols
if grep -v '^vram_[a-z]' $work/symbols; then bad "symbols without vram_"; else ok; fi
if nm -g --defined-only $work/static-a.o | awk '{ print $3 }' | grep -vx use_a; then
  bad "VRAM_STATIC leaves global symbols"
else ok; fi
if nm -g --defined-only $work/renamed-a.o | awk '{ print $3 }' | grep -Ev '^(copy_a_vram_[a-z].*|use_a)$'; then
  bad "functions that VRAM_NAMESPACE does not rename (add them to its list)"
else ok; fi
# a compiler may call these four, freestanding too
for o in $work/*-c99-impl.o $work/*-O?.o; do
  if nm -u $o | grep -Ev '_GLOBAL_OFFSET_TABLE_| (memcpy|memmove|memset|memcmp)$'; then
    bad "$o needs symbols"
  else ok; fi
done
# writable data: there is no global state
if nm $work/$free.o | grep -E ' [bBdDcC] '; then
  bad "global state"
else ok; fi

# D. the cost of the declarations: preprocessed lines, system headers included
lines=$(printf '#include "vram.h"\n' | $gcc -std=c99 -I. -E -P -x c - | wc -l)
if [ "$lines" -le 2000 ]; then ok; else bad "declarations preprocess to $lines lines"; fi
echo "declarations: $lines preprocessed lines"
