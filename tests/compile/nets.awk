# Goldens of networks (tests/golden/embedded) as a C file of static assertions on their lines.
BEGIN {
  print "#include \"vram.h\""
  n = split("ad ic kws vww", net, " ")
  for (i = 1; i <= n; i++)
    printf "#include \"tests/embedded/%s.h\"\n", net[i]
  print "#include \"tests/compile/every_line.h\""
  n = split("height width channels out_bytes params macs weight_bytes flash_bytes " \
            "scratch_bytes state_bytes live_bytes peak_live_bytes pingpong_bytes", what, " ")
}
$1 == "layer" || $1 == "line" {
  for (i = 4; i <= NF; i++)
    printf "VRAM_STATIC_ASSERT(VRAM_NET_GET(%s, %s, %s) == VRAM_U(%s), %s_%s_%s);\n", $2, $3, what[i - 3], $i, $2, $3, what[i - 3]
}
$1 == "net" {
  printf "VRAM_STATIC_ASSERT(VRAM_NET_PARAMS(%s) == VRAM_U(%s), %s_params);\n", $2, $4, $2
  printf "VRAM_STATIC_ASSERT(VRAM_NET_MACS(%s) == VRAM_U(%s), %s_macs);\n", $2, $5, $2
  printf "VRAM_STATIC_ASSERT(VRAM_NET_WEIGHT_BYTES(%s) == VRAM_U(%s), %s_weight_bytes);\n", $2, $6, $2
  printf "VRAM_STATIC_ASSERT(VRAM_NET_FLASH_BYTES(%s) == VRAM_U(%s), %s_flash_bytes);\n", $2, $7, $2
  printf "VRAM_STATIC_ASSERT(VRAM_NET_LIVE_BYTES(%s) == VRAM_U(%s), %s_live_bytes);\n", $2, $8, $2
  printf "VRAM_STATIC_ASSERT(VRAM_NET_ARENA_BYTES(%s) == VRAM_U(%s), %s_arena_bytes);\n", $2, $8, $2
}
END { print "extern int end;" }
