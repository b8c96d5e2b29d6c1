# Pictures in a browser: at three widths, light and dark, no text may overlap another, leave its
# place, be too small or too pale. Sourced by part.sh.
work=build/render
browser=
for b in chromium chromium-browser google-chrome; do have $b && { browser=$b; break; }; done
if [ -z "$browser" ]; then skip "no chromium"; return 0; fi
rm -rf $work
mkdir -p $work
render() { # render OPTIONS... PAGE
  timeout 300 $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
    --user-data-dir="$PWD/$work/profile" --dump-dom "$@" 2>$work/browser.log
}
if ! render about:blank | grep -q '</html>'; then skip "$browser does not run"; return 0; fi
models=tests/golden/models
printf 'input x f32 [2,3]\nrelu y x\nrelu z y\n' >$work/tiny.vram
printf 'input x f32 [0,3]\nrelu y x\n' >$work/nothing.vram
awk 'BEGIN {
  print "model a_model_whose_name_is_longer_than_any_line_of_a_picture_on_paper_or_on_a_telephone"
  print "dim batch_size_of_the_data_loader=8\ninput x f32 [batch_size_of_the_data_loader,64]"
  for (i = 0; i < 500; i++) {
    name = "encoder.layers." int(i / 50) ".block." i % 50 ".self_attention.projection_with_a_long_name"
    print "linear " name " " (i ? "g" i - 1 : "x") " out_features=64\ngelu g" i " " name
  }
  print "mean loss g499" }' >$work/long.vram
if ./vram estimate resnet50 --train adamw --svg - | cmp -s - examples/resnet50.svg; then ok; else
  bad "the picture of README.md is an old one: make pictures"
fi
for way in 'ddp=8 --amp bf16' 'fsdp2=8,mp=bf16,reduce=f32' 'tp=8,sp=1,loss_parallel=1 --amp bf16' 'pp=8 --amp bf16 --rank 7'; do
  # shellcheck disable=SC2086 # words
  if ./vram estimate tests/golden/parallel/llama8.vram --train adamw --parallel $way --svg - | cmp -s - examples/llama_${way%%=*}.svg; then ok; else
    bad "the picture of README.md is an old one: make pictures (examples/llama_${way%%=*}.svg)"
  fi
done
printf 'fw,bw,x,xbar,ftmp,btmp\n1,2,0,0,0,0\n0,0,0,0,0,0\n' >$work/two.csv
awk 'BEGIN {
  print "fw,bw,x,xbar,ftmp,btmp"
  for (i = 0; i < 200; i++) print 1 + i % 3 ",2," 400 + i * 37 % 500 "," 3000 + i * 91 % 4000 ",50,60" }' >$work/deep.csv
pages=
picture() { # picture NAME KIND MODEL OPTIONS...: a page around the picture, or the page; plan: that of vram plan
  name=$1-$2 kind=$2 command=estimate
  [ $kind = plan ] && command=plan kind=svg
  shift 2
  ./vram $command "$@" --$kind $work/$name.out >/dev/null
  case $? in 0 | 3) ;; *) bad "vram $command $* --$kind"; return ;; esac
  {
    [ $kind = html ] || echo '<!doctype html><meta charset="utf-8"><body style="margin:0">'
    sed "s|</body>.*||;s|</html>||;s|<title>[^<]*: memory of one step</title>|<title>$name</title>|" $work/$name.out
    echo "<script>document.title = '$name'</script><script src=\"../../tests/render.js\"></script>"
  } >$work/$name.html
  if grep -Eo '(https?:)?//[a-z][^"<]*' $work/$name.out | grep -qv '^http://www.w3.org/'; then
    bad "$name loads something"
  else ok; fi
  pages="$pages $name"
}
r50=examples/models/resnet50.vram
picture train svg $r50 --train adamw
picture gpu svg $r50 --train adamw --batch 64 --gpu rtx4090
picture budget svg $r50 --train adamw --batch 512 --amp bf16 --budget 22GB --units si
picture gpt2 svg $models/hf_gpt2.vram --train adamw --checkpoint 4
picture bf16 svg $models/hf_gpt2.vram --train adamw --amp bf16 --batch 16 --gpu t4
picture infer svg $models/tv_vit_b_16.vram
picture accumulate svg $r50 --train sgd_momentum --accumulate 4
picture accumulate100 svg $models/nn_lenet5.vram --train adamw --accumulate 100
picture tiny svg $work/tiny.vram
picture nothing svg $work/nothing.vram
picture long svg $work/long.vram --train adamw --dtype bf16 --master-weights --keep-grads --budget 1MiB
picture linear svg $models/nn_linear5000x10.vram --batch 1
picture bytes svg $r50 --train adamw --units bytes --gpu t4
picture train html $r50 --train adamw
picture gpu html $r50 --train adamw --batch 64 --gpu rtx4090
picture long html $work/long.vram --train adamw --budget 1MiB
picture tiny html $work/tiny.vram
picture nothing html $work/nothing.vram
picture bytes html $models/hf_gpt2.vram --infer --units bytes
picture resnet plan $r50 --batch 256 --budget 8GiB
picture small plan tests/plan/nine.csv --budget 30KB --units bytes
picture offload plan tests/plan/nine.csv --budget 42KB --offload 0.01/1KB --gpu t4
picture two plan $work/two.csv --budget 1GB --units si
picture deep plan $work/deep.csv --budget 60KB
picture ranks html tests/golden/parallel/tiny4.vram --train adamw --batch 1 --parallel pp=4,microbatches=6+fsdp2=3 --rank all
picture si html $models/nn_lenet5.vram --train adamw --units si --accumulate 30

{
  cat <<'END'
<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>
addEventListener('message', function (e) {
  const d = e.data, where = d.name + ' at ' + d.width + (d.dark ? ' dark' : ' light');
  found.textContent += 'seen ' + where + '\n' +
    d.bad.map(function (b) { return 'bad ' + where + ': ' + b + '\n'; }).join('');
});
</script>
END
  for p in $pages; do
    for width in 360 800 1200; do
      echo "<iframe src=\"$p.html\" width=\"$width\" height=\"900\" style=\"border:0\"></iframe>"
    done
  done
} >$work/all.html
count=$(echo $pages | wc -w)
for scheme in 0 1; do # dark, light
  render --blink-settings=preferredColorScheme=$scheme --allow-file-access-from-files \
    --virtual-time-budget=60000 "file://$PWD/$work/all.html" >$work/dom
  seen=$(grep -Ec '(^|>)seen ' $work/dom)
  if [ "$seen" = $((3 * count)) ]; then ok; else
    bad "$seen of $((3 * count)) pages were looked at"
    grep -v ':ERROR:dbus' $work/browser.log | tail -n 3
  fi
  sed -n 's/^bad //p' $work/dom | head -20
  bads=$(grep -c '^bad ' $work/dom)
  failed=$((failed + bads)) passed=$((passed + seen))
done
