/* What the outputs of vram estimate share. */
#ifndef VRAM_ESTIMATE_H
#define VRAM_ESTIMATE_H

#include "vram_job.h"

typedef struct layer { /* a node; the lines that an op was written out to count as one */
  const vram_node *node, *last, *next;
  vram_node_report sum;
} layer;

/* The layer that begins at l->next or behind it; 0: there is none. */
int layer_next(layer *l, const vram_node_report *rep);
void layer_shape(const vram_dims *d, char *to, size_t cap);

typedef struct scene { /* what a picture shows */
  vram_timeline timeline;
  void *columns;
  const vram_live *live; /* at the peak */
  uint32_t nlive;
  void *scratch;
  char title[VRAM_MAX_NAME + 1], subtitle[400];
  vram_svg_options options;
} scene;

/* What lives at the peak, in the order of the graph: the caller frees *list, also where this is not
   FITS: message printed. */
int estimate_live(const job *j, const loaded *l, const vram_report *r, vram_live **list,
                  uint32_t *count);
/* The page of --html; not 0: it was not written. */
int scene_write_html(FILE *f, const job *j, const vram_graph *g, const scene *s,
                     const vram_report *r, int fits);
/* --svg and --html; not FITS: message printed. */
int scene_write_all(const job *j, const vram_graph *g, void *scratch, uint64_t bytes,
                    const vram_report *r, int fits, const vram_live *live, uint32_t nlive);
/* --snapshot and --trace; not FITS: message printed. */
int film_write_all(const job *j, const vram_graph *g, void *scratch, uint64_t bytes);

/* One JSON object of a report, but for its last brace. */
void estimate_json(const job *j, const vram_graph *g, const vram_report *r,
                   const vram_parameters *p, const char *peak_node, int fits);
/* The first line for people: the model, what runs, its dims, the device. */
void estimate_title(const job *j, const vram_graph *g);

/* "A..B" as --checkpoint-nodes takes it. */
void estimate_nodes(const vram_range *r, char *to, size_t cap);

/* What a rank sends in a step, for people: nothing, if it sends none. */
void print_sent(const vram_report *r);

/* --generate: the text, of `len` bytes, played step by step; it is freed. The exit status. */
int generate_command(job *j, char *text, size_t len);

/* The last phase that a report of the job's step has something of. */
int job_last_phase(const job *j);

/* The phase that a report has in place of phase i: of a pipeline `step` for forward and backward;
   VRAM_PHASE_COUNT: none. */
vram_phase job_phase(const job *j, int i);

/* For a page. */
void html_text(FILE *f, const char *s);

#endif
