# Text of the files: sourced by part.sh.
files=$(git ls-files 2>/dev/null || find . -type f ! -path './.git/*' ! -path './build/*' ! -path ./vram ! -name "*.so" | sed 's:^\./::')
check_text() { # check_text NAME FILES: the lines that awk prints are failures
  found=$(awk "$2" $3)
  if [ -z "$found" ]; then ok; else bad "$1:"; echo "$found" | head -20; fi
}
all=$(for f in $files; do [ -f "$f" ] && case $f in *.png | *.gguf | *.onnx | *.tflite | *.pte | *.safetensors | tests/fuzz/corpus/* | *.pickle | *.prof | *.gz | *.pb) ;; *) echo "$f" ;; esac; done)
code=$(for f in $all; do case $f in *.c | *.h | *.inc) echo "$f" ;; esac; done)
here='FILENAME ":" FNR ": "'
check_text "trailing white space" "/[ \t\r]\$/ { print $here \$0 }" "$all"
if have perl; then
  found=$(perl -ne 'print "$ARGV:$.: $_" if /[^\x00-\x7f]/; close ARGV if eof' $all)
  if [ -z "$found" ]; then ok; else bad "not ASCII:"; echo "$found" | head -20; fi
else skip "no perl: ASCII"; fi
check_text "absolute paths" "/(^|[^A-Za-z0-9_.}])\/(tmp|home|work|root|Users)\// && !/absolute paths/ { print $here \$0 }" "$all"
check_text "lines of more than 100 columns" "
  FNR == 1 { off = 0 }
  /clang-format off/ { off = 1 }
  /clang-format on/ { off = 0 }
  !off && length(\$0) > 100 { print $here length(\$0) \" columns\" }" "$code"
if have clang-format; then # vram.h is made of what is looked at here
  for f in $(for f in $code; do case $f in *.inc | vram.h) ;; *) echo "$f" ;; esac; done); do
    if clang-format --dry-run -Werror "$f" >build/part/format.out 2>&1; then ok; else
      bad "$f is not formatted (make format)"
      head -3 build/part/format.out
    fi
  done
else skip "no clang-format"; fi
# what the command says of itself fits a terminal
for command in "" estimate fit plan advise arena emit convert list replay diff run watch; do
  if [ -z "$(./vram $command -h | awk 'length > 80')" ]; then ok; else bad "vram $command -h: more than 80 columns"; fi
done
