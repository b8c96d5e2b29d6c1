// 
VRAM_NET_FUSED

  (n)
