# vram advise: every command that it prints, typed, gives the figures that stand beside it. Sourced
# by part.sh.
work=build/advise
mkdir -p $work

# one line for each command: fits, allocated, device, command
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
small="transformer --dim L=2 --dim D=256 --dim H=4 --dim V=1000 --dim N=4 --dim S=64 --train adamw"
typed 6 $small --parallel zero1=3 --rank 2

says() { # says NAME PATTERN: it stands in $work/text
  grep -q -e "$2" $work/text && ok || bad "$1: $(sed -n 1,12p $work/text)"
}
says_not() {
  grep -q -e "$2" $work/text && bad "$1: $(grep -e "$2" $work/text)" || ok
}
line_of() { # line_of NAME: of --json in $work/json, the line with this change alone
  tr '\n' ' ' <$work/json | sed 's/{"fits":/\n&/g' | grep -e "\"changes\":\[{\"name\":\"$1\"[^]}]*}\]" >$work/text
}

# where it does not fit by far: what holds too much is not played, what looks as if it fits is first
./vram advise transformer --dim L=8 --dim D=1024 --dim H=16 --dim V=1000 --dim N=8 --dim S=512 --train adamw \
  --context 1MiB --budget 500MiB --tries 80 --top all >$work/text
[ $? = 0 ] && ok || bad "80 tries find nothing that fits"
says "the usual recipe" '^ *[0-9]*. batch in [248] parts + checkpointed layers + QLoRA  fits'
says "what was not played" '^80 steps played; [0-9]* not: --tries'
# other ways than the cheapest are shown, each without more of what one before it has
./vram advise gpt2 --train adamw --batch 16 --gpu rtx4060 --tries 200 >$work/text
says "the cheapest" '^ 1\* batch in 8 parts  fits'
sed -n 's/^ *[0-9]*[* ] \(.*\)  fits$/\1/p' $work/text >$work/found
[ "$(grep -c 'batch in' $work/found)" = 1 ] && [ "$(wc -l <$work/found)" -gt 1 ] && ok || bad "ways that are one: $(cat $work/found)"
./vram advise mlp --train adamw --tries 5 --top all >$work/text
says "no more than --tries" '^5 steps played; [0-9]* not: --tries: there may be better ones'
says "a change that was not tried" '^  SGD  *not tried: --tries'

# what runs again: of a layer all but the last product, whose result nothing keeps. Tokens 256, width
# 256: the products 2 * 256 * 256 * (768 + 256 + 1024), attention 4 * 4 * 64 * 64 * 256, two norms and
# one sum of 65536, an activation of 262144; two layers
./vram advise $small --json >$work/json
line_of "checkpointed layers"
says "what runs again" "\"recomputed_flops\":$((2 * (2 * 256 * 256 * 2048 + 4 * 4 * 64 * 64 * 256 + 3 * 65536 + 262144))),"
./vram advise $small --top all >$work/text
says "of the whole step" '; +19.6 % operations of the step$'

# batch norm sees the parts of a batch in training, and nowhere else
./vram advise resnet18 --train sgd_momentum --batch 64 --budget 2GiB --tries 30 --json >$work/json
line_of "batch in 4 parts"
says "batch norm in parts" '"effect":"training".*batch norm sees a part'
./vram advise resnet18 --infer --batch 16 >$work/text
says_not "batch norm in inference" 'batch norm'
says "most saved first where nothing costs anything" '^ 1\* batch in 16 parts$'
says_not "a training loop of inference" 'backward()'

# on two devices each has half of the batch, or the batch of all is another one
./vram advise $small --devices 2 --json >$work/json
line_of "fully sharded"
says "half of the batch" '"effect":"same".*--parallel fsdp2=2 --batch 2"'
line_of "fully sharded, N times the batch"
says "twice the batch" '"effect":"training".*--parallel fsdp2=2"'
./vram advise lenet5 --train adamw --batch 64 --devices 2 --top all | sed -n 's/^ *\([0-9]*\)[* ] fully sharded\(, offloaded\)*$/\1 \2/p' | tr '\n' ' ' >$work/text
says "what crosses the bus is not free" '^[0-9]*  [0-9]* , offloaded'
line_of "tensor parallel"
says "tensor parallel" '--parallel tp=2"'

# a width is no smaller input
./vram advise linear10 --train adamw --top all >$work/text
says_not "a width" '--dim W=2500$'
says "why not" '--dim W=2500: parameters have this dim'

# optimizers: their own kin in 8 bits, as they run
./vram advise mlp --train adam --top all >$work/text
says "adam in 8 bits" '--train adam_8bit$'
says_not "another decay" 'adamw_8bit'
./vram advise mlp --train adamw --optim-impl fused --top all >$work/text
says "what has no fused form" '^ *\$ vram estimate mlp --train lion$'
says "hooks where there is a gradient" 'if p.requires_grad'

# adapters
./vram advise $small --lora r=8 --top all >$work/text
says_not "another rank" 'r=16'
says "only weights are rounded" '--lora r=8 --quant nf4$'
says "no checkpoints by themselves" 'use_gradient_checkpointing=False'
./vram advise $small --top all >$work/text
says "all linear layers" 'target_modules="all-linear"'

# long words are not cut
name=$(printf '%090d' 0 | tr 0 d)
sed "s/\bW\b/$name/g" examples/models/linear10.vram >$work/long.vram
long=$(printf './%.0s' $(seq 600))$work/long.vram
./vram advise "$long" --infer --json >$work/json
tr '\n' ' ' <$work/json | grep -o '"command":"[^"]*"' >$work/text
says "a long path" "build/advise/long.vram --infer "
says_not "a path that ends" 'estimate [./]*"'

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
# logits in chunks: what the text must have, and what of it the other text has
cat >$work/head.vram <<'END'
model head dtype=f32
dim N=4 S=9
input x i64 [N,S]
input target i64 [N,S]
input weight f32 [100]
embedding e x num_embeddings=100 embedding_dim=16
linear fc e out_features=100
view v fc shape=[N*S,100]
view t target shape=[N*S]
cross_entropy loss v t
output loss
infer fc
END
chunks() { # chunks NAME WHY SED [N]
  sed "$3" $work/head.vram >$work/chunks.vram
  refuse "$1" "$2" ./vram estimate $work/chunks.vram --train sgd --logits-chunks ${4:-4}
}
for change in '' 's/^cross_entropy.*/& ignore_index=3 label_smoothing=0.1/' 's/^cross_entropy.*/& reduction=sum/' 's/^view v fc/tanh cap fc\nview v cap/'; do
  sed "$change" $work/head.vram >$work/chunks.vram
  ./vram estimate $work/chunks.vram --train sgd --logits-chunks 12 >$work/text 2>&1
  says "head in chunks $change" '^head  train sgd f32 logits in 12 chunks'
done
chunks "classes with weights" 'no logits in chunks: with weights of the classes the mean is no mean of sums, line 10' 's/^cross_entropy.*/& weight/'
chunks "no targets" 'the loss has no targets, line 10' 's/^\(cross_entropy.*\) t$/\1/'
chunks "a loss for each row" 'the loss is not one number' 's/^cross_entropy.*/& reduction=none\nsum s loss/'
chunks "logits for the caller" 'the logits are used elsewhere, line 11 (output loss)' 's/^output.*/& fc/'
chunks "logits that are read" 'the logits are used elsewhere, line 11 (mean m)' 's/^output.*/mean m v\noutput loss m/'
chunks "classes that are no last axis" 'row by row, line 8 (transpose q)' 's/^view v fc/transpose q fc dim0=0 dim1=1\nview v q/'
chunks "in chunks already" 'in a loop, or in a checkpoint already' 's/^cross_entropy.*/checkpoint\n&\nend loss/'
chunks "more chunks than rows" 'other outputs than pieces (found 37 names, expected 36)' '' 37
refuse "no linear head" "row by row, line 94 (conv2d head)" ./vram estimate unet --train sgd --logits-chunks 4
refuse "chunks of inference" "an option of training without --train" ./vram estimate gpt2 --infer --logits-chunks 4
refuse "chunks and ranks" "logits-chunks excludes '--parallel'" ./vram estimate gpt2 --train sgd --logits-chunks 4 --parallel ddp=2
./vram advise transformer --dim L=2 --dim D=256 --dim H=4 --dim V=9000 --dim N=16 --dim S=256 --train adamw --json >$work/json
line_of "logits in 4 chunks"
says "logits in chunks" '"effect":"same".*--logits-chunks 4"'
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
# two that tell nothing, one with figures and another one, whose total is not the first one's
printf 'CUDA error: out of memory\nCUDA error: out of memory\nCUDA out of memory. Tried to allocate 2.00 GiB.\n' >$work/message
printf 'CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 7.00 GiB\n' >>$work/message
./vram advise --message $work/message >$work/text
says "the first with figures" 'no memory for 2.00 GiB'
says_not "figures of the next message" '7.00 GiB'
for text in 'CUDA driver error: out of memory' 'HIP error: out of memory' 'hipErrorOutOfMemory' "Cuda failure 2 'out of memory'" \
  'RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED' 'RESOURCE_EXHAUSTED: Out of memory allocating 20029400304 bytes.'; do
  echo "$text" | ./vram advise --message - >$work/text && ok || bad "no message: $text"
done
says "XLA's figure" 'no memory for 18.7 GiB'
# what others hold is no part of the budget; where nothing is kept and free nothing is scattered
printf 'CUDA out of memory. Tried to allocate 0 bytes. GPU 0 has a total capacity of 23.64 GiB of which 1.00 GiB is free. Process 5 has 12.00 GiB memory in use. Process 6 has 10.60 GiB memory in use. Of the allocated memory 10.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n' >$work/message
./vram advise --message $work/message mlp --infer --tries 1 >$work/text
says "what others have left" 'budget 11.6 GiB'
says_not "nothing was asked" 'fragmentation'
echo "nothing went wrong" >$work/message
refuse "--message of nothing" "no message of too little memory" ./vram advise --message $work/message
refuse "no model" "no model" ./vram advise
refuse "an option of a step alone" "no model: '--amp'" ./vram advise --message $work/message --amp bf16
refuse "devices and --parallel" "there is '--parallel'" ./vram advise gpt2 --train adamw --parallel ddp=2 --devices 2
refuse "a GGUF's way" "expected a model in the text form: vram estimate or vram fit of it" ./vram advise tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf
refuse "an own option alone" "no model: '--devices'" ./vram advise --message $work/message --devices 2
refuse "no such model" "nothing_of_that_name" ./vram advise nothing_of_that_name --train adamw
