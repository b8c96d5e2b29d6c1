#!/bin/sh
# VRAM=./vram sh examples/ci_gate.sh examples/models/resnet50.vram 2GiB
# resnet50 takes 2694283264 bytes of 2147483648: 546799616 too many, most of them activations
#
# A gate for CI: the step must fit the budget. The verdict is the exit status of vram (0 fits, 3 does
# not, 2 bad model), the reason comes out of its JSON with POSIX tools. Behind the two: other options of
# vram estimate than --train adamw (a GGUF file: none, or --ctx 4096 and the like). VRAM: the command,
# where it is not installed.
model=$1 budget=$2
shift 2
case $model in *.gguf) ;; *) [ $# != 0 ] || set -- --train adamw ;; esac
report=$("${VRAM:-vram}" estimate "$model" "$@" --budget "$budget" --json)
status=$?
[ $status = 0 ] || [ $status = 3 ] || exit $status
case $report in
'{"model":'*'"fits":'*) ;;
*) echo "$model: no verdict on a budget" >&2; exit 2 ;;
esac

number() { # number KEY: the figure behind it, or the one that is expected
  echo "$report" | sed -e 's/"sources":{[^}]*}//' |
    sed -n 's/.*"'"$1"'":\({"lower":[0-9]*,"expected":\)\{0,1\}\([0-9]*\).*/\2/p'
}
model=$(echo "$report" | sed 's/{"model":"\([^"]*\)".*/\1/')
device=$(number device_bytes) budget=$(number budget_bytes)
if [ -z "$device" ]; then # llama.cpp's buffers: the fullest device
  device=$(echo "$report" | sed -n 's/.*"total_bytes":{\([^}]*\)}.*/\1/p' | tr ',' '\n' | grep -v '"host"' |
    sort -t: -k2 -n | sed -n '$s/.*://p')
  verdict=fits
  [ $status = 0 ] || verdict="does not fit"
  echo "$model takes $device bytes of $budget, and the CUDA context: $verdict"
elif [ $status = 0 ]; then
  echo "$model takes $device bytes of $budget: fits"
else
  most=$(echo "$report" | sed 's/.*"peak_categories":{\([^}]*\)}.*/\1/' | tr ',' '\n' |
    tr -d '"' | sort -t: -k2 -n | tail -n 1)
  echo "$model takes $device bytes of $budget: $((device - budget)) too many, most of them ${most%%:*}"
fi
exit $status
