#pragma once
#include "api/types.h"
#include "ct/bytes.h"
/* ============================================================================================
 * >>dtype    stored types at run time
 *
 * Every type that PyTorch, safetensors, ONNX, TFLite and ggml store tensors in (ONNX and TFLite
 * strings and TFLite's resource and variant excepted). VRAM_DTYPES is the table: the enum, the
 * names, the ids of the other formats and the tests come from it; elements and bytes of a block
 * come from the compile-time region, where they stand once.
 *
 *   X(token, name, kind, PyTorch name, safetensors name, ONNX id, TFLite id, ggml id, values)
 *     name     as in the model text and in every output
 *     NULL/-1  the format does not have the type
 *     values   values in one element as PyTorch counts elements: 2 for float4_e2m1fn_x2, whose
 *              shape counts bytes. All functions here count values.
 *
 * ONNX ids: TensorProto.DataType (IR version 14). TFLite ids: TensorType of the schema. ggml ids:
 * enum ggml_type; removed ids (4, 5, 31-33, 36-38) have no row; IQ2_NL and IQ3_NL have a block but
 * no id. ggml's file types (Q4_K_M, ...) are mixtures, not dtypes.
 * PyTorch's int1..int7, uint1..uint7 and bits types take a whole byte for each element: with the
 * prefix "torch." their names mean i8 and u8, without it the packed i4, u4, i2, ...
 * ============================================================================================ */

/* clang-format off */
#define VRAM_DTYPES(X)                                                                             \
  X(F64, "f64", FLOAT, "float64", "F64", 11, 10, 28, 1)                                            \
  X(F32, "f32", FLOAT, "float32", "F32", 1, 0, 0, 1)                                               \
  X(TF32, "tf32", FLOAT, NULL, NULL, -1, -1, -1, 1)                                                \
  X(F16, "f16", FLOAT, "float16", "F16", 10, 1, 1, 1)                                              \
  X(BF16, "bf16", FLOAT, "bfloat16", "BF16", 16, 18, 30, 1)                                        \
  X(F8E4M3FN, "f8e4m3fn", FLOAT, "float8_e4m3fn", "F8_E4M3", 17, 21, -1, 1)                        \
  X(F8E5M2, "f8e5m2", FLOAT, "float8_e5m2", "F8_E5M2", 19, 22, -1, 1)                              \
  X(F8E4M3FNUZ, "f8e4m3fnuz", FLOAT, "float8_e4m3fnuz", "F8_E4M3FNUZ", 18, -1, -1, 1)              \
  X(F8E5M2FNUZ, "f8e5m2fnuz", FLOAT, "float8_e5m2fnuz", "F8_E5M2FNUZ", 20, -1, -1, 1)              \
  X(F8E8M0FNU, "f8e8m0fnu", FLOAT, "float8_e8m0fnu", "F8_E8M0", 24, -1, -1, 1)                     \
  X(F6E2M3, "f6e2m3", FLOAT, NULL, "F6_E2M3", 27, -1, -1, 1)                                       \
  X(F6E3M2, "f6e3m2", FLOAT, NULL, "F6_E3M2", 28, -1, -1, 1)                                       \
  X(F4E2M1, "f4e2m1", FLOAT, "float4_e2m1fn_x2", "F4", 23, -1, -1, 2)                              \
  X(I64, "i64", INT, "int64", "I64", 7, 4, 27, 1)                                                  \
  X(I32, "i32", INT, "int32", "I32", 6, 2, 26, 1)                                                  \
  X(I16, "i16", INT, "int16", "I16", 5, 7, 25, 1)                                                  \
  X(I8, "i8", INT, "int8", "I8", 3, 9, 24, 1)                                                      \
  X(I4, "i4", INT, NULL, NULL, 22, 17, -1, 1)                                                      \
  X(I2, "i2", INT, NULL, NULL, 26, 19, -1, 1)                                                      \
  X(U64, "u64", INT, "uint64", "U64", 13, 12, -1, 1)                                               \
  X(U32, "u32", INT, "uint32", "U32", 12, 15, -1, 1)                                               \
  X(U16, "u16", INT, "uint16", "U16", 4, 16, -1, 1)                                                \
  X(U8, "u8", INT, "uint8", "U8", 2, 3, -1, 1)                                                     \
  X(U4, "u4", INT, NULL, NULL, 21, 20, -1, 1)                                                      \
  X(U2, "u2", INT, NULL, NULL, 25, -1, -1, 1)                                                      \
  X(U1, "u1", INT, NULL, NULL, -1, -1, -1, 1)                                                      \
  X(BOOL, "bool", BOOL, "bool", "BOOL", 9, 6, -1, 1)                                               \
  X(C32, "c32", COMPLEX, "complex32", NULL, -1, -1, -1, 1)                                         \
  X(CB32, "cb32", COMPLEX, "bcomplex32", NULL, -1, -1, -1, 1)                                      \
  X(C64, "c64", COMPLEX, "complex64", "C64", 14, 8, -1, 1)                                         \
  X(C128, "c128", COMPLEX, "complex128", NULL, 15, 11, -1, 1)                                      \
  X(QINT8, "qint8", QUANT, "qint8", NULL, -1, -1, -1, 1)                                           \
  X(QUINT8, "quint8", QUANT, "quint8", NULL, -1, -1, -1, 1)                                        \
  X(QINT32, "qint32", QUANT, "qint32", NULL, -1, -1, -1, 1)                                        \
  X(QUINT4X2, "quint4x2", QUANT, "quint4x2", NULL, -1, -1, -1, 1)                                  \
  X(QUINT2X4, "quint2x4", QUANT, "quint2x4", NULL, -1, -1, -1, 1)                                  \
  X(Q4_0, "q4_0", QUANT, NULL, NULL, -1, -1, 2, 1)                                                 \
  X(Q4_1, "q4_1", QUANT, NULL, NULL, -1, -1, 3, 1)                                                 \
  X(Q5_0, "q5_0", QUANT, NULL, NULL, -1, -1, 6, 1)                                                 \
  X(Q5_1, "q5_1", QUANT, NULL, NULL, -1, -1, 7, 1)                                                 \
  X(Q8_0, "q8_0", QUANT, NULL, NULL, -1, -1, 8, 1)                                                 \
  X(Q8_1, "q8_1", QUANT, NULL, NULL, -1, -1, 9, 1)                                                 \
  X(Q2_K, "q2_k", QUANT, NULL, NULL, -1, -1, 10, 1)                                                \
  X(Q3_K, "q3_k", QUANT, NULL, NULL, -1, -1, 11, 1)                                                \
  X(Q4_K, "q4_k", QUANT, NULL, NULL, -1, -1, 12, 1)                                                \
  X(Q5_K, "q5_k", QUANT, NULL, NULL, -1, -1, 13, 1)                                                \
  X(Q6_K, "q6_k", QUANT, NULL, NULL, -1, -1, 14, 1)                                                \
  X(Q8_K, "q8_k", QUANT, NULL, NULL, -1, -1, 15, 1)                                                \
  X(IQ2_XXS, "iq2_xxs", QUANT, NULL, NULL, -1, -1, 16, 1)                                          \
  X(IQ2_XS, "iq2_xs", QUANT, NULL, NULL, -1, -1, 17, 1)                                            \
  X(IQ3_XXS, "iq3_xxs", QUANT, NULL, NULL, -1, -1, 18, 1)                                          \
  X(IQ1_S, "iq1_s", QUANT, NULL, NULL, -1, -1, 19, 1)                                              \
  X(IQ4_NL, "iq4_nl", QUANT, NULL, NULL, -1, -1, 20, 1)                                            \
  X(IQ3_S, "iq3_s", QUANT, NULL, NULL, -1, -1, 21, 1)                                              \
  X(IQ2_S, "iq2_s", QUANT, NULL, NULL, -1, -1, 22, 1)                                              \
  X(IQ4_XS, "iq4_xs", QUANT, NULL, NULL, -1, -1, 23, 1)                                            \
  X(IQ1_M, "iq1_m", QUANT, NULL, NULL, -1, -1, 29, 1)                                              \
  X(IQ2_NL, "iq2_nl", QUANT, NULL, NULL, -1, -1, -1, 1)                                            \
  X(IQ3_NL, "iq3_nl", QUANT, NULL, NULL, -1, -1, -1, 1)                                            \
  X(TQ1_0, "tq1_0", QUANT, NULL, NULL, -1, -1, 34, 1)                                              \
  X(TQ2_0, "tq2_0", QUANT, NULL, NULL, -1, -1, 35, 1)                                              \
  X(MXFP4, "mxfp4", QUANT, NULL, NULL, -1, -1, 39, 1)                                              \
  X(NVFP4, "nvfp4", QUANT, NULL, NULL, -1, -1, 40, 1)                                              \
  X(Q1_0, "q1_0", QUANT, NULL, NULL, -1, -1, 41, 1)                                                \
  X(Q2_0, "q2_0", QUANT, NULL, NULL, -1, -1, 42, 1)

/* Further names. Compared without case; "torch.", "TensorProto.", "TensorType." and "GGML_TYPE_" in
   front of any name are skipped, but a name that is written here in full goes first. */
#define VRAM_DTYPE_ALIASES(X)                                                                      \
  X("double", F64)                                                                                 \
  X("fp64", F64)                                                                                   \
  X("float", F32)                                                                                  \
  X("fp32", F32)                                                                                   \
  X("tensorfloat32", TF32)                                                                         \
  X("half", F16)                                                                                   \
  X("fp16", F16)                                                                                   \
  X("f8e4m3", F8E4M3FN)                                                                            \
  X("float8_e4m3", F8E4M3FN)                                                                       \
  X("float8e4m3fn", F8E4M3FN)                                                                      \
  X("float8e5m2", F8E5M2)                                                                          \
  X("float8e4m3fnuz", F8E4M3FNUZ)                                                                  \
  X("float8e5m2fnuz", F8E5M2FNUZ)                                                                  \
  X("f8e8m0", F8E8M0FNU)                                                                           \
  X("float8_e8m0", F8E8M0FNU)                                                                      \
  X("float8e8m0", F8E8M0FNU)                                                                       \
  X("float6_e2m3fn", F6E2M3)                                                                       \
  X("float6e2m3", F6E2M3)                                                                          \
  X("float6_e3m2fn", F6E3M2)                                                                       \
  X("float6e3m2", F6E3M2)                                                                          \
  X("float4_e2m1fn", F4E2M1)                                                                       \
  X("float4e2m1", F4E2M1)                                                                          \
  X("long", I64)                                                                                   \
  X("int", I32)                                                                                    \
  X("short", I16)                                                                                  \
  X("int4", I4)                                                                                    \
  X("int2", I2)                                                                                    \
  X("uint4", U4)                                                                                   \
  X("uint2", U2)                                                                                   \
  X("uint1", U1)                                                                                   \
  X("chalf", C32)                                                                                  \
  X("cfloat", C64)                                                                                 \
  X("cdouble", C128)                                                                               \
  X("torch.int1", I8)                                                                              \
  X("torch.int2", I8)                                                                              \
  X("torch.int3", I8)                                                                              \
  X("torch.int4", I8)                                                                              \
  X("torch.int5", I8)                                                                              \
  X("torch.int6", I8)                                                                              \
  X("torch.int7", I8)                                                                              \
  X("torch.uint1", U8)                                                                             \
  X("torch.uint2", U8)                                                                             \
  X("torch.uint3", U8)                                                                             \
  X("torch.uint4", U8)                                                                             \
  X("torch.uint5", U8)                                                                             \
  X("torch.uint6", U8)                                                                             \
  X("torch.uint7", U8)                                                                             \
  X("torch.bit", U8)                                                                               \
  X("torch.bits8", U8)                                                                             \
  X("torch.bits1x8", U8)                                                                           \
  X("torch.bits2x4", U8)                                                                           \
  X("torch.bits4x2", U8)                                                                           \
  X("torch.bits16", U16)
/* clang-format on */

/* VRAM_F32, VRAM_Q4_K, ...; 0 is no dtype: in a struct that configures, the default. */
typedef enum vram_dtype {
  VRAM_DTYPE_NONE = 0,
#define VRAM__X(token, name, kind, torch, safetensors, onnx, tflite, ggml, values) VRAM_##token,
  VRAM_DTYPES(VRAM__X)
#undef VRAM__X
      VRAM_DTYPE_COUNT,
  VRAM_DTYPE_MODEL /* in a graph whose model has a dtype: that one (vram_graph_dtype); no dtype of
                      its own, so nothing else takes it */
} vram_dtype;

typedef enum vram_dtype_kind {
  VRAM_KIND_FLOAT,
  VRAM_KIND_INT, /* signed and unsigned */
  VRAM_KIND_BOOL,
  VRAM_KIND_COMPLEX,
  VRAM_KIND_QUANT /* stored integers or blocks that stand for floats */
} vram_dtype_kind;

/* One row of the table. Strings are static or NULL, ids -1 where the format lacks the type. */
typedef struct vram_dtype_info {
  vram_dtype dtype;
  const char *name;
  const char *torch_name;
  const char *safetensors_name;
  uint16_t block_elements; /* values in one block ... */
  uint16_t block_bytes;    /* ... and its bytes */
  uint16_t row_multiple;   /* a row must be a multiple of this: a ggml block, else 1 */
  uint8_t row_padded;      /* 1: every row ends on a byte (quint4x2, quint2x4) */
  uint8_t torch_values;    /* values in one PyTorch element */
  vram_dtype_kind kind;
  int16_t onnx_id, tflite_id, ggml_id;
} vram_dtype_info;

/* The row of dtype; NULL for VRAM_DTYPE_NONE and what is no dtype. Never freed, any thread. */
VRAM_API const vram_dtype_info *vram_dtype_get_info(vram_dtype dtype);

/* The name ("f32", "q4_k"); "none" for VRAM_DTYPE_NONE, "?" for what is no dtype. Never NULL. */
VRAM_API const char *vram_dtype_name(vram_dtype dtype);

/* The dtype of a name of any ecosystem: "f32", "torch.float32", "F8_E4M3", "FLOAT", "Q4_K"; case
   does not matter. VRAM_DTYPE_NONE if there is none, or name is NULL. _n: the first length bytes of
   text, which need not end in a zero byte. */
VRAM_API vram_dtype vram_dtype_from_name(const char *name);
VRAM_API vram_dtype vram_dtype_from_name_n(const char *text, size_t length);

/* The dtype of an id in a file; VRAM_DTYPE_NONE for unknown, removed and string ids. */
VRAM_API vram_dtype vram_dtype_from_onnx_id(int64_t id);
VRAM_API vram_dtype vram_dtype_from_tflite_id(int64_t id);
VRAM_API vram_dtype vram_dtype_from_ggml_id(int64_t id);

/* Bytes of elements values in one row or one packed tensor: exact; sub-byte types are rounded up to
 * a whole byte at the end of the tensor. 0 elements are 0 bytes. *bytes is VRAM_OVERFLOW after
 * every error, so that a sum over tensors does not look small. bytes may not be NULL.
 *   VRAM_ERR_DTYPE      dtype is no dtype
 *   VRAM_ERR_BLOCK      a ggml block does not divide elements
 *   VRAM_ERR_OVERFLOW   more than 2^64-2 bytes, or (rows) more than 2^64-1 values */
VRAM_API vram_result vram_dtype_bytes(vram_dtype dtype, uint64_t elements, uint64_t *bytes);

/* The same for rows x columns values. A ggml block must divide the columns (no block spans two
 * rows); quint4x2 and quint2x4 pad every row to a byte; every other sub-byte type packs across rows
 * and is padded once. A scalar is 1 x 1. */
VRAM_API vram_result vram_dtype_rows_bytes(vram_dtype dtype, uint64_t rows, uint64_t columns,
                                           uint64_t *bytes);
