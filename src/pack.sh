#!/bin/sh
# Prints vram.h: the parts of src/ in the order of src/parts.
cd "$(dirname "$0")" || exit 1
while read -r part; do
  cat "$part" || exit 1
done <parts
