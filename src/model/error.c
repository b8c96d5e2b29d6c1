/* >>model/error    the error of a graph */
#include "model/model.h"

/* An error's text is put together from pieces; the first error of a graph stays. */
VRAM__FN void vram__fail(vram_graph *g, vram_result code, const char *what) {
  uint32_t n = 0;
  if (g->error.code)
    return;
  g->error.code = code;
  vram__puts(g->error.text, sizeof g->error.text, &n, what);
}

VRAM__FN void vram__more(vram_graph *g, const char *z) {
  uint32_t n = vram__len(g->error.text);
  vram__puts(g->error.text, sizeof g->error.text, &n, z);
}

VRAM__FN void vram__more_n(vram_graph *g, const char *z, uint32_t len) {
  uint32_t n = vram__len(g->error.text), i;
  for (i = 0; i < len && i < 64; i++) {
    char c = '?';
    if (z[i] >= 32 && z[i] < 127)
      c = z[i];
    vram__put(g->error.text, sizeof g->error.text, &n, &c, 1);
  }
}

VRAM__FN void vram__no_dim(vram_graph *g, const char *name) {
  uint32_t i;
  vram__fail(g, VRAM_ERR_NAME, "the model has no dim ");
  vram__more(g, name);
  for (i = 0; i < g->ndim; i++) {
    vram__more(g, i ? ", " : " (expected ");
    vram__more_n(g, g->dim[i].name, g->dim[i].len);
  }
  vram__more(g, g->ndim ? ")" : "");
}

VRAM__FN void vram__more_i(vram_graph *g, int64_t v) {
  uint32_t n = vram__len(g->error.text);
  vram__puti(g->error.text, sizeof g->error.text, &n, v);
}

VRAM__FN void vram__more_dims(vram_graph *g, const vram_dims *d) {
  uint32_t i;
  vram__more(g, "[");
  for (i = 0; i < d->ndim; i++) {
    if (i)
      vram__more(g, ",");
    vram__more_i(g, d->v[i]);
  }
  vram__more(g, "]");
}
