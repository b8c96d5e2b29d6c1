# vram plan: schedules of chains against exhaustive search and another replay; bad input, line and column; the schedule in PyTorch
# (tools/checkpoint_torch.py): sourced by part.sh.
work=build/plan
rm -rf $work
mkdir -p $work
says() { # says STATUS TEXT OPTIONS...: the exit status, and a line of what is printed begins with TEXT
  wanted=$1 text=$2
  shift 2
  ./vram plan "$@" >$work/says 2>&1
  status=$?
  if [ $status = "$wanted" ] && grep -q -F -e "$text" $work/says &&
    { [ "$wanted" != 2 ] || [ "$(wc -l <$work/says)" = 1 ]; }; then ok; else
    bad "vram plan $*: status $status, expected $wanted and $text"
    head -3 $work/says
  fi
}

# A. bad input: the place, what was found, what was expected
head='fw,bw,x,xbar,ftmp,btmp'
wrong() { # wrong TEXT LINES...: a chain of these lines
  text=$1
  shift
  printf '%b' "$@" >$work/wrong.csv
  says 2 "$work/wrong.csv:$text" $work/wrong.csv --budget 1MB
}
wrong "1:1: an empty file (expected the header fw,bw,x,xbar,ftmp,btmp)" ''
wrong "2:1: an empty file" '\n \n'
wrong "1:1: columns are missing (expected x, btmp)" 'fw,bw,xbar,ftmp\n1,2,3,4\n'
wrong "2:24: an unknown column (found 'cost', expected fw, bw" "\n$head,cost\n1,2,3,4,5,6,7\n"
wrong "1:24: a second column of that name (found 'fw')" "$head,fw\n1,2,3,4,5,6,7\n"
wrong "2:1: no stages below the header" "$head\n\n"
wrong "2:10: the row ends too early (expected btmp)" "$head\n1,2,3,4,5\n"
wrong "3:13: more fields than the header has (found '7')" "$head\n1,2,3,4,5,6\n1,2,3,4,5,6,7\n"
wrong "2:1: a negative number (found '-1', expected 0 or more)" "$head\n-1,2,3,4,5,6\n"
wrong "2:11: a negative number (found '-6'" "$head\n1,2,3,4,5,-6\n"
wrong "2:3: not a cost (found 'fast', expected a decimal number)" "$head\n1,fast,3,4,5,6\n"
wrong "2:1: not a cost (found '1e'" "$head\n1e,2,3,4,5,6\n"
wrong "2:5: not a size (found '3GHz'" "$head\n1,2,3GHz,4,5,6\n"
wrong "2:5: not a size (found '3.5'" "$head\n1,2,3.5,4,5,6\n"
wrong "2:5: not a size (found '99999999999999999999'" "$head\n1,2,99999999999999999999,4,5,6\n"
wrong "2:5: an empty field (expected x)" "$head\n1,2,,4,5,6\n"
wrong "2:1: a cost of too many digits" "$head\n123456789012345678901,2,3,4,5,6\n"
wrong "2:1: a cost that has no exact sum with the others" "$head\n1e9,2e-15,3,4,5,6\n"
wrong "3:9: xbar is less than x, which is a part of it (found '49', expected x or more)" \
  "$head\n1,2,3,4,5,6\n1,2, 50,49,5,6\n"
chain=tests/plan/nine.csv
says 2 "vram: no budget (expected --budget SIZE or --gpu NAME)" $chain --json
says 2 "vram: a budget of 0 bytes holds nothing" $chain --budget 0
says 2 "vram: no model and no chain" --budget 1GB
says 2 "vram: a second model '$chain'" $chain $chain --budget 1GB
says 2 "vram: unknown planner 'best' (expected optimal, stages, " $chain --budget 1GB --planner best
says 2 "vram: unknown option '--plan'" $chain --budget 1GB --plan
says 2 "vram: not an option of this command '--explain' (expected vram plan -h)" $chain --budget 1GB --explain
says 2 "vram: an option of models, for a chain: '--batch'" $chain --budget 1GB --batch 3
says 2 "vram: --segments is for (expected --planner sequential)" $chain --budget 1GB --segments 3
says 2 "vram: not an alignment '48' (expected a power of two)" $chain --budget 1GB --align 48
says 2 "vram: not a cost of transfers '25GB/s'" $chain --budget 1GB --offload 25GB/s
says 2 "vram: not a number for '--slots' (expected 1 or more)" $chain --budget 1GB --slots none
says 2 "vram: no value behind '--planner'" $chain --budget 1GB --planner
says 2 "vram: standard output takes one of" $chain --budget 1GB --json --csv
says 2 "vram: standard output is taken by" $chain --budget 1GB --json --moves
says 2 "vram: cannot open 'nowhere.csv'" nowhere.csv --budget 1GB
says 1 "vram: cannot write 'no/such/file'" $chain --budget 1GB --svg no/such/file

# B. exit status: 0 within the budget, 3 below the smallest one, which is named and holds
smallest=$(./vram plan $chain --budget 1 --json | sed -n 's/.*"smallest_budget_bytes":\([0-9]*\).*/\1/p')
says 3 "DOES NOT FIT: the smallest budget is $smallest bytes" $chain --budget $((smallest - 1)) --units bytes
says 3 '"feasible":false' $chain --budget $((smallest - 1)) --json
says 0 '"feasible":true' $chain --budget "$smallest" --json
# the same chain: columns in another order, in other words, from standard input
awk -F, '{ print $4 ", " $3 "," $1 "," $7 "," $5 ",\"" $2 "\"," $6 "\r" }' $chain >$work/turned.csv
for file in "$chain" $work/turned.csv -; do
  ./vram plan $file --budget 45000 --json <$work/turned.csv | sed 's/"model":"[^"]*"/"model":"-"/' >$work/same.$(basename $file)
done
same "columns in another order" $work/same.nine.csv $work/same.turned.csv
same "a chain from standard input" $work/same.nine.csv $work/same.-

# without a budget: the smallest first, then dearer by no row
./vram plan $chain --units bytes | awk 'NF > 4 && $1 ~ /^[0-9]+$/ { print $1, $2, $5 }' >$work/budgets
if [ "$(head -n 1 $work/budgets | cut -d' ' -f1)" = "$smallest" ] && [ "$(wc -l <$work/budgets)" -ge 4 ] &&
  awk '$2 > $1 || (NR > 1 && ($3 > cost || $1 <= budget)) { bad = 1 } { budget = $1; cost = $3 } END { exit bad }' \
    $work/budgets; then ok; else bad "what each budget costs"; cat $work/budgets; fi

# C. every planner, several budgets, played again by other rules
if ! have python3; then skip "no python3"; else
  checked() { # checked CHAIN OPTIONS...
    ./vram plan "$@" --json >$work/plan.json 2>$work/log
    case $? in 0 | 3) ;; *) bad "vram plan $*"; cat $work/log; return ;; esac
    ./vram plan "$@" --csv >$work/moves.csv
    ./vram plan "$@" --svg $work/plan.svg --units bytes >$work/text
    if [ -n "$(awk 'length > 100' $work/text)" ]; then bad "vram plan $*: lines of more than 100 columns"; fi
    cell "vram plan $*" python3 tests/plan/check.py "$1" $work/plan.json $work/moves.csv $work/plan.svg
  }
  for planner in optimal stages sequential sqrt revolve plain; do
      for budget in 1 "$smallest" 45KB 52KB 1GB; do
      checked $chain --budget $budget --planner $planner
    done
  done
  awk 'BEGIN {
    srand(3); print "fw,bw,x,xbar,ftmp,btmp"
    for (i = 0; i < 60; i++) {
      x = 1 + int(rand() * 9000)
      printf "%.3f,%.3f,%d,%d,%d,%d\n", rand() * 3, rand() * 6, x, x + int(rand() * 40000), rand() * 3000, rand() * 3000
    } }' >$work/random.csv
  for budget in 100KB 200KB 400KB 800KB; do checked $work/random.csv --budget $budget; done
  truth=${TRUTH:-../shared/data/truth} truth=${truth%/truth}/checkpoint/rotor_exhaustive_small.txt
  if [ -f $truth ]; then
    python3 tests/plan/exhaustive.py $truth >$work/log 2>&1
    grep -v ' passed, ' $work/log | head -10
    grep -q ' passed, ' $work/log || bad "exhaustive.py stopped"
    add $work/log
  else skip "no $truth (tests/test_schedule.c has an exhaustive search of its own)"; fi
fi

# D. models: what PyTorch took with a plan's calls, measured
one() { tr ',{' '\n\n' <$work/json | sed -n "s/^\"$1\":\([0-9]*\).*/\1/p" | head -n 1; }
allocated() { sed 's/.*"peak_allocated_bytes":{[^}]*"expected":\([0-9]*\).*/\1/' $work/json; }
near() { # 1 %, or the rest of a block
  [ $(($1 > $2 ? $1 - $2 : $2 - $1)) -le $(($2 / 100 > 1048576 ? $2 / 100 : 1048576)) ]
}
grep -v '^#' tests/golden/plan.txt >$work/rows
while read -r text opt calls plain_requested requested plain_allocated allocated; do
  ./vram estimate tests/plan/$text.vram --train $opt --cudnn none --json >$work/json
  plain="$(one peak_requested_bytes)" plain_blocks=$(allocated)
  ./vram estimate tests/plan/$text.vram --train $opt --checkpoint-nodes $calls --cudnn none --json >$work/json
  if [ "$plain $(one peak_requested_bytes)" = "$plain_requested $requested" ] &&
    near "$plain_blocks" "$plain_allocated" && near "$(allocated)" "$allocated"; then ok; else
    bad "$text: $plain $(one peak_requested_bytes) $plain_blocks $(allocated), PyTorch: $plain_requested $requested \
$plain_allocated $allocated"
  fi
done <$work/rows
[ "$(wc -l <$work/rows)" -ge 3 ] || bad "rows of plan.txt are missing"

# a plan says of PyTorch what vram estimate says of its calls; the table, the picture, the moves are those of the chain
if have python3; then
  while read -r model budget options; do
    cell "plan of $model" python3 tests/plan/model.py "$model" "$budget" $options
  done <<END
resnet50 8GiB --batch 256
resnet50 1.2GiB --batch 32 --train sgd_momentum --amp bf16
gpt2 12GiB --train adamw
lenet5 1GiB --accumulate 2
tests/plan/mlp24.vram 330MiB --planner sequential
tests/plan/resnet50.vram 850MiB --train adamw
END
fi
# the picture of docs/plan.md is that of now
options="resnet50 --batch 256 --train sgd_momentum --budget 7GiB"
if ./vram plan $options --svg - | cmp -s - examples/plan.svg; then ok; else
  bad "examples/plan.svg is an old one: ./vram plan $options --svg examples/plan.svg"
fi
says 3 "DOES NOT FIT: the smallest budget is " resnet50 --batch 256 --budget 1GiB
says 0 "layer4.2" resnet50 --batch 8 --budget 8GiB --table
says 2 "vram: no file and no built-in model 'resnet5O' (expected resnet50? vram list models)" resnet5O --budget 1GiB
says 2 "vram: not an option of this command '--checkpoint' (expected vram plan -h)" resnet50 --budget 1GiB --checkpoint 2

# a plan for PyTorch on a device fits there, as vram estimate says of the same calls; one byte below the
# smallest budget nothing does
auto() { # auto STATUS TEXT OPTIONS...: of vram estimate
  wanted=$1
  text=$2
  shift 2
  ./vram estimate "$@" --checkpoint auto >$work/says 2>&1
  status=$?
  if [ $status = "$wanted" ] && grep -q -F -e "$text" $work/says; then ok; else
    bad "vram estimate $* --checkpoint auto: status $status, expected $wanted and $text"
    head -3 $work/says
  fi
}
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" $work/says; }
for words in "resnet50 --batch 256 --budget 8GiB" "gpt2 --batch 8 --budget 8GiB" \
  "densenet121 --batch 64 --budget 3GiB --amp bf16"; do
  says 0 "it fits a device of" $words --train adamw --torch
  auto 0 "fits a budget of" $words --train adamw
  calls=$(sed -n "s/^--checkpoint-nodes '\(.*\)'$/\1/p" $work/says)
  sed -n '/^allocated/p; /^reserved/p' $work/says >$work/planned
  ./vram estimate $words --train adamw --checkpoint-nodes "$calls" | sed -n '/^allocated/p; /^reserved/p' >$work/again
  same "the calls that --checkpoint auto names: $words" $work/planned $work/again
  auto 0 '"feasible":true' $words --train adamw --json
  smallest=$(number smallest_budget_bytes)
  auto 0 '"feasible":true' $words --train adamw --json --budget $smallest
  auto 3 '"feasible":false' $words --train adamw --json --budget $((smallest - 1))
  says 0 "it fits a device of" $words --train adamw --torch --budget $smallest
  says 3 "DOES NOT FIT" $words --train adamw --torch --budget $((smallest - 1))
done
auto 0 "0 calls of checkpoint()" resnet50 --train sgd --batch 8 --gpu h100-80
auto 3 "no plan fits; the smallest budget that one fits is" resnet50 --train sgd --batch 64 --budget 1GiB
says 2 "no budget for '--torch' (expected --budget SIZE or --gpu NAME)" resnet50 --torch
says 2 "--torch has calls of torch.utils.checkpoint to choose from: no '--planner'" \
  resnet50 --torch --budget 8GiB --planner sqrt
says 2 "vram: an option of models, for a chain: '--torch'" $chain --budget 1GB --torch

# E. PyTorch: nested calls of checkpoint give the gradients of the plain run
python=${PYTHON:-python3}
if ! "$python" -c 'import torch' 2>/dev/null; then skip "$python has no torch: checkpoint_torch.py"; else
  "$python" -W ignore tests/plan/spans.py >$work/log 2>&1
  grep -v ' passed, ' $work/log | head -10
  grep -q ' passed, ' $work/log || bad "spans.py stopped"
  add $work/log
  nullgpu=${NULLGPU:-../shared/nullgpu/py}
  trains() { # trains TEXT RUNNER... OPTIONS: checkpoint_torch.py says it
    text=$1
    shift
    if "$@" >$work/log 2>&1 && grep -q "$text" $work/log; then ok; else
      bad "$*"
      tail -3 $work/log
    fi
  }
  trains "19 gradients, [1-9][0-9]* spans: all equal" \
    "$python" -W ignore tools/checkpoint_torch.py tests/plan/chains.py:dropout --budget 67MiB --gradients
  trains "gradients, [1-9][0-9]* spans: all equal" \
    "$python" -W ignore tools/checkpoint_torch.py tests/plan/chains.py:conv21 --budget 72MiB --gradients
  if [ -n "$NULLGPU" ] || [ -x "$nullgpu" ]; then
    NULLGPU_PYTHON=$python
    export NULLGPU_PYTHON
    "$nullgpu" tools/checkpoint_torch.py tests/plan/chains.py:conv21 --budget 72MiB --train sgd >$work/log 2>&1
    if [ "$(awk '/^requested/ { print $(NF - 2), $(NF - 1) }' $work/log | sort -u | wc -l)" = 1 ] &&
      [ "$(grep -c '^requested' $work/log)" = 2 ]; then ok; else
      bad "measured and planned bytes of conv21"
      tail -8 $work/log
    fi
  else skip "no $nullgpu: a plan on a device (its figures are in tests/golden/plan.txt)"; fi
fi
