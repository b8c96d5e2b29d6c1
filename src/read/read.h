/* >>read    files of models */
#pragma once
#include "core/core.h"

/* What reads a source from front to back: what the next bytes are, and an error with an offset
   where there are too few of them. After the first error everything fails. */
typedef struct vram__reader {
  const vram_file_source *source;
  const uint8_t *at, *end; /* of the window: what comes next, and its end */
  uint8_t *window;         /* NULL: the source is in memory */
  uint64_t window_bytes;
  uint64_t end_offset;   /* in the file, of `end` */
  vram_error *error;     /* may be NULL */
  vram_result result;    /* of the first error */
  vram_file_source head; /* what is read of a source that ends before its file does */
} vram__reader;

/* Names that were seen: each with what it stands for. Open addressing; grown while reading. */
typedef struct vram__name {
  const char *name;
  const void *what; /* NULL: a free place */
  uint32_t len, hash;
} vram__name;

typedef struct vram__names {
  vram__name *place;
  uint64_t count, room; /* room: a power of two, 0 before the first */
} vram__names;

/* source.c */
VRAM__FN vram_result vram__reader_begin(vram__reader *r, vram_file *f, const vram_file_source *s,
                                        vram_error *e);
VRAM__FN vram_result vram__reader_fill(vram__reader *r, uint64_t bytes, const char *what);
VRAM__FN void vram__reader_seek(vram__reader *r, uint64_t offset);
VRAM__FN vram_result vram__reader_skip(vram__reader *r, uint64_t bytes, const char *what);
VRAM__FN vram_result vram__reader_copy(vram__reader *r, void *to, uint64_t bytes, const char *what);
VRAM__COLD VRAM__FN vram_result vram__reader_fail(vram__reader *r, vram_result code,
                                                  uint64_t offset, const char *text);

/* Offset in the file of what comes next. */
static inline uint64_t vram__reader_offset(const vram__reader *r) {
  return r->end_offset - (uint64_t)(r->end - r->at);
}

/* Bytes of the file from here on. */
static inline uint64_t vram__reader_left(const vram__reader *r) {
  return r->source->bytes - vram__reader_offset(r);
}

/* The next bytes are in the window; at most VRAM_READ_WINDOW. */
static inline int vram__reader_has(vram__reader *r, uint64_t bytes, const char *what) {
  return (uint64_t)(r->end - r->at) >= bytes || !vram__reader_fill(r, bytes, what);
}

static inline uint64_t vram__bytes_u64(const uint8_t *b) {
  return vram__text_eight((const char *)b);
}

static inline uint32_t vram__bytes_u32(const uint8_t *b) {
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint16_t vram__bytes_u16(const uint8_t *b) { return (uint16_t)(b[0] | b[1] << 8); }

/* Little-endian numbers; 0 after an error. */
static inline uint64_t vram__reader_u64(vram__reader *r, const char *what) {
  if (!vram__reader_has(r, 8, what))
    return 0;
  r->at += 8;
  return vram__bytes_u64(r->at - 8);
}

static inline uint32_t vram__reader_u32(vram__reader *r, const char *what) {
  if (!vram__reader_has(r, 4, what))
    return 0;
  r->at += 4;
  return vram__bytes_u32(r->at - 4);
}

/* json.c: one token after the other. A text is unescaped into the file's memory behind `used`; who
   wants to keep it calls vram__json_keep before the next token. */
enum { VRAM__JSON_DEPTH = 128 };

typedef enum vram__json_kind {
  VRAM__JSON_END, /* of the document, or an error */
  VRAM__JSON_OBJECT,
  VRAM__JSON_OBJECT_END,
  VRAM__JSON_ARRAY,
  VRAM__JSON_ARRAY_END,
  VRAM__JSON_KEY,
  VRAM__JSON_TEXT,
  VRAM__JSON_NUMBER,
  VRAM__JSON_TRUE,
  VRAM__JSON_FALSE,
  VRAM__JSON_NULL
} vram__json_kind;

typedef struct vram__json {
  vram__reader *r;
  vram_file *f;
  vram__json_kind kind;
  uint64_t offset;  /* where the token begins */
  const char *text; /* of KEY and TEXT */
  uint64_t len;
  double number;    /* of NUMBER */
  uint64_t integer; /* its magnitude, if is_integer */
  uint8_t is_integer, is_negative;
  uint8_t after;        /* a value has just ended: a comma or an end follows */
  uint8_t has_infinity; /* NaN, Infinity and -Infinity are numbers, as Python's json writes them */
  uint32_t depth;
  uint8_t is_array[VRAM__JSON_DEPTH];
} vram__json;

VRAM__FN void vram__json_begin(vram__json *j, vram__reader *r, vram_file *f);
VRAM__FN vram__json_kind vram__json_next(vram__json *j);
VRAM__FN vram_result vram__json_keep(vram__json *j);
VRAM__FN vram_result vram__json_skip(vram__json *j);
VRAM__FN vram_result vram__json_finish(vram__json *j);
VRAM__COLD VRAM__FN vram_result vram__json_fail(vram__json *j, vram_result code, const char *text);

/* file.c */
VRAM__FN void *vram__file_take(vram_file *f, vram__reader *r, uint64_t bytes);
VRAM__FN const char *vram__file_text(vram_file *f, vram__reader *r, uint64_t bytes,
                                     const char *what);
VRAM__FN vram_file_part *vram__file_part(vram_file *f, vram__reader *r, const char *name,
                                         uint32_t len);
VRAM__FN vram_file_tensor *vram__file_tensor(vram_file *f, vram__reader *r);
VRAM__FN vram_file_value *vram__file_value(vram_file *f, vram__reader *r);
VRAM__FN const void *vram__names_find(const vram__names *n, const char *name, uint32_t len);
VRAM__FN int vram__names_add(vram_file *f, vram__reader *r, vram__names *n, const char *name,
                             uint32_t len, const void *what);

/* gguf.c */
VRAM__FN vram_result vram__gguf_read(vram_file *f, vram__reader *r);
VRAM__FN vram_result vram__gguf_finish(const vram_file *f, vram_error *e);

/* safetensors.c */
VRAM__FN vram_result vram__safetensors_read(vram_file *f, vram__reader *r);
VRAM__FN vram_result vram__index_read(vram_file *f, vram__reader *r);
VRAM__FN vram_result vram__index_finish(const vram_file *f, vram_error *e);

/* config.c */
typedef struct vram__values_apart {
  const char *key; /* outermost */
  vram_result (*handle)(vram_file *f, vram__json *j);
} vram__values_apart;

VRAM__FN vram_result vram__values_read(vram_file *f, vram__json *j, vram__names *names,
                                       const vram__values_apart *apart);
VRAM__FN vram_result vram__config_read(vram_file *f, vram__reader *r);

/* onnx.c */
VRAM__FN vram_result vram__onnx_read(vram_file *f, vram__reader *r);

/* proto.c: the fields of a message of protobuf, one after the other. */
enum { VRAM__PROTO_VARINT = 0, VRAM__PROTO_EIGHT = 1, VRAM__PROTO_BYTES = 2, VRAM__PROTO_FOUR = 5 };
#define VRAM__PROTO_MAX_NAME UINT64_C(1048576)
#define VRAM__PROTO_TAG(number, wire) ((uint32_t)(number) << 3 | (uint32_t)(wire))
#define VRAM__PROTO_V(number) VRAM__PROTO_TAG(number, VRAM__PROTO_VARINT)
#define VRAM__PROTO_B(number) VRAM__PROTO_TAG(number, VRAM__PROTO_BYTES)

typedef struct vram__proto {
  uint64_t end;    /* offset in the file, of the message */
  uint64_t value;  /* of a varint, or the bits of 4 or 8 bytes */
  uint64_t begin;  /* of BYTES: the offset of the first; the reader stands there */
  uint64_t bytes;  /* of BYTES */
  uint64_t behind; /* offset behind the field */
  uint32_t tag;    /* number and wire type: a field of another wire type is another field */
} vram__proto;

VRAM__FN void vram__proto_begin(vram__proto *p, uint64_t end);
VRAM__FN int vram__proto_next(vram__proto *p, vram__reader *r);
VRAM__FN uint64_t vram__proto_varint(vram__reader *r, uint64_t end);
VRAM__FN const char *vram__proto_text(const vram__proto *p, vram_file *f, vram__reader *r,
                                      uint32_t *len);

/* onnx_tensor.c */
enum { VRAM__ONNX_KEPT = 64, VRAM__ONNX_MAX_PARTS = 4096 };

/* Integers of a list, the first of which are kept. */
typedef struct vram__onnx_ints {
  uint64_t count;
  int64_t v[VRAM__ONNX_KEPT];
} vram__onnx_ints;

VRAM__FN void vram__onnx_ints_read(vram__onnx_ints *n, const vram__proto *p, vram__reader *r);
VRAM__FN const int64_t *vram__onnx_ints_keep(const vram__onnx_ints *n, vram_file *f,
                                             vram__reader *r);
VRAM__FN float vram__onnx_float(uint64_t bits);
VRAM__FN vram_result vram__onnx_tensor(vram_file *f, vram__reader *r, uint64_t end,
                                       vram_file_tensor *t);

/* flat.c: tables of a flatbuffer. */
enum { VRAM__FLAT_FIELDS = 14, VRAM__FLAT_SEEN = 16 };

/* A vtable: where the first fields of a table are. */
typedef struct vram__flat_fields {
  uint64_t offset;
  uint32_t bytes, table_bytes; /* bytes 0: none */
  uint16_t field[VRAM__FLAT_FIELDS];
} vram__flat_fields;

typedef struct vram__flat {
  vram_file *f;
  vram__reader *r;
  uint64_t left; /* bytes that may yet be copied or gone over */
  vram__flat_fields seen[VRAM__FLAT_SEEN];
} vram__flat;

typedef struct vram__flat_at { /* a table */
  uint64_t offset;
  vram__flat_fields fields;
} vram__flat_at;

typedef struct vram__flat_list { /* a vector: its first element */
  uint64_t offset, count;
} vram__flat_list;

VRAM__FN void vram__flat_begin(vram__flat *b, vram_file *f, vram__reader *r);
VRAM__FN int vram__flat_spend(vram__flat *b, uint64_t offset, uint64_t bytes);
VRAM__FN int vram__flat_table(vram__flat *b, uint64_t offset, vram__flat_at *t);
VRAM__FN uint64_t vram__flat_number(vram__flat *b, const vram__flat_at *t, uint32_t i,
                                    uint32_t bytes, uint64_t none);
VRAM__FN int vram__flat_vector(vram__flat *b, const vram__flat_at *t, uint32_t i, uint32_t bytes,
                               vram__flat_list *v);
VRAM__FN int vram__flat_inner(vram__flat *b, const vram__flat_at *t, uint32_t i, vram__flat_at *to);
VRAM__FN int vram__flat_element(vram__flat *b, const vram__flat_list *v, uint64_t i,
                                vram__flat_at *to);
VRAM__FN int32_t vram__flat_int(vram__flat *b, const vram__flat_list *v, uint64_t i);
VRAM__FN const char *vram__flat_text(vram__flat *b, const vram__flat_at *t, uint32_t i,
                                     uint32_t *len);

/* tflite_ops.c: NULL: a number that is no operator's. */
typedef struct vram__tflite_op {
  const char *name;
  const char *options; /* names of the fields of its options; NULL: none that are read */
} vram__tflite_op;

VRAM__FN const vram__tflite_op *vram__tflite_op_of(uint32_t code);

/* tflite.c */
VRAM__FN vram_result vram__tflite_read(vram_file *f, vram__reader *r);

/* hf_family.c: a row for each model_type. */
#define VRAM__HF_QKV_BIAS UINT64_C(0x1) /* q, k, v always have a bias */
#define VRAM__HF_O_BIAS UINT64_C(0x2)   /* so has what follows attention */
#define VRAM__HF_KEY_QKV                                                                           \
  UINT64_C(0x4) /* where attention_bias (use_bias, bias, use_qkv_bias) is true */
#define VRAM__HF_KEY_O UINT64_C(0x8)       /* so has what follows attention */
#define VRAM__HF_KEY_TRUE UINT64_C(0x10)   /* which is true where it is missing */
#define VRAM__HF_QK_NORM UINT64_C(0x20)    /* norms of a head of q and of k */
#define VRAM__HF_QK_FULL UINT64_C(0x40)    /* norms of all heads of q and of k */
#define VRAM__HF_QK_KEY UINT64_C(0x80)     /* of a head, where use_qk_norm (qk_layernorm) is true */
#define VRAM__HF_QK_HEADS UINT64_C(0x100)  /* of all heads, where it is true */
#define VRAM__HF_NORM_BIAS UINT64_C(0x200) /* LayerNorm; without: RMSNorm */
#define VRAM__HF_PLAIN UINT64_C(0x400)     /* two matrices; without: gate, up and down */
#define VRAM__HF_MLP_BIAS UINT64_C(0x800)  /* always */
#define VRAM__HF_MLP_KEY UINT64_C(0x1000)  /* where mlp_bias (use_bias, bias) is true */
#define VRAM__HF_FUSED_QKV UINT64_C(0x2000) /* one matrix */
#define VRAM__HF_FUSED_UP UINT64_C(0x4000)  /* gate and up are one matrix */
#define VRAM__HF_HEAD_BIAS UINT64_C(0x8000)
#define VRAM__HF_HEAD_KEY UINT64_C(0x10000)  /* where lm_head_bias is true */
#define VRAM__HF_POSITIONS UINT64_C(0x20000) /* learned */
#define VRAM__HF_EMBED_NORM UINT64_C(0x40000)
#define VRAM__HF_MOE UINT64_C(0x80000)
#define VRAM__HF_CORRECTION UINT64_C(0x100000) /* a buffer of a number for each expert */
#define VRAM__HF_MLA UINT64_C(0x200000)
#define VRAM__HF_SINKS                                                                             \
  UINT64_C(0x400000) /* gpt-oss: a number for each head, biases of router and experts */
#define VRAM__HF_MAMBA UINT64_C(0x800000)
#define VRAM__HF_MAMBA2 UINT64_C(0x1000000)
#define VRAM__HF_JAMBA UINT64_C(0x2000000)
#define VRAM__HF_FALCON_H1 UINT64_C(0x4000000)
#define VRAM__HF_LFM2 UINT64_C(0x8000000)
#define VRAM__HF_ENCODER UINT64_C(0x10000000)
#define VRAM__HF_VISION UINT64_C(0x20000000)    /* SigLIP and a projector, of a class for images */
#define VRAM__HF_STABLELM UINT64_C(0x40000000)  /* norms of heads, one of parallel layers */
#define VRAM__HF_BIAS_QKV UINT64_C(0x80000000)  /* the key is qkv_bias */
#define VRAM__HF_BIAS_ALL UINT64_C(0x100000000) /* it is bias or enable_bias, of all matrices */
#define VRAM__HF_O_KEY UINT64_C(0x200000000)    /* what follows attention: attention_out_bias */
#define VRAM__HF_SHARED_GATE                                                                       \
  UINT64_C(0x400000000)                             /* shared_expert_intermediate_size, and a gate \
                                                     */
#define VRAM__HF_SHARED_WIDTH UINT64_C(0x800000000) /* shared_intermediate_size, 0: none */
#define VRAM__HF_FALCON UINT64_C(0x1000000000)
#define VRAM__HF_OPT UINT64_C(0x2000000000)
#define VRAM__HF_ONE_KV UINT64_C(0x4000000000) /* one head of keys, where multi_query is true */
#define VRAM__HF_XIELU UINT64_C(0x8000000000)  /* an activation with two numbers */
#define VRAM__HF_ERNIE_MOE UINT64_C(0x10000000000)
#define VRAM__HF_DELTA UINT64_C(0x20000000000)       /* gated delta nets; attention with a gate */
#define VRAM__HF_DELTA_SPLIT UINT64_C(0x40000000000) /* of four matrices, not two */
#define VRAM__HF_LLAMA4 UINT64_C(0x80000000000)
#define VRAM__HF_DISTIL UINT64_C(0x100000000000)         /* neither types of tokens nor a pooler */
#define VRAM__HF_ELECTRA UINT64_C(0x200000000000)        /* embedding_size, and no pooler */
#define VRAM__HF_2048_POSITIONS UINT64_C(0x400000000000) /* where the key is missing */
/* only this part of a head is rotated where partial_rotary_factor is missing */
#define VRAM__HF_ROTARY_HALF UINT64_C(0x800000000000)
#define VRAM__HF_ROTARY_QUARTER UINT64_C(0x1000000000000)
/* hf_pair.c: families that are counted there */
#define VRAM__HF_PAIR UINT64_C(0x2000000000000) /* an encoder and a decoder */
#define VRAM__HF_TOWERS                                                                            \
  UINT64_C(0x4000000000000) /* encoders of images, or of texts beside them                         \
                             */
#define VRAM__HF_T5 UINT64_C(0x8000000000000)
#define VRAM__HF_GATED UINT64_C(0x10000000000000)     /* where feed_forward_proj is missing */
#define VRAM__HF_EACH_BIAS UINT64_C(0x20000000000000) /* each layer has biases of positions */
#define VRAM__HF_LAST_NORM UINT64_C(0x40000000000000) /* a norm behind the layers */
#define VRAM__HF_NO_OFFSET UINT64_C(0x80000000000000) /* Marian: no two positions more */
#define VRAM__HF_AUDIO UINT64_C(0x100000000000000)
#define VRAM__HF_SIGLIP UINT64_C(0x200000000000000)
#define VRAM__HF_TWO_TOWERS UINT64_C(0x400000000000000)
#define VRAM__HF_OF_TEXT UINT64_C(0x800000000000000) /* a tower of CLIP or SigLIP alone */
#define VRAM__HF_OF_IMAGES UINT64_C(0x1000000000000000)
/* Mamba-2 in the place of attention, with keys of Falcon-H1: Bamba; Granite where there is a shared
   width */
#define VRAM__HF_BAMBA UINT64_C(0x2000000000000000)
/* Which layers slide where layer_types is missing. */
enum {
  VRAM__HF_NO_WINDOW,
  VRAM__HF_ALL,     /* all, if sliding_window is a number */
  VRAM__HF_PERIOD2, /* all but each second one */
  VRAM__HF_PERIOD4,
  VRAM__HF_PERIOD6,
  VRAM__HF_ABOVE, /* from max_window_layers on, if use_sliding_window */
  VRAM__HF_USED,  /* all, if use_sliding_window */
  VRAM__HF_BELOW  /* each second one below max_window_layers, if use_sliding_window */
};

typedef struct vram__hf_family {
  const char *type;
  /* what is set where the key is missing; 0: intermediate 4 hidden, kv_heads heads, head_dim
     hidden/heads, window none */
  uint32_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, window;
  uint8_t norms; /* of a layer */
  uint8_t is_tied, sliding;
  uint64_t flags;
  uint16_t experts, expert_width, shared, dense; /* width 0: intermediate; first dense layers */
} vram__hf_family;

VRAM__FN const vram__hf_family *vram__hf_find(const char *type, uint64_t len);

/* What is being read, and what was counted up to now. */
typedef struct vram__hf {
  const vram_file *f;
  const char *prefix; /* "text_config." or "" */
  const vram__hf_family *family;
  vram_hf_config *c;
  vram_error *e;
  uint64_t params, tensors;
  vram_result result;
  uint8_t head; /* of an encoder: VRAM__HF_BARE, ... */
} vram__hf;

static inline int vram__hf_has(const vram__hf *h, uint64_t flag) {
  return (h->family->flags & flag) != 0;
}

/* hf_key.c. The value of a key below a prefix, which may be null; NULL: there is none. Numbers:
   `none` where the key is missing, `null` where it is null. */
VRAM__FN void vram__hf_fail(vram__hf *h, vram_result code, const char *text, const char *name);
VRAM__FN const vram_file_value *vram__hf_at(const vram_file *f, const char *prefix,
                                            const char *key);
VRAM__FN const vram_file_value *vram__hf_value(const vram__hf *h, const char *key);
VRAM__FN uint64_t vram__hf_number_or(vram__hf *h, const char *key, uint64_t none, uint64_t null);
VRAM__FN uint64_t vram__hf_number(vram__hf *h, const char *key, uint64_t none);
VRAM__FN int vram__hf_bool(vram__hf *h, const char *key, int none);
VRAM__FN const char *vram__hf_name(const vram__hf *h, const char *a, const char *b, const char *c);

/* hf.c. All that a config.json says; h stays good for what follows. */
enum { VRAM__HF_MAX_LAYERS = 4096 };
enum { VRAM__HF_BARE, VRAM__HF_MASKED, VRAM__HF_CLASSES }; /* heads of encoders */
/* what classes of hf_pair.c are for; the first is VRAM__HF_BARE */
enum { VRAM__HF_GENERATES = 1, VRAM__HF_ENCODES, VRAM__HF_CLASSIFIES, VRAM__HF_PROJECTS };
VRAM__FN void vram__hf_add(vram__hf *h, uint64_t rows, uint64_t columns);
VRAM__FN void vram__hf_linear(vram__hf *h, uint64_t in, uint64_t out, int has_bias);
VRAM__FN void vram__hf_norm(vram__hf *h, uint64_t n);
VRAM__FN void vram__hf_name_again(vram__hf *h); /* one more tensor, which has been counted */
VRAM__FN const vram_file_text *vram__hf_class_name(vram__hf *h); /* NULL: none is named */
VRAM__FN void vram__hf_no_class(vram__hf *h, const vram_file_text *name);
VRAM__FN void vram__hf_read(vram__hf *h, const vram_file *f, vram_hf_config *c, vram_error *e);
VRAM__FN int vram__hf_bias_key(vram__hf *h);
VRAM__FN int vram__hf_has_attention(vram__hf *h, uint64_t i); /* layer i; else it has a state */

/* Sizes of a mixer with a state. */
typedef struct vram__hf_ssm {
  uint64_t inner, state, groups, kernel, heads, conv, chunk, rank;
  int in_bias, out_bias, conv_bias, has_norm;
} vram__hf_ssm;
VRAM__FN void vram__hf_mamba_sizes(vram__hf *h, vram__hf_ssm *s);
VRAM__FN void vram__hf_mamba2_sizes(vram__hf *h, vram__hf_ssm *s);
VRAM__FN int vram__hf_o_bias(vram__hf *h);
VRAM__FN int vram__hf_mlp_bias(vram__hf *h);
VRAM__FN double vram__hf_rotary_share(const vram__hf *h);
VRAM__FN uint64_t vram__hf_positions(vram__hf *h);
VRAM__FN uint64_t vram__hf_embedding_width(vram__hf *h);
VRAM__FN uint64_t vram__hf_labels(vram__hf *h);
VRAM__FN int vram__hf_pools(const vram__hf *h);
VRAM__FN uint64_t vram__hf_shared_width(vram__hf *h); /* what all tokens go through */
VRAM__FN int vram__hf_rotates(vram__hf *h, uint64_t i);
VRAM__FN int vram__hf_slides(vram__hf *h, uint64_t i);
VRAM__FN int vram__hf_is_moe(vram__hf *h, uint64_t i);

/* hf_pair.c: encoders with decoders, and towers */
VRAM__FN void vram__hf_pair_class(vram__hf *h);
VRAM__FN void vram__hf_pair_read(vram__hf *h);

/* hf_cache.c */
VRAM__FN int vram__hf_cache_totals(vram_hf_config *c);

/* Lines of a part of a model, and the name of what a norm or an activation gives. */
typedef struct vram__hf_part {
  const char *name, *lines, *output;
} vram__hf_part;

/* Of which lines a family consists: hf_lines.c and its kin. */
typedef struct vram__hf_lines {
  const char *type, *flags;
  const char *act_key, *act;          /* and what it is where the key is missing */
  const char *norm;                   /* a part */
  const char *before, *layer, *after; /* what comes before the layers, one of them, behind them */
  int has_cache;                      /* a generation can be written */
  uint32_t experts_used;              /* where the key is missing */
} vram__hf_lines;

/* Parts and rows of a file of lines; parts of all are one set of names. */
typedef struct vram__hf_book {
  const vram__hf_part *part;
  const vram__hf_lines *row;
  uint32_t parts, rows;
} vram__hf_book;
VRAM__FN vram__hf_book vram__hf_decoders(void);
VRAM__FN vram__hf_book vram__hf_expert_decoders(void);
VRAM__FN vram__hf_book vram__hf_encoders(void);
VRAM__FN vram__hf_book vram__hf_latent_decoders(void);
VRAM__FN vram__hf_book vram__hf_state_decoders(void);
VRAM__FN vram__hf_book vram__hf_denoisers(void);
VRAM__FN vram__hf_book vram__hf_videos(void);

/* What writes lines, with the letters that they put in (hf_pen.c says which there are). */
enum {
  VRAM__HF_PATH = 176,
  VRAM__DIFFUSERS_SKIPS = 48,
  VRAM__DIFFUSERS_BLOCKS = 8,
  VRAM__DIFFUSERS_DEPTH = 64 /* of a transformer */
};

/* The arguments of a part that is being said, and what it was called in. */
typedef struct vram__hf_called {
  const struct vram__hf_called *by;
  const char *argument[8];
} vram__hf_called;

typedef struct vram__hf_pen {
  vram__hf h;
  vram_hf_config c;
  const vram__hf_lines *row;
  const vram__hf_part *norm, *activation;
  const vram_sink *sink;
  const vram__hf_called *called;
  vram_hf_sizes size;
  uint32_t part; /* of a generation: VRAM__HF_PROMPT, ... */
  uint64_t number[128];
  char name[128][VRAM__HF_PATH];
  const char *cache;                               /* lines of a layer's cache */
  uint64_t layer;                                  /* its number */
  uint8_t has_bias;                                /* flag b, which parts of a cache use, too */
  char path[VRAM__HF_PATH];                        /* of the layer */
  char drop[6 * VRAM__HF_PATH];                    /* what goes with a norm's input */
  char skip[VRAM__DIFFUSERS_SKIPS][VRAM__HF_PATH]; /* of a UNet: what the way up takes again */
  uint8_t flag[256];
  uint32_t used;
  char text[1024]; /* what the sink has not got yet */
} vram__hf_pen;

static inline uint64_t *vram__hf_number_of(vram__hf_pen *w, char c) {
  return w->number + ((uint8_t)c & 127);
}
static inline uint8_t *vram__hf_flag_of(vram__hf_pen *w, char c) {
  return w->flag + ((uint8_t)c & 127);
}
/* of mixers, a set of its own */
static inline uint8_t *vram__hf_mixer_flag(vram__hf_pen *w, char c) {
  return w->flag + 128 + ((uint8_t)c & 127);
}
static inline char *vram__hf_name_of(vram__hf_pen *w, char c) { return w->name[(uint8_t)c & 127]; }

/* A name of the lines: where the text goes, or into `to` of so many bytes. */
typedef struct vram__hf_target {
  char *to;
  uint32_t cap, n;
} vram__hf_target;

/* hf_pen.c */
VRAM__FN const char *vram__hf_say(vram__hf_pen *w, vram__hf_target *t, const char *s,
                                  const char *ends);
VRAM__FN void vram__hf_set(vram__hf_pen *w, char name, const char *lines);
VRAM__FN const vram__hf_lines *vram__hf_lines_find(const char *type);
VRAM__FN const vram__hf_part *vram__hf_part_find(const char *name, uint32_t len);
VRAM__FN const vram__hf_part *vram__hf_activation_find(const char *name, uint64_t len);
VRAM__FN void vram__hf_flush(vram__hf_pen *w);
VRAM__FN void vram__hf_put(vram__hf_pen *w, const char *s, uint32_t n);

/* hf_generate.c. A generation is written in parts: the prompt's, that of tokens, and that of
   tokens from the one on with which a window is full. */
enum { VRAM__HF_PROMPT, VRAM__HF_TOKEN, VRAM__HF_FULL, VRAM__HF_PARTS };
VRAM__FN int vram__hf_part_is(vram__hf_pen *w, uint32_t part);
VRAM__FN void vram__hf_part_begin(vram__hf_pen *w, uint32_t part);
VRAM__FN void vram__hf_generated_masks(vram__hf_pen *w);
VRAM__FN void vram__hf_generated_cache(vram__hf_pen *w);
VRAM__FN void vram__hf_path(vram__hf_pen *w, uint64_t layer);
VRAM__FN void vram__hf_part_layer(vram__hf_pen *w, int slides);
VRAM__FN void vram__hf_part_end(vram__hf_pen *w);

/* hf_numbers.c. Rounds of a scan: a line of `stack` has an input for each (VRAM__MAX_INPUTS), and
   all layers together as many as 256 of them with so many tokens. */
enum { VRAM__HF_MAX_ROUNDS = 4096 };
#define VRAM__HF_ALL_ROUNDS (UINT32_C(256) * VRAM__HF_MAX_ROUNDS)
VRAM__FN void vram__hf_numbers_of_parts(vram__hf_pen *w);

/* hf_text.c */
VRAM__FN void vram__hf_each_layer(vram__hf_pen *w);
VRAM__FN void vram__hf_refuse(vram__hf_pen *w, const char *text, const char *name);
VRAM__FN const vram_file_value *vram__hf_word(vram__hf_pen *w, const char *key);
VRAM__FN int vram__hf_is_word(const vram_file_value *v, const char *word);

/* diffusers.c: what its lines share with those of denoiser.c */
VRAM__FN uint64_t vram__diffusers_each(vram__hf_pen *w, const char *key, uint64_t i, uint64_t none);
VRAM__FN void vram__diffusers_plain(vram__hf_pen *w, const char *key, const char *plain);
VRAM__FN void vram__diffusers_enter(vram__hf_pen *w, const char *path);
VRAM__FN void vram__diffusers_lines(vram__hf_pen *w, const char *lines);
VRAM__FN void vram__diffusers_number(vram__hf_pen *w, char name, uint64_t n);
VRAM__FN void vram__diffusers_flag(vram__hf_pen *w, char name, int is);

/* Blocks one after the other: where they are, the key of their number (and what it is where it is
   missing), their lines, and which of their names the next one takes. */
typedef struct vram__denoiser_blocks {
  const char *path, *count;
  uint32_t none;
  const char *lines[4];
  const char *x, *y, *z;
} vram__denoiser_blocks;

typedef struct vram__denoiser_row {
  const char *kind, *flags;
  /* what letters are, in this order: "n=num_attention_heads:24" a key and what it is where it is
     missing, "c=n*d" an expression, from left to right, "h~sample_size:128" only where no option
     says it, "?g=guidance_embeds:0" a flag */
  const char *numbers;
  const char *plain; /* "key=value key=": keys that must be missing or so */
  void (*begin)(vram__hf_pen *w);
  void (*block)(vram__hf_pen *w, uint64_t i);
  const char *head[2];
  const char *x, *y, *e;
  vram__denoiser_blocks blocks[2];
  const char *end, *each, *out; /* each: said of every block behind `end` */
} vram__denoiser_row;

/* video.c: its rows; NULL: behind the last one */
VRAM__FN const vram__denoiser_row *vram__video_row(uint32_t i);

/* denoiser.c: is it a class with a row there? Its lines. */
VRAM__FN int vram__denoiser_is(const vram_file_text *kind);
VRAM__FN void vram__denoiser_write(vram__hf_pen *w, const vram_file_text *kind,
                                   const vram_hf_sizes *sizes);

/* diffusers.c: is it a config.json of diffusers whose lines are known? Then they are written. */
VRAM__FN int vram__diffusers_write(vram__hf_pen *w, const vram_hf_sizes *sizes);
