# What is written about a ledger, read by others: Python's pickle and json, vram replay, torch.
work=build/writer
rm -rf $work
mkdir -p $work/files
if ! have python3; then skip "no python3"
elif ! "$MAKE" -s --no-print-directory build/plain/test_report >$work/log 2>&1 ||
  ! build/plain/test_report $work/files >$work/log 2>&1; then
  bad "test_report does not build, or writes no files"
  head -15 $work/log
else
  add $work/log
  with=
  if "${PYTHON:-python3}" -c 'import torch' 2>/dev/null; then with=torch; else
    skip "${PYTHON:-python3} has no torch: its own readers are not asked"
  fi
  check=python3
  [ -n "$with" ] && check=${PYTHON:-python3}
  $check -W ignore tests/snapshot_check.py $work/files $with >$work/log 2>&1
  grep -v ' passed, ' $work/log | head -30
  grep -q ' passed, ' $work/log || bad "snapshot_check.py stopped"
  add $work/log
  if [ -n "$with" ]; then
    for view in stats trace; do
      cell "torch.cuda._memory_viz $view" "$check" -W ignore -m torch.cuda._memory_viz $view $work/files/2.pickle
    done
    cell "torch.cuda._memory_viz trace_plot" "$check" -W ignore -m torch.cuda._memory_viz trace_plot \
      $work/files/4.pickle -o $work/plot.html
  fi
  # a pool alone: replayed, it has the same peaks
  want=$(awk '$3 == 0 && ($2 == "allocated_bytes" || $2 == "reserved_bytes") && $1 == "device0" { print $2, $4, $5 }' \
    $work/files/2.stats)
  for file in 2.csv 2.pickle 2.json; do
    ./vram replay $work/files/$file --total-bytes 1GiB --json >$work/log 2>&1
    got=$(tr ',{}' '\n' <$work/log | sed -n 's/^"\(.*\)":\([0-9]*\)$/\1 \2/p' | awk '
      { v[$1] = $2 }
      END { for (i = 1; i <= 2; i++) { k = i == 1 ? "allocated_bytes" : "reserved_bytes"; print k, v[k], v["peak_" k] } }')
    if [ "$got" = "$want" ]; then ok; else bad "vram replay of $file: $got, wanted $want"; fi
  done
  # a predicted step: its snapshot has the report's peak and segments, also with growing ones
  for step in "resnet50 --train adamw --cudnn none" "gpt2 --train sgd --amp bf16 --alloc-conf expandable_segments:True" "vit_b_16 --cudnn none"; do
    if ./vram estimate $step --snapshot $work/step.pickle --json >$work/step.json 2>$work/log &&
      python3 tests/snapshot_check.py --step $work/step.pickle $work/step.json >$work/log 2>&1; then ok; else
      bad "estimate $step --snapshot"
    fi
    grep -v ' passed, ' $work/log | head -5
    add $work/log
  done
  if ./vram estimate resnet50 --train adamw --trace $work/step.trace >/dev/null 2>$work/log &&
    python3 -m json.tool $work/step.trace >/dev/null; then ok; else bad "estimate --trace"; fi
fi
