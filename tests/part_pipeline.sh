# Folders of diffusers: what diffusers itself loaded and allocated, and folders that are damaged:
# sourced by part.sh.
work=build/pipeline golden=tests/golden/diffusers
rm -rf $work
mkdir -p $work
all() { # all KEY: its numbers in the order of the parts, without those of parts that have no weights
  grep -o "\"$1\":[0-9]*" $work/json | cut -d: -f2 | grep -v '^0$' | tr '\n' ' '
}
while IFS='|' read -r folder options key wanted; do
  case $folder in '' | '#'*) continue ;; esac
  # shellcheck disable=SC2086
  ./vram estimate $golden/$folder $options --json >$work/json
  case $key in
  peak*) # never more than was measured, and nearly all of it; and never less than the bound above
    found=$(sed 's/.*"peak_bytes"://; s/}.*//' $work/json | grep -o "\"${key#peak }\":[0-9]*" | cut -d: -f2)
    most=$(sed 's/.*"upper_bytes"://; s/}.*//' $work/json | grep -o "\"${key#peak }\":[0-9]*" | cut -d: -f2)
    if [ "$found" -le "$wanted" ] && [ $((found * 1000)) -ge $((wanted * 997)) ] && [ "$most" -ge "$wanted" ] &&
      [ $((most * 100)) -le $((wanted * 112)) ]; then ok; else
      bad "$folder $options: $key $found to $most, diffusers: $wanted"
    fi
    continue
    ;;
  params_bytes) found=$(all params_bytes | sed 's/.* \([0-9]* \)$/\1/') ;;
  *) found=$(all "$key") ;;
  esac
  if [ "$found" = "$wanted " ]; then ok; else bad "$folder $options: $key $found, diffusers: $wanted"; fi
done <tests/golden/diffusers.txt

# without weights the parameters are those of the config.json
rm -rf $work/bare
cp -r $golden/tiny-sd $work/bare
rm $work/bare/*/*.safetensors
./vram estimate $work/bare --json >$work/json
if [ "$(all params)" = "108672 2181860 1288263 3578795 " ]; then ok; else bad "parameters of the configs: $(all params)"; fi

wrong() { # wrong TEXT ARGUMENTS...: exit status 2, one line on standard error, with TEXT
  text=$1
  shift
  ./vram estimate "$@" >$work/out 2>$work/err
  status=$?
  if [ $status = 2 ] && [ "$(wc -l <$work/err)" = 1 ] && grep -qF -e "$text" $work/err; then ok; else
    bad "$*: status $status, expected 2 and $text"
    head -3 $work/err
  fi
}
damaged() { # damaged: a new copy, in $work/sd
  rm -rf $work/sd
  cp -r $golden/tiny-sd $work/sd
}
index() { # index TEXT: that is model_index.json
  damaged
  printf '%s' "$1" >$work/sd/model_index.json
}
damaged
rm -r $work/sd/unet
wrong "part 'unet' (UNet2DConditionModel) has neither weights nor a config.json" $work/sd
damaged
head -c 300 $golden/tiny-sd/model_index.json >$work/sd/model_index.json
wrong "$work/sd/model_index.json: offset 300: " $work/sd
index '{"unet":["diffusers","UNet2DConditionModel"]}'
wrong "no model_index.json of diffusers (no _class_name)" $work/sd
index '{"_class_name":"StableDiffusionPipeline","requires_safety_checker":false}'
wrong "a pipeline without parts" $work/sd
index '{"_class_name":"StableDiffusionPipeline","../unet":["diffusers","UNet2DConditionModel"]}'
wrong "a part in another folder: '../unet'" $work/sd
index '{"_class_name":"X","..":["diffusers","UNet2DConditionModel"]}'
wrong "a part in another folder: '..'" $work/sd
damaged
head -c 1000 $golden/tiny-sd/unet/diffusion_pytorch_model.safetensors >$work/sd/unet/diffusion_pytorch_model.safetensors
wrong "$work/sd/unet/diffusion_pytorch_model.safetensors: offset" $work/sd
printf '{"weight_map":{"conv_in.bias":"../vae/x.safetensors"}}' >$work/sd/unet/diffusion_pytorch_model.safetensors.index.json
rm $work/sd/unet/diffusion_pytorch_model.safetensors
wrong "a shard in another folder: '../vae/x.safetensors'" $work/sd
wrong "unknown --offload 'disk'" $golden/tiny-sd --offload disk
wrong "not a variant: '../x'" $golden/tiny-sd --variant ../x
wrong "not a number for --guidance: '2'" $golden/tiny-sd --guidance 2
wrong "images of 66 x 64, expected multiples of 4" $golden/tiny-sd --height 66
wrong "not an option of a pipeline of diffusers: '--train'" $golden/tiny-sd --train adamw

damaged
sed 's/"block_out_channels": \[/"block_out_channels": [ 7,/' $golden/tiny-sd/unet/config.json >$work/sd/unet/config.json
wrong "not as many blocks up as down: up_block_types" $work/sd
sed 's/"CrossAttnDownBlock2D"/"NewDownBlock2D"/' $golden/tiny-sd/unet/config.json >$work/sd/unet/config.json
wrong "a block whose lines are not known: down_block_types" $work/sd
sed 's/"time_embedding_type": "positional"/"time_embedding_type": "fourier"/' $golden/tiny-sd/unet/config.json >$work/sd/unet/config.json
wrong "a setting whose lines are not known: time_embedding_type" $work/sd
while IFS='|' read -r piece change text; do
  damaged
  sed "$change" $golden/tiny-sd/$piece/config.json >$work/sd/$piece/config.json
  wrong "$text" $work/sd
done <<'EOF'
unet|s/"flip_sin_to_cos": true/"flip_sin_to_cos": false/|a setting whose lines are not known: flip_sin_to_cos
unet|s/"mid_block_type": "[^"]*"/"mid_block_type": null/|a setting whose lines are not known: mid_block_type
unet|s/"conv_in_kernel": 3/"conv_in_kernel": 5/|a setting whose lines are not known: conv_in_kernel
unet|s/"num_class_embeds": null/"num_class_embeds": 7/|a setting whose lines are not known: num_class_embeds
unet|s/"layers_per_block": [0-9]*/"layers_per_block": 0/|no layers in a block: layers_per_block
unet|s/"transformer_layers_per_block": 1/"transformer_layers_per_block": 1000000000/|no transformer of 1 to 64 blocks
unet|s/"sample_size": [0-9]*/"sample_size": 0/|no image has so many rows or columns
text_encoder|s/"num_hidden_layers": [0-9]*/"num_hidden_layers": 1000000000/|not 1 to 4096 layers: num_hidden_layers
vae|s/"DownEncoderBlock2D",/&&/|not as many blocks as channels: block_out_channels
unet|s/"act_fn"/act_fn/|/unet/config.json: offset
EOF
damaged
sed 's/"sample_size": [0-9]*/"sample_size": [16, 24]/' $golden/tiny-sd/unet/config.json >$work/sd/unet/config.json
./vram estimate $work/sd --json >$work/json
if grep -q '"height":64,"width":96,' $work/json; then ok; else bad "a list of sides: $(cat $work/json)"; fi

# a budget above what is requested at most, between that and what is at least, below both
for line in 49021160:true:0 49021159:null:0 48700768:null:0 48700767:false:3; do
  IFS=: read -r budget fits status <<EOF
$line
EOF
  ./vram estimate $golden/tiny-sd --budget ${budget}B --json >$work/json
  if [ $? = $status ] && grep -q "\"fits\":$fits,\"budget_bytes\":$budget}" $work/json; then ok; else bad "a budget of $budget: $(cat $work/json)"; fi
done

# only a VAE, and no denoiser that is known; with slices it decodes one image after the other: what
# diffusers 0.42 had allocated at its peak beside the parameters, for latents of [4,4,16,16]
mkdir -p $work/alone/vae
echo '{"_class_name":"StableDiffusionPipeline","vae":["diffusers","AutoencoderKL"]}' >$work/alone/model_index.json
echo '{"_class_name":"AutoencoderKL","block_out_channels":[32,64],"layers_per_block":1,"down_block_types":
["DownEncoderBlock2D","DownEncoderBlock2D"],"up_block_types":["UpDecoderBlock2D","UpDecoderBlock2D"]}' >$work/alone/vae/config.json
./vram estimate $work/alone --batch 4 --height 32 --width 32 --vae-slicing --json >$work/json
if [ "$(all step_bytes)" = "34004992 " ]; then ok; else bad "slices: $(cat $work/json)"; fi
echo '{"_class_name":"X","vae":["diffusers","X"]}' >$work/alone/model_index.json
./vram fit $work/alone --budget 1GiB >$work/out 2>$work/err
if [ $? = 2 ] && grep -q "of no part a call is known" $work/err; then ok; else bad "a pipeline that is not known: $(cat $work/out)"; fi

# variants and shards: the same tensors under other names
damaged
cd $work/sd
mv vae/diffusion_pytorch_model.safetensors vae/diffusion_pytorch_model.fp16.safetensors
mv text_encoder/model.safetensors text_encoder/model-00001-of-00001.safetensors
{
  printf '{"weight_map":{'
  grep -ao '"[^"]*":{"dtype"' text_encoder/model-00001-of-00001.safetensors |
    sed 's/:{"dtype"/:"model-00001-of-00001.safetensors"/; $!s/$/,/'
  printf '}}'
} >text_encoder/model.safetensors.index.json
cd ../../..
./vram estimate $golden/tiny-sd --json | sed 's/"model":"[^"]*",//' >$work/wanted
./vram estimate $work/sd --variant fp16 --json | sed 's/"model":"[^"]*",//' >$work/found
same "a variant and a shard" $work/wanted $work/found
./vram estimate $work/sd/model_index.json --json | sed 's/"model":"[^"]*",//' >$work/found
same "the index instead of the folder" $work/wanted $work/found
