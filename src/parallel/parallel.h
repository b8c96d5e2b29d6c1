/* >>parallel    what wrappers of torch.distributed do around a step */
#pragma once
#include "step/step.h"

/* ddp.c */
VRAM__FN void vram__ddp_hooks(vram__wrapper *w);

/* zero.c */
VRAM__FN void vram__zero_hooks(vram__wrapper *w);
