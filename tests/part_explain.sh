# Where theory and reality differ: `vram estimate --explain`, measured reserved bytes, and what
# docs/estimate.md says of them: sourced by part.sh.
work=build/explain
mkdir -p $work
golden=tests/golden/reserved.txt
json() { # json KEY: its figures
  sed -n -e 's/"sources":.*//' -e "s/.*\"$1\":\({[^}]*}\|[0-9]*\).*/\1/p" $work/json | tr -cd '0-9,' |
    tr ',' ' '
}

# A. the chain adds up to the byte in each column, and its sums are the report's
chain() { # chain MODEL OPTIONS...
  ./vram estimate "$@" --json >$work/json
  ./vram estimate "$@" --explain | sed -n '/^from the tensors/,$p' >$work/explain
  awk '
    /^[-+=]/ {
      for (i = 1; i <= 3; i++) {
        v = $(NF - 3 + i)
        if (v < 0 || v !~ /^[0-9]+$/) print "not a figure: " $0
        if ($1 == "+") sum[i] += v
        else if ($1 == "-") sum[i] -= v
        else if (v != sum[i]) print "column " i " gives " sum[i] ": " $0
      }
      if ($1 == "=") sums = sums " " $2
    }
    END { if (sums != " requested allocated reserved device") print "sums:" sums }' $work/explain >$work/found
  for term in requested allocated device; do
    case $term in
    requested) n=$(json peak_requested_bytes) wanted="$n $n $n" ;;
    allocated) wanted=$(json peak_allocated_bytes) ;;
    device) wanted=$(json device_bytes) ;;
    esac
    is=$(awk -v t=$term '$1 == "=" && $2 == t { print $3, $4, $5 }' $work/explain)
    [ "$is" = "$(echo $wanted)" ] || echo "$term: $is, the report has $wanted" >>$work/found
  done
  if [ -s $work/found ]; then
    bad "--explain $*"
    head -5 $work/found
  else ok; fi
}
for model in tests/golden/models/*.vram tests/golden/random/*.vram; do chain "$model" --train adamw; done
model=examples/models/resnet50.vram
for options in "" "--amp bf16" "--train adamw --amp fp16 --step first" "--train sgd --accumulate 4 --keep-grads" \
  "--train adamw --dtype bf16 --master-weights" "--train adam --context 0" "--train lion --context 3GiB" \
  "--train adamw --rules ideal" "--train adamw --gpu t4" "--train adamw --units si"; do
  chain $model $options
done

# when a custom line takes its workspace is not known; one number of saved bytes is measured in fp32:
# in 16 bits the least is half of it less, but three numbers say what it is there
printf '%s\n' 'dim N=64' 'input x f32 [N,1000]' 'linear a x out_features=1000' \
  'custom b a shape=[N,1000] saved=80000000 workspace=4000000' 'mean loss b' >$work/custom.vram
for options in "" "--amp bf16" "--dtype bf16"; do
  chain $work/custom.vram --train sgd $options
  found=$(json peak_allocated_bytes | awk '{ print $2 - $1 }')
  if [ "$found" = "$([ -z "$options" ] && echo 4000000 || echo 44000000)" ]; then ok; else
    bad "custom $options: $found less than expected"
  fi
  sed 's/saved=[0-9]*/saved=80000000,50000000,60000000/' $work/custom.vram >$work/three.vram
  chain $work/three.vram --train sgd $options
  found=$(json peak_allocated_bytes | awk '{ print $2 - $1 }')
  if [ "$found" -lt 5000000 ]; then ok; else bad "custom with three numbers $options: $found less than expected"; fi
done

# what its kernels may take unseen is in the upper bound alone; cuBLAS may be in backward alone
chain $work/custom.vram --train sgd
before=$(json peak_allocated_bytes)
sed 's/workspace=/unseen=900000000 workspace=/' $work/custom.vram >$work/unseen.vram
chain $work/unseen.vram --train sgd
found=$(json peak_allocated_bytes)
if [ "$(echo $before $found | awk '{ print ($1 == $4 && $2 == $5 && $3 < 900000000 && $6 > 980000000) }')" = 1 ]; then ok; else
  bad "custom unseen=: $found, without it $before"
fi
sed 's/workspace=/backward_cublas=1 workspace=/' $work/custom.vram >$work/cublas.vram
found=$(./vram estimate $work/cublas.vram --train sgd --events - | awk -F, '$2 == "alloc" && $6 == "b" && $4 == 33554432 { print $1 }')
if [ "$found" = backward ]; then ok; else bad "custom backward_cublas=1: cuBLAS in $found"; fi

# B. measured: allocated and reserved bytes lie between lower and upper, and are what the replay
# says; in the third step of these runs an order of small requests is not PyTorch's
differ="tv_vit_b_16 8 train_amp_bf16_adamw
tv_vit_b_16 8 train_amp_fp16_adamw"
grep -v '^#' $golden >$work/rows
measured=0
: >$work/differ
while read -r model batch mode requested allocated reserved; do
  text=tests/golden/models/$model.vram options=
  [ -f $text ] || continue
  step=steady
  case $mode in *.first) step=first ;; esac
  case ${mode%.first} in
  train_fp32_sgd) options="--train sgd_momentum" ;;
  train_fp32_adamw) options="--train adamw" ;;
  train_fp32_adamw_fused) options="--train adamw --optim-impl fused" ;;
  train_fp32_adamw_forloop) options="--train adamw --optim-impl loop" ;;
  train_amp_bf16_adamw) options="--train adamw --amp bf16" ;;
  train_amp_fp16_adamw) options="--train adamw --amp fp16" ;;
  *) continue ;;
  esac
  measured=$((measured + 1))
  ./vram estimate $text $options --step $step --batch $batch --cudnn none --context 0 --json >$work/json
  exact=$(json peak_reserved_bytes)
  set -- $(json peak_requested_bytes) $(json peak_allocated_bytes) $(json device_bytes)
  [ "$3 $exact" = "$allocated $reserved" ] || echo "$model $batch $mode: $allocated $reserved, replayed $3 $exact" >>$work/differ
  if [ "$requested" = "$1" ] && [ "$2" -le "$allocated" ] && [ "$allocated" -le "$4" ] &&
    [ "$5" -le "$reserved" ] && [ "$reserved" -le "$7" ]; then ok; else
    bad "$model $batch $mode: measured $requested $allocated $reserved, the report has $*"
  fi
done <$work/rows
if [ "$(sed 's/:.*//' $work/differ | sort)" = "$(echo "$differ" | sort)" ]; then ok; else
  bad "replays that differ from what was measured are not the known ones"
  cat $work/differ
fi
[ $measured -gt 200 ] || bad "only $measured measured steps"

# C. the document says what the goldens and the command say
sed -n '/^## Where theory and reality differ/,/^## /p' docs/estimate.md | tr -d ',' >$work/page
set -- $(awk '$1 == "tv_resnet50" && $2 == 16 && $3 == "train_fp32_adamw" { print $4, $5, $6 }' $work/rows)
blocks=$(./vram estimate examples/models/resnet50.vram --train adamw --cudnn none --explain |
  awk '$1 == "=" && $2 == "allocated" { print $3 }')
cat >$work/wanted <<EOF
requested|$1|
blocks|$blocks|$((blocks - $1))
allocated|$2|$(($2 - blocks))
reserved|$3|$(($3 - $2))
EOF
sed -n 's/^| \([a-z]*\)[^|]*| \([0-9]*\) | \([0-9]*\) *|.*/\1|\2|\3/p' $work/page >$work/found
if cmp -s $work/wanted $work/found; then ok; else
  bad "the document's table of ResNet-50 (<) and what was measured (>)"
  diff $work/found $work/wanted
fi
# over all measured steps: how many, allocated above requested, reserved above allocated
awk '{ print $6 / $5 - 1 }' $work/rows | sort -g >$work/above
n=$(wc -l <$work/above)
set -- $(awk '{ a = $5 / $4 - 1; if (a > m) m = a } END { printf "%.1f", 100 * m }' $work/rows) \
  $(awk -v n=$n 'NR == 1 || NR == int((n + 1) / 2) || NR == n { printf "%.1f ", 100 * $1 }' $work/above)
wanted="In $n measured training steps allocated is at most $1 % above requested and reserved $2 % to $4 % above allocated (median $3 %)."
if tr '\n' ' ' <$work/page | tr -s ' ' | grep -qF "$wanted"; then ok; else bad "docs/estimate.md does not say: $wanted"; fi

# the layer table has one row for each line of the text, also where an op is written out to many
for f in tests/golden/ops/*.vram tests/cases/composite/*.vram tests/cases/pool/lp*.vram tests/cases/pointwise/softsign*.vram; do
  [ -e "$f" ] && ! grep -q '^loop' "$f" || continue
  ./vram estimate "$f" --csv | cut -d, -f1 | sort | uniq -d >$work/found
  same "rows of the layer table of $f" /dev/null $work/found
done

# what others measured on real GPUs lies within the bounds
if have python3; then cell "published measurements" python3 tools/published.py; else skip "no python3"; fi
if have python3; then cell "published logs of llama.cpp" python3 tools/published_llama.py; else skip "no python3"; fi
if have python3; then cell "published contexts" python3 tools/published_beside.py; else skip "no python3"; fi

# what cuDNN took for recurrent nets on an H200 lies within the bounds
while IFS=, read -r net dtype input hidden layers both seq batch dropout peak; do
  case $net in '#'* | net) continue ;; esac
  outputs=y,h
  [ $net = lstm ] && outputs=y,h,c
  printf 'input x %s [%s,%s,%s] grad=1\n%s %s x hidden_size=%s num_layers=%s bidirectional=%s dropout=%s\nsum l y\n' \
    $dtype $seq $batch $input $net $outputs $hidden $layers $both $dropout |
    ./vram estimate - --train sgd --gpu h200 --rules torch-2.11 --dtype $dtype --json >$work/json
  need=$(($(json params_bytes) + $(json inputs_bytes) + peak))
  set -- $(json peak_allocated_bytes)
  if [ $1 -le $need ] && [ $need -le $3 ]; then ok; else bad "$net $dtype $input $hidden $layers $both: $need of $*"; fi
done <tests/golden/rnn_h200.csv
