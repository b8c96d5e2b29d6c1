#pragma once
#include "api/dtype.h"
#include "api/kv.h"
#include "api/serve.h"
#include "api/types.h"
#include "api/writer.h"
/* >>read ======================================================================================
   Files of models: GGUF, safetensors, config.json, ONNX, TFLite. Only what describes the tensors is
   read, never their values: the header of a file of 400 GB, in memory or through a function that
   reads ranges. What is found lies in the caller's memory; nothing else is allocated, and nothing
   is allocated because a file says that there will be much.

     vram_file_source s = VRAM_ZERO_INIT;
     vram_file f;
     s.data = header, s.bytes = header_bytes;              or s.read, s.user
     vram_file_init(&f, memory, memory_bytes);
     while (vram_file_read(&f, &s, &e) ...)                once for each part, then
     vram_file_finish(&f, &e)                              are all parts there?
     f.tensor_first, f.ntensor, f.tensor_bytes, ...                                             */

/* Where the bytes of a file come from. */
typedef struct vram_file_source {
  const void *data; /* all of them; NULL: `read` gives them */
  uint64_t bytes;   /* how many there are: of the file, or of as much of it as there is */
  /* Copies the bytes from offset on to `to`. Asked only for what lies within `bytes`. Anything but
     VRAM_OK ends the reading with it. */
  vram_result (*read)(void *user, uint64_t offset, void *to, uint64_t bytes);
  void *user;
} vram_file_source;

typedef enum vram_file_format {
  VRAM_FILE_NONE,        /* none of these */
  VRAM_FILE_GGUF,        /* one part of one or of several */
  VRAM_FILE_SAFETENSORS, /* one file, or a shard */
  VRAM_FILE_INDEX,       /* model.safetensors.index.json: the names of shards */
  VRAM_FILE_CONFIG,      /* config.json of a model of transformers */
  VRAM_FILE_ONNX,
  VRAM_FILE_TFLITE,
  VRAM_FILE_COUNT
} vram_file_format;

/* A tensor as a file describes it. Sizes as PyTorch has them, the outermost first: a row of a
   quantised type, ggml's ne[0], is size[ndim - 1]. */
typedef struct vram_file_tensor vram_file_tensor;
struct vram_file_tensor {
  vram_file_tensor *next; /* in the order of the file's table */
  const char *name;       /* not terminated */
  uint64_t offset;        /* of its first byte, in its part */
  uint64_t bytes;         /* without padding */
  uint64_t numel;
  int64_t size[VRAM_MAX_AXES];
  uint32_t name_len, scales; /* scales: of TFLite's quantisation, 0: none, 1: per tensor */
  uint32_t part;             /* 0, 1, ... in the order in which parts were read */
  vram_dtype dtype;
  uint8_t ndim, has_zero_point;             /* TFLite: its quantisation says zero points, too */
  uint64_t scale_offset, zero_point_offset; /* TFLite: in the file, f32 and i64; 0: none */
  uint64_t number;                          /* TFLite: the tensor's */
  const int64_t *ints; /* its `numel` values where the reader keeps them (of ONNX and TFLite:
                          integers and bools, at most 64: a shape, axes); NULL elsewhere */
  const double *reals; /* the same of ONNX's f32, at most 64: scales, bounds */
};

typedef enum vram_value_kind {
  VRAM_VALUE_UINT,
  VRAM_VALUE_INT,
  VRAM_VALUE_FLOAT,
  VRAM_VALUE_BOOL,
  VRAM_VALUE_TEXT,
  VRAM_VALUE_ARRAY, /* `count` of `of`; elements of numbers are there, those of text in JSON only,
                       of GGUF they are counted; `array` is NULL where they are only counted */
  VRAM_VALUE_NULL   /* null of JSON; of an array: elements that differ, or are arrays or objects */
} vram_value_kind;

/* An element of an array of texts. */
typedef struct vram_file_text {
  const char *text; /* not terminated */
  uint64_t count;
} vram_file_text;

/* What a file says about itself: a key of GGUF, of __metadata__, or a path of a config.json
   ("text_config.num_hidden_layers"). */
typedef struct vram_file_value vram_file_value;
struct vram_file_value {
  vram_file_value *next; /* in the order of the file */
  const char *name;      /* not terminated */
  const char *text;      /* of VRAM_VALUE_TEXT: `count` bytes, not terminated */
  union {
    uint64_t u;
    int64_t i;
    double f;
  } number;          /* BOOL: u is 0 or 1 */
  const void *array; /* uint64_t, int64_t, double or vram_file_text each, as `of` says (BOOL:
                        uint64_t) */
  uint64_t count;    /* elements of an array, bytes of a text */
  uint32_t name_len;
  uint8_t kind, of; /* vram_value_kind */
  uint8_t type;     /* as the file numbers it, of an array its elements' */
};

/* A part: one file of a split or sharded model, or the only one. */
typedef struct vram_file_part vram_file_part;
struct vram_file_part {
  vram_file_part *next;
  const char *name;      /* that an index or an ONNX model gives it, not terminated; NULL: none */
  uint64_t header_bytes; /* up to where the tensors' data begins; of ONNX and TFLite all but data */
  uint64_t expected_bytes; /* of the whole file, as its header has it */
  uint64_t present_bytes;  /* that the source has: fewer where the data is missing */
  uint64_t ntensor;
  uint32_t name_len;
  uint8_t is_read; /* not only named by an index */
};

/* ---- graphs: of ONNX and TFLite ---- */

typedef struct vram_file_name vram_file_name;
struct vram_file_name {
  vram_file_name *next;
  const char *name; /* not terminated; len 0: an optional input or output that is not there */
  uint64_t number;  /* TFLite: the tensor's */
  uint32_t len;
};

typedef enum vram_attribute_kind {
  VRAM_ATTRIBUTE_OTHER, /* subgraphs, sparse tensors, types: skipped */
  VRAM_ATTRIBUTE_INT,
  VRAM_ATTRIBUTE_FLOAT,
  VRAM_ATTRIBUTE_TEXT,
  VRAM_ATTRIBUTE_INTS,
  VRAM_ATTRIBUTE_FLOATS, /* only counted */
  VRAM_ATTRIBUTE_TENSOR
} vram_attribute_kind;

typedef struct vram_file_attribute vram_file_attribute;
struct vram_file_attribute {
  vram_file_attribute *next;
  const char *name, *text;  /* not terminated; text: `count` bytes */
  const int64_t *ints;      /* of INTS, `count` of them; NULL where there are more than 64 */
  vram_file_tensor *tensor; /* of TENSOR; not among the file's tensors */
  int64_t i;
  uint64_t count;
  float f;
  uint32_t name_len;
  uint8_t kind; /* vram_attribute_kind */
};

typedef struct vram_file_node vram_file_node;
struct vram_file_node {
  vram_file_node *next; /* in the order of the file, in which it is run */
  const char *op, *domain, *name;
  vram_file_name *input, *output;
  vram_file_attribute *attribute;
  uint64_t offset;      /* in the file */
  uint64_t inner_nodes; /* of the graphs within it (ONNX: If, Loop, Scan) */
  uint64_t
      inner_numel; /* elements of their floating-point constants, of which nothing else is said */
  uint32_t op_len, domain_len, name_len;
};

typedef enum vram_operand_role {
  VRAM_OPERAND_INPUT,
  VRAM_OPERAND_OUTPUT,
  VRAM_OPERAND_BETWEEN,
  VRAM_OPERAND_STATE /* TFLite's is_variable: kept from one run to the next */
} vram_operand_role;

/* What a file says of a value that is computed or given: its dtype and its shape. */
typedef struct vram_file_operand vram_file_operand;
struct vram_file_operand {
  vram_file_operand *next;
  const char *name;                  /* not terminated */
  const char *symbol[VRAM_MAX_AXES]; /* a size's name ("batch"), not terminated; NULL: none */
  uint64_t number;                   /* TFLite: the tensor's; ONNX: in the order of the file */
  int64_t size[VRAM_MAX_AXES];       /* -1: not known, or as its symbol says */
  uint32_t symbol_len[VRAM_MAX_AXES], name_len, scales; /* scales: as of a tensor */
  vram_dtype dtype;                                     /* VRAM_NONE: not said */
  uint8_t ndim, has_shape;
  uint8_t role;           /* vram_operand_role */
  uint8_t has_zero_point; /* this and the offsets: as of a tensor */
  uint64_t scale_offset, zero_point_offset;
};

typedef struct vram_file {
  uint8_t *mem, *window; /* window: of a source that is not in memory, taken once for all parts */
  uint64_t used, cap;
  vram_file_format format; /* of the first part that was read, an index excepted */
  vram_file_tensor *tensor_first, *tensor_last;
  vram_file_value *value_first, *value_last;
  vram_file_part *part_first, *part_last;
  uint64_t ntensor, nvalue;
  uint64_t tensor_bytes; /* sum over tensors, without padding; of TFLite a buffer counts once */
  uint64_t numel;        /* elements of all tensors */
  uint64_t alignment;    /* of data; 1 where the format has none */
  uint64_t split_count, split_tensors; /* of a GGUF file in parts, as its keys say; 0: not said */
  uint32_t npart, version;
  struct vram__names *names;  /* of tensors, for vram_file_find */
  struct vram__names *values; /* of a config.json, for vram_file_get */
  struct vram__names *index;  /* of tensors, with the parts that an index gives them */
  vram_file_node *node_first, *node_last;
  vram_file_operand *operand_first, *operand_last;
  uint64_t nnode, noperand;
} vram_file;

/* Where a reader keeps what an in-memory source has at hand: bytes of a window of the file. */
#define VRAM_READ_WINDOW UINT64_C(65536)

#ifndef VRAM_NO_READ
/* What a file is, by its content and not by its name. */
VRAM_API vram_file_format vram_file_sniff(const vram_file_source *s);

/* "gguf", "safetensors", ...; "?" for what is no format. Never NULL. */
VRAM_API const char *vram_file_format_name(vram_file_format format);

/* An empty file in the caller's memory, which must outlive it. */
VRAM_API void vram_file_init(vram_file *f, void *memory, uint64_t bytes);

/* Reads one part; those that an index names in the order of f's parts. Its data may be missing, its
   header may not (of safetensors: all of the data or nothing). After an error the file is not to be
   used; e (may be NULL) says what is wrong and at which offset.
     VRAM_ERR_MEMORY       the memory is too small: once more, with twice as much
     VRAM_ERR_SYNTAX       what is there is malformed
     VRAM_ERR_NAME         a tensor or key is there twice
     VRAM_ERR_DTYPE, VRAM_ERR_BLOCK, VRAM_ERR_VALUE, VRAM_ERR_OVERFLOW
     VRAM_ERR_UNSUPPORTED  no such format, or a form of it that is not read
     VRAM_ERR_CALL         source->read failed */
VRAM_API vram_result vram_file_read(vram_file *f, const vram_file_source *s, vram_error *e);

/* Checks what only the whole shows: that all parts are there, and no tensor is in two of them. */
VRAM_API vram_result vram_file_finish(vram_file *f, vram_error *e);

/* The tensor, the value of that name; NULL: there is none. Tensors: after vram_file_finish. */
VRAM_API const vram_file_tensor *vram_file_find(const vram_file *f, const char *name, uint32_t len);
VRAM_API const vram_file_value *vram_file_get(const vram_file *f, const char *name, uint32_t len);

/* A method of a program of ExecuTorch (.pte): bytes of each memory that its exporter has planned,
   method_meta.memory_planned_buffer_size. */
typedef struct vram_executorch_plan vram_executorch_plan;
struct vram_executorch_plan {
  vram_executorch_plan *next;
  const char *name; /* not terminated */
  const uint64_t *memory_bytes;
  uint64_t memories, bytes, operators; /* bytes: of all its memories */
  uint32_t name_len;
};

typedef struct vram_executorch {
  vram_executorch_plan *plan_first;          /* in the order of the file */
  uint64_t planned_bytes, largest_bytes;     /* of all plans; of the one that needs most */
  uint64_t constants_bytes, delegates_bytes; /* in the file; what delegates are given */
  uint64_t initial_bytes;                    /* of variables, in the file */
  uint64_t program_bytes, file_bytes;        /* of its tables; of all */
  uint64_t delegates, external_constants;    /* how many; external: in another file (.ptd) */
} vram_executorch;

/* Reads one into f's memory: f was initialised and has no other part. Errors as vram_file_read. */
VRAM_API vram_result vram_executorch_read(vram_file *f, const vram_file_source *s,
                                          vram_executorch *to, vram_error *e);

/* The state that a layer keeps in the place of a cache, or beside it. */
typedef struct vram_hf_state {
  uint64_t layers;                 /* that keep one */
  uint64_t channels, kernel;       /* of its convolution */
  uint64_t groups, group_channels; /* of these channels, B and C of each group (Mamba-2) */
  uint64_t matrix;                 /* elements of what is recurrent; 0: a convolution alone */
  uint8_t is_delta;                /* of a gated delta net */
  uint8_t is_buffered;             /* SGLang computes the next ones beside it */
  uint8_t keeps_drafts;            /* vLLM keeps a column more for each token of a draft */
} vram_hf_state;

/* A model as its config.json describes it, with what transformers (5.23) sets where a key is
   missing. Bytes of the cache are of attention's keys and values at `dtype`; MLA keeps the latent
   and the rotated key. */
typedef struct vram_hf_config {
  const char *family; /* model_type of the decoder, static */
  uint64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
  uint64_t experts, experts_used, expert_intermediate; /* 0: none */
  uint64_t q_lora_rank, kv_lora_rank, rope_head_dim, v_head_dim;
  uint64_t cache_heads; /* of transformers' cache: Falcon repeats keys and values before */
  uint64_t window;      /* of the layers that slide; 0: none */
  uint64_t full_layers, sliding_layers, state_layers;
  uint64_t encoder_layers; /* of the layers, which keep nothing: of towers, before a decoder */
  uint64_t cross_layers; /* of a decoder, which keep keys and values of its encoder's tokens, too */
  uint64_t cross_tokens; /* how many there are, part of state_bytes; 0: as many as the decoder's */
  vram_hf_state state;
  uint64_t conv_elements, ssm_elements; /* of all layers' states, of one sequence */
  uint64_t state_bytes;                 /* the same, in bytes */
  uint64_t params;        /* elements of parameters, tied ones once, without MTP layers */
  uint64_t text_params;   /* without a vision tower and its projector */
  uint64_t params_bytes;  /* at `dtype`: of a quantised checkpoint its shards have the bytes */
  uint64_t state_tensors; /* of the state dict, tied ones too */
  uint64_t kv_bytes_per_token_layer, kv_bytes_per_token;
  const char *quantised; /* quant_method, not terminated, in the file's memory; NULL: none */
  uint32_t quantised_len;
  vram_dtype dtype;         /* VRAM_F32 where the file has none */
  vram_dtype ssm_dtype;     /* mamba_ssm_dtype: what a serving engine keeps states in */
  uint8_t serves_ssm_dtype; /* vLLM does so, too */
  uint8_t is_tied;
  uint8_t is_chunked; /* layers with a window look at chunks of it */
  uint8_t has_pool;   /* SGLang gives them a pool of their own; else they keep all tokens */
} vram_hf_config;

/* What a config.json that was read says. VRAM_ERR_UNSUPPORTED: a family or class that is not in
   the table; VRAM_ERR_VALUE: a key that cannot be so. */
VRAM_API vram_result vram_hf_config_read(const vram_file *f, vram_hf_config *c, vram_error *e);

/* The same caches and states as rows of a vram_kv, keys and values at `dtype`: how many rows there
   are (0 to VRAM_HF_KV_ROWS). */
#define VRAM_HF_KV_ROWS 3
VRAM_API uint32_t vram_hf_kv_rows(const vram_hf_config *c, vram_dtype dtype,
                                  vram_kv_layer row[VRAM_HF_KV_ROWS]);

/* The rows that a serving engine makes of them, of all ranks together, for vram_serve; nothing of
   an encoder's tokens. */
typedef struct vram_hf_served {
  vram_engine engine;
  vram_dtype dtype; /* of the model as it is served */
  uint32_t tp;      /* ranks; 0: 1 */
  uint32_t draft;   /* tokens of speculative decoding */
} vram_hf_served;
VRAM_API uint32_t vram_hf_serve_rows(const vram_hf_config *c, const vram_hf_served *s,
                                     vram_kv_layer row[VRAM_HF_KV_ROWS]);

/* Writes the decoder of a config.json as a model in the text form, with the loss of ForCausalLM, or
   an encoder with the head of its class and that one's loss, as transformers 5.23 runs it in
   training (attention sdpa). Dims: N sequences of S tokens. S
   decides which layers need the mask of a sliding window. With a cache it is what generate() runs,
   greedy, in parts behind `decode` lines, in the dtype that the file names. Dims: N, and those
   that vram_text_decode() tells of. The memory is only used while it works.
     VRAM_ERR_UNSUPPORTED  a family whose lines are not known, or a setting of one
     VRAM_ERR_MEMORY       fewer than VRAM_HF_WRITE_MEMORY bytes
     VRAM_ERR_WRITE        the sink has ended it; and as vram_hf_config_read */
#define VRAM_HF_WRITE_MEMORY UINT64_C(40960)
typedef enum vram_hf_cache {
  VRAM_HF_NO_CACHE,
  VRAM_HF_DYNAMIC,
  VRAM_HF_STATIC,
  VRAM_HF_OFFLOADED /* DynamicCache whose layers are on the host but for one */
} vram_hf_cache;
typedef struct vram_hf_sizes {
  uint64_t batch, tokens; /* 0: 2; as many as in training, at most 4096 */
  uint64_t new_tokens; /* with a cache: generate() of so many behind a prompt of `tokens`; 0: 1 */
  vram_hf_cache cache; /* DynamicCache, StaticCache */
  uint8_t is_padded;   /* some of the prompts are shorter than others, so masks are made */
  uint8_t is_eager;    /* attention is written out; 0: as the file says, else sdpa */
  uint64_t height, width, frames; /* of diffusers' latents; 0: as in training */
} vram_hf_sizes;
VRAM_API vram_result vram_hf_write(const vram_file *f, const vram_hf_sizes *sizes, void *memory,
                                   uint64_t bytes, const vram_sink *sink, vram_error *e);

/* Bytes of the keys and values of so many sequences of ctx tokens each: a layer that slides keeps
   at most its window. VRAM_OVERFLOW: more than 64 bits. */
VRAM_API uint64_t vram_hf_kv_cache_bytes(const vram_hf_config *c, uint64_t ctx, uint64_t slots);
#endif
