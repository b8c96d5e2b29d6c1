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
refuse_parallel "offload_optimizer 'nvme' (expected cpu or none)" $tiny --parallel ds2=4,offload_optimizer=nvme
refuse_parallel "no option of this strategy: 'round_robin_gradients'" $tiny --parallel ds3=4,round_robin_gradients=1
refuse_parallel "overlap_comm=1 with contiguous_gradients=0 is not played" $tiny --parallel ds1=4,overlap_comm=1,contiguous_gradients=0
refuse_parallel "offload_param=cpu without offload_optimizer=cpu is not played" $tiny --parallel ds3=4,offload_param=cpu
refuse_parallel "DeepSpeed scales losses itself" $tiny --parallel ds2=4 --amp fp16
resnet="tests/golden/parallel/resnet50.vram --train adamw"
refuse_parallel "it should be a factor of the shards" $tiny --parallel fsdp2=8,reshard=3
refuse_parallel "Expected running_mean to have the type of the weights" $resnet --parallel fsdp2=4,mp=bf16
refuse_parallel "fully_shard is played without GradScaler" $tiny --parallel fsdp2=4 --amp fp16
