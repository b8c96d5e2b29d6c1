/* >>step/optimizers    what each optimizer allocates: recipes in words
   A recipe follows PyTorch's function (torch/optim) with its variables' names:

     NAME = new(SIZE);      a tensor for every parameter of the scope; what NAME held before goes
   once the new one exists NAME += new(SIZE);     the same, beside what NAME holds: a list to which
   a loop appends new(SIZE);             nobody keeps it: it goes at once NAME = state(SIZE);    a
   tensor for every parameter of the scope that stays NAME = move(OTHER);    what OTHER holds, which
   then holds nothing; what NAME held before goes NAME = last(OTHER);    of OTHER the last tensor,
   the rest goes: the variable of a Python loop free NAME, ...;        what they hold goes, the last
   tensor of each first local NAME, ...;       names these variables and does nothing if CONDITION {
   } else { }     also `if not CONDITION { }`, `if CONDITION or CONDITION { }` for each parameter {
   }

   Behind new(SIZE): `using WORKSPACE`, which the kernel takes once the tensor exists and gives back
   at once, then `from NAME, ...`, operands that go next.

   The scope is one group of parameters of equal dtype (foreach; the group whose dtype comes last is
   the first), one parameter (loop, init, `for each parameter`) or all of them (fused). The recipe
   is the body of PyTorch's loop over groups or parameters, so a variable keeps its value from one
   round to the next. When the function returns they go in the order in which the recipe first
   names them, leaving out what the options exclude.

   SIZE: `param` as the parameter; TYPE one number; TYPE[COUNT] so many.
     TYPE   own (the parameter's dtype), bool, u8, bf16, f32, f64; promoted: own, but f32 for a
            parameter without axes that meets an f32 number on the device (capturable)
     COUNT  numel; rows, columns: numbers left by reductions over the last and the last but one
   axis; matrices: by both; gram: the smaller product of the matrix with itself; blocks: of 256
            elements; 256
   WORKSPACE: cublas; cublaslt, which is cuBLAS for a matrix of one row or column, and
     cublaslt_transposed, which is it for one of more rows than columns, too; reduce_all and, of a
     bf16 copy, reduce_all_bf16; reduce_rows, reduce_columns; reduce_row_factors (of numbers left by
     reduce_rows)
   CONDITION: of the step: weight_decay (added to the gradient), first_step, fused, capturable; of
     the parameter: matrix (two axes or more), large (4,096 elements or more), low_precision (f16,
     bf16), once (the first time that this is asked) */
#include "step/optim.h"

/* the step counter, on the device */
#define VRAM__OPTIM_STEP "if fused or capturable { step = state(f32); }"
/* 1 - beta ** step */
#define VRAM__OPTIM_CORRECTION(name) "power = new(f32); new(f64); " name " = new(f32) from power;"

#define VRAM__OPTIM_SGD                                                                            \
  "free grads;"                                                                                    \
  "if weight_decay { grads = new(param); }"
#define VRAM__OPTIM_MOMENTUM "if first_step { momentum_buffer = state(param); }"

#define VRAM__OPTIM_ADAM_INIT VRAM__OPTIM_STEP "exp_avg = state(param); exp_avg_sq = state(param);"
#define VRAM__OPTIM_ADAM                                                                           \
  "if weight_decay { grads = new(param); free grads; }"                                            \
  "if capturable {"                                                                                \
  "  bias_correction1 = new(f32); bias_correction2 = new(f32);"                                    \
  "  step_size = move(bias_correction1); bias_correction2_sqrt = move(bias_correction2);"          \
  "}"                                                                                              \
  "exp_avg_sq_sqrt = new(param);"
#define VRAM__OPTIM_ADAM_LOOP(maximum)                                                             \
  "if weight_decay { grad = new(param); }"                                                         \
  "if capturable {" VRAM__OPTIM_CORRECTION("bias_correction1")                                     \
      VRAM__OPTIM_CORRECTION("bias_correction2") /* */                                             \
      "  reciprocal = new(f32); step_size = new(f32) from reciprocal;"                             \
      "  step_size_neg = new(f32);"                                                                \
      "  bias_correction2_sqrt = new(f32);" maximum "  sqrt = new(param); product = new(f32);"     \
      "  quotient = new(promoted[numel]) from sqrt, product;"                                      \
      "  reciprocal = new(f32); product = new(f32); free reciprocal, product;"                     \
      "  denom = move(quotient);"                                                                  \
      "} else {"                                                                                   \
      "  sqrt = new(param); denom = new(param) from sqrt;"                                         \
      "}"                                                                                          \
      "free grad;"

#define VRAM__OPTIM_RMSPROP                                                                        \
  "free grads;"                                                                                    \
  "if weight_decay { grads = new(param); }"                                                        \
  "avg = new(param);"
#define VRAM__OPTIM_RMSPROP_LOOP                                                                   \
  "if weight_decay { grad = new(param); }"                                                         \
  "avg = new(param);"                                                                              \
  "free grad;"

#define VRAM__OPTIM_NADAM                                                                          \
  "free grads;"                                                                                    \
  "if weight_decay { grads = new(param); }"                                                        \
  "exp_avg_sq_sqrt = new(param);"                                                                  \
  "if capturable {"                                                                                \
  "  exponent = new(f32); mus = new(f32); mu_nexts = new(f32); free exponent;"                     \
  "  bias_correction_sqrt = new(f32); free bias_correction_sqrt;"                                  \
  "  denom = new(f32); step_size_grads = move(mus); free denom;"                                   \
  "  denom = new(f32); step_size_expavg = move(mu_nexts); free denom;"                             \
  "  numerator = new(promoted[numel]);"                                                            \
  "}"
/* beta1 * (1 - 0.5 * 0.96 ** number) */
#define VRAM__OPTIM_NADAM_MU(name)                                                                 \
  "power = new(f32); new(f64); free number;"                                                       \
  "half = new(f32) from power; rest = new(f32) from half; " name " = new(f32) from rest;"
#define VRAM__OPTIM_NADAM_LOOP                                                                     \
  "if capturable {" VRAM__OPTIM_CORRECTION(                                                        \
      "bias_correction2") "}"                                                                      \
                          "if weight_decay { grad = new(param); }"                                 \
                          "if capturable {"                                                        \
                          "  number = new(f32);" VRAM__OPTIM_NADAM_MU("mu") /* */                  \
      "  next = new(f32); number = new(f32) from next;" VRAM__OPTIM_NADAM_MU(                      \
          "mu_next") "  corrected = new(promoted[numel]); denom = new(promoted[numel]) from "      \
                     "corrected;"                                                                  \
                     "  denom = new(promoted[numel]);"                                             \
                     "  mu_product_next = new(f32);"                                               \
                     "  rest = new(f32); product = new(f32) from rest; rest = new(f32);"           \
                     "  factor = new(f32) from product, rest; grad = new(promoted[numel]) from "   \
                     "factor;"                                                                     \
                     "  product = new(f32); rest = new(f32);"                                      \
                     "  factor = new(f32) from product, rest; exp_avg = new(promoted[numel]) "     \
                     "from factor;"                                                                \
                     "} else {"                                                                    \
                     "  corrected = new(param); denom = new(param) from corrected;"                \
                     "}"                                                                           \
                     "free grad, exp_avg;"

#define VRAM__OPTIM_RADAM                                                                          \
  "if capturable { bias_correction1 = new(f32); bias_correction2 = new(f32); }"                    \
  "if weight_decay { grads = new(param); free grads; }"                                            \
  "if capturable {"                                                                                \
  "  num = new(f32); sub2 = new(f32); free sub2; denom = new(f32); free denom;"                    \
  "  for each parameter {"                                                                         \
  "    mask = new(bool); number = new(f32); rect += new(f32) from number, mask;"                   \
  "  }"                                                                                            \
  "  free num;"                                                                                    \
  "  for each parameter {"                                                                         \
  "    mask = new(bool); zero = new(f32); one = new(f32);"                                         \
  "    step_sizes += new(f32) from one, zero, mask;"                                               \
  "  }"                                                                                            \
  "  unrect_step_size = move(step_sizes);"                                                         \
  "  bias_correction1 = new(f32); bias_correction2 = new(f32); free rect, bias_correction1;"       \
  "}"                                                                                              \
  "buffer = new(param);"
/* bias_correction2 and rho_t go last: functions inside PyTorch's function use them */
#define VRAM__OPTIM_RADAM_LOOP                                                                     \
  "local bias_correction1, bias_corrected_exp_avg, update;"                                        \
  "if weight_decay { grad = new(param); }"                                                         \
  "if capturable {" VRAM__OPTIM_CORRECTION("bias_correction1")                                     \
      VRAM__OPTIM_CORRECTION("bias_correction2") /* */                                             \
      "}"                                                                                          \
      "bias_corrected_exp_avg = new(promoted[numel]);"                                             \
      "if capturable {"                                                                            \
      "  double = new(f32); power = new(f32); new(f64); product = new(f32) from double, power;"    \
      "  ratio = new(f32) from product; rho_t = new(f32) from ratio;"                              \
      "  mask = new(bool);"                                                                        \
      "  sub4 = new(f32); sub2 = new(f32); product = new(f32) from sub4, sub2;"                    \
      "  num = new(f32) from product; denom = new(f32); ratio = new(f32) from num, denom;"         \
      "  rect = new(f32) from ratio;"                                                              \
      "  sqrt = new(param); root = new(f32);"                                                      \
      "  rate = new(promoted[numel]) from root, sqrt; product = new(promoted[numel]) from rect, "  \
      "rate;"                                                                                      \
      "  one = new(promoted); update = new(promoted[numel]) from one, mask, product;"              \
      "  scaled = new(promoted[numel]); product = new(promoted[numel]) from scaled; free product;" \
      "} else {"                                                                                   \
      "  if first_step {" /* and up to the fifth: not rectified */                                 \
      "    scaled = new(param); free scaled;"                                                      \
      "  } else {"                                                                                 \
      "    scaled = new(param); exp_avg_sq_sqrt = new(param);"                                     \
      "    reciprocal = new(param); rate = new(param) from reciprocal, exp_avg_sq_sqrt;"           \
      "    product = new(param) from scaled, rate; rectified = new(param) from product;"           \
      "    free rectified;"                                                                        \
      "  }"                                                                                        \
      "}"                                                                                          \
      "free grad;"

#define VRAM__OPTIM_ASGD                                                                           \
  "intermediate = new(param); free intermediate;"                                                  \
  "intermediate = new(param); free intermediate;"                                                  \
  "if capturable {"                                                                                \
  "  new_mus = new(f32); free new_mus;"                                                            \
  "  new_etas = new(f32);"                                                                         \
  "} else {"                                                                                       \
  "  local new_mus;"                                                                               \
  "  for each parameter {"                                                                         \
  "    product = new(f32); sum = new(f32) from product; power = new(f32) from sum;"                \
  "    number = new(f32); etas += new(f32) from number, power;"                                    \
  "  }"                                                                                            \
  "  new_etas = move(etas);"                                                                       \
  "  new_mus = new(f32);"                                                                          \
  "}"
#define VRAM__OPTIM_ASGD_LOOP                                                                      \
  "if weight_decay { grad = new(param); }"                                                         \
  "if capturable { product = new(f32); rest = new(f32) from product; free rest; }"                 \
  "difference = new(param); free difference;"                                                      \
  "if capturable {"                                                                                \
  "  product = new(f32); sum = new(f32) from product; power = new(f32) from sum;"                  \
  "  reciprocal = new(f32); eta = new(f32) from reciprocal, power; free eta;"                      \
  "  past = new(f32); one = new(f32); maximum = new(f32) from past, one;"                          \
  "  reciprocal = new(f32); mu = new(f32) from reciprocal, maximum; free mu;"                      \
  "}"                                                                                              \
  "free grad;"

/* x.copy_(torch.where(mask, number, x)) */
#define VRAM__OPTIM_WHERE                                                                          \
  "mask = new(bool[numel]); number = new(own); chosen = new(param) from number, mask; free "       \
  "chosen;"
/* of a sign what is above, below and equal to 0 */
#define VRAM__OPTIM_RPROP_SIGN                                                                     \
  "if capturable {" VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE                          \
  "} else { new(bool[numel]); new(bool[numel]); new(bool[numel]); }"
#define VRAM__OPTIM_RPROP                                                                          \
  "signs = new(param); free sign;"                                                                 \
  "for each parameter {" VRAM__OPTIM_RPROP_SIGN "}"                                                \
  "for each parameter {" VRAM__OPTIM_WHERE "}"                                                     \
  "sign = last(signs);"                                                                            \
  "grad_signs = new(param);"
#define VRAM__OPTIM_RPROP_LOOP                                                                     \
  "product = new(param); sign = new(param) from product;" VRAM__OPTIM_RPROP_SIGN                   \
  "grad = new(param);"                                                                             \
  "if capturable {" VRAM__OPTIM_WHERE "} else { new(bool[numel]); }"                               \
  "new(param);"                                                                                    \
  "free grad;"

#define VRAM__OPTIM_ADAFACTOR                                                                      \
  "for each parameter { norm = new(own) using reduce_all; free norm; }"                            \
  "if matrix {"                                                                                    \
  "  for each parameter { row_means += new(own[rows]) using reduce_rows; } free row_means;"        \
  "  for each parameter { col_means += new(own[columns]) using reduce_columns; } free col_means;"  \
  "  for each parameter { var_estimates += new(param) using cublas; }"                             \
  "  for each parameter { means += new(own[matrices]) using reduce_row_factors; } free means;"     \
  "} else {"                                                                                       \
  "  grads_squared = new(param); free grads_squared;"                                              \
  "  var_estimates = new(param);"                                                                  \
  "}"                                                                                              \
  "updates = move(var_estimates);"                                                                 \
  "for each parameter { norm = new(own) using reduce_all; free norm; }"
#define VRAM__OPTIM_ADAFACTOR_LOOP                                                                 \
  "norm = new(own) using reduce_all; free norm;"                                                   \
  "if matrix {"                                                                                    \
  "  row_mean = new(own[rows]) using reduce_rows;"                                                 \
  "  col_mean = new(own[columns]) using reduce_columns;"                                           \
  "  var_estimate = new(param) using cublas;"                                                      \
  "  mean = new(own[matrices]) using reduce_row_factors; free mean;"                               \
  "} else {"                                                                                       \
  "  grad_squared = new(param);"                                                                   \
  "  var_estimate = new(param);"                                                                   \
  "}"                                                                                              \
  "update = move(var_estimate);"                                                                   \
  "norm = new(own) using reduce_all; free norm;"

/* one step of Newton and Schulz */
#define VRAM__OPTIM_MUON_STEP(workspace)                                                           \
  "gram_matrix = new(bf16[gram]) using cublas;"                                                    \
  "gram_update = new(bf16[gram]) using cublaslt;"                                                  \
  "ortho_grad = new(bf16[numel]) using " workspace ";"
#define VRAM__OPTIM_MUON_LOOP                                                                      \
  "update = new(param); free ortho_update;"                                                        \
  "ortho_grad = new(bf16[numel]);"                                                                 \
  "norm = new(bf16) using reduce_all_bf16; clamped = new(bf16); free norm, "                       \
  "clamped;" VRAM__OPTIM_MUON_STEP("cublaslt_transposed") VRAM__OPTIM_MUON_STEP("cublaslt")        \
      VRAM__OPTIM_MUON_STEP("cublaslt") VRAM__OPTIM_MUON_STEP("cublaslt")                          \
          VRAM__OPTIM_MUON_STEP("cublaslt") "free gram_matrix, gram_update, update;"               \
                                            "ortho_update = move(ortho_grad);"

#define VRAM__OPTIM_8BIT_1                                                                         \
  "if large {"                                                                                     \
  "  if once { qmap1 = state(f32[256]); }"                                                         \
  "  state1 = state(u8[numel]); absmax1 = state(f32[blocks]);"                                     \
  "} else { state1 = state(f32[numel]); }"
#define VRAM__OPTIM_8BIT_2                                                                         \
  "if large {"                                                                                     \
  "  if once { qmap1 = state(f32[256]); qmap2 = state(f32[256]); }"                                \
  "  state1 = state(u8[numel]); state2 = state(u8[numel]);"                                        \
  "  absmax1 = state(f32[blocks]); absmax2 = state(f32[blocks]);"                                  \
  "} else { state1 = state(f32[numel]); state2 = state(f32[numel]); }"

#define VRAM__FOREACH VRAM_OPTIM_IMPL_FOREACH
#define VRAM__LOOP VRAM_OPTIM_IMPL_LOOP
#define VRAM__ADAMW (VRAM__OPTIM_CAPTURABLE | VRAM__OPTIM_DECOUPLED)

/* The order is that of VRAM_OPTIMIZERS. Name, state, the implementation that PyTorch picks on CUDA,
   flags, init, {foreach, loop, fused}; NULL: there is none.
   Measured: torch.optim of PyTorch 2.15; lion with lion-pytorch 0.2.5 (foreach: timm 1.0.31, one
   chunk); *_8bit with bitsandbytes 0.50.2. Derived, not measured: lamb (after timm 1.0.31). */
static const vram__optim_row vram__optim_rows[VRAM_OPTIM_COUNT] = {
    {"sgd", "", VRAM__FOREACH, 0, "", {VRAM__OPTIM_SGD, VRAM__OPTIM_SGD, ""}},
    {"sgd_momentum",
     "momentum_buffer",
     VRAM__FOREACH,
     0,
     "",
     {VRAM__OPTIM_SGD VRAM__OPTIM_MOMENTUM, VRAM__OPTIM_SGD VRAM__OPTIM_MOMENTUM,
      VRAM__OPTIM_MOMENTUM}},
    {"sgd_nesterov",
     "momentum_buffer",
     VRAM__FOREACH,
     0,
     "",
     {VRAM__OPTIM_SGD VRAM__OPTIM_MOMENTUM,
      VRAM__OPTIM_SGD VRAM__OPTIM_MOMENTUM "grads = new(param);", VRAM__OPTIM_MOMENTUM}},
    {"adam",
     "exp_avg exp_avg_sq",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_ADAM_INIT,
     {VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP(""), ""}},
    {"adam_amsgrad",
     "exp_avg exp_avg_sq max_exp_avg_sq",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_ADAM_INIT "max_exp_avg_sq = state(param);",
     {VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP("new(param);"), ""}},
    {"adamw",
     "exp_avg exp_avg_sq",
     VRAM__FOREACH,
     VRAM__ADAMW,
     VRAM__OPTIM_ADAM_INIT,
     {VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP(""), ""}},
    {"adamw_amsgrad",
     "exp_avg exp_avg_sq max_exp_avg_sq",
     VRAM__FOREACH,
     VRAM__ADAMW,
     VRAM__OPTIM_ADAM_INIT "max_exp_avg_sq = state(param);",
     {VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP("new(param);"), ""}},
    {"adagrad",
     "sum",
     VRAM__FOREACH,
     VRAM__OPTIM_CTOR,
     VRAM__OPTIM_STEP "sum = state(param);",
     {"if weight_decay { grads = new(param); }"
      "std = new(param);"
      "if not weight_decay { grads = new(param); }"
      "numerator = move(grads);",
      VRAM__OPTIM_RMSPROP_LOOP, ""}},
    {"rmsprop",
     "square_avg",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP "square_avg = state(param);",
     {VRAM__OPTIM_RMSPROP, VRAM__OPTIM_RMSPROP_LOOP, NULL}},
    {"rmsprop_momentum",
     "square_avg momentum_buffer",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP "square_avg = state(param); momentum_buffer = state(param);",
     {VRAM__OPTIM_RMSPROP, VRAM__OPTIM_RMSPROP_LOOP, NULL}},
    {"rmsprop_centered",
     "square_avg grad_avg",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP "square_avg = state(param); grad_avg = state(param);",
     {VRAM__OPTIM_RMSPROP, VRAM__OPTIM_RMSPROP_LOOP, NULL}},
    {"rmsprop_centered_momentum",
     "square_avg momentum_buffer grad_avg",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP
     "square_avg = state(param); momentum_buffer = state(param); grad_avg = state(param);",
     {VRAM__OPTIM_RMSPROP, VRAM__OPTIM_RMSPROP_LOOP, NULL}},
    {"adadelta",
     "square_avg acc_delta",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP "square_avg = state(param); acc_delta = state(param);",
     {"free grads;"
      "if weight_decay { grads = new(param); }"
      "std = new(param); deltas = new(param);",
      "if weight_decay { grad = new(param); }"
      "std = new(param); delta = new(param);"
      "free grad;",
      NULL}},
    {"adamax",
     "exp_avg exp_inf",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP "exp_avg = state(param); exp_inf = state(param);",
     {"free grads;"
      "grads = new(param);"
      "if capturable { bias_corrections = new(f32); denom = new(promoted[numel]); }",
      "if weight_decay { grad = new(param); }"
      "new(param);"
      "if capturable {" VRAM__OPTIM_CORRECTION("neg_bias_correction") /* */
      "  denom = new(promoted[numel]);"
      "}"
      "free grad;",
      NULL}},
    {"nadam",
     "exp_avg exp_avg_sq",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     "if fused or capturable { step = state(f32); mu_product = state(f32); }"
     "exp_avg = state(param); exp_avg_sq = state(param);",
     {VRAM__OPTIM_NADAM, VRAM__OPTIM_NADAM_LOOP, NULL}},
    {"radam",
     "exp_avg exp_avg_sq",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_ADAM_INIT,
     {VRAM__OPTIM_RADAM, VRAM__OPTIM_RADAM_LOOP, NULL}},
    {"asgd",
     "step eta mu ax",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     "step = state(f32); lr = new(f32); eta = state(f32); free lr; mu = state(f32);"
     "ax = state(param);",
     {VRAM__OPTIM_ASGD, VRAM__OPTIM_ASGD_LOOP, NULL}},
    {"rprop",
     "prev step_size",
     VRAM__FOREACH,
     VRAM__OPTIM_CAPTURABLE,
     VRAM__OPTIM_STEP "prev = state(param); step_size = state(param);",
     {VRAM__OPTIM_RPROP, VRAM__OPTIM_RPROP_LOOP, NULL}},
    {"adafactor",
     "row_var col_var or variance",
     VRAM__LOOP,
     VRAM__OPTIM_SPLIT,
     "if matrix { row_var = state(own[rows]); col_var = state(own[columns]); }"
     "else { variance = state(param); }",
     {VRAM__OPTIM_ADAFACTOR, VRAM__OPTIM_ADAFACTOR_LOOP, NULL}},
    {"muon",
     "momentum_buffer",
     VRAM__LOOP,
     VRAM__OPTIM_MATRIX,
     "momentum_buffer = state(param);",
     {NULL, VRAM__OPTIM_MUON_LOOP, NULL}},
    {"lion",
     "exp_avg",
     VRAM__LOOP,
     0,
     "",
     {"if first_step { exp_avg = state(param); }"
      "update = new(param);",
      "if first_step { exp_avg = state(param); }"
      "sum = new(param); update = new(param) from sum; free update;",
      NULL}},
    {"lamb",
     "exp_avg exp_avg_sq",
     VRAM__FOREACH,
     0,
     "exp_avg = state(param); exp_avg_sq = state(param);",
     {"free grads;"
      "grads = new(param); denom = new(param); update = new(param);",
      "grad = new(param);"
      "sqrt = new(param); denom = new(param) from sqrt;"
      "update = new(param);"
      "free grad;",
      ""}},
    {"adam_8bit",
     "state1 state2 absmax1 absmax2",
     VRAM__LOOP,
     0,
     VRAM__OPTIM_8BIT_2,
     {NULL, "", NULL}},
    {"adamw_8bit",
     "state1 state2 absmax1 absmax2",
     VRAM__LOOP,
     0,
     VRAM__OPTIM_8BIT_2,
     {NULL, "", NULL}},
    {"sgd_momentum_8bit", "state1 absmax1", VRAM__LOOP, 0, VRAM__OPTIM_8BIT_1, {NULL, "", NULL}},
    {"rmsprop_8bit", "state1 absmax1", VRAM__LOOP, 0, VRAM__OPTIM_8BIT_1, {NULL, "", NULL}},
    {"adagrad_8bit", "state1 absmax1", VRAM__LOOP, 0, VRAM__OPTIM_8BIT_1, {NULL, "", NULL}},
    {"lion_8bit", "state1 absmax1", VRAM__LOOP, 0, VRAM__OPTIM_8BIT_1, {NULL, "", NULL}},
};
#undef VRAM__FOREACH
#undef VRAM__LOOP
#undef VRAM__ADAMW

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
