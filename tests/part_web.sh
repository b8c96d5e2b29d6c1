# `make web`: the page and the module in Chromium, beside the command; its printf beside the C
# library's: sourced by part.sh.
work=build/web_test
mkdir -p $work
python=${PYTHON:-python3}

if ${CC:-cc} -w -O1 -o $work/test_print tests/web/test_print.c && $work/test_print >$work/print.out; then ok
else bad "printf of tools/web/print.c"; cat $work/print.out; fi

lacks=
for tool in clang wasm-ld chromium python3; do have $tool || lacks="$lacks $tool"; done
if [ "$lacks" ]; then skip "no$lacks"
# not optimised: that alone would take half a minute, and changes no answer
elif ! "$MAKE" -s --no-print-directory -j2 web WEB=$work WASM_O=-O0; then bad "make web"
else
  $python tests/web/web.py ./vram $work >$work/web.out 2>&1
  grep -v '^web: ' $work/web.out
  grep -q '^web: [0-9]* passed' $work/web.out || bad "the page's test stopped"
  add $work/web.out
  if have node; then
    if node tests/web/module.mjs $work/vram.mjs ./vram; then ok; else bad "the module in node"; fi
  else skip "no node"; fi
fi
