/* >>plan    arena, schedule, chain, runner, solve */
#pragma once
#include "core/core.h"

enum { VRAM__ARENA_CHUNK = 128 };
#define VRAM__ARENA_EXACT UINT32_C(1536) /* as many buffers the search takes */
#define VRAM__ARENA_NODES UINT64_C(1000000)
/* Placed buffers that are looked at: by all greedy orders together, and by the first one, which
   has to give a plan */
#define VRAM__ARENA_SCANS UINT64_C(400000000)
#define VRAM__ARENA_FIRST_SCANS (4 * VRAM__ARENA_SCANS)
#define VRAM__NONE UINT32_MAX

typedef struct vram__key_at { /* what is sorted: by key, then as it was */
  uint64_t key;
  uint32_t at;
} vram__key_at;

typedef struct vram__brick { /* a buffer as the planner sees it */
  uint64_t bytes, align;
  uint64_t at, best; /* offset in the plan that is being made, in the best one */
  uint64_t begin, end;
  uint64_t load;        /* the most that lives at once while it does */
  uint32_t first, last; /* lives in sections first to last - 1 */
  uint32_t buffer, group;
  uint32_t meets; /* neighbours in time */
  uint8_t pinned, bank;
} vram__brick;

typedef struct vram__placed {
  uint64_t at, end;
  uint32_t first, last;
} vram__placed;

typedef struct vram__chunk { /* of the list of what is placed, by offset */
  uint32_t n, next;
  uint32_t first, last, soonest; /* sections of all of it, the earliest end */
  vram__placed placed[VRAM__ARENA_CHUNK];
} vram__chunk;

typedef struct vram__item { /* a brick */
  uint64_t bytes, span;     /* span: rounded up to the smallest alignment */
  uint64_t align, at;
  uint32_t first, last;
  uint32_t brick;
  uint32_t twin; /* the one before of same size and time, VRAM__NONE: none */
  uint8_t pinned, placed;
} vram__item;

typedef struct vram__loose { /* an unplaced item in a list: by lowest offset */
  uint64_t low;
  uint16_t item, rank; /* rank: the least is preferred */
} vram__loose;

typedef struct vram__choice { /* what to place next of a list of unplaced items */
  uint64_t at;                /* where the last one tried is, or the one placed before the list */
  uint64_t top;               /* an item placed from here on leaves room for another below it */
  uint64_t least;             /* the smallest item */
  uint32_t tried, rank;       /* the item; rank: what is tried at `at` from now on */
  uint32_t list, n;
  uint32_t room;   /* where the lists of the next choices go */
  uint32_t end;    /* of those lists */
  uint32_t parent; /* the choice that this list is a part of what is left of */
  int alone;       /* the item tried has no unplaced neighbours */
} vram__choice;

typedef struct vram__arena {
  const vram_arena_options *o;
  vram__brick *brick; /* of the bank that is planned */
  uint32_t n, sections;
  vram__key_at *key, *spare;
  uint64_t *sum;  /* that lives in every section */
  uint64_t *tree; /* maxima of ranges of sections */
  uint32_t *next;
  vram__chunk *chunk;
  uint32_t chunks, chunk_first;
  uint64_t scans, nodes;
  int stopped;
  uint64_t height, bound; /* of the bank that is planned */
  /* the search: */
  vram__item *item;
  vram__choice *choice;
  vram__loose *loose, *moved;
  uint64_t *level;
  uint16_t *skipped;
  uint32_t *cross;       /* how many unplaced items live at the end of a section and behind it */
  uint32_t section;      /* the first one of the part that is searched */
  uint64_t slack, above; /* above: the least height that was too much */
  int by_load;           /* ranks follow what still lives at once */
} vram__arena;

typedef struct vram__skyline { /* what is taken of each section of time, from the floor on */
  uint64_t *most, *full;       /* of a node: the most under it, what all under it have */
  uint32_t n;
} vram__skyline;

enum { VRAM__FIT_FIRST, VRAM__FIT_BEST };

/* Orders are texts of these letters: the first decides, the next ones where it is equal. */
enum {
  VRAM__BY_ALIGN = 'L',    /* the smaller first, the pinned one last of equals */
  VRAM__BY_AREA = 'A',     /* bytes times width */
  VRAM__BY_BEGIN = 'B',    /* the earlier first; in all that follow the larger or later first */
  VRAM__BY_DURATION = 'w', /* of the lifetime, in the caller's time */
  VRAM__BY_END = 'E',
  VRAM__BY_INDEX = 'I',     /* of the caller's list */
  VRAM__BY_LOAD = 'T',      /* the most that lives at one time while it does; leading in a search:
                               of what is not placed yet */
  VRAM__BY_LOAD_ONCE = 't', /* the same, in a search, too, of all */
  VRAM__BY_NEIGHBOURS = 'O',
  VRAM__BY_ROUNDED = 'R', /* size, rounded up to the alignment */
  VRAM__BY_SIZE = 'S',
  VRAM__BY_VOLUME = 'a', /* bytes times duration */
  VRAM__BY_WIDTH = 'W'   /* sections that it lives in */
};

enum { VRAM__SOLVED, VRAM__REFUTED, VRAM__UNKNOWN };

#define VRAM__BLOCK 16 /* cells that are computed at a time */
#define VRAM__STAGES_SLOTS 1024
#define VRAM__CLOSE 32
#define VRAM__NEVER (INT32_C(1) << 29)
#define VRAM__DEAR (INT32_C(1) << 28) /* costs stay below */

typedef struct vram__room_sizes {
  uint64_t *x;     /* of xi */
  uint64_t *gives; /* what its going gives back: rounded down */
  uint64_t *head;  /* room for a forward of stage i that saves nothing, xi the caller's, */
  uint64_t *hop;   /* or in the room */
  uint64_t *keep;  /* of each way: all that stays */
  uint64_t *fore,
      *back; /* room for its forward, the gradient of x(t+1) not counted, and backward */
} vram__room_sizes;

typedef struct vram__todo { /* stages to plan, or a move */
  vram_move move;           /* VRAM_MOVE_COUNT: plan move.stage to last */
  uint32_t last;
  uint64_t room;
} vram__todo;

typedef struct vram__planning {
  const vram_chain *c;
  const vram_schedule_options *o;
  int stages, offload;
  int exact;  /* slots and costs are */
  int filled; /* the table is */
  int stopped;
  uint32_t n, nway;
  uint32_t *first; /* way of each stage */
  vram__room_sizes bytes, slot;
  uint64_t unit, cost_unit;
  uint64_t full, full_up;        /* room to compute nothing twice, in slots: as it is, rounded up */
  uint64_t least_cost;           /* of the chain: every stage by its cheapest way, once */
  uint64_t *extra;               /* of each way: cost beyond the cheapest, */
  uint64_t *x_trip, *saved_trip; /* of a copy to the host and back */
  int32_t *dear, *x_dear, *saved_dear; /* the same in cost_unit */
  int32_t *sum;                        /* of forwards before stage i that save nothing */
  uint64_t rows, blocks;
  uint64_t *low;   /* by row: least bytes of room that are enough, */
  uint32_t *high;  /* slots of room beyond which more is of no use, */
  uint32_t *least; /* low in whole slots, */
  uint32_t *gate;  /* slots of room for forwards of s to t that save nothing */
  int32_t *cell;   /* [block][row][VRAM__BLOCK]: cost beyond the cheapest + sum[s] */
  int32_t *panel;  /* [stage][VRAM__BLOCK] */
  vram__todo *todo;
  vram_move *move, *best;
  uint32_t nmove;
  uint8_t *replay;
  vram_schedule found; /* of best; feasible: there is one */
} vram__planning;

/* arena.c */
VRAM__FN void vram__sort(vram__key_at *a, vram__key_at *spare, uint32_t n);
VRAM__FN uint64_t vram__align_up(uint64_t x, uint64_t align);
VRAM__FN void vram__sections(vram__arena *a);
VRAM__FN uint64_t vram__arena_height(const vram__arena *a);
VRAM__FN uint64_t vram__arena_unit(const vram__arena *a);
VRAM__FN void vram__arena_bound(vram__arena *a);
VRAM__FN void vram__skyline_clear(vram__skyline *s, uint64_t *mem, uint32_t n);
VRAM__FN uint64_t vram__skyline_top(const vram__skyline *s, uint32_t first, uint32_t last);
VRAM__FN void vram__skyline_raise(vram__skyline *s, uint32_t first, uint32_t last, uint64_t height);
VRAM__FN void vram__placed_clear(vram__arena *a);
VRAM__FN void vram__placed_add(vram__arena *a, const vram__brick *b, uint32_t from);
VRAM__FN int vram__place(vram__arena *a, vram__brick *b, int fit, int in_order, uint64_t limit);
VRAM__FN void vram__arena_order(vram__arena *a, const char *letters);
VRAM__FN int vram__arena_stop(vram__arena *a);
VRAM__FN void vram__portfolio(vram__arena *a, uint64_t enough);

/* arena_search.c */
VRAM__FN int vram__search(vram__arena *a, const char *letters, uint64_t capacity, uint64_t nodes);

/* arena_improve.c */
VRAM__FN void vram__improve(vram__arena *a, uint64_t capacity, uint64_t enough);

/* chain.c */
VRAM__FN uint64_t vram__larger_u64(uint64_t a, uint64_t b);
VRAM__FN uint64_t vram__smaller_u64(uint64_t a, uint64_t b);
VRAM__FN uint64_t vram__less(uint64_t a, uint64_t b);
VRAM__FN uint64_t vram__chain_align(const vram_chain *c, uint64_t bytes);
VRAM__FN vram_result vram__chain_error(vram_error *err, vram_result code, uint64_t line,
                                       const char *what);
VRAM__FN void vram__chain_say(vram_error *err, const char *what);
VRAM__FN void vram__error_stage(vram_error *err, const vram_chain *c, uint32_t i);
VRAM__FN vram_result vram__stage_error(vram_error *err, const vram_chain *c, uint32_t i,
                                       vram_result code, const char *what);
VRAM__FN vram_result vram__move_error(vram_error *err, vram_result code, const vram_chain *c,
                                      const vram_move *m, uint32_t at, const char *what);
VRAM__FN uint64_t vram__chain_transfer(const vram_chain *c, uint64_t bytes);
VRAM__FN vram_result vram__chain_check(const vram_chain *c, vram_error *err);

/* verify.c */
VRAM__FN uint64_t vram__x_bytes(const vram_chain *c, uint32_t i);
VRAM__FN uint64_t vram__saved_bytes(const vram_chain *c, uint32_t i, uint32_t way);
VRAM__FN uint64_t vram__gradient_bytes(const vram_chain *c, uint32_t i);

/* planning.c */
VRAM__FN uint64_t vram__table_row(const vram__planning *p, uint32_t s, uint32_t t);
VRAM__FN void *vram__planning_round_up(uint8_t *mem, uint64_t *used, uint64_t count, uint64_t each);
VRAM__FN uint32_t vram__least_way(const vram_stage *s);
VRAM__FN uint64_t vram__layout_moves(vram__planning *p, uint8_t *mem);
VRAM__FN uint64_t vram__layout_table(vram__planning *p, uint8_t *mem);
VRAM__FN void vram__planning_start(vram__planning *p, const vram_chain *c,
                                   const vram_schedule_options *o, int stages);
VRAM__FN void vram__sizes_bytes(vram__planning *p);
VRAM__FN void vram__sizes_slots(vram__planning *p);
VRAM__FN void vram__scale_costs(vram__planning *p, uint64_t most);
VRAM__FN uint32_t vram__table_lowest_s(const vram__planning *p, uint32_t t);
VRAM__FN uint32_t vram__table_j_end(const vram__planning *p, uint32_t s, uint32_t t);
VRAM__FN void vram__least_rooms(vram__planning *p);
VRAM__FN void vram__rooms_in_slots(vram__planning *p);

/* table.c */
VRAM__FN int32_t vram__plan_cell(const vram__planning *p, uint64_t row, int64_t m);
VRAM__FN void vram__table_solve(vram__planning *p);
VRAM__FN void vram__plan_move(vram__planning *p, uint32_t kind, uint32_t stage, uint32_t way);
VRAM__FN void vram__todo_plan(vram__todo **top, uint32_t s, uint32_t t, uint64_t room);
VRAM__FN void vram__plan_leaf(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                              uint32_t j, int away, uint64_t before, uint64_t after);
VRAM__FN int vram__moves_expand(vram__planning *p, uint64_t room, int in_slots);

/* bind.c */
VRAM__FN int vram__bind_is_offload(const vram_move *m);
VRAM__FN int vram__bind_of_saved(const vram_move *m);
