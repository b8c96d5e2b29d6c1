# Which batches fit is which PyTorch itself trains before it runs out of memory; it found them by
# trying (tests/measured/fit.py): sourced by part.sh.
work=build/fit
mkdir -p $work
grep -v '^#' tests/golden/fit.txt >$work/rows
value() { tr ',' '\n' <$work/json | sed -n "s/^{*\"$1\":\([0-9]*\).*/\1/p" | head -n 1; }
options() { # options MODE
  echo --train adamw --budget 8GiB --cudnn none --context 512MiB --json
  [ "$1" = bf16 ] && echo --amp bf16
}

# each batch that was tried: whether it fits, and how many times cached memory goes back
while read -r model mode batch result retries; do
  ./vram estimate $model $(options $mode) --batch $batch >$work/json
  case $? in 0) found=trains ;; 3) found=oom ;; *) found=error ;; esac
  [ $found = trains ] && found="$found $(value num_alloc_retries)" || found="$found -"
  if [ "$found" = "$result $retries" ]; then ok; else
    bad "$model $mode batch $batch: $found, PyTorch: $result $retries"
  fi
done <$work/rows

# the largest: none that trained is larger, and it did train if it was tried
cut -d' ' -f1,2 $work/rows | sort -u >$work/models
while read -r model mode; do
  ./vram fit $model $(options $mode) >$work/json
  fits=$(value value)
  if awk -v m="$model $mode" -v fits="${fits:-0}" '
    $1 " " $2 == m && (($4 == "trains" && $3 > fits) || ($4 == "oom" && $3 == fits)) { wrong = 1 }
    END { exit wrong }' $work/rows; then ok; else
    bad "$model $mode: $fits is the largest that fits, which is not so in PyTorch"
  fi
done <$work/models
[ "$(wc -l <$work/models)" -ge 10 ] || bad "models are missing"

# what comes first gives no cached memory back, in PyTorch's own runs neither; the next larger one does
while read -r model mode; do
  ./vram fit $model $(options $mode) >$work/json
  fits=$(value value)
  calm=$(sed -n 's/.*"without_retries":{"value":\([0-9]*\).*/\1/p' $work/json)
  found=
  for batch in $calm $((calm + 1)); do
    ./vram estimate $model $(options $mode) --batch $batch >$work/json
    found="$found $(value num_alloc_retries)"
  done
  case "$calm $found" in "$fits  0 "*) ok ;; *"  0 0") bad "$model $mode: without retries $calm, not $((calm + 1))" ;; *"  0 "*) ok ;;
  *) bad "$model $mode: $calm without retries:$found" ;; esac
  if awk -v m="$model $mode" -v calm="${calm:-0}" '
    $1 " " $2 == m && $4 == "trains" && $5 && $3 <= calm { wrong = 1 }
    END { exit wrong }' $work/rows; then ok; else
    bad "$model $mode: cached memory goes back at $calm in PyTorch"
  fi
done <$work/models

# options of the caching allocator: allocated and reserved bytes of the third step
grep -v '^#' tests/golden/alloc_conf.txt >$work/rows
while read -r model mode batch conf allocated reserved; do
  options="--train adamw --cudnn none --batch $batch --json"
  [ "$mode" = bf16 ] && options="$options --amp bf16"
  [ "$conf" = - ] || options="$options --alloc-conf $conf"
  ./vram estimate $model $options >$work/json
  found="$(sed 's/.*"peak_allocated_bytes":{[^}]*"expected":\([0-9]*\).*/\1/' $work/json) $(value peak_reserved_bytes)"
  # its class token goes to the device last, in the text it is the first but one: a rest more
  [ "$model $conf $found" = "vit_b_16 roundup_power2_divisions:8 2199547392 2418016256" ] && found="2199809536 2418016256"
  if [ "$found" = "$allocated $reserved" ]; then ok; else
    bad "$model $mode batch $batch $conf: $found, PyTorch: $allocated $reserved"
  fi
done <$work/rows
[ "$(wc -l <$work/rows)" -ge 20 ] || bad "rows of alloc_conf.txt are missing"

# files of models: the answer is that of an exhaustive scan with vram estimate and the same options
gguf=tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf
scan() { # scan FILE SOLVE VALUES BUDGET OPTIONS...: VALUES from what takes least on
  file=$1 solve=$2 values=$3 budget=$4 largest=
  shift 4
  for i in $values; do
    case $solve in slots) set_value="--slots $i --ctx $((i * each))" ;; *) set_value="--$solve $i" ;; esac
    ./vram estimate $file $set_value --budget $budget "$@" --json >$work/json && largest=$i && cp $work/json $work/wanted
  done
  ./vram fit $file --solve $solve --budget $budget "$@" ${each:+--ctx $each} --json >$work/json
  status=$?
  if [ "$(value value)" = "$largest" ] && [ $status = $([ "$largest" ] && echo 0 || echo 3) ]; then ok; else
    bad "$file --solve $solve $budget $*: $(value value), status $status, a scan found $largest"
  fi
  if [ "$largest" ]; then # the same report, and the fullest device of it
    sed 's/,"solve":.*//' $work/json >$work/found
    sed 's/}$//' $work/wanted >$work/all
    same "$file --solve $solve: the report" $work/all $work/found
    # the device that has the least left
    fullest=$(sed 's/.*"total_bytes":{//; s/,"host".*"budgets":{/;/; s/}.*//; s/"[A-Z0-9]*"://g' $work/wanted | awk -F';' '
      { n = split($1, used, ","); split($2, budget, ",")
        for (i = 1; i <= n; i++) if (i == 1 || budget[i] - used[i] < least) { least = budget[i] - used[i]; found = used[i] }
        print found }')
    [ "$fullest" ] && [ "$(value device_bytes)" = "$fullest" ] && ok || bad "$file --solve $solve: device_bytes, a scan found $fullest"
  fi
}
each=
scan $gguf ctx "$(seq 1024 1024 131072)" 9GiB --kv q8_0 --slots 4
scan $gguf ngl "$(seq 0 33)" 3GiB --ctx 8192 --devices 2 --tensor-split 3,1
scan $gguf ngl "$(seq 0 33)" 702000000 --ctx 8192 --devices 3
scan $gguf ngl "$(seq 0 33)" 100MiB --ctx 4096
scan $gguf ngl "$(seq 0 33)" 1GiB,700MB,2GiB --ctx 8192
each=5000
scan $gguf slots "$(seq 1 60)" 12GiB
scan $gguf slots "$(seq 1 60)" 12GiB --unified 1
each=
experts=tests/golden/gguf/experts.gguf
scan $experts n-cpu-moe "$(seq 8 -1 0)" 90MiB --ctx 4096 --devices 2
scan $experts n-cpu-moe "$(seq 8 -1 0)" 110MiB --ctx 4096
scan $experts n-cpu-moe "$(seq 8 -1 0)" 90MiB --ctx 4096
more=${TRUTH:-../shared/data/truth}/gguf
if [ -d $more ]; then
  scan $more/qwen3-30b-a3b.Q4_K_M.gguf n-cpu-moe "$(seq 48 -1 0)" 10GiB --ctx 16384 --devices 2
  # not monotone: with one device less layers need more, with four the fullest one changes
  scan $more/lfm2-1.2b.Q4_K_M.gguf ngl "$(seq 0 17)" 890MiB --ctx 8192
  scan $more/lfm2-1.2b.Q4_K_M.gguf ngl "$(seq 0 17)" 400MiB --ctx 8192 --devices 4
else skip "no ../shared: a large model with experts, states"; fi

# a whole device: the answer fits with all that is beside the buffers, one step more does not for sure
./vram fit $gguf --gpu rtx3060 --json >$work/json
fits() { ./vram estimate $gguf --gpu rtx3060 --ctx "$1" --json | sed 's/.*"fits":\([a-z]*\).*/\1/'; }
found="$(fits "$(value value)") $(fits "$(value next)")"
case $found in "true null" | "true false") ok ;; *) bad "fit --gpu rtx3060: $(value value) and $(value next) fit: $found" ;; esac

# devices of several sizes: layers by their memory, each device beside its own
numbers() { sed 's/,"fits":.*//' "$1"; }
./vram estimate $gguf --ctx 8192 --budget 5GiB,4GiB --json >$work/found
status=$?
./vram estimate $gguf --ctx 8192 --devices 2 --tensor-split 5,4 --json >$work/wanted
[ $status = 0 ] && [ -s $work/wanted ] && [ "$(numbers $work/found)" = "$(numbers $work/wanted)" ] && ok || bad "--budget 5GiB,4GiB: shares, status $status"
for budgets in 2GiB,4GiB:3 4GiB,2GiB:3 2GiB,9GiB:0 9GiB,2GiB:0; do
  ./vram estimate $gguf --ctx 8192 --tensor-split 1,3 --budget ${budgets%:*} >$work/out
  status=$?
  # CUDA0 takes 1.7 GB, CUDA1 4.5
  case $budgets in 2GiB,9GiB:0) wanted=0 ;; *) wanted=3 ;; esac
  [ $status = $wanted ] && ok || bad "--budget ${budgets%:*} --tensor-split 1,3: status $status"
done
./vram estimate $gguf --ctx 8192 --gpu rtx4090,rtx3060 --json >$work/found
grep -q '"budget_bytes":null,"budgets":{"CUDA0":[0-9]*,"CUDA1":[0-9]*}' $work/found && ok || bad "--gpu rtx4090,rtx3060 --json"

# what would help is so, and what is wrong is one line
./vram fit $gguf --budget 4GiB --json >$work/json
for change in $(tr '{' '\n' <$work/json | sed -n 's/^"options":"\([^"]*\)","device_bytes":\([0-9]*\),"fits":\([a-z]*\).*/\1=\2=\3/p' | tr ' ' '+'); do
  options=$(echo "${change%%=*}" | tr '+' ' ') wanted=${change#*=}
  ./vram estimate $gguf $options --budget 4GiB --json >$work/found
  found=$(sed 's/.*"total_bytes":{"CUDA0":\([0-9]*\).*"fits":\([a-z]*\).*/\1=\2/' $work/found)
  [ "$found" = "$wanted" ] && ok || bad "fit says $options: $wanted, estimate $found"
done
[ "$change" ] || bad "nothing is said that would help"
refused() { # refused TEXT ARGUMENTS...
  text=$1
  shift
  ./vram fit "$@" >$work/out 2>$work/err
  status=$?
  if [ $status = 2 ] && [ ! -s $work/out ] && [ "$(wc -l <$work/err)" = 1 ] && grep -qF -e "$text" $work/err; then ok; else
    bad "fit $*: status $status, expected 2 and $text"
  fi
}
refused "no budget" $gguf
./vram estimate $gguf --engine vllm --gpu rtx3060 --max-model-len 4096 >$work/out 2>$work/err
if [ $? = 2 ] && grep -q "a GGUF file, of which vLLM 0.33 has no loader" $work/err; then ok; else bad "a GGUF file with --engine"; fi
refused "what is solved for is given: '--ctx'" $gguf --budget 8GiB --ctx 4096
refused "what is solved for is given: '--ngl'" $gguf --budget 8GiB --ngl 4 --solve ngl
refused "--device cpu leaves no device" $gguf --budget 8GiB --device cpu
refused "no layers of experts" $gguf --budget 8GiB --solve n-cpu-moe
refused "unknown --solve 'batch'" $gguf --budget 8GiB --solve batch
refused "unknown option '--csv'" $gguf --budget 8GiB --csv
refused "a quantised cache of V needs flash attention" $gguf --budget 8GiB --flash-attn off --kv q8_0
refused "cannot open" $work/no.gguf --budget 8GiB
head -c 3000 $gguf >$work/short.gguf
refused "short.gguf: offset" $work/short.gguf --budget 8GiB

# the longest request, the most requests and the fewest ranks of an engine: one token, request more
# or one rank less is not sure to fit
config=tests/golden/hf/qwen3-8b.json
served() { ./vram estimate $config --engine "$@" --json >$work/served; }
for engine in "vllm --gpu rtx4090 --weights 16.4GB" "sglang --gpu a100-40 --weights 28GB" "vllm --gpu a100-40 --weights 30GB --rules 0.26.0"; do
  ./vram fit $config --engine $engine --json >$work/json
  n=$(value fits)
  if served $engine --max-model-len "$n" && ! served $engine --max-model-len $((n + 1)); then ok; else
    bad "vram fit --engine $engine: $n tokens"
  fi
done
./vram fit $config --weights 80GB --engine vllm --gpu a100-40 --max-model-len 8192 --solve tp --json >$work/json
n=$(value fits)
if served vllm --weights 80GB --gpu a100-40 --max-model-len 8192 --tp "$n" &&
  ! served vllm --weights 80GB --gpu a100-40 --max-model-len 8192 --tp $((n / 2)); then ok; else
  bad "vram fit --engine --solve tp: $n ranks"
fi

# states by the config: three of four layers of a small Qwen3-Next keep them
cat >$work/next.json <<'END'
{"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "hidden_size": 1024,
 "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
 "linear_num_value_heads": 16, "linear_num_key_heads": 8, "torch_dtype": "bfloat16"}
END
for engine in vllm:2 sglang:4; do # bytes of an element: the model's dtype, f32
  ./vram estimate $work/next.json --engine ${engine%:*} --kv-cache-memory 1GiB --max-model-len 4096 --json >$work/json
  # 6 layers: 3 columns of 2 * 8 * 128 + 16 * 128 channels in bf16, 16 matrices of 128 * 128
  [ "$(value state_bytes)" = $((6 * (3 * 4096 * 2 + 16 * 128 * 128 * ${engine#*:}))) ] && ok || bad "$engine: states of a config"
done
