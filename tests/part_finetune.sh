# Adapters and quantised weights: sourced by part.sh. tests/finetune/golden.txt has what PyTorch
# allocates, measured.
finetune_sums() { # finetune_sums TEXT OPTIONS...: the lines of the golden file for this step
  text=$1
  shift
  ./vram estimate "tests/finetune/$text" --events - "$@" >build/part/finetune.csv 2>&1 || return 1
  for phase in forward backward optimizer; do
    awk -F, -v phase=$phase '$1 == phase && $2 == "alloc" { print $4 }' build/part/finetune.csv >build/part/finetune.sizes
    sum=$(cksum <build/part/finetune.sizes)
    echo "  $phase $(($(wc -l <build/part/finetune.sizes))) ${sum%% *}"
  done
}
grep '^[a-z]' tests/finetune/golden.txt >build/part/finetune.cases
while read -r name text options; do
  awk -v name="$name" '/^[a-z]/ { on = $1 == name } on && /^  /' tests/finetune/golden.txt >build/part/finetune.want
  finetune_sums "$text" $options >build/part/finetune.have
  if [ -s build/part/finetune.want ] && cmp -s build/part/finetune.want build/part/finetune.have; then ok; else
    bad "$name ($options): measured, and estimated"
    diff build/part/finetune.want build/part/finetune.have | head -6
  fi
done <build/part/finetune.cases
refuse_finetune() { # refuse_finetune MESSAGE OPTIONS...
  message=$1
  shift
  if ./vram estimate "$@" >build/part/finetune.out 2>&1; then bad "not refused: $*"; else
    if grep -qF "$message" build/part/finetune.out; then ok; else bad "$*: $(head -1 build/part/finetune.out)"; fi
  fi
}
refuse_finetune "no linear line has a name of targets (there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head)" \
  tests/finetune/llama.vram --lora r=4,targets=query
refuse_finetune "adapters without a rank (found targets=q_proj, expected r=16)" tests/finetune/llama.vram --lora targets=q_proj
refuse_finetune "an unknown quant= (expected nf4, fp4, int8 or fp8)" tests/finetune/llama.vram --quant nf5
refuse_finetune "an unknown quant= (expected nf4, fp4, int8 or fp8); gptq" lenet5 --quant gptq # of no layer
refuse_finetune "an unknown word of this option (found rank=4, expected r, targets, dropout" tests/finetune/llama.vram --lora rank=4
refuse_finetune "an unknown word of this option (found doubel=0, expected kind, double" tests/finetune/llama.vram --quant nf4,doubel=0
refuse_finetune "dora asks for a weight that peft cannot dequantise" tests/finetune/llama.vram --lora r=4,dora=1 --quant fp8
refuse_finetune "mxfp4 is of gpt_oss's experts, which transformers trains dequantised" tests/finetune/llama.vram --quant mxfp4
# what peft's print_trainable_parameters says of this model and these adapters
./vram estimate llama3_8b --lora r=16 --quant nf4 --batch 1 --dim S=64 >build/part/finetune.out
if grep -q "^trainable params: 41,943,040 || all params: 8,072,204,288 || trainable%: 0.5196$" build/part/finetune.out; then ok; else
  bad "trainable parameters: $(grep trainable build/part/finetune.out)"
fi
# where no batch fits, what would
./vram fit llama3_8b --lora r=16 --quant nf4 --gpu rtx3060 >build/part/finetune.out
if grep -q "^  --batch 1 --solve dim:S --checkpoint layers$" build/part/finetune.out; then ok; else
  bad "nothing is proposed where nothing fits"
fi
