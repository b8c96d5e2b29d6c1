# vram.h with most of its rooms not optimised, for builds whose compiling takes longer than running them
# (sanitizers, emulated machines): -O1 remains where the tests spend their time. Lines keep their numbers.
1i #line 1 "vram.h"
s|^/\* >>ops/shape |VRAM_TEST_COLD &|
s|^/\* >>step  |VRAM_TEST_HOT &|
s|^/\* >>parallel  |VRAM_TEST_COLD &|
s|^/\* >>plan  |VRAM_TEST_HOT &|
s|^/\* >>net  |VRAM_TEST_COLD &|
