# vram diff: a prediction equals what was measured, and what is planted into it is found: sourced by part.sh.
work=build/diff
mkdir -p $work
truth=${TRUTH:-../shared/data/truth}
differs() { ./vram diff "$@" --csv 2>&1 | sed 1d | grep -v ',0$'; } # the rows that are not equal

# A. streams that PyTorch made: no byte unaccounted for. Those of tests/cases have no layers, and
# in zero_grad not the gradient of an input that wants one (it was a new input in each step)
options() { # options MODE
  case $1 in *amp_bf16*) echo "--amp bf16" ;; *amp_fp16*) echo "--amp fp16" ;; *bf16*) echo "--dtype bf16" ;; esac
  case $1 in train*) echo "--train ${1##*_}" ;; esac
}
measured() { # measured TEXT CSV
  name=$(basename "$2" .csv)
  if [ -z "$(differs "$1" "$2" $(options "${name#*.}") $(sed -n 's/^# options: *//p' "$1" | head -1) | grep -v ',"zero_grad",')" ]
  then ok; else bad "$name"; fi
}
i=0
for f in tests/cases/*/*.csv; do
  i=$((i + 1))
  [ $((i % 10)) != 0 ] || measured "${f%%.*}.vram" "$f"
done
unet="tests/traces/unet.vram tests/traces/unet.csv --train adamw"
cell "unet" ./vram diff $unet
cell "a device of the side that has several" sh -c "./vram diff tests/traces/unet.csv tests/traces/step.pickle --device 0 --csv | grep -q ^peak,"
if [ -d "$truth/events" ]; then
  for f in "$truth"/events/*.csv; do
    name=$(basename "$f" .csv)
    cell "$name" ./vram diff "$truth/models/${name%%.*}.vram" "$f" $(options "${name#*.}")
  done
else skip "no measured data at $truth (one model's is tests/traces/unet.csv)"; fi

# B. planted: an allocation with its free taken out, or 4,096 bytes larger. Its layer, nothing else, says so
rows=$(grep -n ',alloc,' tests/traces/unet.csv | cut -d: -f1)
wrong=0 planted=0
for row in $rows; do
  planted=$((planted + 1))
  [ $((planted % 7)) = 0 ] || continue
  awk -F, -v row="$row" 'NR == row { id = $3; next } NR > row && $3 == id { next } { print }' \
    tests/traces/unet.csv >$work/less.csv
  awk -F, -v OFS=, -v row="$row" 'NR == row { id = $3 } NR >= row && $3 == id { $4 += 4096 } { print }' \
    tests/traces/unet.csv >$work/more.csv
  sed -n "${row}p" tests/traces/unet.csv | awk -F, '{
    layer = $5
    sub(/^[^ ]* /, "", layer)
    print "layer_allocated,\"" $1 " " (layer == "" ? "(no layer)" : layer) "\"," $4 }' >$work/line
  layer=$(sed 's/,[0-9]*$//' $work/line) bytes=$(sed 's/.*,//' $work/line)
  differs tests/traces/unet.vram $work/less.csv --train adamw | grep '^layer_allocated' | cut -d, -f1,2,5 >$work/found
  echo "$layer,-$bytes" >$work/wanted
  cmp -s $work/found $work/wanted || wrong=$((wrong + 1))
  differs tests/traces/unet.vram $work/more.csv --train adamw | grep '^layer_allocated' | cut -d, -f1,2,5 >$work/found
  echo "$layer,4096" >$work/wanted
  cmp -s $work/found $work/wanted || wrong=$((wrong + 1))
done
if [ $wrong = 0 ] && [ $planted -gt 100 ]; then ok; else bad "$wrong planted differences were not found at their layer"; fi

# C. a whole program's snapshot. The built-in model has no target: 64 numbers of 8 bytes
differs lenet5 tests/traces/lenet5.pickle --train adamw >$work/found
cat >$work/wanted <<'EOF'
peak,"requested",36882072,36882584,512
category_at_peak,"(not paired)",0,512,512
layer_at_peak,"train.py:26 <module>",0,512,512
EOF
same "a program's snapshot" $work/wanted $work/found
status() { # status WANTED ARGUMENTS...
  wanted=$1
  shift
  ./vram diff "$@" >$work/found 2>&1
  found=$?
  if [ $found = "$wanted" ]; then ok; else bad "vram diff $*: exit status $found"; fi
}
status 3 lenet5 tests/traces/lenet5.pickle --train adamw
status 3 lenet5 tests/traces/lenet5.pickle --train adamw --tolerance 511
status 0 lenet5 tests/traces/lenet5.pickle --train adamw --tolerance 512
status 3 lenet5 tests/traces/lenet5.pickle --train adamw --tolerance 2%
status 0 $unet --tolerance 0.1%
status 3 lenet5 tests/traces/lenet5.pickle --train sgd --tolerance 1KiB
status 0 tests/traces/step.pickle tests/traces/step.json
status 0 lenet5 examples/models/lenet5.vram
status 3 lenet5 alexnet --json

# D. objects of --json, and the forms of output
./vram estimate lenet5 --train adamw --json >$work/predicted.json
./vram replay tests/traces/lenet5.pickle --json >$work/measured.json
./vram diff $work/predicted.json $work/measured.json --csv >$work/found
cat >$work/wanted <<'EOF'
what,name,predicted,measured,unaccounted
peak,"requested",36882072,36882584,512
peak,"allocated",36891648,36892160,512
peak,"reserved",58720256,58720256,0
EOF
same "estimate --json and replay --json" $work/wanted $work/found
status 0 lenet5 $work/predicted.json --train adamw
cell "what they have in common" grep -q '^category_at_peak' <<EOF
$(./vram diff lenet5 $work/predicted.json --train adamw --csv)
EOF
echo '{"processes":[{"devices":[{"device":0,"reserved_bytes.all.peak":2097152},{"device":"host","reserved_bytes.all.peak":7}]},
{"devices":[{"device":0,"reserved_bytes.all.peak":58720256}]}]}' >$work/run.json
./vram diff lenet5 $work/run.json --train adamw --csv | sed 1d >$work/found
echo 'peak,"reserved",58720256,58720256,0' >$work/wanted
same "run --json: the process that had most" $work/wanted $work/found
./vram diff lenet5 tests/traces/lenet5.pickle --train adamw --json >$work/json
if have python3; then
  cat >$work/rows.py <<'EOF'
import csv, json, subprocess, sys
a = "lenet5 tests/traces/lenet5.pickle --train adamw".split()
run = lambda *o: subprocess.run(["./vram", "diff", *a, *o], capture_output=True, text=True).stdout
j = json.loads(run("--json"))
c = [[r["what"], r["name"], *(int(r[k]) for k in ("predicted", "measured", "unaccounted"))] for r in csv.DictReader(run("--csv").splitlines())]
assert [list(r.values()) for r in j["rows"]] == c and not j["equal"] and j["predicted"] == "lenet5"
assert all(m - p == u for _, _, p, m, u in c)
for what in {r[0] for r in c if "_" in r[0]}:  # the largest difference first, and the sums are the peaks
    away = [abs(r[4]) for r in c if r[0] == what]
    assert away == sorted(away, reverse=True)
    assert [sum(r[k] for r in c if r[0] == what) for k in (2, 3)] == c[0][2:4]
text = run("--units", "bytes", "--top", "0")
assert all(r[1][:44] in text and str(r[2]) in text for r in c)
EOF
  cell "JSON, CSV and text say the same" python3 $work/rows.py
else skip "no python3: JSON, CSV and text side by side"; fi
./vram diff lenet5 - --train adamw --csv <tests/traces/lenet5.pickle >$work/found
./vram diff lenet5 tests/traces/lenet5.pickle --train adamw --csv >$work/wanted
same "standard input" $work/wanted $work/found
./vram diff $unet --top 3 | grep -c 'more, 0 of them different' >$work/found
echo 2 >$work/wanted
same "--top" $work/wanted $work/found

# E. bad use: one line, exit status 2
wrong() { # wrong TEXT ARGUMENTS...
  text=$1
  shift
  ./vram diff "$@" >$work/found 2>$work/log
  if [ $? = 2 ] && [ ! -s $work/found ] && [ "$(wc -l <$work/log)" = 1 ] && grep -qF -e "$text" $work/log; then ok
  else bad "$text ($*)"; cat $work/log; fi
}
wrong "two sides are compared"
wrong "two sides are compared" lenet5
wrong "a third side 'b'" lenet5 lenet5 b
wrong "standard input is one side" - -
wrong "no file and no built-in model 'lenet55' (expected lenet5?" lenet5 lenet55
wrong "cannot open './no'" lenet5 ./no
wrong "not an option of this command '--html'" a b --html x
wrong "unknown option '--what'" a b --what
wrong "no value behind '--top'" a b --top
wrong "not a number of lines '-1'" a b --top -1
wrong "not a tolerance '%'" a b --tolerance %
wrong "not a tolerance '-1%'" a b --tolerance -1%
wrong "not a tolerance 'x'" a b --tolerance x
wrong "standard output takes one of" a b --json --csv
wrong "an option of training without --train: '--keep-grads'" lenet5 lenet5 --keep-grads
echo '{"params_bytes":5}' >$work/odd.json
wrong "none of peak_requested_bytes" lenet5 $work/odd.json
awk -v kind=devices -v n=60000 -f tests/traces/shared.awk >$work/shared
timeout 30 ./vram diff $work/shared $work/shared >$work/found 2>$work/log
if [ $? = 2 ] && grep -q 'shared:0: the same large parts again and again' $work/log; then ok; else
  bad "a pickle that shares its devices"
fi
echo '{"peak_reserved_bytes":5}' >$work/odd.json
wrong "nothing that both sides have figures for" tests/traces/unet.csv $work/odd.json
printf 'action,id,size\nalloc,1,x\n' >$work/odd.csv
wrong "$work/odd.csv:2: not a number of bytes" lenet5 $work/odd.csv
printf 'input x f32 [2]\nrelu y z\n' >$work/odd.vram
wrong "$work/odd.vram:2:8: " lenet5 $work/odd.vram
