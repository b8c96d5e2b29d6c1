# A network of 200 lines as C: a residual block in every four.
BEGIN {
  print "#include \"vram.h\"\nVRAM_NET_BEGIN(net, I8, 1, 64, 64, 16);"; before = "input"
  for (i = 0; i < 50; i++) {
    printf "VRAM_NET_KEEP(net, k%d, %s);\n", i, before
    printf "VRAM_NET_DEPTHWISE_CONV2D(net, d%d, k%d, 1, 3, 3, 1, 1, SAME, 1);\n", i, i
    printf "VRAM_NET_CONV2D(net, c%d, d%d, 16, 1, 1, 1, 1, VALID, 1);\n", i, i
    printf "VRAM_NET_ADD_INPLACE(net, a%d, c%d, k%d);\n", i, i, i
    before = "a" i
  }
  print "VRAM_NET_END(net, a49);"
  # 50 (weights (9 + 16) 16, 32 biases of 4, 32 pairs of 8); k, d, c live at one time
  print "VRAM_ASSERT_FITS(net, 39200, VRAM_KIB(192));"
  print "VRAM_STATIC_ASSERT(VRAM_NET_FLASH_BYTES(net) == 39200, flash);"
  print "VRAM_STATIC_ASSERT(VRAM_NET_ARENA_BYTES(net) == VRAM_KIB(192), arena);"
  print "extern int end;"
}
