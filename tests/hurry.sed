# vram.h with most of its rooms not optimised, for builds whose compiling takes longer than running them
# (sanitizers, emulated machines): -O1 remains where the tests spend their time. Lines keep their numbers.
# Bytes are cleared by memset, whose bounds and results the sanitizers know: byte by byte was a third of all.
1i #line 1 "vram.h"
s|^/\* >>ops/shape |VRAM_TEST_COLD &|
s|^/\* >>step  |VRAM_TEST_HOT &|
s|^/\* >>parallel  |VRAM_TEST_COLD &|
s|^/\* >>plan  |VRAM_TEST_HOT &|
s|^/\* >>net  |VRAM_TEST_COLD &|
s|^/\* >>write/pen  |VRAM_TEST_HOT &|
s|^/\* >>write/cells  |VRAM_TEST_COLD &|
/^VRAM__FN void vram__memory_zero(void \*p, uint64_t n) {$/,/^}$/{
s/^  while (n--)$/  if (n)/
s/^    \*b++ = 0;$/    memset(b, 0, (size_t)n);/
}
