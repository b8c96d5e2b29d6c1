# A stream of tests/golden/allocator (make.py there says what the words mean) as the CSV that
# `vram replay --csv` prints. -v key=conf|total|limit: only what the head says of that key.
function number(text) { return match(word, text "[-+]?[0-9]+") ? substr(word, RSTART + 1, RLENGTH - 1) : 0 }
key != "" {
  if ($1 == "stream") exit
  if ($1 == key) print substr($0, length(key) + 2)
  next
}
words {
  for (i = 1; i <= NF; i++) {
    word = $i
    reserved += number("r"); segments += number("s")
    call = word
    sub(/[rs][-+].*/, "", call)
    result = sub(/!$/, "", call) ? "oom" : "ok"
    if (call ~ /^-/) {
      at = live - substr(call, 2)
      line = "free," id[at] ",,,ok"
      allocated -= block[at]; requested -= size[at]
      for (live--; at <= live; at++) { id[at] = id[at + 1]; block[at] = block[at + 1]; size[at] = size[at + 1] }
    } else if (call == "e")
      line = "empty_cache,,,,ok"
    else {
      bytes = call + 0
      line = "alloc," (ids + 0) "," bytes "," (match(call, /@[0-9]+/) ? substr(call, RSTART + 1, RLENGTH - 1) : 0) "," result
      if (result == "ok") {
        id[++live] = ids + 0; size[live] = bytes
        block[live] = match(call, /=[0-9]+/) ? substr(call, RSTART + 1, RLENGTH - 1) : bytes ? int((bytes + 511) / 512) * 512 : 512
        allocated += block[live]; requested += bytes
      }
      ids++
    }
    printf "%s,%.0f,%.0f,%.0f,%d\n", line, allocated, reserved, requested, segments
  }
}
$1 == "stream" { words = 1; print "action,id,size,stream,result,allocated,reserved,requested,segments" }
