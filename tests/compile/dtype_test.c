/* >>dtype: the run-time table against the compile-time figures, names, ids, rounding, overflow.
 * Figures of the formats themselves are compared by check_dtypes.py. */
#define VRAM_IMPLEMENTATION
#include "vram.h"
#include <stdio.h>
#include <string.h>

static int failures;
#define CHECK(x)                                                                                   \
  do {                                                                                             \
    if (!(x)) {                                                                                    \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #x);                                               \
      failures++;                                                                                  \
    }                                                                                              \
  } while (0)

/* rows of the table against macros, with the token itself */
static void table(void) {
  uint64_t b;
#define X(token, name_, kind_, torch, st, onnx, tflite, ggml, values)                              \
  {                                                                                                \
    const vram_dtype_info *r = vram_dtype_get_info(VRAM_##token);                                  \
    CHECK(r && r->dtype == VRAM_##token && !strcmp(r->name, name_));                               \
    CHECK(r && r->kind == VRAM_KIND_##kind_);                                                      \
    CHECK(r && r->block_elements == VRAM_BLOCK_ELEMS(token));                                      \
    CHECK(r && r->block_bytes == VRAM_BLOCK_BYTES(token));                                         \
    CHECK(r && r->row_multiple == VRAM_ROW_MULTIPLE(token));                                       \
    CHECK(vram_dtype_bytes(VRAM_##token, 1536, &b) == VRAM_OK && b == VRAM_BYTES(token, 1536));    \
    CHECK(vram_dtype_rows_bytes(VRAM_##token, 3, 512, &b) == VRAM_OK &&                            \
          b == VRAM_ROWS_BYTES(token, 3, 512));                                                    \
    {                                                                                              \
      unsigned i;                                                                                  \
      for (i = 0; i < 20; i++)                                                                     \
        CHECK(vram_dtype_bytes(VRAM_##token, i *VRAM_ROW_MULTIPLE(token), &b) == VRAM_OK &&        \
              b == VRAM_BYTES(token, i * VRAM_ROW_MULTIPLE(token)));                               \
      CHECK(vram_dtype_rows_bytes(VRAM_##token, 7, 3 * VRAM_ROW_MULTIPLE(token), &b) == VRAM_OK && \
            b == VRAM_ROWS_BYTES(token, 7, 3 * VRAM_ROW_MULTIPLE(token)));                         \
    }                                                                                              \
    if (VRAM_ROW_MULTIPLE(token) > 1) {                                                            \
      CHECK(vram_dtype_bytes(VRAM_##token, VRAM_BLOCK_ELEMS(token) + 1, &b) == VRAM_ERR_BLOCK);    \
      CHECK(b == VRAM_OVERFLOW);                                                                   \
      CHECK(vram_dtype_rows_bytes(VRAM_##token, VRAM_BLOCK_ELEMS(token), 1, &b) ==                 \
            VRAM_ERR_BLOCK);                                                                       \
    }                                                                                              \
    CHECK(vram_dtype_from_name(name_) == VRAM_##token);                                            \
    if (r && r->torch_name) {                                                                      \
      char text[64];                                                                               \
      sprintf(text, "torch.%s", r->torch_name);                                                    \
      CHECK(vram_dtype_from_name(text) == VRAM_##token);                                           \
    }                                                                                              \
    if (r && r->safetensors_name)                                                                  \
      CHECK(vram_dtype_from_name(r->safetensors_name) == VRAM_##token);                            \
    if ((onnx) >= 0)                                                                               \
      CHECK(vram_dtype_from_onnx_id(onnx) == VRAM_##token);                                        \
    if ((tflite) >= 0)                                                                             \
      CHECK(vram_dtype_from_tflite_id(tflite) == VRAM_##token);                                    \
    if ((ggml) >= 0)                                                                               \
      CHECK(vram_dtype_from_ggml_id(ggml) == VRAM_##token);                                        \
  }
  VRAM_DTYPES(X)
#undef X
}

static void names(void) {
  static const struct {
    const char *name;
    vram_dtype d;
  } list[] = {
      {"f32", VRAM_F32},
      {"F32", VRAM_F32},
      {"float", VRAM_F32},
      {"FLOAT", VRAM_F32},
      {"TensorProto.FLOAT", VRAM_F32},
      {"torch.float", VRAM_F32},
      {"float32", VRAM_F32},
      {"GGML_TYPE_F32", VRAM_F32},
      {"double", VRAM_F64},
      {"half", VRAM_F16},
      {"torch.bfloat16", VRAM_BF16},
      {"BFLOAT16", VRAM_BF16},
      {"F8_E4M3", VRAM_F8E4M3FN},
      {"f8e4m3", VRAM_F8E4M3FN},
      {"FLOAT8E4M3FN", VRAM_F8E4M3FN},
      {"F8_E8M0", VRAM_F8E8M0FNU},
      {"FLOAT4E2M1", VRAM_F4E2M1},
      {"torch.float4_e2m1fn_x2", VRAM_F4E2M1},
      {"INT4", VRAM_I4},
      {"torch.int4", VRAM_I8},
      {"torch.uint4", VRAM_U8},
      {"torch.uint2", VRAM_U8},
      {"uint2", VRAM_U2},
      {"torch.int64", VRAM_I64},
      {"torch.long", VRAM_I64},
      {"BOOL", VRAM_BOOL},
      {"C64", VRAM_C64},
      {"complex64", VRAM_C64},
      {"GGML_TYPE_Q4_K", VRAM_Q4_K},
      {"Q4_K", VRAM_Q4_K},
      {"q4_k", VRAM_Q4_K},
      {"torch.quint4x2", VRAM_QUINT4X2},
      {"", VRAM_DTYPE_NONE},
      {"f", VRAM_DTYPE_NONE},
      {"f3", VRAM_DTYPE_NONE},
      {"f322", VRAM_DTYPE_NONE},
      {"torch.", VRAM_DTYPE_NONE},
      {"q4_k_m", VRAM_DTYPE_NONE},
      {"none", VRAM_DTYPE_NONE},
      {"string", VRAM_DTYPE_NONE},
  };
  size_t i;
  for (i = 0; i < sizeof list / sizeof list[0]; i++)
    if (vram_dtype_from_name(list[i].name) != list[i].d) {
      printf("name %s: %s\n", list[i].name, vram_dtype_name(vram_dtype_from_name(list[i].name)));
      failures++;
    }
#define X(name, token) CHECK(vram_dtype_from_name(name) == VRAM_##token);
  VRAM_DTYPE_ALIASES(X)
#undef X
  CHECK(vram_dtype_from_name(NULL) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_name_n(NULL, 3) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_name_n("f32]", 3) == VRAM_F32);
  CHECK(vram_dtype_from_name_n("f32", 2) == VRAM_DTYPE_NONE);
  CHECK(!strcmp(vram_dtype_name(VRAM_BOOL), "bool"));
  CHECK(!strcmp(vram_dtype_name(VRAM_DTYPE_NONE), "none"));
  CHECK(!strcmp(vram_dtype_name(VRAM_DTYPE_COUNT), "?"));
  CHECK(!vram_dtype_get_info(VRAM_DTYPE_NONE) && !vram_dtype_get_info(VRAM_DTYPE_COUNT));
}

static void ids(void) {
  static const int removed[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 1000, -1};
  size_t i;
  for (i = 0; i < sizeof removed / sizeof removed[0]; i++)
    CHECK(vram_dtype_from_ggml_id(removed[i]) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_onnx_id(0) == VRAM_DTYPE_NONE &&
        vram_dtype_from_onnx_id(8) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_onnx_id(-1) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_onnx_id((int64_t)1 << 40) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_tflite_id(5) == VRAM_DTYPE_NONE);
  CHECK(vram_dtype_from_tflite_id(-1) == VRAM_DTYPE_NONE);
}

/* against 128-bit arithmetic where the compiler has it, at the edge of 64 bits */
static void overflow(void) {
  unsigned d, i;
  uint64_t b;
  for (d = 1; d < VRAM_DTYPE_COUNT; d++) {
    const vram_dtype_info *r = vram_dtype_get_info((vram_dtype)d);
    uint64_t most = (UINT64_MAX - 1) / r->block_bytes; /* blocks that fit */
    uint64_t top = UINT64_MAX / r->block_elements;     /* blocks whose elements fit */
    if (most <= top) {
      CHECK(vram_dtype_bytes(r->dtype, most * r->block_elements, &b) == VRAM_OK);
      CHECK(b == most * r->block_bytes);
      if (most < top) {
        CHECK(vram_dtype_bytes(r->dtype, (most + 1) * r->block_elements, &b) == VRAM_ERR_OVERFLOW);
        CHECK(b == VRAM_OVERFLOW);
      }
    } else {
      CHECK(vram_dtype_bytes(r->dtype, top * r->block_elements, &b) == VRAM_OK);
      CHECK(b == top * r->block_bytes);
    }
    for (i = 0; i < 4; i++) {
      uint64_t big = UINT64_MAX >> (i * 12);
      uint64_t columns = (uint64_t)256 << (i * 4);
      if (columns % r->row_multiple == 0 && big > columns) {
        vram_result e = vram_dtype_rows_bytes(r->dtype, big, columns, &b);
        CHECK(e == VRAM_OK || (e == VRAM_ERR_OVERFLOW && b == VRAM_OVERFLOW));
#ifdef __SIZEOF_INT128__
        {
          __extension__ typedef unsigned __int128 wide;
          wide n = (wide)big * columns, per = (wide)r->block_bytes;
          wide want = r->row_padded
                          ? big * ((columns * per + r->block_elements - 1) / r->block_elements)
                          : (n * per + r->block_elements - 1) / r->block_elements;
          CHECK(e == VRAM_OK ? want == b : want >= UINT64_MAX || n > UINT64_MAX);
        }
#endif
      }
    }
    CHECK(vram_dtype_rows_bytes(r->dtype, 0, r->row_multiple, &b) == VRAM_OK && b == 0);
    CHECK(vram_dtype_rows_bytes(r->dtype, UINT64_MAX, 0, &b) == VRAM_OK && b == 0);
    CHECK(vram_dtype_bytes(r->dtype, 0, &b) == VRAM_OK && b == 0);
  }
  CHECK(vram_dtype_bytes(VRAM_DTYPE_NONE, 1, &b) == VRAM_ERR_DTYPE && b == VRAM_OVERFLOW);
  CHECK(vram_dtype_rows_bytes(VRAM_DTYPE_COUNT, 1, 1, &b) == VRAM_ERR_DTYPE && b == VRAM_OVERFLOW);
  CHECK(vram_dtype_bytes(VRAM_I4, UINT64_MAX, &b) == VRAM_OK && b == (uint64_t)1 << 63);
  CHECK(vram_dtype_bytes(VRAM_U8, UINT64_MAX, &b) == VRAM_ERR_OVERFLOW);
}

/* The one place where sizes wrap on purpose: impossible geometry must fail VRAM_DIM_OK. */
#ifdef __clang__
#define WRAPS __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define WRAPS
#endif

/* VRAM_POOL_OUT_CEIL is one quotient; PyTorch's rule has two steps (ATen/native/Pool.h) */
WRAPS static void pools(void) {
  unsigned in, k, s, p, d;
  for (in = 1; in < 24; in++)
    for (k = 1; k < 6; k++)
      for (s = 1; s < 7; s++)
        for (d = 1; d < 4; d++)
          for (p = 0; p <= k / 2; p++) {
            unsigned span = d * (k - 1) + 1, out;
            int fits = span <= in + 2 * p;
            CHECK(VRAM_DIM_OK(VRAM_POOL_OUT(in, k, s, p, d)) == fits);
            CHECK(VRAM_CONV_OK(in, k, p, d) == fits);
            if (fits)
              CHECK(VRAM_POOL_OUT(in, k, s, p, d) == (in + 2 * p - span) / s + 1);
            if (span >= in + 2 * p + s) {
              CHECK(!VRAM_DIM_OK(VRAM_POOL_OUT_CEIL(in, k, s, p, d)));
              continue;
            }
            out = (in + 2 * p + s - 1 + s - span) / s;
            if ((out - 1) * s >= in + p)
              out--;
            if (VRAM_POOL_OUT_CEIL(in, k, s, p, d) != out) {
              printf("pool in %u k %u s %u p %u d %u\n", in, k, s, p, d);
              failures++;
            }
          }
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--csv")) {
    unsigned d;
    printf("name,block_elements,block_bytes,row_multiple,row_padded,torch_values,kind,torch,"
           "safetensors,onnx,tflite,ggml\n");
    for (d = 1; d < VRAM_DTYPE_COUNT; d++) {
      const vram_dtype_info *r = vram_dtype_get_info((vram_dtype)d);
      printf("%s,%u,%u,%u,%u,%u,%u,%s,%s,%d,%d,%d\n", r->name, (unsigned)r->block_elements,
             (unsigned)r->block_bytes, (unsigned)r->row_multiple, (unsigned)r->row_padded,
             (unsigned)r->torch_values, (unsigned)r->kind, r->torch_name ? r->torch_name : "",
             r->safetensors_name ? r->safetensors_name : "", r->onnx_id, r->tflite_id, r->ggml_id);
    }
    return 0;
  }
  table();
  names();
  ids();
  overflow();
  pools();
  printf("dtype: %d dtypes, %d failures\n", (int)VRAM_DTYPE_COUNT - 1, failures);
  return failures != 0;
}
