# Threads on one ledger under ThreadSanitizer; without the lock it must see them.
work=build/ledger
mkdir -p $work
cc=
echo 'int main(void) { return 0; }' >$work/probe.c
for c in gcc clang; do
  [ -z "$cc" ] && have $c && $c -fsanitize=thread $work/probe.c -o $work/probe 2>/dev/null &&
    $work/probe && cc="$c -std=gnu99 -w -O1 -g -fsanitize=thread"
done
if [ -z "$cc" ]; then skip "no compiler with ThreadSanitizer"
# a ledger is of allocations: no more of the library than that
elif ! $cc -DVRAM_NO_MODEL -DVRAM_NO_STEP -DVRAM_NO_NET -DVRAM_NO_PLAN -DVRAM_NO_READ -DVRAM_NO_KV -c tests/impl.c -o $work/impl.o >$work/log 2>&1 ||
  ! $cc tests/threads/ledger.c $work/impl.o -o $work/threads -lpthread >>$work/log 2>&1; then
  bad "it does not build"
  head -15 $work/log
else
  if $work/threads >$work/log 2>&1; then ok; else
    bad "threads on one ledger"
    head -30 $work/log
  fi
  add $work/log
  sed 's/^  o.lock = lock;//; s/^  o.unlock = unlock;//; s|"../../vram.h"|"vram.h"|
    s|"../test.h"|"tests/test.h"|' tests/threads/ledger.c >$work/unlocked.c
  $cc -I. $work/unlocked.c $work/impl.o -o $work/unlocked -lpthread
  TSAN_OPTIONS=halt_on_error=1 $work/unlocked >$work/log 2>&1
  if grep -q 'data race' $work/log; then ok; else bad "threads without a lock are not seen"; fi
fi
