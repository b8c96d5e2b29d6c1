/* >>parallel    what wrappers of torch.distributed do around a step */
#pragma once
#include "step/step.h"

/* deepspeed.c */
VRAM__FN void vram__ds_hooks(vram__wrapper *w);
