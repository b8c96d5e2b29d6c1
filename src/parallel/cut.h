/* >>parallel/cut    the graph of one rank, made of the whole one */
#pragma once
#include "parallel/parallel.h"

/* What becomes of a node. */
typedef struct vram__plan_role {
  uint8_t style;    /* VRAM__TP_ */
  uint8_t is_usual; /* of the usual plan: PrepareModuleInput is around all that read a value */
  uint8_t is_late, is_dtensor;
  int8_t input, output; /* layouts */
  vram__span module;    /* the layer's */
  const char *why;      /* it cannot be played; the style, or a sentence */
} vram__plan_role;

/* A value of the whole graph on this rank: all of it, or a part along one axis. */
typedef struct vram__rank_value {
  vram_value *own;     /* as it was made */
  vram_value *flight;  /* what a collective reads until the first who reads `own` waits for it */
  vram_value *whole;   /* all of it, for layers that are cut: gathered, or the same once more, */
  vram__span whole_of; /* for the nodes of this module */
  vram_value *local;   /* as a DTensor, for the nodes of this module */
  vram__span local_of;
  uint8_t cut;         /* 1 + the axis; 0: all of it */
  uint8_t experts;     /* rows of this rank's experts, from all ranks */
  uint8_t is_sequence; /* a part of the sequence, not of heads or features */
  uint8_t is_dtensor;  /* it knows how it is cut */
  uint8_t gone;        /* it went earlier than in the whole graph */
  uint8_t constant;    /* made of no input: a table, a mask */
} vram__rank_value;

typedef struct vram__rank_cut {
  const vram_graph *from;
  vram_graph *g;
  const vram_parallel *p;
  vram__parser parser;
  vram__span name;         /* of the next collective; of no length: its value's */
  vram__rank_value *value; /* by index in `from` */
  vram_node **node;        /* by index in `from` */
  const vram__tp_word *plan;
  vram__span table;      /* the module of a table that does more than to look up, */
  vram_value *looked_up; /* what the lookup gave, which the module holds while it goes on with the
                            sum of it */
  uint32_t table_axis;   /* and the axis along which its result is cut */
  uint8_t is_usual;      /* the usual plan is for names that no word has */
  int64_t ranks, rank;
  int64_t length;      /* of the sequence that context parallelism cuts; 0: none */
  int64_t words[1024]; /* keys of the node that is made */
  vram__keys keys;
  uint32_t ncut; /* layers that were cut */
} vram__rank_cut;

/* cut_plan.c */
VRAM__FN int vram__plan_begin(vram__rank_cut *c);
VRAM__FN vram__plan_role vram__rank_role(const vram__rank_cut *c, const vram_node *n);
VRAM__FN const vram__tp_word *vram__plan_around(const vram__rank_cut *c, const vram_node *n,
                                                uint32_t style, vram__span *module);

/* cut_output.c */
VRAM__FN int vram__output_is_inside(const vram_node *n, vram__span module);
VRAM__FN int vram__rank_module_output(vram__rank_cut *c, const vram_node *n);

/* cut_node.c */
VRAM__FN int64_t vram__rank_part(int64_t whole, int64_t ranks, int64_t rank);
VRAM__FN int vram__rank_refuse(vram__rank_cut *c, const vram_node *n, const char *what);
VRAM__FN void vram__rank_keys_none(vram__rank_cut *c);
VRAM__FN void vram__rank_keys(vram__rank_cut *c, const vram_node *n);
VRAM__FN void vram__rank_key_set(vram__rank_cut *c, uint32_t key, int64_t to);
VRAM__FN void vram__rank_key_drop(vram__rank_cut *c, uint32_t key);
VRAM__FN vram_node *vram__rank_emit(vram__rank_cut *c, const vram_node *n, uint32_t op,
                                    vram_value **in, uint32_t nin);
VRAM__FN vram_node *vram__rank_collective(vram__rank_cut *c, const vram_node *n, uint32_t op,
                                          vram_value *x, const char *suffix);
VRAM__FN vram_value *vram__rank_own(vram__rank_cut *c, const vram_node *n, const vram_value *v);
VRAM__FN int vram__rank_copy(vram__rank_cut *c, const vram_node *n);

/* cut_experts.c */
VRAM__FN int vram__rank_is_expert(const vram__rank_cut *c, const vram_node *n);
VRAM__FN int vram__rank_experts(vram__rank_cut *c, const vram_node *n);

/* cut_context.c */
enum { VRAM__CONTEXT_MOST = 64 }; /* inputs and buffers */
VRAM__FN int64_t vram__context_length(vram__rank_cut *c);
VRAM__FN int vram__context_begin(vram__rank_cut *c);
VRAM__FN int vram__context_node(vram__rank_cut *c, const vram_node *n);

/* cut_layer.c */
VRAM__FN void vram__rank_untie(vram__rank_cut *c);
VRAM__FN uint32_t vram__rank_axis(int8_t layout, uint32_t ndim);
VRAM__FN int vram__rank_layer(vram__rank_cut *c, const vram_node *n, const vram__plan_role *role);
VRAM__FN vram_value *vram__rank_prepared(vram__rank_cut *c, const vram_node *n,
                                         const vram_value *x);
VRAM__FN int vram__rank_loss(vram__rank_cut *c, const vram_node *n);
