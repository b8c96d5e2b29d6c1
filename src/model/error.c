/* >>model/error    the error of a graph */
#include "model/model.h"

/* An error's text is put together from pieces; the first error of a graph stays. */
VRAM__FN void vram__graph_fail(vram_graph *g, vram_result code, const char *what) {
  uint32_t n = 0;
  if (g->error.code)
    return;
  g->error.code = code;
  vram__text_puts(g->error.text, sizeof g->error.text, &n, what);
}

VRAM__FN void vram__error_more(vram_graph *g, const char *z) {
  uint32_t n = vram__text_len(g->error.text);
  vram__text_puts(g->error.text, sizeof g->error.text, &n, z);
}

VRAM__FN void vram__error_more_n(vram_graph *g, const char *z, uint32_t len) {
  uint32_t n = vram__text_len(g->error.text), i;
  for (i = 0; i < len && i < 64; i++) {
    char c = '?';
    if (z[i] >= 32 && z[i] < 127)
      c = z[i];
    vram__text_put(g->error.text, sizeof g->error.text, &n, &c, 1);
  }
}

VRAM__FN void vram__error_no_dim(vram_graph *g, const char *name) {
  uint32_t i;
  vram__graph_fail(g, VRAM_ERR_NAME, "the model has no dim ");
  vram__error_more(g, name);
  for (i = 0; i < g->ndim; i++) {
    vram__error_more(g, i ? ", " : " (expected ");
    vram__error_more_n(g, g->dim[i].name, g->dim[i].len);
  }
  vram__error_more(g, g->ndim ? ")" : "");
}

VRAM__FN void vram__error_more_i(vram_graph *g, int64_t v) {
  uint32_t n = vram__text_len(g->error.text);
  vram__text_puti(g->error.text, sizeof g->error.text, &n, v);
}

VRAM__FN void vram__error_more_dims(vram_graph *g, const vram_dims *d) {
  uint32_t i;
  vram__error_more(g, "[");
  for (i = 0; i < d->ndim; i++) {
    if (i)
      vram__error_more(g, ",");
    vram__error_more_i(g, d->v[i]);
  }
  vram__error_more(g, "]");
}
