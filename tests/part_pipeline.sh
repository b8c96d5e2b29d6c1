# Folders of diffusers: what diffusers itself loaded and allocated, and folders that are damaged:
# sourced by part.sh.
work=build/pipeline golden=tests/golden/diffusers
rm -rf $work
mkdir -p $work
while IFS='|' read -r folder options key wanted; do
  case $folder in '' | '#'*) continue ;; esac
  found=$(./vram estimate $golden/$folder $options --json | grep -o "\"$key\":[0-9]*" | cut -d: -f2 | grep -v '^0$' | tr '\n' ' ')
  case $key in params_bytes) found=$(echo $found | sed 's/.* //') ;; esac
  if [ "$(echo $found)" = "$wanted" ]; then ok; else bad "$folder $options: $key $found, diffusers: $wanted"; fi
done <tests/golden/diffusers.txt

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
wrong "not an option of a pipeline of diffusers: '--train'" $golden/tiny-sd --train adamw

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
