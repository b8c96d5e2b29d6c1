# Random networks, counted by the compiler and by vram_net_count().
work=build/nets
rm -rf "$work" && mkdir -p "$work"
if ! have python3; then
  skip "no python3 (tests/embedded/random_nets.py)"
else
  cell "library" ${CC:-cc} -std=c99 -O1 -c tests/impl.c -o "$work/impl.o"
  for seed in 1 2 3 ${LONG:+4 5 6 7 8 9 10 11 12}; do
    cell "networks of seed $seed" python3 tests/embedded/random_nets.py 100 "$seed" "$work"
    rm -f "$work/random"
    cell "seed $seed compiles" ${CC:-cc} -std=c99 -Wall -Wextra -Werror -I "$work" tests/embedded/random_nets.c "$work/impl.o" -o "$work/random"
    "$work/random" "$work" >"$work/log" 2>&1
    grep -v ' passed, ' "$work/log" | head -n 20
    grep -q ' passed, ' "$work/log" || bad "seed $seed stopped"
    add "$work/log"
  done
  if have g++; then # variables instead of enumerators
    cell "C++" g++ -x c++ -std=c++11 -w -I "$work" -c tests/embedded/random_nets.c -o "$work/random.o"
    cell "C++ links" g++ "$work/random.o" "$work/impl.o" -o "$work/random"
    cell "C++ gives the same" "$work/random" "$work"
  else
    skip "no g++"
  fi
fi
