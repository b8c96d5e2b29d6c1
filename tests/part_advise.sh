# vram advise: every command that it prints, typed, gives the figures that stand beside it. Sourced
# by part.sh.
work=build/advise
mkdir -p $work

# one line for each command: fits, allocated, device, pinned, sent bytes, command
lines() {
  { tr '\n' ' ' && echo; } | sed 's/"fits":/\n&/g' | sed -n '/"command":/{
    s/^"fits":\([a-z]*\).*"peak_allocated_bytes":\([0-9]*\),"device_bytes":\([0-9]*\).*"command":"\([^"]*\)".*/\1 \2 \3 \4/p
  }'
}
figures() { # of estimate: the same three
  tr '\n' ' ' | sed 's/.*"peak_allocated_bytes":{"lower":[0-9]*,"expected":\([0-9]*\).*"device_bytes":{"lower":[0-9]*,"expected":\([0-9]*\).*"fits":\([a-z]*\).*/\3 \1 \2/'
}
typed() { # typed MOST ARGUMENTS...: all commands of an advice, MOST of them spread over all
  most=$1
  shift
  ./vram advise "$@" --json >$work/json
  lines <$work/json >$work/lines
  count=$(wc -l <$work/lines)
  [ "$count" -ge 5 ] && ok || bad "vram advise $*: $count lines"
  [ "$count" -eq "$(grep -o '"command":' $work/json | wc -l)" ] && ok || bad "vram advise $*: lines are missing"
  awk -v most="$most" -v all="$count" 'int((NR - 1) * most / all) != int(NR * most / all) || all <= most' $work/lines >$work/some
  while read -r fits allocated device command; do
    found=$(eval "./$command" --json 2>&1 | figures)
    [ "$found" = "$fits $allocated $device" ] && ok || bad "$command: $found, and advise says $fits $allocated $device"
  done <$work/some
}

typed 6 lenet5 --train adamw --budget 600MiB --batch 8192 --tries 60
typed 6 resnet18 --train sgd_momentum --keep-grads --batch 64 --budget 2GiB --tries 60
typed 4 mlp --infer --batch 512
typed 6 transformer --train adamw --amp bf16 --devices 4

# options that changes are made of: what PyTorch requests
grep -v '^#' tests/golden/changes.txt >$work/golden
while IFS=: read -r arguments bytes; do
  found=$(eval "./vram estimate $arguments --cudnn none --json" | grep -o '"peak_requested_bytes": *[0-9]*' | grep -o '[0-9]*$')
  [ "$found" = "${bytes# }" ] && ok || bad "vram estimate $arguments: $found, and PyTorch has$bytes"
done <$work/golden
# in place: what the next line, autograd or the caller needs stays; the sum is PyTorch's (2.15, a pretended
# H100: what a step of AdamW requests in all, with inplace=True in the modules that are named)
./vram estimate tests/golden/inplace.vram --train adamw --inplace --json >$work/json
grep -q '"in_place":{"made":4,"was":0,"saved":2,"read":1,"view":0,"copy":1,' $work/json && ok || bad "in place: $(grep -o '"in_place".*' $work/json | head -c 200)"
found=$(./vram estimate tests/golden/inplace.vram --train adamw --inplace --cudnn none --events - | awk -F, '$2 == "alloc" { n += $4 } END { print n }')
[ "$found" = 157990104 ] && ok || bad "in place: $found bytes in a step, and PyTorch has 157990104"
refuse "more layers than there are" "more layers are to be frozen than there are" ./vram estimate gpt2 --train sgd --freeze 99
refuse "no such name" "no parameter has the name h.13" ./vram estimate gpt2 --train sgd --freeze transformer.wte,h.13
refuse "nothing learns" "no weight is left that learns" ./vram estimate mlp --train sgd --freeze fc1,fc2,fc3
refuse "no attention" "no line of the model calls" ./vram estimate resnet18 --attention flash
refuse "a kernel that cannot" "this attention backend does not take these tensors" ./vram estimate vit_b_16 --attention flash

# where it fits: the largest batch of a line is that of vram fit with its options
./vram advise resnet18 --train adamw --batch 8 --gpu t4 --json >$work/json
{ tr '\n' ' ' && echo; } <$work/json | sed 's/"fits":/\n&/g' |
  sed -n 's/.*"largest_batch":\([0-9][0-9]*\).*"command":"vram estimate \([^"]*\)".*/\1 \2/p' >$work/lines
[ "$(wc -l <$work/lines)" -ge 3 ] && ok || bad "vram advise: $(wc -l <$work/lines) lines with a batch"
head -n 3 $work/lines >$work/some
while read -r batch command; do
  parts=$(echo "$command" | sed -n 's/.*--accumulate \([0-9]*\).*/\1/p')
  fits=$(eval "./vram fit $(echo "$command" | sed 's/--batch [0-9]*//')" --json | grep -o '"value":[0-9]*' | head -n 1 | grep -o '[0-9]*$')
  [ "$((${fits:-0} * ${parts:-1}))" = "$batch" ] && ok || bad "vram fit $command: $fits in ${parts:-1} parts, and advise says $batch"
done <$work/some

# none that does not fit is shown as fitting, and the exit status says whether one does
./vram advise resnet18 --train sgd_momentum --batch 64 --budget 2GiB --tries 60 >$work/text
[ $? = 0 ] && ok || bad "some fit, and the exit status says no"
[ "$(grep -c '  does not fit$' $work/text)" = 0 ] && ok || bad "what does not fit stands among what fits"
./vram advise mlp --train adamw --budget 10MiB --context 1MiB --tries 60 >$work/text
[ $? = 3 ] && ok || bad "nothing fits, and the exit status does not say so"
grep -q '  fits$' $work/text && bad "nothing fits, and something is said to fit" || ok

# messages: their device is the budget; what is none is refused
grep -A 1 '^== qingze' tests/golden/messages.txt | tail -n 1 >$work/message
./vram advise --message $work/message >$work/text
grep -q '^cause: full: ' $work/text && ok || bad "--message: no cause"
./vram advise --message - mlp --train adamw <$work/message >$work/text
grep -q 'budget 15.7 GiB' $work/text && ok || bad "--message MODEL: $(sed -n 1,12p $work/text)"
echo "nothing went wrong" >$work/message
refuse "--message of nothing" "no message of too little memory" ./vram advise --message $work/message
refuse "no model" "no model" ./vram advise
refuse "an option of a step alone" "no model: '--amp'" ./vram advise --message $work/message --amp bf16
refuse "devices and --parallel" "there is '--parallel'" ./vram advise gpt2 --train adamw --parallel ddp=2 --devices 2
refuse "a GGUF's way" "vram: " ./vram advise nothing_of_that_name --train adamw
