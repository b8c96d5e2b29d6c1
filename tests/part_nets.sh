# Random networks, counted by the compiler and by vram_net_count().
work=build/nets
rm -rf "$work" && mkdir -p "$work"
if ! have python3; then
  skip "no python3 (tests/embedded/random_nets.py)"
else
  library=build/tool/vram_impl.o
  cell "library" test -s $library
  for seed in 1 2 3 ${LONG:+4 5 6 7 8 9 10 11 12}; do
    cell "networks of seed $seed" python3 tests/embedded/random_nets.py 100 "$seed" "$work"
    rm -f "$work/random"
    cell "seed $seed compiles" ${CC:-cc} -std=c99 -Wall -Wextra -Werror -I "$work" tests/embedded/random_nets.c $library -o "$work/random"
    "$work/random" "$work" >"$work/log" 2>&1
    grep -v ' passed, ' "$work/log" | head -n 20
    grep -q ' passed, ' "$work/log" || bad "seed $seed stopped"
    add "$work/log"
  done
  # the last ones again, now with what vram emit plans for them: no arena may be 5 % over its bound
  for net in $(sed -n 's/.*"\(net[0-9]*\).h".*/\1/p' "$work/nets.h"); do
    ./vram emit "$work/$net.h" -o "$work/plan_$net.h" || bad "plan of $net" >&2
    echo "#include \"plan_$net.h\""
  done >"$work/plans.h"
  echo '#include "plans.h"' >>"$work/nets.h"
  if have g++; then
    cell "C++" g++ -x c++ -std=c++11 -w -I "$work" -c tests/embedded/random_nets.c -o "$work/random.o"
    cell "C++ links" g++ "$work/random.o" $library -o "$work/random"
    cell "C++ gives the same" "$work/random" "$work"
    cp "$work/log" "$work/planned"
    cell "plans" grep -q ' as low as can be, the worst [0-5] % over that$' "$work/planned"
  else
    skip "no g++"
  fi
fi

# what docs/embedded.md shows and tests/part_docs.sh does not run
page=docs/embedded.md
if have gcc && [ "$(gcc -dumpversion | cut -d. -f1)" = 12 ]; then
  command=$(grep '^gcc .*-DSRAM' $page)
  sed -n '/^gcc .*-DSRAM/,/^## /p' $page | sed -n '/^```text$/,/^```$/p' | sed '1d;/^```/,$d' >"$work/wanted"
  LC_ALL=C $command -o "$work/net.o" >"$work/output" 2>&1
  same "a budget that is exceeded" "$work/wanted" "$work/output"
else
  skip "no gcc 12 for the literal messages of $page"
fi
for way in "gcc c11 char\[3520\]" "clang c11 char\[3520\]" "clang c99 (-3520)" "g++ c++11 24000.*20480" \
  "clang++ c++17 char\[3520\]"; do
  set -- $way
  have "$1" || { skip "no $1"; continue; }
  case $1 in *++*) language=c++ ;; *) language=c ;; esac
  refuse "$1 $2 says by how much" "$3" "$1" "-std=$2" -x $language -DSRAM=20480 -fsyntax-only examples/net.c
done
if have gcc; then
  sed 's/d2, k1, 1, 3, 3, 1, 1, SAME/d2, k1, 1, 30, 30, 1, 1, VALID/' examples/net.c >"$work/kernel.c"
  refuse "a kernel that is too large" "$(sed -n 's/^error: //p' $page)" \
    gcc -std=c11 -fsyntax-only -I examples "$work/kernel.c"
fi
# a mistake: what the compiler says first names it, in at most ten lines with GCC (budgets of SDCC, whose
# _Static_assert is a warning)
mistake() { # mistake NAME MOST WANT SED COMPILER...: at most so many lines
  name=$1 most=$2 want=$3 change=$4
  shift 4
  have "$1" || { skip "no $1: $name"; return; }
  { printf '#define VRAM_MACROS_ONLY\n#include "vram.h"\n'; sed -n '/^VRAM_NET_BEGIN/,/^VRAM_ASSERT/p' examples/net.c; } |
    sed "s/SRAM)/VRAM_KIB(24))/;s/VRAM_NET_KEEP.*;.*/VRAM_NET_ACTIVATION(kws, k1, r1);/;s/^VRAM_NET_ADD.*/VRAM_NET_ACTIVATION(kws, a2, c2);/;$change" >"$work/mistake.c"
  LC_ALL=C "$@" -I. "$work/mistake.c" >"$work/said" 2>&1
  if [ -z "$want" ] && [ ! -s "$work/said" ]; then ok
  elif [ "$want" ] && grep error "$work/said" | head -n 1 | grep -q "$want" && [ "$(wc -l <"$work/said")" -le "$most" ]; then ok; else
    bad "$name ($1)"
    head -n 12 "$work/said"
  fi
}
for cc in "gcc -std=c11 -fsyntax-only" "avr-gcc -std=c99 -fsyntax-only" "sdcc -mmcs51 --std-c11 -S -o $work/mistake.asm"; do
  mistake "no mistake" 0 "" "" $cc
  mistake "a format" 10 VRAM__FORMAT_I9 "s/kws, I8/kws, I9/" $cc
  mistake "a padding" 10 VRAM__PADDING_SAMEE "s/SAME/SAMEE/" $cc
  mistake "a line that is read twice" 10 kws_d2_is_followed_once "s/p3, a2/p3, d2/" $cc
  mistake "a budget" 10 kws_sram_is_over_budget_by "s/VRAM_KIB(24)/VRAM_KIB(8)/" $cc
done
# what is not there at all
none() { # none MOST COMPILER...: without BEGIN, END, a line; says MOST lines
  most=$1
  shift
  mistake "no BEGIN" $most kws_input_is_no_line_after_BEGIN "/_BEGIN/d" "$@"
  mistake "no END" $most kws_net_lacks_its_VRAM_NET_END "/_END/d" "$@"
  mistake "no such line" $most kws_dd_is_no_line_after_BEGIN "s/c2, d2/c2, dd/" "$@"
  mistake "no such input" $most kws_inptu_is_no_line_after_BEGIN "s/c1, input/c1, inptu/" "$@"
}
for cc in "gcc -std=c99 -fsyntax-only" "gcc -std=gnu17 -fsyntax-only" "g++ -x c++ -std=c++11 -fsyntax-only" \
  "avr-gcc -std=c99 -fsyntax-only" "avr-gcc -std=gnu11 -fsyntax-only" "sdcc -mmcs51 --std-c11 -S -o $work/mistake.asm"; do
  case $cc in g*) [ "$(gcc -dumpversion | cut -d. -f1)" -ge 10 ] || continue ;; esac
  none 10 $cc
  mistake "no such value" 10 kws_kk_is_no_line_after_BEGIN "s/p3, a2/p3, b2/;/a2, c2/a VRAM_NET_ADD(kws, b2, a2, kk);" $cc
  mistake "a value that is not kept" 10 kws_r1_is_no_kept_value "s/p3, a2/p3, b2/;/a2, c2/a VRAM_NET_ADD(kws, b2, a2, r1);" $cc
  mistake "another network's name" 13 other_c2_is_no_line_after_BEGIN "s/kws, a2/other, a2/" $cc
done
none 24 clang -std=c11 -fsyntax-only

for net in ad kws ic vww; do
  awk -v net=$net '$1 == "net" && $2 == net { print $4, $5, $7, $8, $9 }' tests/golden/embedded/count.txt
done >"$work/wanted"
sed -n 's/^| .* | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | [0-9,]* |$/\1 \2 \3 \5 \6/p' \
  $page | tr -d , >"$work/output"
same "$page: MLPerf Tiny" "$work/wanted" "$work/output"
sed -n '/^== m0: /,/^```$/p' $page | sed '$d' >"$work/output"
sed -n '/^   == m0/,/^   linked/p' examples/embedded/kws.c | sed 's/^   //' >"$work/wanted"
same "$page: what the board prints" "$work/wanted" "$work/output"

# macros of a program's own with short names, or with names that lines go by between them
cat >"$work/own.c" <<'END'
#define VRAM_MACROS_ONLY
#include "vram.h"
#define N 1
#define H 32
#define C 3
#define K 3
#define S 2
#define P 1
#define NONE 0
#define CONV2D 1
#define AVG_POOL2D 2
#define INPUT 0
#define OUTPUT 1
#define NEW 1
#define OVER 2
#define VIEW 3
VRAM_NET_BEGIN(n, I8, N, H, H, C);
VRAM_NET_CONV2D(n, a, input, 8, K, K, S, S, PAD(P, P), 1);
VRAM_NET_AVG_POOL2D(n, b, a, S, S, S, S, VALID);
VRAM_NET_DEPTHWISE_CONV2D(n, d, b, 1, K, K, 1, 1, SAME, 1);
VRAM_NET_CONV_TRANSPOSE2D(n, e, d, 4, S, S, S, S, VALID, 0, 0, 1);
VRAM_NET_MAX_POOL2D(n, f, e, S, S, S, S, PAD_CEIL(0, 0));
VRAM_NET_SOFTMAX(n, g, f);
VRAM_NET_GLOBAL_AVG_POOL2D(n, y, g);
VRAM_NET_END(n, y);
VRAM_STATIC_ASSERT(VRAM_NET_GET(n, f, height) == 8 && VRAM_NET_PARAMS(n) == 224 + 80 + 132, sizes);
END
cell "macros of a program's own" ${CC:-cc} -std=c99 -Wall -Wextra -Werror -I. -c "$work/own.c" -o "$work/own.o"

# a header with a guard, and sizes that only a compiler can work out
cat >"$work/guarded.h" <<'END'
#ifndef GUARDED_H
#define GUARDED_H
#define TWICE(x) ((x) * 2)
VRAM_NET_BEGIN(guarded, I8, 1, 8, 8, TWICE(4));
VRAM_NET_CONV2D(guarded, c1, input, TWICE(8), 3, 3, 1, 1, SAME, 1);
VRAM_NET_END(guarded, c1);
#endif
END
cell "net-report of a guarded header" "$MAKE" -s --no-print-directory net-report NET="$work/guarded.h"
cp "$work/log" "$work/output"
cell "its row" grep -Eq '^c1 +CONV2D +8 +8 +16 +1168 +73728 +1344 +1344 +1024 +0 +1536$' "$work/output"
cell "its arena" grep -Eq '^arena +1536 bytes, by the lines themselves, no plan is smaller$' "$work/output"
