#!/bin/sh
# tools/web/build.sh WASM DIR: vram.mjs, vram.d.mts and vram.html in DIR, of the command as WASM.
# From the top of the tree.
set -e
wasm=$1 to=$2 from=tools/web
gzip -9nc "$wasm" | base64 | tr -d '\r' >"$to/wasm.txt"
sed -e "/^@WASM@\$/{r $to/wasm.txt" -e 'd;}' $from/vram.mjs >"$to/vram.mjs.new"
# the built-in models: a name, and its dims
for f in examples/models/*.vram; do
  awk -v name="$(basename "$f" .vram)" '
    $1 == "dim" {
      for (i = 2; i <= NF && $i ~ /=/; i++) {
        split($i, d, "=")
        dims = dims (dims ? "," : "") "[\"" d[1] "\",\"" d[2] "\"]"
      }
    }
    END { printf "%s{\"name\":\"%s\",\"dims\":[%s]}\n", (first ? "" : ","), name, dims }' \
    first="${first:-1}" "$f"
  first=0
done | sed '1s/^,//' >"$to/models.txt"
{ echo '['; cat "$to/models.txt"; echo ']'; } >"$to/models.json"
sed -e "/^@STYLE@\$/{r $from/page.css" -e 'd;}' -e "/^@SCRIPT@\$/{r $from/page.js" -e 'd;}' \
  -e "/^@MODELS@\$/{r $to/models.json" -e 'd;}' -e "/^@MODULE@\$/{r $to/vram.mjs.new" -e 'd;}' \
  $from/page.html >"$to/vram.html.new"
cp $from/vram.d.mts "$to/vram.d.mts"
rm -f "$to/wasm.txt" "$to/models.txt" "$to/models.json"
mv "$to/vram.mjs.new" "$to/vram.mjs"
mv "$to/vram.html.new" "$to/vram.html"
