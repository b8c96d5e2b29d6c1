#pragma once
#include "api/dtype.h"
#include "api/op.h"
#include "api/version.h"
/* >>graph =====================================================================================
   A model: nodes in execution order. Built by calls or read from the text form, in the caller's
   memory. Shapes and dtypes are those of a run in the model's own dtype; vram_step works out what
   autocast or a run in another dtype makes of them. A graph names the model's dtype, which is then
   that of all parameters and of what says VRAM_DTYPE_MODEL (`model` in a text), while every other
   dtype, f32 too, is the same in each run. Where it names none, f32 stands for the model's dtype.
 */

/* A row of VRAM_OPS, as text. */
typedef struct vram_op_info {
  const char *name, *keys, *recipe, *autocast;
  uint32_t least, most; /* inputs */
  const char *torch;    /* the functions of PyTorch that it is, as tools/export_torch.py reads it */
} vram_op_info;

#ifndef VRAM_NO_MODEL
/* All zero for what is no op. info: not NULL. */
VRAM_API void vram_op_get_info(vram_op op, vram_op_info *info);

/* The name ("conv2d"); "?" for what is no op. Never NULL. */
VRAM_API const char *vram_op_name(uint32_t op);
#endif

/* Sizes and strides in elements; `v` holds ndim sizes, then ndim strides. Shared: many values may
   point to one. */
typedef struct vram_dims {
  uint64_t numel;
  uint8_t ndim, flags;
  int64_t v[2 * VRAM_MAX_AXES];
} vram_dims;

/* vram_node.flags: a line that an op was written out to, not the last */
#define VRAM_NODE_INNER 2u

typedef struct vram_node vram_node;
typedef struct vram_value vram_value;
typedef struct vram_param vram_param;
typedef struct vram_checkpoint vram_checkpoint;

/* attr: [key | count << 8, values...]..., 0 ends. */
struct vram_node {
  vram_node *next;
  const struct vram__round *round; /* loop rounds around it, NULL: none */
  const vram_checkpoint *block;    /* the innermost checkpoint block around it, NULL: none */
  vram_value **in;
  vram_value *out;     /* nout values, one after the other; the first one has the node's name */
  const int64_t *attr; /* shared: many nodes may point to the same keys; NULL: none */
  vram_param **param;  /* weights, then buffers; NULL where the op has none there */
  uint32_t nout;
  uint32_t index; /* 0, 1, ... in execution order */
  uint32_t line;  /* of the text, 0: built by calls */
  uint32_t back;  /* how far in front of it the node before lies, in units of 8 bytes; 0: none */
  uint16_t nin, nparam;
  uint16_t op; /* vram_op; VRAM_OP_COUNT and above: no op, nothing is allocated */
  uint8_t flags;
  uint8_t
      autocast; /* a dtype: autocast to it is on around the node; 0: as the step asks, 255: off */
};

/* A value: what a node gives, or an input of the model. */
struct vram_value {
  const vram_dims *d;
  vram_node *node;  /* NULL: an input */
  const char *name; /* not terminated */
  uint32_t index;   /* 0, 1, ... */
  uint32_t last;    /* node index of the last use; UINT32_MAX: lives to the end */
  vram_dtype dtype; /* in a run in the model's dtype */
  uint8_t flags;
  uint8_t name_len;
};

/* A parameter or buffer. */
struct vram_param {
  vram_param *next;
  const vram_dims *d;
  vram_node *node;
  const char *role; /* "weight", "bias", "running_mean", ... */
  uint32_t index;
  vram_dtype dtype : 8;
  uint8_t kind;         /* 0 gets a gradient, 1 is frozen, 2 is a buffer */
  uint8_t is_value;     /* what a `parameter` or `buffer` line makes: a value, not a module's own */
  uint8_t is_moved : 1; /* an `order` line names it */
  uint8_t is_expert : 1;  /* of experts that other ranks do not have */
  uint8_t is_dtensor : 1; /* this rank has a part or a copy of a DTensor, */
  uint8_t is_partial : 1; /* whose gradient is to be summed over the ranks */
  uint8_t is_model : 2;   /* 1: its dtype is the model's: another one in a run in another dtype; 2:
                         that from before the model was prepared for training */
};

/* Nodes that run in torch.utils.checkpoint.checkpoint (a `checkpoint` block): what they save for
   backward is made once more when backward needs it. Blocks may lie inside one another. */
#define VRAM_CHECKPOINT_REENTRANT 1u   /* use_reentrant=True */
#define VRAM_CHECKPOINT_FORGETS_RNG 2u /* preserve_rng_state=False */
#define VRAM_CHECKPOINT_RUNS_ON 4u     /* early_stop=False */

struct vram_checkpoint {
  vram_checkpoint *next;         /* in the order in which they begin */
  vram_checkpoint *up;           /* the one around it; NULL: none */
  const vram_node *first, *last; /* first NULL: it has no nodes, and does nothing */
  vram_value **arg, **out; /* what the call is given, in order, and what it gives, as far as named:
                              beside it, what the nodes use from outside and what is used behind */
  uint32_t narg, nout;
  uint32_t nheld; /* the last ones of `arg` that its function only refers to */
  uint8_t flags;
};

typedef struct vram_graph {
  uint8_t *mem;
  uint64_t used, cap;
  const char *name; /* of the model */
  uint32_t name_len;
  vram_rules rules; /* that the text names; VRAM_RULES_TORCH: none */
  vram_node *first, *last;
  vram_param *param_first, *param_last; /* in the order in which optimizers go through them */
  uint32_t param_room;                  /* behind the last one, for so many more */
  vram_value **input;                   /* the model's inputs */
  uint32_t ninput, nnode, nvalue, nparam, noutput;
  uint32_t ndim;
  struct {
    const char *name;
    uint32_t len;
    int64_t value;
  } dim[VRAM_MAX_DIMS];
  const vram_dims *cache[64]; /* dims and keys that others may share */
  const int64_t *attr_cache[64];
  uint32_t max_in, max_out; /* most inputs and outputs of one node */
  uint64_t extra;           /* scratch of the step that nodes need beyond the usual */
  uint64_t in_flight;       /* storages of other microbatches that live at once, at most */
  uint64_t flat_pad; /* elements that flat weights of recurrent nets have beyond their parameters */
  struct vram__owned *owned;                    /* what modules own; NULL: nothing */
  uint32_t rnn_dropout;                         /* recurrent nets with dropout */
  struct vram__adapt *adapt;                    /* of vram_graph_adapt; NULL: nothing */
  struct vram__moved *moved_first, *moved_last; /* parameters of `order` lines */
  uint32_t holds;     /* nodes whose functions hold what they were given */
  uint8_t nested_map; /* the table that scales of quantised weights are copied from is there */
  vram_dtype dtype;   /* the model's; VRAM_DTYPE_NONE: not named, f32 stands for it */
  vram_checkpoint *checkpoint_first, *checkpoint_last;
  vram_checkpoint *checkpoint_open; /* the innermost that has not ended yet */
  uint32_t ncheckpoint;
  uint32_t checkpoint_depth, checkpoint_nested; /* inside one another: now, at most */
  /* lines of these names: nkept counts the values of `keep` lines, nmade those of `requires_grad`,
     nscaled and nupdate are GradScaler's */
  uint32_t nkept, nmade, ncache, nbackward, nzero_grad, nstep, nfrozen, nscaled, nupdate;
  uint32_t no_grad;     /* 1: nodes that are added run under torch.no_grad() */
  uint8_t autocast;     /* of new nodes */
  uint8_t is_cut;       /* the graph of one rank, by vram_parallel_cut or collectives of a text */
  uint8_t autocast_own; /* some node has a dtype of its own there */
  const vram_node *context; /* context_parallel around the module; NULL: there is none */
  vram_value *root;         /* the first output: what backward starts from */
  vram_value *inferred;     /* the first result of inference; NULL: none is named */
  struct vram__unit_word *unit_first, *unit_last;   /* names of `unit` lines, */
  struct vram__unit_word *stage_first, *stage_last; /* and of `stage` lines */
  struct vram__tp_word *tp_first, *tp_last;         /* names of `tp` lines */
  const vram_node *returned; /* the last node of the module, where its caller goes on; NULL: all */
  vram_value **result;       /* and what the module returns there */
  uint32_t nresult;
  vram_error error; /* the first error; sticky */
} vram_graph;

/* A dim's value from outside; name NULL: the first dim of the model (the batch). */
typedef struct vram_dim {
  const char *name;
  int64_t value;
} vram_dim;

#ifndef VRAM_NO_MODEL
/* A new graph in the caller's memory, which must outlive it. Building and reading take from it;
   when it is used up they fail with VRAM_ERR_MEMORY. mem NULL: no memory. Here and below a graph is
   never NULL. */
VRAM_API vram_result vram_graph_init(vram_graph *g, void *mem, uint64_t bytes);
#endif

/* Building by calls. The first error stays in g->error and makes every later call return NULL, so
   that values need not be looked at one by one: NULL for a value, or for a name, is an error.

     vram_value *x = vram_graph_input(&g, "x", VRAM_F32, 4, size, 0);
     vram_node *c = vram_graph_apply(&g, VRAM_OP_conv2d, "c1", &x, 1, attributes);
     x = vram_node_output(c, 0);

   attributes: words of the text form, "out_channels=64 kernel_size=3". */

#ifndef VRAM_NO_MODEL
/* The name of a node with its rounds of loops ("fc[3][0]"), as in every output of the command: at
   most cap - 1 bytes and a zero byte go to `to`, which may be NULL where cap is 0. Returns the
   bytes of the whole name; 0 for n NULL. */
VRAM_API uint32_t vram_node_name(const vram_node *n, char *to, uint32_t cap);

/* Floating-point operations of a node's forward. Products (convolutions, matrix products,
   attention, recurrent layers): two for each multiply-add, as torch.utils.flop_counter counts them.
   Other nodes: one for each element that they give, views none. VRAM_OVERFLOW: more than 64 bits.
   n: not NULL. */
VRAM_API uint64_t vram_node_flops(const vram_node *n);

/* In how many checkpoint blocks the node is: backward runs it once more for each. n: not NULL. */
VRAM_API uint32_t vram_node_recomputed(const vram_node *n);

/* Output i of a node; NULL: the node is NULL (a call that failed) or has no such output. */
VRAM_API vram_value *vram_node_output(vram_node *n, uint32_t i);

/* Names the model's dtype, VRAM_F32, VRAM_BF16, VRAM_F16 or VRAM_F64, before there are inputs or
   nodes. */
VRAM_API vram_result vram_graph_dtype(vram_graph *g, vram_dtype dtype);

/* An input of the model; grad: it wants a gradient. size: ndim of them, NULL only where ndim is 0.
   dtype: VRAM_DTYPE_MODEL where vram_graph_dtype was called, or any other. */
VRAM_API vram_value *vram_graph_input(vram_graph *g, const char *name, vram_dtype dtype,
                                      uint32_t ndim, const int64_t *size, int grad);

/* A node: names of its outputs ("y", or "values,indices"), its inputs (nin of them, `in` NULL only
   where nin is 0), and its keys as in the text form (NULL: none; `weights=` names a node that is
   there). Names are labels, not looked up. */
VRAM_API vram_node *vram_graph_apply(vram_graph *g, vram_op op, const char *names,
                                     vram_value *const *in, uint32_t nin, const char *keys);

/* What the caller keeps after the forward pass; backward starts from the first. Without it: the
   last node. */
VRAM_API vram_result vram_graph_outputs(vram_graph *g, vram_value *const *v, uint32_t n);

/* Here the module returns these values, and what comes behind, such as a loss, is its caller's:
   what a wrapper of torch.distributed does behind the forward pass it does here. */
VRAM_API vram_result vram_graph_return(vram_graph *g, vram_value *const *v, uint32_t n);

/* Modules that fully_shard is called for: nodes of these names, or whose names go on behind a
   point; in a loop each round is one. Without them units are found by the numbers in names
   (vram_parallel.units). names: with spaces between. */
VRAM_API vram_result vram_graph_units(vram_graph *g, const char *names);

/* Where the second stage of a pipeline begins, the third, and so on: before the first node of that
   name, or whose name goes on behind a point. Without them stages are cut at units. */
VRAM_API vram_result vram_graph_stages(vram_graph *g, const char *names);

/* How tensor parallelism cuts modules, instead of the usual plan: a style, names, and layouts, as
   behind `tp` in a text ("colwise q_proj k_proj v_proj", "rowwise o_proj output_layouts=1"). */
VRAM_API vram_result vram_graph_tp(vram_graph *g, const char *words);

/* What inference gives in place of the outputs of training: what only these need, a loss and its
   way there, is left out. */
VRAM_API vram_result vram_graph_infer(vram_graph *g, vram_value *const *v, uint32_t n);

/* These values live until here although nothing uses them any more. */
VRAM_API vram_result vram_graph_drop(vram_graph *g, vram_value *const *v, uint32_t n);

/* Here variables of the loop around the model take these values (out = model(x)), and hold them
   until the next step comes here. A value that was kept before stands behind the one that takes its
   place. */
VRAM_API vram_result vram_graph_keep(vram_graph *g, vram_value *const *v, uint32_t n);

/* The caller's variable behind `cache`, what a node of VRAM_OP_cache gave, has v from here on, and
   the next step of a generation begins with it; v NULL: it stays as it is. */
VRAM_API vram_result vram_graph_store(vram_graph *g, vram_value *cache, vram_value *v);

/* From here on these values are leaves that want gradients (h.requires_grad_()). None may be an
   input, which has `grad` for that, a parameter or a buffer; where they want one already, nothing
   changes. */
VRAM_API vram_result vram_graph_requires_grad(vram_graph *g, vram_value *const *v, uint32_t n);

enum {
  VRAM_BACKWARD_RETAIN = 1, /* retain_graph=True */
  VRAM_BACKWARD_SCALE = 2   /* GradScaler.scale(v).backward(): then steps are GradScaler's, too */
};

/* A whole training step by calls. backward: v.backward() here, how: the bits above, instead of one
   backward from the first output behind the forward pass. update: GradScaler.update(); without it
   that comes behind the last step. zero_grad, step: here an optimizer drops
   the gradients of its parameters, or makes its step, instead of one for all at the begin and the
   end. names: its modules or parameters (nodes of these names, or whose names go on behind a
   point), with spaces between; NULL: all. */
VRAM_API vram_result vram_graph_backward(vram_graph *g, vram_value *v, int how);
VRAM_API vram_result vram_graph_update(vram_graph *g);
VRAM_API vram_result vram_graph_zero_grad(vram_graph *g, const char *names);
VRAM_API vram_result vram_graph_step(vram_graph *g, const char *names);

/* For the nodes from here on these weights want no gradient (requires_grad_(False)), or want one
   again; what backward of earlier nodes gives they still take. names: as above. A step begins with
   all of them as their nodes say it. */
VRAM_API vram_result vram_graph_freeze(vram_graph *g, const char *names);
VRAM_API vram_result vram_graph_unfreeze(vram_graph *g, const char *names);

/* What is applied up to vram_graph_checkpoint_end runs in a call of
   torch.utils.checkpoint.checkpoint. arg: its tensors, in order, the last nheld of them none of its
   arguments but what its function holds; out: what it returns, or nothing (then what is used behind
   it, in the order in which it is made); either may be NULL where there are none. keys as in the
   text form ("reentrant=1"), or NULL. */
VRAM_API vram_result vram_graph_checkpoint(vram_graph *g, vram_value *const *arg, uint32_t narg,
                                           uint32_t nheld, const char *keys);
VRAM_API vram_result vram_graph_checkpoint_end(vram_graph *g, vram_value *const *out,
                                               uint32_t nout);

/* Fine-tuning: linear lines of the text that is read next get adapters (lora: "r=16", and
   "targets=q_proj|v_proj", "dropout=0.05", "dora=1", "bias=1", "dtype=bf16"), or quantised weights
   (quant: "nf4", "fp4" or "int8", and "double=0", "dtype=bf16", "compute=bf16", "threshold=6.0",
   "skip=NAME|NAME", "prepare=0"); each NULL: none. Targets are names, or what they end with behind
   a point; none: all linear lines but the last one. That one is not quantised either. Whatever is
   no adapter is frozen; with both and without prepare=0 it is fp32 where it is not quantised
   (prepare_model_for_kbit_training), and vram_step_options.dtype is what weights were quantised
   from (0: bf16). */
VRAM_API vram_result vram_graph_adapt(vram_graph *g, const char *lora, const char *quant);

/* Writes a text whose head and loss run over so many chunks of the rows (1 to 256), one after the
   other, each in a call of torch.utils.checkpoint: the logits of one chunk are there at once. The
   last linear line and the one cross_entropy of its logits become calls for each chunk, whose sums
   are added up and divided by the number of targets that are not ignored. *need: bytes of the new
   text, also where it is not written. Never NULL: need.
     VRAM_ERR_UNSUPPORTED  no such head and loss, or the logits are used elsewhere: err says where
     VRAM_ERR_VALUE        another number of chunks
     VRAM_ERR_MEMORY       cap is less than *need */
VRAM_API vram_result vram_text_chunk_logits(const char *text, uint64_t len, uint32_t chunks,
                                            char *to, uint64_t cap, uint64_t *need,
                                            vram_error *err);

/* Bytes of memory that vram_graph_parse needs for this text at most (0: text too large). text:
   `len` bytes, NULL only where len is 0; set: nset of them, NULL only where nset is 0. */
VRAM_API uint64_t vram_graph_parse_bytes(const char *text, uint64_t len, const vram_dim *set,
                                         uint32_t nset);

/* The same behind vram_graph_adapt. */
VRAM_API uint64_t vram_graph_adapted_bytes(const char *text, uint64_t len, const vram_dim *set,
                                           uint32_t nset);

/* Reads the text form into g, which must be fresh from vram_graph_init. The values in `set` take
   the place of the text's. text and set as above; the text is not needed afterwards. *err, if not
   NULL, says where and what, and nothing of g may be used then:
     VRAM_ERR_SYNTAX    a line that is none, a key or an input too few or too many
     VRAM_ERR_NAME      an op, key, dim or value that is unknown or defined twice
     VRAM_ERR_SHAPE     inputs that do not fit the op, a negative size
     VRAM_ERR_VALUE     a key or dim out of range
     VRAM_ERR_BLOCK     a row that does not divide into blocks of its dtype
     VRAM_ERR_OVERFLOW  a size or a tensor of more than VRAM_MAX_BYTES
     VRAM_ERR_LIMIT     more than VRAM_MAX_ something: axes, dims, bytes of a name, nodes, loops
     VRAM_ERR_MEMORY    the memory of g is used up
   Before it says one of the last two it looks for wrong names and keys in the rest of the text: a
   loop of too many rounds does not hide them. */
VRAM_API vram_result vram_graph_parse(vram_graph *g, const char *text, uint64_t len,
                                      const vram_dim *set, uint32_t nset, vram_error *err);

/* A text may have parts with a `decode` line between: vram_graph_parse reads the first, the step of
   a generation that reads the prompt; the next is a text of its own, the step of each further
   token, and one behind `decode P=N` that of tokens with N or more before them. Returns where the
   next part begins, 0: there is none. text: `len` bytes, NULL only where len is 0. */
VRAM_API uint64_t vram_text_decode(const char *text, uint64_t len);
#endif
