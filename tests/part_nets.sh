# Random networks, counted by the compiler and by vram_net_count().
work=build/nets
rm -rf "$work" && mkdir -p "$work"
if ! have python3; then
  skip "no python3 (tests/embedded/random_nets.py)"
else
  library=build/plain/impl.o
  cell "library" "$MAKE" -s --no-print-directory $library
  for seed in 1 2 3 ${LONG:+4 5 6 7 8 9 10 11 12}; do
    cell "networks of seed $seed" python3 tests/embedded/random_nets.py 100 "$seed" "$work"
    rm -f "$work/random"
    cell "seed $seed compiles" ${CC:-cc} -std=c99 -Wall -Wextra -Werror -I "$work" tests/embedded/random_nets.c $library -o "$work/random"
    "$work/random" "$work" >"$work/log" 2>&1
    grep -v ' passed, ' "$work/log" | head -n 20
    grep -q ' passed, ' "$work/log" || bad "seed $seed stopped"
    add "$work/log"
  done
  if have g++; then # variables instead of enumerators
    cell "C++" g++ -x c++ -std=c++11 -w -I "$work" -c tests/embedded/random_nets.c -o "$work/random.o"
    cell "C++ links" g++ "$work/random.o" $library -o "$work/random"
    cell "C++ gives the same" "$work/random" "$work"
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
for net in ad kws ic vww; do
  awk -v net=$net '$1 == "net" && $2 == net { print $4, $5, $7, $8, $9 }' tests/golden/embedded/count.txt
done >"$work/wanted"
sed -n 's/^| .* | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | \([0-9,]*\) | [0-9,]* |$/\1 \2 \3 \5 \6/p' \
  $page | tr -d , >"$work/output"
same "$page: MLPerf Tiny" "$work/wanted" "$work/output"
sed -n '/^== m0/,/^```$/p' $page | sed '$d' >"$work/output"
sed -n '/^   == m0/,/^   linked/p' examples/embedded/kws.c | sed 's/^   //' >"$work/wanted"
same "$page: what the board prints" "$work/wanted" "$work/output"

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
