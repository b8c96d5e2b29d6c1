#!/bin/sh
# The words of the text form, from the tables of vram.h: a dictionary for libFuzzer.
cd "$(dirname "$0")/../.." || exit 1
sed -n '/^#define VRAM_OPS(X)/,/clang-format on/p' vram.h | grep -o 'X([a-z0-9_]*)' |
  sed 's/X(\(.*\))/"\\x0a\1 v"/'
sed -n '/^#define VRAM_KEYS(X)/,/clang-format on/p' vram.h | grep -o 'X([a-z_0-9]*, [A-Z])' |
  sed 's/X(\(.*\), .*/" \1="/'
for word in '\x0ainput x f32 [' '\x0ainput i i64 [' '\x0aloop 2 h=' '\x0anext h=' '\x0adrop ' \
  '\x0aoutput ' '\x0adim N=' ' grad=1' '[N,' ',N]' '=-1' ' dtype=bf16' ' dtype=f16' '9223372036854775807' \
  '4294967296' ' inplace=1' ' frozen=1' ' weights=' 'shape=[' '*' '/' '#'; do
  echo "\"$word\""
done
