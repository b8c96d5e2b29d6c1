# The pool against a model of PyTorch's allocator in Python, under random options and calls, and the
# table of docs/replay.md: sourced by part.sh.
work=build/pool plain=build/plain
mkdir -p $work
if ! "$MAKE" -s --no-print-directory $plain/test_pool $plain/test_pool_calls >$work/log 2>&1; then
  bad "the tests do not build"
  head -15 $work/log
elif ! have python3; then skip "no python3"
else
  seed=1
  while [ $seed -le ${POOL_SEEDS:-50} ]; do
    if $plain/test_pool_calls --print $seed >$work/calls && python3 tests/pool_model.py <$work/calls >$work/log 2>&1; then ok; else
      bad "pool_model.py, seed $seed"
      head -n 1 $work/calls
      tail -n 1 $work/log
    fi
    seed=$((seed + 1))
  done
  # it does find a difference: one byte more reserved
  awk 'NR == 100 { $NF = $NF + 1 } { print }' $work/calls >$work/wrong
  refuse "a wrong figure is found" "^line 100: " python3 tests/pool_model.py <$work/wrong
fi
$plain/test_pool --table tests/golden/allocator/*.txt | grep '^| ' >$work/table
grep -E '^\| [a-z0-9_.]+ \| [0-9]+ \| [0-9]+ \|' docs/replay.md >$work/shown
[ "$(wc -l <$work/shown)" -ge 10 ] && ok || bad "docs/replay.md has the table"
while read -r line; do
  if grep -qxF "$line" $work/table; then ok; else bad "docs/replay.md: $line"; fi
done <$work/shown
