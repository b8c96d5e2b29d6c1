# The built-in models: sourced by part.sh. A loop is what it stands for: written out by another
# program (tools/loops.py) and rolled up again it takes the same bytes in the same order.
work=build/models
mkdir -p $work
events() { # events FILE OPTIONS: the step without the nodes' names
  ./vram estimate "$@" --events - | cut -d, -f1-5
}
alike() { # alike MODEL MODEL: every mode
  for options in "--train adamw" "--train sgd --amp bf16" "--infer"; do
    events "$1" $options >$work/a
    events "$2" $options >$work/b
    if [ -s $work/a ] && cmp -s $work/a $work/b; then ok; else bad "$1 and $2 differ: $options"; fi
  done
}
if ! have python3; then skip "no python3: loops"
else
  for model in examples/models/*.vram; do
    name=$work/$(basename "$model" .vram)
    python3 tools/loops.py --unroll "$model" >"$name.flat.vram" || bad "loops.py --unroll $model"
    python3 tools/loops.py "$name.flat.vram" >"$name.rolled.vram" || bad "loops.py $name.flat.vram"
    if grep -q '^loop' "$name.flat.vram"; then bad "a loop in $name.flat.vram"; else ok; fi
    if grep -q '^loop' "$model"; then
      alike "$model" "$name.flat.vram"
      if grep -q '^loop' "$name.rolled.vram"; then ok; else bad "no loop in $name.rolled.vram"; fi
    fi
    if grep -q '^loop' "$name.rolled.vram"; then alike "$name.flat.vram" "$name.rolled.vram"; fi
  done
  printf 'dim N=2\ninput x f32 [N]\nloop Q h=x\nrelu y h\n' >$work/wrong.vram
  for wrong in no/such/file /dev/null/x Makefile "--unroll $work/wrong.vram"; do
    python3 tools/loops.py $wrong >/dev/null 2>$work/err
    if [ $? = 2 ] && [ "$(wc -l <$work/err)" = 1 ]; then ok; else bad "loops.py $wrong"; fi
  done
fi
# the ten layers as PyTorch was measured with them
alike linear10 tests/golden/models/nn_linear5000x10.vram

# training loops as people write them, as PyTorch was measured with them
grep -v '^#' tests/golden/loops/loops.txt >$work/loops
while IFS='|' read -r asked wanted; do
  ./vram estimate tests/golden/loops/${asked%% *}.vram ${asked#* } --json >$work/json
  found=
  for phase in forward backward optimizer evaluation; do
    found="$found$(sed -n "s/.*\"$phase\":{\"requested_bytes\":\([0-9]*\),\"requested_peak_bytes\":\([0-9]*\),.*/ $phase \1 \2/p" $work/json)"
  done
  case $wanted in *reserved*)
    found="$found reserved $(sed 's/.*"optimizer":{[^}]*"reserved_bytes":\([0-9]*\).*/\1/' $work/json) \
$(sed 's/.*"peak_reserved_bytes":\([0-9][0-9]*\).*/\1/' $work/json)"
    ;;
  esac
  if [ "$found" = "$wanted" ]; then ok; else bad "$asked: $found, PyTorch:$wanted"; fi
done <$work/loops
[ "$(wc -l <$work/loops)" -ge 41 ] || bad "rows of loops.txt are missing"
