/* >>parallel    what wrappers of torch.distributed do around a step */
#pragma once
#include "step/step.h"
