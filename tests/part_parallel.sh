# One rank of many: sourced by part.sh. tests/golden/parallel has cases as real PyTorch was measured
# (../shared/data/truth/parallel, whose README.md says how; of each the figures that are compared),
# and texts of their modules.
python3 tools/truth_parallel.py -v tests/golden >build/part/parallel.out || bad "a case differs: $(tail -1 build/part/parallel.out)"
grep -v '^parallel: ' build/part/parallel.out
add build/part/parallel.out
refuse_parallel() { # refuse_parallel MESSAGE OPTIONS...
  message=$1
  shift
  if ./vram estimate "$@" >build/part/parallel.out 2>&1; then bad "not refused: $*"; else
    if grep -qF -e "$message" build/part/parallel.out; then ok; else bad "$*: $(head -1 build/part/parallel.out)"; fi
  fi
}
tiny="tests/golden/parallel/tiny.vram --train adamw"
refuse_parallel "--parallel: column 7: no option of this strategy: 'bucket_cap': the nearest is bucket_cap_mb" $tiny --parallel ddp=4,bucket_cap=1
refuse_parallel "--parallel: column 1: unknown strategy 'dpp': the nearest is ddp" $tiny --parallel dpp=4
refuse_parallel "a rank out of range: '4' (expected 0 to 3)" $tiny --parallel ddp=4 --rank 4
refuse_parallel "two wrappers 'fsdp2'" $tiny --parallel ddp=4+fsdp2=2
refuse_parallel "an option of --parallel: '--rank'" $tiny --rank 1
refuse_parallel "an option of training without --train: '--parallel'" tests/golden/parallel/tiny.vram --parallel ddp=2
refuse_parallel "begins so (expected auto, root, or a pattern of names: layers.\d): 'block\.\d+'" $tiny --parallel 'fsdp2=2,units=block\.\d+'
stages="tests/golden/parallel/tiny4.stages4.vram --train adamw"
refuse_parallel "Number of microbatches (2) must be greater than or equal to the number of stages (4)." $stages --parallel pp=4,microbatches=2
refuse_parallel "a stage without nodes: more stages than units" $stages --parallel pp=9,microbatches=9
refuse_parallel "a stage without nodes: more stages than units" $stages --parallel pp=5,microbatches=5,balance=1
refuse_parallel "a last batch, an evaluation or a dry run of a pipeline is not played yet" $stages --parallel pp=2 --eval-batch 1
refuse_parallel "a last batch, an evaluation or a dry run of a pipeline is not played yet" $stages --parallel pp=2 --dry-run-batch 1
refuse_parallel "a last batch, an evaluation or a dry run of a pipeline is not played yet" $stages --parallel pp=2 --last-batch 1
refuse_parallel "loss_fn: no node of the last stage has that name: 'loss'" $stages --parallel pp=2,loss_fn=loss
refuse_parallel "loss_fn: no node of the last stage has that name: 'layers.0.w1'" $stages --parallel pp=2,loss_fn=layers.0.w1
for rank in 0 1; do # every rank refuses what one does
  refuse_parallel "return_outputs of a loss: zero-dimensional tensor (at position 0) cannot be concatenated" $stages --parallel pp=2,return_outputs=1 --rank $rank
  refuse_parallel "step() returns outputs up to PyTorch 2.9: of a loss in the model" $stages --parallel pp=2 --rules torch-2.9 --rank $rank
  refuse_parallel "a checkpointed part that goes over the edge of a stage is not played" $stages --parallel pp=4 --checkpoint-nodes layers.1.add_1..layers.2.add --rank $((3 * rank))
  refuse_parallel "what was saved stays with the outputs" $stages --rank $((2 * rank)) --parallel pp=2,schedule=ZBVZeroBubble,return_outputs=1,loss_fn=loss_fn.flatten+tp=2
done
refuse_parallel "checkpointed nodes with a schedule that splits backward are not played" $stages --parallel pp=2,schedule=ZBVZeroBubble --checkpoint layers
refuse_parallel "autocast's copy of what a stage receives, beside checkpointed nodes, is not played" tests/golden/parallel/bert.vram --train adamw --amp bf16 --parallel pp=2 --checkpoint layers --rank 1
refuse_parallel "reentrant checkpoints in a pipeline are not played" $stages --parallel pp=2 --checkpoint layers --reentrant
refuse_parallel "checkpoint_sequential of a model that is cut into stages" $stages --parallel pp=2 --checkpoint 2
refuse_parallel "with fsdp1, ep and DeepSpeed it is not played" $stages --parallel pp=2+fsdp1=2
refuse_parallel "a schedule that splits backward loses gradients of units" $stages --parallel pp=2,schedule=ZBVZeroBubble+fsdp2=2
refuse_parallel "pp with ddp is played without find_unused_parameters and static_graph" $stages --parallel pp=2+ddp=2,static_graph=1
refuse_parallel "DistributedDataParallel of DTensors: aten.cat.default got mixed torch.Tensor and DTensor" $tiny --parallel ddp=2+tp=2
refuse_parallel "GradScaler in a pipeline is not played yet" $stages --parallel pp=2 --amp fp16
refuse_parallel "offload_optimizer 'nvme' (expected cpu or none)" $tiny --parallel ds2=4,offload_optimizer=nvme
refuse_parallel "no option of this strategy: 'round_robin_gradients'" $tiny --parallel ds3=4,round_robin_gradients=1
refuse_parallel "overlap_comm=1 with contiguous_gradients=0 is not played" $tiny --parallel ds1=4,overlap_comm=1,contiguous_gradients=0
refuse_parallel "offload_param=cpu without offload_optimizer=cpu is not played" $tiny --parallel ds3=4,offload_param=cpu
refuse_parallel "DeepSpeed scales losses itself" $tiny --parallel ds2=4 --amp fp16
refuse_parallel "HYBRID_SHARD goes with copies and shards" $tiny --parallel fsdp1=8,sharding=HYBRID_SHARD
refuse_parallel "communication_data_type other than the model's" $tiny --parallel ds3=4,communication_data_type=fp32
config=tests/golden/ds_config.json
deepspeed="tests/golden/parallel/tiny.vram --devices 4 --deepspeed"
refuse_parallel "no devices for '--deepspeed'" tests/golden/parallel/tiny.vram --deepspeed $config
for change in 's/2e6/"auto"/:reduce_bucket_size: "auto" is what the Trainer' 's/2e6/0.5/:neither a whole number' 's/"stage": 3/"stage": 0/:stage: not played' \
  's/overlap_comm/overlapcomm/:overlapcomm: no key that is known here' 's/AdamW/OneBitAdam/:an optimizer that is not known' 's/"auto"/25/:not the micro-batch x' \
  's/"stage": 3/"stage": 3, "zero_quantized_weights": true/:zero_quantized_weights: not played' \
  's/^{/{"communication_data_type": "fp32",/:communication_data_type other than the model'; do
  sed "${change%%/:*}/" $config >build/part/ds_config.json
  refuse_parallel "${change##*/:}" $deepspeed build/part/ds_config.json
done
for momentum in 0:sgd 0.0:sgd 0.5:sgd_momentum null:sgd; do
  sed "s/\"AdamW\", \"params\": {/\"SGD\", \"params\": {\"momentum\": ${momentum%:*}, /" $config >build/part/ds_config.json
  ./vram estimate $deepspeed build/part/ds_config.json --json | grep -q "\"mode\":\"train ${momentum#*:} " && ok || bad "SGD with a momentum of ${momentum%:*}"
done
./vram estimate $deepspeed $config --rank 3 --json | sed 's/"mode":"[^"]*"//' >build/part/parallel.out
./vram estimate tests/golden/parallel/tiny.vram --train adamw --optim-impl fused --batch 2 --accumulate 3 --rank 3 --json \
  --parallel ds3=4,reduce_bucket_size=2000000,stage3_prefetch_bucket_size=300000,stage3_param_persistence_threshold=10000 |
  sed 's/"mode":"[^"]*"//' | cmp -s - build/part/parallel.out && [ -s build/part/parallel.out ] && ok || bad "--deepspeed is not what its file says"
resnet="tests/golden/parallel/resnet50.vram --train adamw"
refuse_parallel "it should be a factor of the shards" $tiny --parallel fsdp2=8,reshard=3
refuse_parallel "Expected running_mean to have the type of the weights" $resnet --parallel fsdp2=4,mp=bf16
refuse_parallel "fully_shard is played without GradScaler" $tiny --parallel fsdp2=4 --amp fp16
refuse_parallel "shape (layers.0.attention.view): [2,128,4,64] is invalid for input of size 22016" $tiny --parallel tp=3
refuse_parallel "a sequence that the ranks do not divide" tests/golden/parallel/odd.vram --train adamw --parallel tp=4,sp=1
refuse_parallel "tensor parallelism knows no layer of this model" $resnet --parallel tp=2
refuse_parallel "several weights in one" tests/golden/parallel/gpt2.vram --train adamw --parallel tp=2
refuse_parallel "no module of this model has the name 'w9'" $tiny --parallel tp=2,plan=colwise:w9
refuse_parallel "a layer cut by rows whose input is not cut by columns (layers.0.attention.wo, weight [256,256])" $tiny --parallel tp=2,plan=rowwise:wo
refuse_parallel "packed_colwise (layers.0.attention.wq, weight [256,256]): a style that is not played" $tiny --parallel tp=2,plan=usual/packed_colwise:wq
same_rank() { # same_rank MODEL SPEC OPTIONS...: the text of a rank has the rank's step
  model=$1 spec=$2
  shift 2
  ./vram convert "$model" --parallel "$spec" --rank 1 -o build/part/rank.vram || bad "not written: $model $spec"
  ./vram estimate "$model" --train adamw --parallel "$spec" --rank 1 --json "$@" >build/part/parallel.out
  ./vram estimate build/part/rank.vram --train adamw --parallel "$spec" --rank 1 --json "$@" | cmp -s - build/part/parallel.out && [ -s build/part/parallel.out ] && ok ||
    bad "another step: $model $spec"
}
same_rank tests/golden/parallel/hf_gemma.vram tp=2,sp=1 --step first --amp bf16
same_rank tests/golden/parallel/odd.vram tp=3,loss_parallel=1
same_rank tests/golden/parallel/oddmoe.vram ep=3 --step second
same_rank tests/golden/parallel/tiny.vram fsdp2=2+tp=2,sp=1 --step first
owned() { # the bytes of a model's own in a JSON
  tr , '\n' <build/part/"$1" | grep -E '^"(params|buffers|gradients|optimizer)_bytes"' | sort -u
}
refuse_parallel "torch.distributed.pipelining is there from PyTorch 2.4 on" $stages --parallel pp=4 --rules torch-2.3
refuse_parallel "schedule=DualPipeV is there from PyTorch 2.9 on" $stages --parallel pp=2,schedule=DualPipeV --rules torch-2.8
same_stage() { # same_stage MODEL SPEC RANK: the text of a stage has what the rank of the pipeline has
  ./vram convert "$1" --parallel "$2" --rank "$3" -o build/part/rank.vram || bad "not written: $1 $2"
  ./vram estimate "$1" --train adamw --parallel "$2" --rank "$3" --json >build/part/parallel.out
  ./vram estimate build/part/rank.vram --train adamw --json >build/part/stage.out
  owned parallel.out >build/part/owned.out
  owned stage.out | cmp -s - build/part/owned.out && ok || bad "another stage: $1 $2 $3"
}
same_stage tests/golden/parallel/tiny4.stages4.vram pp=4,loss_fn=loss_fn.flatten 3
same_stage tests/golden/parallel/t5.vram pp=3 1
same_stage tests/golden/parallel/tied.vram pp=2+tp=2 2
# a stage is the same however many microbatches there are, and takes no more memory to write
./vram convert tests/golden/parallel/t5.vram --parallel pp=3,microbatches=3 --rank 1 -o build/part/rank.vram
(ulimit -v 400000; ./vram convert tests/golden/parallel/t5.vram --parallel pp=3,microbatches=100000 --rank 1) | cmp -s - build/part/rank.vram && ok ||
  bad "a stage of many microbatches"
./vram convert tests/golden/parallel/t5.vram --parallel pp=3 --rank 1 | grep -q '^backward .* .*' && ok || bad "a stage that sends several values"
# PyTorch 2.15.0: two linears with a relu between them, torch.autograd.backward((b, c, x), (gb, gc, gx)), AdamW; the most within backward, third step
printf 'input x f32 [64,256] grad=1\nlinear a x out_features=512\nrelu b a\nlinear c b out_features=128\nbackward b c x\n' >build/part/several.vram
./vram estimate build/part/several.vram --train adamw --json | grep -q '"backward":{[^}]*"requested_peak_bytes":37363712,' && ok || bad "backward from several values"
# PyTorch 2.15.0: GPipe of two stages, fully_shard(mp_policy=MixedPrecisionPolicy(bfloat16, float32)) of each over three ranks, a float input; the most within the third step
sed '4a\
stage layers.2' tests/golden/parallel/mlp_odd.vram >build/part/rank.vram
./vram estimate build/part/rank.vram --train adamw --parallel pp=2,schedule=GPipe,crossing=f32+fsdp2=3,units=root,mp=bf16,reduce=f32 --rank 2 --json |
  grep -q '"step":{[^}]*"requested_peak_bytes":34048510,' && ok || bad "a stage of fully_shard whose input is cast"
same_rank tests/golden/parallel/tiny.vram cp=2,rotate_method=alltoall --amp bf16
refuse_parallel "got mixed torch.Tensor and DTensor" $tiny --parallel tp=2 --clip-grad-norm foreach
refuse_parallel "of DTensors the steps of sgd, adam and adamw are known" --train lion tests/golden/parallel/tiny.vram --parallel tp=2
refuse_parallel "experts that the ranks do not divide" tests/golden/parallel/moe1.vram --train adamw --parallel ep=3
refuse_parallel "expert parallelism knows no experts in this model" $tiny --parallel ep=2
refuse_parallel "a sequence that the ranks do not divide: 128 by cp=3" $tiny --parallel cp=3
refuse_parallel "The size of tensor a must match the size of tensor b at non-singleton dimension 2" $tiny --parallel cp=4
refuse_parallel "context parallelism knows no attention in this model" $resnet --parallel cp=2
refuse_parallel "attn_bias is not supported yet" tests/golden/parallel/t5.vram --train adamw --parallel cp=2
refuse_parallel "Load balancing requires \`is_causal=True\`." tests/golden/parallel/bert.vram --train adamw --parallel cp=2
refuse_parallel "cp goes with a wrapper, without tp, pp and ep" $tiny --parallel cp=2+tp=2
refuse_parallel "DeepSpeed inside context_parallel is not played yet" $tiny --amp bf16 --parallel ds2=2+cp=2
refuse_parallel "rotate_method 'ring' (expected allgather or alltoall)" $tiny --parallel cp=2,rotate_method=ring
# each rank of a world beside the row of its class
./vram estimate $tiny --amp bf16 --parallel fsdp2=2+cp=4 --rank all --csv >build/part/parallel.out
awk -F, 'NR > 1 { n += $3 } END { exit n != 8 }' build/part/parallel.out && ok || bad "the classes of cp=4 have not all ranks"
for rank in 1 6; do
  peak=$(awk -F, -v rank=$((rank % 4)) '$1 == rank { print $7 }' build/part/parallel.out)
  ./vram estimate $tiny --amp bf16 --parallel fsdp2=2+cp=4 --rank $rank --json | grep -q "\"peak_requested_bytes\":$peak," && ok ||
    bad "rank $rank takes other bytes than its class"
done
# the largest batch of what is cut: it fits every rank, and the next one does not
for words in "tests/golden/parallel/moe1.vram ep=2" "tests/golden/parallel/tiny.vram cp=2" "tests/golden/parallel/tiny.vram fsdp2=2+cp=2"; do
  value=$(./vram fit ${words% *} --train adamw --parallel ${words#* } --budget 3GiB --json | sed -n 's/.*"budget_bytes":[0-9]*,"value":\([0-9]*\).*/\1/p')
  for batch in "${value:-0}" $((${value:-0} + 1)); do
    ./vram estimate ${words% *} --train adamw --parallel ${words#* } --budget 3GiB --rank all --batch "$batch" >build/part/parallel.out
    [ $? = $((batch == ${value:-0} ? 0 : 3)) ] && ok || bad "vram fit $words: $value, and --batch $batch"
  done
done
# a plan is the step that vram estimate has of the same calls, and fits every rank; the smallest budget is one
figures() { sed -n "s/.*\"$1\":{\"peak_requested_bytes\":\([0-9]*\),\"peak_allocated_bytes\":\([0-9]*\),\"device_bytes\":\([0-9]*\).*/\1 \2 \3/p"; }
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
tiny4="tests/golden/parallel/tiny4.vram --train adamw"
for spec in fsdp2=2,reshard=0+tp=2,sp=1 hsdp=2x2,mp=bf16 fsdp1=4 ds3=2 ddp=4 pp=3,microbatches=4 pp=2,schedule=Interleaved1F1B,stages=2+zero1=2 pp=2+fsdp2=2,mp=bf16; do
  if ./vram plan $tiny4 --parallel $spec --budget 1KiB --json >build/part/parallel.out; then bad "a plan of 1 KiB: $spec"; else
    [ $? = 3 ] && ok || bad "vram plan $spec --budget 1KiB"
  fi
  smallest=$(number smallest_budget_bytes <build/part/parallel.out)
  ./vram plan $tiny4 --parallel $spec --budget "$smallest" --json >build/part/parallel.out && ok || bad "vram plan $spec: its smallest budget"
  nodes=$(sed -n 's/.*"checkpoint_nodes":"\([^"]*\)".*/\1/p' build/part/parallel.out)
  ./vram estimate $tiny4 --parallel $spec ${nodes:+--checkpoint-nodes $nodes} --rank "$(number rank <build/part/parallel.out)" --budget "$smallest" --json |
    sed 's/.*"peak_requested_bytes":\([0-9]*\),.*"peak_allocated_bytes":{[^}]*"expected":\([0-9]*\),.*"device_bytes":{[^}]*"expected":\([0-9]*\),.*/\1 \2 \3/' >build/part/parallel.want
  [ "$nodes" ] && [ "$(cat build/part/parallel.want)" = "$(figures planned <build/part/parallel.out)" ] && ok || bad "the step planned for $spec is not that of $nodes"
  ./vram estimate $tiny4 --parallel $spec --checkpoint-nodes "$nodes" --rank all --budget "$smallest" >build/part/parallel.out && ok || bad "$spec: a rank does not fit with the plan"
done
# twelve layers; names with a number that are of no module are no units to checkpoint
./vram plan gpt2 --train adamw --parallel fsdp2=4 --budget 8GiB | grep -q " calls of checkpoint() on 12 units" && ok || bad "units without parameters and operations"
if ./vram plan $tiny4 --parallel pp=2,schedule=ZBVZeroBubble --budget 4GiB 2>&1 | grep -q "checkpointed nodes with a schedule that splits backward"; then ok; else bad "a plan of a schedule that splits backward"; fi
if ./vram plan $tiny4 --parallel ddp=2 --budget 4GiB --moves 2>&1 | grep -qF "to choose from: no '--moves'"; then ok; else bad "moves of many devices"; fi
# of unequal ranks it is the greatest: here that of rank 0, where without a plan rank 2 is the fullest
llama8="tests/golden/parallel/llama8.vram --batch 4"
smallest=$(./vram plan $llama8 --parallel zero1=3 --budget 1KiB --json | number smallest_budget_bytes)
./vram plan $llama8 --parallel zero1=3 --budget "${smallest:-1}" >build/part/parallel.out && ok || bad "vram plan zero1=3: its smallest budget $smallest"
refuse_plan() { # refuse_plan MESSAGE OPTIONS...
  message=$1
  shift
  ./vram plan $tiny4 "$@" >build/part/parallel.out 2>&1
  [ $? = 2 ] && [ "$(cat build/part/parallel.out)" = "vram: $message" ] && ok || bad "vram plan $*: $(head -1 build/part/parallel.out)"
}
refuse_plan "no devices for '--deepspeed' (expected --devices N)" --deepspeed $config --budget 4GiB
refuse_plan "--deepspeed excludes '--parallel'" --deepspeed $config --devices 4 --parallel ds3=4 --budget 4GiB
refuse_plan "no budget for '--deepspeed' (expected --budget SIZE or --gpu NAME)" --deepspeed $config --devices 4
refuse_plan "no budget for '--parallel' (expected --budget SIZE or --gpu NAME)" --parallel ddp=2
for option in "--planner sqrt" "--slots 3" "--align 512"; do
  refuse_plan "--parallel has calls of torch.utils.checkpoint to choose from: no '${option% *}'" --parallel ddp=2 --budget 4GiB $option
done
layers="tests/golden/parallel/layers.vram --train adamw"
refuse_parallel "expected to have finished reduction in the prior iteration" tests/golden/parallel/layers_unused.vram --train adamw --parallel ddp=3
refuse_parallel "only supports using the same dense type" tests/golden/parallel/layers_mixed.vram --train adamw --parallel zero1=3
refuse_parallel "static_graph under no_sync" $layers --parallel ddp=3,static_graph=1 --accumulate 2
refuse_parallel "there are hooks that compress to bf16 and fp16" $layers --parallel ddp=3,hook=f32
refuse_parallel "an optimizer in backward under DistributedDataParallel is not known" $layers --parallel ddp=3 --optimizer-in-backward
# each line of fit --parallel auto is what estimate says of its words
moe1="tests/golden/parallel/moe1.vram --train adamw --amp bf16"
# and what is found does not depend on how many are played at a time
for n in 1 7; do
  VRAM_THREADS=$n ./vram fit tests/golden/parallel/odd4.vram --train adamw --amp bf16 --parallel auto --devices 12 --gpu rtx4060 --budget 700MiB \
    --global-batch 12 --json >build/part/auto$n.json
done
[ -s build/part/auto1.json ] && cmp -s build/part/auto1.json build/part/auto7.json && ok || bad "several threads find something else"
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -DVRAM_NO_THREADS -c tools/vram_threads.c -o build/part/threads.o && ! nm build/part/threads.o | grep pthread && ok ||
  bad "threads where there are none"
cat >build/part/auto.py <<'EOF'
import json, subprocess, sys
model, devices, words = sys.argv[1], sys.argv[2], sys.argv[3:]
options = [model, "--train", "adamw", "--amp", "bf16", "--gpu", "rtx4060", "--json"]
run = lambda *a: json.loads(subprocess.run(["./vram", *a], stdout=subprocess.PIPE).stdout)
auto = ["--parallel", "auto", "--devices", devices, "--global-batch", str(2 * int(devices)), "--top", "all"]
lines = [x for x in run("fit", *options, *auto)["lines"] if all(w in x["parallel"] for w in words)]
for x in lines:
    words = ["--parallel", x["parallel"], "--rank", str(x["rank"]), "--batch", str(x["batch"])]
    words += ["--accumulate", str(x["micro_batches"])] if x["pp"] == 1 else []
    words += ["--checkpoint", "layers"] if x["checkpoint_layers"] else []
    y = run("estimate", *options, *words)
    for key in "device_bytes", "peak_requested_bytes", "peak_reserved_bytes", "local_params_bytes":
        its = y[key]["expected"] if key == "device_bytes" else y[key]
        if its != x[key]:
            sys.exit(f"{words}: {key} {x[key]}, estimate {its}")
sys.exit(0 if len(lines) > 7 else f"{len(lines)} lines")
EOF
python3 build/part/auto.py tests/golden/parallel/moe1.vram 2 && ok || bad "another step than estimate plays"
python3 build/part/auto.py tests/golden/parallel/odd4.vram 4 fsdp2 tp=2,sp && ok || bad "another step than estimate plays"
# --top decides what is played, not what fits, nor what is marked of it; each combination that is refused has a reason
cat >build/part/auto_top.py <<'EOF'
import json, subprocess, sys
devices, budget, unplayed = sys.argv[1:]
auto = ["--parallel", "auto", "--devices", devices, "--global-batch", "8", "--budget", budget, "--json", "--top"]
words = ["./vram", "fit", "tests/golden/parallel/resnet50.vram", "--train", "adamw", *auto]
every, some = (json.loads(subprocess.run([*words, top], stdout=subprocess.PIPE).stdout) for top in ("all", "1000"))
name = lambda x: (x["parallel"], x["batch"], x["checkpoint_layers"], x["pareto"])
fit = [sorted(name(x) for x in of["lines"] if x["fits"]) for of in (every, some)]
if every["not_played"] or bool(some["not_played"]) != (unplayed == "1"):
    sys.exit(f"{some['not_played']} combinations not played")
if sum(x["combinations"] for x in some["reasons"]) != some["refused"]:
    sys.exit("reasons of others than are refused")
sys.exit(0 if fit[0] and fit[0] == fit[1] else "other lines fit or are marked")
EOF
for words in "8 2289532929 1" "4 2297921537 0"; do
  python3 build/part/auto_top.py $words && ok || bad "--top all and --top 1000: $words"
done
auto() { # auto OPTIONS...: fit --parallel auto as JSON
  ./vram fit "$@" --train adamw --gpu rtx4060 --json --top all >build/part/auto.json 2>build/part/auto.out
}
printf 'dim N=1\ninput x f32 [N,64]\nlinear a x out_features=64\nlinear b a out_features=64\n' >build/part/auto.vram
auto build/part/auto.vram --parallel auto --devices 2 --global-batch 6 # of 2 there is no combination
grep -q '"batch":3,' build/part/auto.json && ok || bad "a micro-batch behind one that the ranks do not divide is not tried"
auto build/part/auto.vram --parallel auto --devices 1 --global-batch 4294967296
if grep -q 'more than 1000000 micro-batches' build/part/auto.json && ! grep -q '"micro_batches":0\|nan' build/part/auto.json; then ok; else bad "more micro-batches than 32 bits have"; fi
auto mlp --parallel auto --devices 4 --global-batch 12
[ "$(grep -o 'a sequence that the ranks do not divide' build/part/auto.json | wc -l)" = 1 ] && ok || bad "a reason with other numbers is another one"
auto tests/golden/parallel/llama8.vram --parallel 'auto,units=layers\.[01]' --devices 2 --global-batch 2 # 2 of 8 layers run again, or all
python3 - <<'EOF' && ok || bad "other layers run again than those that are checkpointed"
import json, sys
lines = json.load(open("build/part/auto.json"))["lines"]
again = {x["parallel"]: x["recomputed_flops"] for x in lines if x["checkpoint_layers"] and x["cp"] * x["tp"] == 1}
sys.exit(again["ddp=2"] != 4 * again[r"fsdp2=2,units=layers\.[01]"])
EOF
(ulimit -v 200000 && auto tests/golden/parallel/tiny.vram --parallel auto --devices 2 --global-batch 131072)
grep -q 'takes more memory than this machine gives' build/part/auto.json && ok || bad "a combination that cannot be played ends the search: $(cat build/part/auto.out)"
if ./vram fit $moe1 --parallel "auto,units=$(printf '%0200d' 0)" --devices 2 --gpu rtx4060,a100-80 --json >build/part/auto.json 2>build/part/auto.out; then
  bad "options of any length"; else
  [ ! -s build/part/auto.json ] && grep -qF "options of --parallel auto are too long:" build/part/auto.out && ok || bad "options of any length: $(cat build/part/auto.out)"
fi
# the help of --parallel has every strategy and option that is read, but for one that is not played
./vram help parallel >build/part/parallel.out
for word in $(sed -n 's/^ *VRAM__SPEC_ROW_OF(\([a-z0-9_]*\),.*/\1/p; s/^ *{"\([a-z0-9_]*\)", VRAM__SPEC.*/\1/p' src/parallel/spec.c) \
  ddp zero1 fsdp1 fsdp2 hsdp tp pp cp ep ds1 ds2 ds3; do
  if [ "$word" = overlap_with_ddp ] || grep -qw -e "$word" build/part/parallel.out; then ok; else bad "vram help parallel: no $word"; fi
done
sed '/^unit /d' tests/golden/parallel/tiny.vram >build/part/parallel.out
sed '2i\
unit no_module' build/part/parallel.out >build/part/parallel.vram
refuse_parallel "unit lines: no module of this model has one of these names: 'no_module'" build/part/parallel.vram --train adamw --parallel fsdp2=2
sed '2s/unit/stage/' build/part/parallel.vram >build/part/parallel2.vram
refuse_parallel "a stage line names what no module is called: 'no_module'" build/part/parallel2.vram --train adamw --parallel pp=2
