/* >>parallel/wrapper    which wrapper does what, and when */
#include "parallel/parallel.h"

static const vram__wrapper vram__wrappers[VRAM_WRAPPER_COUNT] = {
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* none */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* ddp */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* zero1 */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* fsdp1 */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* fsdp2 */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* ds1 */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* ds2 */
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}, /* ds3 */
};

VRAM__FN const vram__wrapper *vram__wrapper_of(const vram_step_options *o) {
  return o && o->parallel && o->parallel->wrapper ? vram__wrappers + o->parallel->wrapper : NULL;
}

/* What no rank can begin with, or NULL. */
VRAM__FN const char *vram__wrapper_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram__wrapper *w = vram__wrapper_of(o);
  if (!o->parallel)
    return NULL;
  if ((uint32_t)o->parallel->wrapper >= VRAM_WRAPPER_COUNT)
    return "unknown wrapper";
  if (o->parallel->rank >= vram_parallel_world(o->parallel))
    return "a rank that the world does not have";
  if (o->parallel->tp > 1 || o->parallel->pp > 1 || o->parallel->cp > 1 || o->parallel->ep > 1)
    return "tp, pp, cp and ep are not played yet";
  if (!w)
    return NULL;
  if (!w->construct)
    return "this wrapper is not played yet";
  return w->refuses ? w->refuses(g, o) : NULL;
}
