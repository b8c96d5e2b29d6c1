/* >>write    pictures, files and text */
#pragma once
#include "alloc/alloc.h"

typedef struct vram__pen {
  const vram_sink *sink; /* NULL: nothing is written, only measured */
  uint32_t n;
  uint8_t failed;
  char text[1024];
} vram__pen;

typedef struct vram__cell {
  uint64_t bytes, key;
  const vram_node *node;
  uint32_t count; /* tensors */
  uint16_t len;   /* of the node's name, as far as they share it */
  uint8_t cat, kind;
  int x, y, w, h;
} vram__cell;

enum { /* what the tensors of a cell have in common */
       VRAM__CELL_NODE,
       VRAM__CELL_PREFIX, /* a module: the name up to a dot or bracket */
       VRAM__CELL_OP,
       VRAM__CELL_REST /* the category only */
};

enum {
  VRAM__SVG_WIDTH = 5000,
  VRAM__SVG_EDGE = 120,
  VRAM__SVG_ROOM = VRAM__SVG_WIDTH - 2 * VRAM__SVG_EDGE,
  VRAM__SVG_SMALL = 2500, /* of a plot alone */
  VRAM__SVG_PLOT = 2300,  /* heights */
  VRAM__SVG_LOW = 1000,
  VRAM__SVG_AREAS = 3000,
  VRAM__SVG_FONT = 150,
  VRAM__SVG_FINE = 140,
  VRAM__SVG_CELLS = 32, /* a cell is at least so small a part */
  VRAM__SVG_STEPS = 960 /* columns at most */
};

typedef struct vram__box {
  int x, y, w, h;
} vram__box;

typedef struct vram__svg {
  vram__pen pen;
  const vram_timeline *t;
  const vram_report *r;
  const vram_svg_options *o;
  vram__cell *cell;
  uint32_t ncell, nlive;
  uint64_t total, bytes[VRAM_CATEGORY_COUNT]; /* at the peak */
  uint8_t seen[VRAM_CATEGORY_COUNT];          /* at any time */
  uint64_t need;                              /* of the device */
  uint64_t least;                             /* that a cell has, if it is one tensor */
  uint64_t scale, step;                       /* bytes at the upper edge of the plot, of a tick */
  int width;
  uint64_t across; /* moments from its left edge to the right one */
  vram__box plot, label[4];
  struct {
    int x, y;
  } end;       /* of the area that is drawn */
  int budget;  /* it is so near that the plot shows it */
  int line[2]; /* heights of lines across the plot */
  uint32_t nlabel, nline;
} vram__svg;

#define VRAM__WORDS(X)                                                                             \
  X(segments)                                                                                      \
  X(device_traces)                                                                                 \
  X(allocator_settings)                                                                            \
  X(external_annotations)                                                                          \
  X(host_segments)                                                                                 \
  X(host_traces)                                                                                   \
  X(PYTORCH_CUDA_ALLOC_CONF)                                                                       \
  X(trace_alloc_max_entries)                                                                       \
  X(trace_alloc_overflowed)                                                                        \
  X(device)                                                                                        \
  X(address)                                                                                       \
  X(total_size)                                                                                    \
  X(allocated_size)                                                                                \
  X(active_size)                                                                                   \
  X(requested_size)                                                                                \
  X(stream)                                                                                        \
  X(segment_type)                                                                                  \
  X(large)                                                                                         \
  X(small)                                                                                         \
  X(segment_pool_id)                                                                               \
  X(is_expandable)                                                                                 \
  X(frames)                                                                                        \
  X(name)                                                                                          \
  X(filename)                                                                                      \
  X(line)                                                                                          \
  X(blocks)                                                                                        \
  X(size)                                                                                          \
  X(state)                                                                                         \
  X(active_allocated)                                                                              \
  X(active_pending_free)                                                                           \
  X(inactive)                                                                                      \
  X(action)                                                                                        \
  X(alloc)                                                                                         \
  X(free_requested)                                                                                \
  X(free_completed)                                                                                \
  X(segment_alloc)                                                                                 \
  X(segment_free)                                                                                  \
  X(segment_map)                                                                                   \
  X(segment_unmap)                                                                                 \
  X(oom)                                                                                           \
  X(snapshot)                                                                                      \
  X(addr)                                                                                          \
  X(device_free)                                                                                   \
  X(time_us)                                                                                       \
  X(pool_id)                                                                                       \
  X(category)                                                                                      \
  X(unknown)                                                                                       \
  X(user_metadata)

typedef enum vram__file_word {
#define VRAM__X(id) VRAM__WORD_##id,
  VRAM__WORDS(VRAM__X)
#undef VRAM__X
      VRAM__WORD_COUNT
} vram__file_word;

typedef struct vram__values {
  vram__pen pen;
  int json, comma;
  uint8_t known[VRAM__WORD_COUNT]; /* in the memo */
} vram__values;

/* timeline.c */
VRAM__FN const char *vram__span_name(vram_phase phase);

/* pen.c */
VRAM__FN uint32_t vram__node_text(const vram_node *n, char *to, uint32_t cap);
VRAM__FN const char *vram__op_text(uint32_t op);
VRAM__FN void vram__pen_flush(vram__pen *p);
VRAM__FN void vram__pen_put(vram__pen *p, const char *s, uint32_t len);
VRAM__FN void vram__pen_puts(vram__pen *p, const char *z);
VRAM__FN uint32_t vram__utf8(const char *s, uint32_t len);
VRAM__FN void vram__pen_xml(vram__pen *p, const char *s, uint32_t len);
VRAM__FN void vram__pen_f(vram__pen *p, const char *format, ...);
VRAM__FN int vram__text_width(const char *s, uint32_t len, int size);
VRAM__FN void vram__pen_fit(vram__pen *p, const char *s, uint32_t len, int size, int room,
                            int tail);
VRAM__FN void vram__pen_label(vram__pen *p, const char *z);
VRAM__FN void vram__pen_json(vram__pen *p, const char *z);
VRAM__FN void vram__pen_spaces(vram__pen *p, uint32_t n);
VRAM__FN void vram__pen_right(vram__pen *p, const char *z, uint32_t width);
VRAM__FN void vram__pen_left(vram__pen *p, const char *z, uint32_t width);
VRAM__FN void vram__pen_bytes(vram__pen *p, uint64_t bytes, uint32_t width);
VRAM__FN void vram__pen_number(vram__pen *p, uint64_t v, uint32_t width);
VRAM__FN void vram__pen_size(vram__pen *p, uint64_t bytes);
VRAM__FN void vram__pen_line(vram__pen *p, const vram_owner *w);
VRAM__FN void vram__pen_owner(vram__pen *p, const vram_owner *w);
VRAM__FN vram_result vram__pen_end(vram__pen *p);
VRAM__FN void vram__pen_begin(vram__pen *p, const vram_sink *sink);

/* cells.c */
VRAM__FN uint64_t vram__share(uint64_t a, uint64_t b, uint64_t c);
VRAM__FN uint32_t vram__cells(vram__cell *c, const vram_live *live, uint32_t n, uint64_t least);
VRAM__FN void vram__squarify(vram__cell *c, uint32_t n, const vram__cell *in);

/* svg_plot.c */
VRAM__FN const char *vram__svg_bytes(const vram__svg *d, uint64_t bytes, char to[24]);
VRAM__FN int vram__svg_title(vram__svg *d);
VRAM__FN void vram__svg_open(vram__svg *d, int height);
VRAM__FN void vram__svg_ground(vram__svg *d, int height);
VRAM__FN vram_result vram__svg_close(vram__svg *d);
VRAM__FN uint64_t vram__tick_step(uint64_t end, uint64_t most, int binary);
VRAM__FN int vram__svg_x(const vram__svg *d, uint64_t moment);
VRAM__FN void vram__svg_scale(vram__svg *d, uint64_t most);
VRAM__FN void vram__svg_scale_lines(vram__svg *d);
VRAM__FN void vram__svg_base(vram__svg *d);
VRAM__FN void vram__svg_count(vram__svg *d, uint64_t v, uint32_t digits, int y);
VRAM__FN void vram__svg_areas_open(vram__svg *d);
VRAM__FN void vram__svg_area_open(vram__svg *d, uint32_t category);
VRAM__FN void vram__svg_area_to(vram__svg *d, uint64_t bytes, uint64_t to);
VRAM__FN int vram__svg_fits(vram__svg *d, int y);
VRAM__FN void vram__svg_line(vram__svg *d, uint64_t bytes, const char *dashes);
VRAM__FN void vram__svg_mark(vram__svg *d, const char *what, uint64_t bytes, int x,
                             const char *kind);
VRAM__FN int vram__svg_dot(vram__svg *d, uint64_t bytes, uint64_t from, uint64_t to);
VRAM__FN void vram__svg_peak_mark(vram__svg *d, uint64_t bytes, uint64_t from, uint64_t to);

/* oom.c */
VRAM__FN void vram__pen_hex(vram__pen *p, uint64_t v);

/* values.c */
VRAM__FN void vram__value_comma(vram__values *v);
VRAM__FN void vram__value_number(vram__values *v, uint64_t n);
VRAM__FN void vram__value_bool(vram__values *v, int truth);
VRAM__FN void vram__value_text(vram__values *v, const char *z);
VRAM__FN void vram__value_word(vram__values *v, vram__file_word word);
VRAM__FN void vram__value_key(vram__values *v, vram__file_word word);
VRAM__FN void vram__value_open(vram__values *v, int dict);
VRAM__FN void vram__value_close(vram__values *v, int dict);
VRAM__FN void vram__value_item(vram__values *v, uint64_t *n);
VRAM__FN void vram__value_field(vram__values *v, vram__file_word word, uint64_t n);
VRAM__FN void vram__value_pool_id(vram__values *v, vram__file_word word);
