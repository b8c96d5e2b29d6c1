/* >>step/optimizers    what each optimizer allocates: recipes in words
   A recipe follows PyTorch's function (torch/optim) with the names of its variables:

     NAME = new(SIZE);     a tensor for every parameter of the scope; once they exist, what NAME
                           held before goes
     NAME += new(SIZE);    the same, and what NAME held stays: a list to which a loop appends
     new(SIZE);            nobody keeps it: it goes at once
     NAME = state(SIZE);   a tensor for every parameter of the scope, which stays
     NAME = move(OTHER);   NAME takes what OTHER holds; what NAME held before goes
     NAME = last(OTHER);   NAME takes the last tensor of OTHER, the rest goes: so ends a Python loop
     free NAME, ...;       what they hold goes, the last tensor of each first
     local NAME, ...;      nothing happens, but these variables have been named
     if CONDITION { }      also `if not CONDITION`, `if CONDITION or CONDITION`; then `else { }`
     for each parameter { }

   Behind new(SIZE) may stand `using WORKSPACE`, which the kernel takes once the tensor exists and
   gives back at once, then `from NAME, ...`, operands, which go next.

   The scope: foreach has a group of parameters of equal dtype (the dtype that is met last comes
   first), loop and init one parameter, `for each parameter` as well, fused all of them. A recipe is
   the body of PyTorch's loop over groups or parameters, so variables keep their values from one
   round to the next. When the function returns they go, in the order in which the recipe names
   them; parts that the step's options exclude do not count.

   SIZE       param: like the parameter; TYPE: one number; TYPE[COUNT]: so many
   TYPE       own: the parameter's dtype; bool, u8, bf16, f32, f64; promoted: own, but f32 where a
              parameter without axes meets a number in f32 on the device (capturable)
   COUNT      numel; rows: numbers that a reduction over the last axis leaves; columns: over the one
              before it; matrices: over both; gram: elements of the smaller product of a matrix with
              itself; blocks: of 256 elements; resident: numel, 0 where a paged optimizer keeps the
              tensor in managed memory; low: of the projected gradient; basis: of what
              projects it; 256; gradient: of the gradient; placed: of a DTensor whose gradient is
              placed in another way, of the gradient placed as the parameter is
   WORKSPACE  cublas; cublaslt: cuBLASLt's, but cuBLAS's where the matrix has one row or column;
              cublaslt_transposed: also where it has more rows than columns; reduce_all; of a copy
              in bf16: reduce_all_bf16; reduce_rows; reduce_columns; reduce_row_factors: what
              reduce_rows has left
   CONDITION  of the step: weight_decay (that is added to the gradient), first_step, fused,
              capturable, dtensor (the parameters are DTensors), denom (Adam has a list of that
              name); of the parameter: matrix (two axes or more), large (4,096 elements or more),
              low_precision (f16, bf16), once (the first time that it is asked), projected (GaLore
              projects its gradient) */
#include "step/optim.h"

/* A line is a statement, some that belong together, or the beginning or end of a block. */
/* clang-format off */

/* A function of DTensors places each of its arguments as it needs it (tensor/_dispatch.py). */
#define VRAM__PLACED_TWICE "first = new(own[placed]); second = new(own[placed]); free second, first;"
#define VRAM__PLACED "first = new(own[placed]); free first;"
static const char vram__sgd[] =
    "free grads;"
    "if weight_decay { grads = new(param); }"
    "if dtensor {" VRAM__PLACED "}";
static const char vram__sgd_momentum[] =
    "free grads;"
    "if weight_decay { grads = new(param); }"
    "if first_step {"
    "  if dtensor { momentum_buffer = state(own[gradient]); }"
    "  else { momentum_buffer = state(param); }"
    "}"
    "if dtensor {" VRAM__PLACED "}";
static const char vram__sgd_nesterov_loop[] =
    "free grads;"
    "if weight_decay { grads = new(param); }"
    "if first_step { momentum_buffer = state(param); }"
    "grads = new(param);";
static const char vram__sgd_momentum_fused[] = "if first_step { momentum_buffer = state(param); }";

static const char vram__adam_init[] =
    "if fused or capturable { step = state(f32); }"
    "exp_avg = state(param); exp_avg_sq = state(param);";
static const char vram__amsgrad_init[] =
    "if fused or capturable { step = state(f32); }"
    "exp_avg = state(param); exp_avg_sq = state(param); max_exp_avg_sq = state(param);";
static const char vram__adam_foreach[] =
    "if weight_decay { grads = new(param); free grads; }"
    "if dtensor {" VRAM__PLACED VRAM__PLACED_TWICE "}"
    "if capturable {"
    "  bias_correction1 = new(f32); bias_correction2 = new(f32);"
    "  step_size = move(bias_correction1); bias_correction2_sqrt = move(bias_correction2);"
    "}"
    "exp_avg_sq_sqrt = new(param);"
    "if denom { denom = new(param); }";
#define VRAM__ADAM_LOOP(maximum)                                                   \
    "if weight_decay { grad = new(param); }"                                       \
    "if dtensor {" VRAM__PLACED VRAM__PLACED_TWICE "}"                             \
    "if capturable {"                                                              \
    "  power = new(f32); new(f64); bias_correction1 = new(f32) from power;"        \
    "  power = new(f32); new(f64); bias_correction2 = new(f32) from power;"        \
    "  reciprocal = new(f32); step_size = new(f32) from reciprocal;"               \
    "  step_size_neg = new(f32);"                                                  \
    "  bias_correction2_sqrt = new(f32);"                                          \
    maximum                                                                        \
    "  sqrt = new(param); product = new(f32);"                                     \
    "  quotient = new(promoted[numel]) from sqrt, product;"                        \
    "  reciprocal = new(f32); product = new(f32); free reciprocal, product;"       \
    "  denom = move(quotient);"                                                    \
    "} else {"                                                                     \
    "  sqrt = new(param); denom = new(param) from sqrt;"                           \
    "}"                                                                            \
    "free grad;"
static const char vram__adam_loop[] = VRAM__ADAM_LOOP("");
static const char vram__amsgrad_loop[] = VRAM__ADAM_LOOP("new(param);");

static const char vram__adam_fused[] = "if dtensor {" VRAM__PLACED "}";

static const char vram__adagrad_foreach[] =
    "if weight_decay { grads = new(param); }"
    "std = new(param);"
    "if not weight_decay { grads = new(param); }"
    "numerator = move(grads);";

static const char vram__rmsprop_foreach[] =
    "free grads;"
    "if weight_decay { grads = new(param); }"
    "avg = new(param);";
static const char vram__rmsprop_loop[] =
    "if weight_decay { grad = new(param); }"
    "avg = new(param);"
    "free grad;";

static const char vram__adadelta_foreach[] =
    "free grads;"
    "if weight_decay { grads = new(param); }"
    "std = new(param); deltas = new(param);";
static const char vram__adadelta_loop[] =
    "if weight_decay { grad = new(param); }"
    "std = new(param); delta = new(param);"
    "free grad;";

static const char vram__adamax_foreach[] =
    "free grads;"
    "grads = new(param);"
    "if capturable { bias_corrections = new(f32); denom = new(promoted[numel]); }";
static const char vram__adamax_loop[] =
    "if weight_decay { grad = new(param); }"
    "new(param);"
    "if capturable {"
    "  power = new(f32); new(f64); neg_bias_correction = new(f32) from power;"
    "  denom = new(promoted[numel]);"
    "}"
    "free grad;";

static const char vram__nadam_foreach[] =
    "free grads;"
    "if weight_decay { grads = new(param); }"
    "exp_avg_sq_sqrt = new(param);"
    "if capturable {"
    "  exponent = new(f32); mus = new(f32); mu_nexts = new(f32); free exponent;"
    "  bias_correction_sqrt = new(f32); free bias_correction_sqrt;"
    "  denom = new(f32); step_size_grads = move(mus); free denom;"
    "  denom = new(f32); step_size_expavg = move(mu_nexts); free denom;"
    "  numerator = new(promoted[numel]);"
    "}";
static const char vram__nadam_loop[] =
    "if capturable { power = new(f32); new(f64); bias_correction2 = new(f32) from power; }"
    "if weight_decay { grad = new(param); }"
    "if capturable {"
    "  number = new(f32); power = new(f32); new(f64); free number;"
    "  half = new(f32) from power; rest = new(f32) from half; mu = new(f32) from rest;"
    "  next = new(f32); number = new(f32) from next; power = new(f32); new(f64); free number;"
    "  half = new(f32) from power; rest = new(f32) from half; mu_next = new(f32) from rest;"
    "  corrected = new(promoted[numel]); denom = new(promoted[numel]) from corrected;"
    "  denom = new(promoted[numel]);"
    "  mu_product_next = new(f32);"
    "  rest = new(f32); product = new(f32) from rest; rest = new(f32);"
    "  factor = new(f32) from product, rest; grad = new(promoted[numel]) from factor;"
    "  product = new(f32); rest = new(f32);"
    "  factor = new(f32) from product, rest; exp_avg = new(promoted[numel]) from factor;"
    "} else {"
    "  corrected = new(param); denom = new(param) from corrected;"
    "}"
    "free grad, exp_avg;";

static const char vram__radam_foreach[] =
    "if capturable { bias_correction1 = new(f32); bias_correction2 = new(f32); }"
    "if weight_decay { grads = new(param); free grads; }"
    "if capturable {"
    "  num = new(f32); sub2 = new(f32); free sub2; denom = new(f32); free denom;"
    "  for each parameter {"
    "    mask = new(bool); number = new(f32); rect += new(f32) from number, mask;"
    "  }"
    "  free num;"
    "  for each parameter {"
    "    mask = new(bool); zero = new(f32); one = new(f32);"
    "    step_sizes += new(f32) from one, zero, mask;"
    "  }"
    "  unrect_step_size = move(step_sizes);"
    "  bias_correction1 = new(f32); bias_correction2 = new(f32); free rect, bias_correction1;"
    "}"
    "buffer = new(param);";
/* bias_correction2 and rho_t go last: functions inside PyTorch's function use them. */
static const char vram__radam_loop[] =
    "local bias_correction1, bias_corrected_exp_avg, update;"
    "if weight_decay { grad = new(param); }"
    "if capturable {"
    "  power = new(f32); new(f64); bias_correction1 = new(f32) from power;"
    "  power = new(f32); new(f64); bias_correction2 = new(f32) from power;"
    "}"
    "bias_corrected_exp_avg = new(promoted[numel]);"
    "if capturable {"
    "  twice = new(f32); power = new(f32); new(f64); product = new(f32) from twice, power;"
    "  ratio = new(f32) from product; rho_t = new(f32) from ratio;"
    "  mask = new(bool);"
    "  sub4 = new(f32); sub2 = new(f32); product = new(f32) from sub4, sub2;"
    "  num = new(f32) from product; denom = new(f32); ratio = new(f32) from num, denom;"
    "  rect = new(f32) from ratio;"
    "  sqrt = new(param); root = new(f32); rate = new(promoted[numel]) from root, sqrt;"
    "  product = new(promoted[numel]) from rect, rate;"
    "  one = new(promoted); update = new(promoted[numel]) from one, mask, product;"
    "  scaled = new(promoted[numel]); product = new(promoted[numel]) from scaled; free product;"
    "}"
    "if not capturable {"
    "  scaled = new(param);"
    "  if not first_step {" /* up to the fifth it is not rectified */
    "    exp_avg_sq_sqrt = new(param);"
    "    reciprocal = new(param); rate = new(param) from reciprocal, exp_avg_sq_sqrt;"
    "    product = new(param) from scaled, rate; scaled = new(param) from product;"
    "  }"
    "  free scaled;"
    "}"
    "free grad;";

static const char vram__asgd_init[] =
    "step = state(f32); lr = new(f32); eta = state(f32); free lr; mu = state(f32);"
    "ax = state(param);";
static const char vram__asgd_foreach[] =
    "intermediate = new(param); free intermediate;"
    "intermediate = new(param); free intermediate;"
    "local new_mus, new_etas;"
    "if capturable {"
    "  new_mus = new(f32); free new_mus;"
    "  new_etas = new(f32);"
    "} else {"
    "  for each parameter {"
    "    product = new(f32); sum = new(f32) from product; power = new(f32) from sum;"
    "    number = new(f32); etas += new(f32) from number, power;"
    "  }"
    "  new_etas = move(etas);"
    "  new_mus = new(f32);"
    "}";
static const char vram__asgd_loop[] =
    "if weight_decay { grad = new(param); }"
    "if capturable { product = new(f32); rest = new(f32) from product; free rest; }"
    "difference = new(param); free difference;"
    "if capturable {"
    "  product = new(f32); sum = new(f32) from product; power = new(f32) from sum;"
    "  reciprocal = new(f32); eta = new(f32) from reciprocal, power; free eta;"
    "  past = new(f32); one = new(f32); maximum = new(f32) from past, one;"
    "  reciprocal = new(f32); mu = new(f32) from reciprocal, maximum; free mu;"
    "}"
    "free grad;";

/* x.copy_(torch.where(mask, number, x)) */
#define VRAM__WHERE                                                                \
    "mask = new(bool[numel]); number = new(own);"                                  \
    "chosen = new(param) from number, mask; free chosen;"
/* A sign above 0 becomes a number, one below 0, one that is 0. */
#define VRAM__RPROP_SIGN                                                           \
    "if capturable {" VRAM__WHERE VRAM__WHERE VRAM__WHERE "}"                      \
    "else { new(bool[numel]); new(bool[numel]); new(bool[numel]); }"
static const char vram__rprop_foreach[] =
    "signs = new(param); free sign;"
    "for each parameter {" VRAM__RPROP_SIGN "}"
    "for each parameter {" VRAM__WHERE "}"
    "sign = last(signs);"
    "grad_signs = new(param);";
static const char vram__rprop_loop[] =
    "product = new(param); sign = new(param) from product;"
    VRAM__RPROP_SIGN
    "grad = new(param);"
    "if capturable {" VRAM__WHERE "} else { new(bool[numel]); }"
    "new(param);"
    "free grad;";

static const char vram__adafactor_init[] =
    "if matrix { row_var = state(own[rows]); col_var = state(own[columns]); }"
    "else { variance = state(param); }";
static const char vram__adafactor_foreach[] =
    "for each parameter { norm = new(own) using reduce_all; free norm; }"
    "if matrix {"
    "  for each parameter { row_means += new(own[rows]) using reduce_rows; } free row_means;"
    "  for each parameter { col_means += new(own[columns]) using reduce_columns; } free col_means;"
    "  for each parameter { var_estimates += new(param) using cublas; }"
    "  for each parameter { means += new(own[matrices]) using reduce_row_factors; } free means;"
    "} else {"
    "  grads_squared = new(param); free grads_squared;"
    "  var_estimates = new(param);"
    "}"
    "updates = move(var_estimates);"
    "for each parameter { norm = new(own) using reduce_all; free norm; }";
static const char vram__adafactor_loop[] =
    "norm = new(own) using reduce_all; free norm;"
    "if matrix {"
    "  row_mean = new(own[rows]) using reduce_rows;"
    "  col_mean = new(own[columns]) using reduce_columns;"
    "  var_estimate = new(param) using cublas;"
    "  mean = new(own[matrices]) using reduce_row_factors; free mean;"
    "} else {"
    "  grad_squared = new(param);"
    "  var_estimate = new(param);"
    "}"
    "update = move(var_estimate);"
    "norm = new(own) using reduce_all; free norm;";

/* one step of Newton and Schulz */
#define VRAM__MUON_STEP(workspace)                                                 \
    "gram_matrix = new(bf16[gram]) using cublas;"                                  \
    "gram_update = new(bf16[gram]) using cublaslt;"                                \
    "ortho_grad = new(bf16[numel]) using " workspace ";"
static const char vram__muon_loop[] =
    "update = new(param); free ortho_update;"
    "ortho_grad = new(bf16[numel]);"
    "norm = new(bf16) using reduce_all_bf16; clamped = new(bf16); free norm, clamped;"
    VRAM__MUON_STEP("cublaslt_transposed")
    VRAM__MUON_STEP("cublaslt")
    VRAM__MUON_STEP("cublaslt")
    VRAM__MUON_STEP("cublaslt")
    VRAM__MUON_STEP("cublaslt")
    "free gram_matrix, gram_update, update;"
    "ortho_update = move(ortho_grad);";

static const char vram__lion_foreach[] =
    "if first_step { exp_avg = state(param); }"
    "update = new(param);";
static const char vram__lion_loop[] =
    "if first_step { exp_avg = state(param); }"
    "sum = new(param); update = new(param) from sum; free update;";

static const char vram__lamb_foreach[] =
    "free grads;"
    "grads = new(param); denom = new(param); update = new(param);";
static const char vram__lamb_loop[] =
    "grad = new(param);"
    "sqrt = new(param); denom = new(param) from sqrt;"
    "update = new(param);"
    "free grad;";

static const char vram__8bit_init1[] =
    "if large {"
    "  if once { qmap1 = state(f32[256]); }"
    "  state1 = state(u8[numel]); absmax1 = state(f32[blocks]);"
    "} else {"
    "  state1 = state(f32[numel]);"
    "}";
static const char vram__8bit_init2[] =
    "if large {"
    "  if once { qmap1 = state(f32[256]); qmap2 = state(f32[256]); }"
    "  state1 = state(u8[numel]); state2 = state(u8[numel]);"
    "  absmax1 = state(f32[blocks]); absmax2 = state(f32[blocks]);"
    "} else {"
    "  state1 = state(f32[numel]); state2 = state(f32[numel]);"
    "}";

static const char vram__paged_8bit_init1[] =
    "if large {"
    "  if once { qmap1 = state(f32[256]); }"
    "  state1 = state(u8[resident]); absmax1 = state(f32[blocks]);"
    "} else {"
    "  state1 = state(f32[numel]);"
    "}";
static const char vram__paged_8bit_init2[] =
    "if large {"
    "  if once { qmap1 = state(f32[256]); qmap2 = state(f32[256]); }"
    "  state1 = state(u8[resident]); state2 = state(u8[resident]);"
    "  absmax1 = state(f32[blocks]); absmax2 = state(f32[blocks]);"
    "} else {"
    "  state1 = state(f32[numel]); state2 = state(f32[numel]);"
    "}";

/* GaLoreAdamW of galore_torch 1.0. Its first step, and each 200th, decomposes the gradient in f32
   (torch.linalg.svd); of f32 the square factor stays, as what projects is a view of it. */
static const char vram__galore_adamw[] =
    "local grad;"
    "free grad;"
    "if projected {"
    "  if first_step {"
    "    if low_precision { matrix = new(f32[numel]); }"
    "    copy = new(f32[numel]); factor = new(f32[numel]); free copy;"
    "    if low_precision { square = new(f32[gram]); projector = state(own[basis]); free square; }"
    "    else { projector = state(own[gram]); }"
    "    free factor, matrix;"
    "  }"
    "  grad = new(own[low]) using cublas;"
    "  if first_step { exp_avg = state(own[low]); exp_avg_sq = state(own[low]); }"
    "  denom = new(own[low]); norm_grad = new(own[low]);"
    "  product = new(param) using cublas; scaled = new(param); free product;"
    "  norm_grad = move(scaled);"
    "} else {"
    "  if first_step { exp_avg = state(param); exp_avg_sq = state(param); }"
    "  denom = new(param); norm_grad = new(param);"
    "}";

/* In the order of VRAM_OPTIMIZERS: name; state; what PyTorch picks on CUDA; flags; init; recipes of
   foreach, loop and fused ("": nothing is allocated, NULL: there is none).
   Measured: torch.optim of PyTorch 2.15; lion with lion-pytorch 0.2.5 (foreach: timm 1.0.31, one
   chunk); *_8bit, *_32bit with bitsandbytes 0.50.2. Derived, not measured: lamb (after timm 1.0.31). */
#define VRAM__FOREACH VRAM_OPTIM_IMPL_FOREACH
#define VRAM__LOOP VRAM_OPTIM_IMPL_LOOP
#define VRAM__CAPTURABLE VRAM__OPTIM_CAPTURABLE
#define VRAM__STEP "if fused or capturable { step = state(f32); }"
static const vram__optim_row vram__optim_rows[VRAM_OPTIM_COUNT] = {
    {"sgd", "", VRAM__FOREACH, 0, "", {vram__sgd, vram__sgd, ""}},
    {"sgd_momentum", "momentum_buffer", VRAM__FOREACH, 0, "",
     {vram__sgd_momentum, vram__sgd_momentum, vram__sgd_momentum_fused}},
    {"sgd_nesterov", "momentum_buffer", VRAM__FOREACH, 0, "",
     {vram__sgd_momentum, vram__sgd_nesterov_loop, vram__sgd_momentum_fused}},
    {"adam", "exp_avg exp_avg_sq", VRAM__FOREACH, VRAM__CAPTURABLE, vram__adam_init,
     {vram__adam_foreach, vram__adam_loop, vram__adam_fused}},
    {"adam_amsgrad", "exp_avg exp_avg_sq max_exp_avg_sq", VRAM__FOREACH, VRAM__CAPTURABLE,
     vram__amsgrad_init, {vram__adam_foreach, vram__amsgrad_loop, vram__adam_fused}},
    {"adamw", "exp_avg exp_avg_sq", VRAM__FOREACH, VRAM__CAPTURABLE | VRAM__OPTIM_DECOUPLED,
     vram__adam_init, {vram__adam_foreach, vram__adam_loop, vram__adam_fused}},
    {"adamw_amsgrad", "exp_avg exp_avg_sq max_exp_avg_sq", VRAM__FOREACH,
     VRAM__CAPTURABLE | VRAM__OPTIM_DECOUPLED, vram__amsgrad_init,
     {vram__adam_foreach, vram__amsgrad_loop, vram__adam_fused}},
    {"adagrad", "sum", VRAM__FOREACH, VRAM__OPTIM_CTOR, VRAM__STEP "sum = state(param);",
     {vram__adagrad_foreach, vram__rmsprop_loop, ""}},
    {"rmsprop", "square_avg", VRAM__FOREACH, VRAM__CAPTURABLE,
     VRAM__STEP "square_avg = state(param);", {vram__rmsprop_foreach, vram__rmsprop_loop, NULL}},
    {"rmsprop_momentum", "square_avg momentum_buffer", VRAM__FOREACH, VRAM__CAPTURABLE,
     VRAM__STEP "square_avg = state(param); momentum_buffer = state(param);",
     {vram__rmsprop_foreach, vram__rmsprop_loop, NULL}},
    {"rmsprop_centered", "square_avg grad_avg", VRAM__FOREACH, VRAM__CAPTURABLE,
     VRAM__STEP "square_avg = state(param); grad_avg = state(param);",
     {vram__rmsprop_foreach, vram__rmsprop_loop, NULL}},
    {"rmsprop_centered_momentum", "square_avg momentum_buffer grad_avg", VRAM__FOREACH,
     VRAM__CAPTURABLE,
     VRAM__STEP
     "square_avg = state(param); momentum_buffer = state(param); grad_avg = state(param);",
     {vram__rmsprop_foreach, vram__rmsprop_loop, NULL}},
    {"adadelta", "square_avg acc_delta", VRAM__FOREACH, VRAM__CAPTURABLE,
     VRAM__STEP "square_avg = state(param); acc_delta = state(param);",
     {vram__adadelta_foreach, vram__adadelta_loop, NULL}},
    {"adamax", "exp_avg exp_inf", VRAM__FOREACH, VRAM__CAPTURABLE,
     VRAM__STEP "exp_avg = state(param); exp_inf = state(param);",
     {vram__adamax_foreach, vram__adamax_loop, NULL}},
    {"nadam", "exp_avg exp_avg_sq", VRAM__FOREACH, VRAM__CAPTURABLE,
     "if capturable { step = state(f32); mu_product = state(f32); }"
     "exp_avg = state(param); exp_avg_sq = state(param);",
     {vram__nadam_foreach, vram__nadam_loop, NULL}},
    {"radam", "exp_avg exp_avg_sq", VRAM__FOREACH, VRAM__CAPTURABLE, vram__adam_init,
     {vram__radam_foreach, vram__radam_loop, NULL}},
    {"asgd", "step eta mu ax", VRAM__FOREACH, VRAM__CAPTURABLE, vram__asgd_init,
     {vram__asgd_foreach, vram__asgd_loop, NULL}},
    {"rprop", "prev step_size", VRAM__FOREACH, VRAM__CAPTURABLE,
     VRAM__STEP "prev = state(param); step_size = state(param);",
     {vram__rprop_foreach, vram__rprop_loop, NULL}},
    {"adafactor", "row_var col_var or variance", VRAM__LOOP, VRAM__OPTIM_SPLIT,
     vram__adafactor_init, {vram__adafactor_foreach, vram__adafactor_loop, NULL}},
    {"muon", "momentum_buffer", VRAM__LOOP, VRAM__OPTIM_MATRIX, "momentum_buffer = state(param);",
     {NULL, vram__muon_loop, NULL}},
    {"lion", "exp_avg", VRAM__LOOP, 0, "", {vram__lion_foreach, vram__lion_loop, NULL}},
    {"lamb", "exp_avg exp_avg_sq", VRAM__FOREACH, 0,
     "exp_avg = state(param); exp_avg_sq = state(param);",
     {vram__lamb_foreach, vram__lamb_loop, ""}},
    {"adam_8bit", "state1 state2 absmax1 absmax2", VRAM__LOOP, 0, vram__8bit_init2,
     {NULL, "", NULL}},
    {"adamw_8bit", "state1 state2 absmax1 absmax2", VRAM__LOOP, 0, vram__8bit_init2,
     {NULL, "", NULL}},
    {"sgd_momentum_8bit", "state1 absmax1", VRAM__LOOP, 0, vram__8bit_init1, {NULL, "", NULL}},
    {"rmsprop_8bit", "state1 absmax1", VRAM__LOOP, 0, vram__8bit_init1, {NULL, "", NULL}},
    {"adagrad_8bit", "state1 absmax1", VRAM__LOOP, 0, vram__8bit_init1, {NULL, "", NULL}},
    {"lion_8bit", "state1 absmax1", VRAM__LOOP, 0, vram__8bit_init1, {NULL, "", NULL}},
    {"paged_adam_8bit", "state1 state2 absmax1 absmax2", VRAM__LOOP, 0, vram__paged_8bit_init2,
     {NULL, "", NULL}},
    {"paged_adamw_8bit", "state1 state2 absmax1 absmax2", VRAM__LOOP, 0, vram__paged_8bit_init2,
     {NULL, "", NULL}},
    {"paged_lion_8bit", "state1 absmax1", VRAM__LOOP, 0, vram__paged_8bit_init1, {NULL, "", NULL}},
    {"adamw_32bit", "state1 state2", VRAM__LOOP, 0,
     "state1 = state(f32[numel]); state2 = state(f32[numel]);", {NULL, "", NULL}},
    {"lion_32bit", "state1", VRAM__LOOP, 0, "state1 = state(f32[numel]);", {NULL, "", NULL}},
    {"paged_adamw_32bit", "state1 state2", VRAM__LOOP, 0,
     "state1 = state(f32[resident]); state2 = state(f32[resident]);", {NULL, "", NULL}},
    {"paged_lion_32bit", "state1", VRAM__LOOP, 0, "state1 = state(f32[resident]);",
     {NULL, "", NULL}},
    {"galore_adamw", "projector exp_avg exp_avg_sq", VRAM__LOOP, VRAM__OPTIM_PROJECTS |
     VRAM__OPTIM_DECOUPLED, "", {NULL, vram__galore_adamw, NULL}},
    {"lomo", "", VRAM__LOOP, VRAM__OPTIM_IN_BACKWARD, "", {NULL, "", NULL}},
};
#undef VRAM__FOREACH
#undef VRAM__LOOP
#undef VRAM__CAPTURABLE
#undef VRAM__STEP

/* clang-format on */

VRAM__FN const vram__optim_row *vram__optim_row_of(uint32_t optimizer) {
  return optimizer < VRAM_OPTIM_COUNT ? &vram__optim_rows[optimizer] : NULL;
}

VRAM_API int vram_optimizer_get_info(uint32_t optimizer, vram_optimizer_info *info) {
  static const char *const text[8] = {"",      "foreach",       "loop",       "foreach loop",
                                      "fused", "foreach fused", "loop fused", "foreach loop fused"};
  const vram__optim_row *r = vram__optim_row_of(optimizer);
  uint32_t i, has = 0;
  if (!r)
    return 0;
  info->name = r->name;
  info->state = r->state;
  info->init = r->init;
  info->step[VRAM_OPTIM_IMPL_DEFAULT] = r->body[r->by_default - 1];
  for (i = VRAM_OPTIM_IMPL_FOREACH; i <= VRAM_OPTIM_IMPL_FUSED; i++) {
    info->step[i] = r->body[i - 1];
    if (info->step[i])
      has |= 1u << (i - 1);
  }
  info->implementations =
      r->by_default == VRAM_OPTIM_IMPL_LOOP && has == 3 ? "loop foreach" : text[has];
  return 1;
}

VRAM_API vram_optimizer vram_optimizer_from_name(const char *name, int *weight_decay) {
  const uint32_t len = vram__text_len(name);
  const int suffix = len > 3 && vram__text_is(name + len - 3, 3, "_wd");
  int row;
  if (weight_decay)
    *weight_decay = 0;
  for (row = 0; row < VRAM_OPTIM_COUNT; row++) {
    if (vram__text_is(name, len, vram__optim_rows[row].name))
      return (vram_optimizer)row;
    if (suffix && vram__text_is(name, len - 3, vram__optim_rows[row].name)) {
      if (weight_decay)
        *weight_decay = 1;
      return (vram_optimizer)row;
    }
  }
  return VRAM_OPTIM_COUNT;
}
