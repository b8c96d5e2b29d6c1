# MLPerf Tiny's four networks: constants of the staged form, an independent count with ONNX, the run
# time, arenas beside TensorFlow Lite Micro's: sourced by part.sh.
work=build/tiny
mkdir -p $work
golden=tests/golden/embedded
python=${PYTHON:-python3}
value() { tr ',{}' '\n\n\n' <"$2" | sed -n "s/^\"$1\":\([0-9a-z][0-9a-z]*\)\$/\1/p" | head -1; }

# A. the count is what the onnx package says today
if $python -c 'import onnx' 2>/dev/null; then
  $python tests/embedded/count_onnx.py >$work/count.txt 2>$work/err
  same "count with onnx" $golden/count.txt $work/count.txt
  for net in ad kws ic vww; do
    $python tests/embedded/count_onnx.py --lifetimes $net >$work/$net.csv 2>>$work/err
    same "lifetimes of $net with onnx" $golden/$net.csv $work/$net.csv
  done
  cat $work/err
else skip "no onnx for $python (its count is in $golden)"; fi

for net in ad kws ic vww; do
  grep "^[a-z]* $net " $golden/count.txt >$work/wanted
  awk '$1 == "layer"' $work/wanted >$work/layers
  awk '$1 == "net" { print $1, $2, $4, $5, $6, $7, $8 }' $work/wanted >$work/total
  peak=$(awk '{ print $7 }' $work/total) tflm=$(awk '$1 == "net" { print $9 }' $work/wanted)

  cell "$net: vram emit" ./vram emit tests/embedded/$net.vram --format i8 -o $work/$net.h
  for from in tests/embedded/$net.h $work/$net.h; do # written by hand; made of the text form
    # B. constants of the compiler: every layer (the lines between them have no figures of their own)
    for way in "${CC:-cc} c99" "c++ c++17"; do
      have ${way% *} || { skip "no ${way% *}"; continue; }
      what="$from, ${way#* }" language=c
      case $way in *++*) language=c++ ;; esac
      cell "$what" ${way% *} -std=${way#* } -Wall -Wextra -Wpedantic -Werror -x $language \
        -DNET=$net -DHEADER="\"$PWD/$from\"" tests/embedded/table.c -o $work/table
      $work/table >$work/rows
      awk 'NR == FNR { layer[$3]; next } $1 == "layer" && $3 in layer' $work/layers $work/rows >$work/found
      same "$what: layers" $work/layers $work/found
      awk '$1 == "layer" { for (i = 8; i <= 11; i++) s[i] += $i }
        END { printf "%.0f %.0f %.0f %.0f\n", s[8], s[9], s[10], s[11] }' $work/rows >$work/found
      cut -d' ' -f3-6 $work/total >$work/sums
      same "$what: nothing beside the layers" $work/sums $work/found
      grep '^net' $work/rows >$work/found
      same "$what: totals" $work/total $work/found
      # these networks need no more than lives at one time
      cell "$what: arena" test "$(awk '$1 == "arena" { print $3 }' $work/rows)" = "$peak"
    done

    # C. the run time reads the same lines
    ./vram estimate --embedded $from --csv >$work/csv 2>$work/err
    awk -F, -v net=$net 'NR == FNR { split($0, f, " "); layer[f[3]]; next }
      $1 in layer { print "layer", net, $1, $3, $4, $5, $6, $7, $8, $9, $10 }' $work/layers $work/csv >$work/found
    same "$from: layers" $work/layers $work/found
    ./vram estimate --embedded $from --json >$work/json 2>>$work/err
    sed 's/"lines":\[.*\],//' $work/json >$work/totals
    {
      printf 'net %s' $net
      for what in params macs weight_bytes flash_bytes peak_live_bytes; do printf ' %s' "$(value $what $work/totals)"; done
      echo
    } >$work/found
    same "$from: totals" $work/total $work/found
    cell "$from: planned arena" test "$(value arena_bytes $work/totals) $(value arena_proven $work/totals)" = "$peak true"
    cell "$from: TensorFlow Lite Micro's arena" test "$(value tflm_arena_bytes $work/totals)" = "$tflm"
    cell "$from: ping-pong" test "$(value pingpong_bytes $work/totals)" = "$(awk '$1 == "arena" { print $4 }' $work/rows)"
    cat $work/err
  done

  ./vram estimate --embedded tests/embedded/$net.vram --format i8 --json >$work/found
  same "$net: the text form itself" $work/json $work/found

  # D. arenas: the least, proven; what TensorFlow Lite Micro takes (measured)
  ./vram arena $golden/$net.csv --json >$work/json
  cell "$net: the lowest arena" test "$(value height_bytes $work/json) $(value optimal $work/json)" = "$peak true"
  ./vram arena $golden/$net.csv --order tflm --json >$work/json
  cell "$net: TensorFlow Lite Micro's arena" test "$(value height_bytes $work/json)" = "$tflm"

  # E. Keras' parameters are those of the text form, with PyTorch's counter of batches
  ./vram estimate tests/embedded/$net.vram --infer --json >$work/json
  norms=$(grep -c '^batch_norm' tests/embedded/$net.vram)
  cell "$net: parameters of Keras" test $((($(value params_bytes $work/json) + $(value buffers_bytes $work/json) - 8 * norms) / 4)) = \
    "$(awk '$1 == "net" { print $3 }' $work/wanted)"
done
