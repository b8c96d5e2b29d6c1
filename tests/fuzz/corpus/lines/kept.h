#define C 4 * (1 + 1)
VRAM_NET_BEGIN_WITH(n, I8, 1, 8, 8, C, 16, DSP);
VRAM_NET_CONV2D(n, a, input, 16, 3, 3, 1, 1, PAD(1, 1), 1);
VRAM_NET_BATCH_NORM_FOLDED(n, b, a);
VRAM_NET_OUTPUT(n, o, b);
VRAM_NET_KEEP(n, k, o);
VRAM_NET_DEPTHWISE_CONV2D(n, d, k, 1, 3, 3, 2, 2, SAME, 0);
VRAM_NET_KEEP(n, m, d);
VRAM_NET_FROM(n, f, m, k);
VRAM_NET_AVG_POOL2D(n, p, f, 2, 2, 2, 2, PAD_CEIL(0, 1));
VRAM_NET_SLICE(n, s, p, 4, 4, 8);
VRAM_NET_CONCAT(n, c, s, m);
VRAM_NET_RESHAPE(n, r, c, 16, 1, 24);
VRAM_NET_LSTM(n, l, r, 3, 2, 1);
VRAM_NET_END(n, l);
