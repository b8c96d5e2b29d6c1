#pragma once
#include "api/types.h"

/* -----------------------------------------------------------------------------------------------
   >>optim   what an optimizer allocates and frees in its constructor and in one step

   One row of VRAM_OPTIMIZERS is one optimizer. Its memory behaviour is data: short recipes, played
   by vram__optim_play. `init` makes the state (once per parameter, in the optimizer's order);
   `foreach`, `loop` and `fused` are the body of one step and, behind '|', what the function's local
   variables still hold when it returns. The body runs once per group of equal dtype (foreach; the
   dtype seen last comes first), once per parameter (loop), or once (fused). Registers live on from
   one round to the next, as Python's local variables do.

   A recipe acts on its scope, the group or the one parameter:
     !S    state of size S, for every parameter of the scope; it stays
     +rS   a temporary of size S for every parameter of the scope, appended to register r (a to z)
     -r    frees register r, its last one first; nothing if it is empty
     =rs   frees register r, then r takes what s holds (an assignment: the new value exists first)
     ^rs   frees all of s but its last one, which goes to the empty register r (the variable of a
           `for` loop keeps its last value)
     .S    allocated and freed at once
     *x    workspace of a matrix product, allocated and freed at once: w cuBLAS; l cuBLASLt, unless
           the matrix has one row or column; t as l, but cuBLAS where the matrix is used transposed
     %x    workspace of a reduction (buffer, counters): N over the whole tensor, B the same for a
           bf16 copy, R over the last axis, C over the last but one, O mean of the row factors
     (..)  once for each parameter of the scope
     X[..] only if X: W weight decay, not decoupled (w: without), F first step, L sixth
           step or later (l: before), C capturable (c: not), D step counter on the device (fused or
           capturable), 2 two axes or more (1: fewer), B 4096 elements or more (b: fewer), Q before
           the first 8-bit state
   Sizes: p as the parameter, e one element of its dtype; P, E the same, but f32 where PyTorch
     promotes (capturable: no axes, with an f32 scalar); b one byte per element, h two, f four;
     s one f32, n one bf16, 1 and 8 so many bytes; r, c row and column factors, o their mean;
     g Gram matrix in bf16; a one f32 per block of elements, k code table of 8-bit states;
     F f32 copy of a low-precision parameter (nothing for others)
   ---------------------------------------------------------------------------------------------- */

typedef enum vram_optim_impl { /* the default: what PyTorch picks on CUDA */
                               VRAM_OPTIM_IMPL_DEFAULT,
                               VRAM_OPTIM_IMPL_FOREACH,
                               VRAM_OPTIM_IMPL_LOOP,
                               VRAM_OPTIM_IMPL_FUSED
} vram_optim_impl;

/* flags of a row */
enum {
  VRAM__OPTIM_CTOR = 1,       /* the constructor makes the state, for all parameters, used or not */
  VRAM__OPTIM_MATRIX = 2,     /* takes only parameters of two axes; the others are left out */
  VRAM__OPTIM_SPLIT = 4,      /* foreach: a group is split into matrices and vectors */
  VRAM__OPTIM_CAPTURE = 8,    /* has the option `capturable` */
  VRAM__OPTIM_DECOUPLED = 16, /* weight decay is decoupled: no temporaries */
  VRAM__OPTIM_DERIVED = 32    /* temporaries derived, not measured */
};

/* Adam: exp_avg_sq.sqrt() -> denom */
#define VRAM__OPTIM_ADAM "W[+gp-g]C[+xs+ys=ax=by]+xp=dx|-a-b-d"
#define VRAM__OPTIM_POW "+xs.8+ys-x" /* 1 - beta ** step on the device, left in y */
#define VRAM__OPTIM_ADAM_LOOP(max)                                                                 \
  "W[+gp]c[+xp+yp-x=dy]C[" VRAM__OPTIM_POW "=ay" VRAM__OPTIM_POW "=by+xs+ys-x=cy+xs=ex+xs=fx" max  \
  "+xp+ys+zP-x-y+xs+ys-x-y=dz]W[-g]|-a-b-c-e-f-d"
#define VRAM__OPTIM_RMS_LOOP "W[+gp]+xp=axW[-g]|-a"
#define VRAM__OPTIM_WHERE "+xb+ye+zp-y-x-z" /* x.copy_(torch.where(mask, number, x)) */
#define VRAM__OPTIM_NADAM_LOOP                                                                     \
  "C[" VRAM__OPTIM_POW "=ay]W[+gp]c[+xp+yp-x=dy]C[+xs+ys.8-x+xs-y+ys-x+xs-y=mx+xs+ys-x+xs.8-y"     \
  "+ys-x+xs-y+ys-x=ky+xP+yP-x=dy+xP=dx+xs=qx+xs+ys-x+xs+zs-y-x+yP-z=gy+zs+ws+vs-z-w+zP-v]-g-z"     \
  "|-a-m-k-d-q"
#define VRAM__OPTIM_RADAM                                                                          \
  "C[+xs=ax+xs=bx]W[+gp-g]C[+ns+ys-y+ys-y(+x1+ys+rs-y-x)-n(+x1+ys+zs+vs-z-y-x)=uv+xs=ax+xs=bx"     \
  "-r-a]+xp=dx|-b-u-d"
#define VRAM__OPTIM_RADAM_LOOP                                                                     \
  "W[+gp]C[" VRAM__OPTIM_POW "=ay" VRAM__OPTIM_POW "=by]+xP=cx"                                    \
  "c[l[+xp-x]L[+tp+up+vp+wp-v-u+vp-t-w+tp-v-t]]"                                                   \
  "C[+xs+ys.8+zs-x-y+xs-z+ys-x=ry+m1+xs+ys+zs-x-y+xs-z+ys+zs-x-y+xs-z+yp+zs+vP-z-y+yP-x-v+xE+zP"   \
  "-x-m-y=uz+xP+yP-x-y]W[-g]|-a-c-u-b-r"
#define VRAM__OPTIM_ASGD "+xp-x+xp-xc[(+xs+ys-x+zs-y+xs+vs-x-z)=ev+xs=mx]C[+xs-x+xs=ex]|-m-e"
#define VRAM__OPTIM_ASGD_LOOP                                                                      \
  "W[+gp]C[+xs+ys-x-y]+xp-xC[+xs+ys-x+zs-y+xs+ys-x-z-y+xs+ys+zs-x-y+xs+ys-x-z-y]W[-g]|"
#define VRAM__OPTIM_RPROP                                                                          \
  "+gp-k(c[.b.b.b]C[" VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE                        \
  "])(" VRAM__OPTIM_WHERE ")^kg+xp=sx|-k-s"
#define VRAM__OPTIM_RPROP_LOOP                                                                     \
  "+xp+yp-x=ayc[.b.b.b]C[" VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE                   \
  "]+gpc[.b]C[" VRAM__OPTIM_WHERE "].p-g|-a"
#define VRAM__OPTIM_ADAFACTOR                                                                      \
  "(+xe%N-x)2[(+xr%R)-x(+xc%C)-x(+xp*w)(+yo%O)-y=vx]1[+xp-x+xp=vx](+xe%N-x)|-v"
#define VRAM__OPTIM_ADAFACTOR_LOOP                                                                 \
  "+xe%N-x2[+xr%R=ax+xc%C=bx+xp*w+yo%O-y=vx]1[+xp=qx+xp=vx]+xe%N-x|-a-b-q-v"
#define VRAM__OPTIM_MUON(t) "+yg*w=ay+yg*l=by+zh*" t "=xz" /* one Newton-Schulz step */
#define VRAM__OPTIM_MUON_LOOP                                                                      \
  "+up-k+xh+yn%B+zn-y-z" VRAM__OPTIM_MUON("t") VRAM__OPTIM_MUON("l") VRAM__OPTIM_MUON("l")         \
      VRAM__OPTIM_MUON("l") VRAM__OPTIM_MUON("l") "-a-b-u=kx|-k"
#define VRAM__OPTIM_8BIT_1 "B[Q[!k]!b!a]b[!f]"
#define VRAM__OPTIM_8BIT_2 "B[Q[!k!k]!b!b!a!a]b[!f!f]"

/* X(name, what the state is, default, flags, init, foreach, loop, fused); 0: no such one.
   Measured: torch.optim of PyTorch 2.15; lion with lion-pytorch 0.2.5 (foreach:
   timm 1.0.31, one chunk); *_8bit with bitsandbytes 0.50.2. Derived, not measured: lamb (after
   timm 1.0.31). */
#define VRAM_OPTIMIZERS(X)                                                                         \
  X(sgd, "", FOREACH, 0, "", "-gW[+gp]|-g", "-gW[+gp]|-g", "")                                     \
  X(sgd_momentum, "momentum_buffer", FOREACH, 0, "", "-gW[+gp]F[!p]|-g", "-gW[+gp]F[!p]|-g",       \
    "F[!p]")                                                                                       \
  X(sgd_nesterov, "momentum_buffer", FOREACH, 0, "", "-gW[+gp]F[!p]|-g", "-gW[+gp]F[!p]+np=gn|-g", \
    "F[!p]")                                                                                       \
  X(adam, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p", VRAM__OPTIM_ADAM,       \
    VRAM__OPTIM_ADAM_LOOP(""), "")                                                                 \
  X(adam_amsgrad, "exp_avg exp_avg_sq max_exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE,               \
    "D[!s]!p!p!p", VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP(".p"), "")                              \
  X(adamw, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE | VRAM__OPTIM_DECOUPLED,             \
    "D[!s]!p!p", VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP(""), "")                                  \
  X(adamw_amsgrad, "exp_avg exp_avg_sq max_exp_avg_sq", FOREACH,                                   \
    VRAM__OPTIM_CAPTURE | VRAM__OPTIM_DECOUPLED, "D[!s]!p!p!p", VRAM__OPTIM_ADAM,                  \
    VRAM__OPTIM_ADAM_LOOP(".p"), "")                                                               \
  X(adagrad, "sum", FOREACH, VRAM__OPTIM_CTOR, "D[!s]!p", "W[+yp]+xp=axw[+yp]=gy|-a-g",            \
    VRAM__OPTIM_RMS_LOOP, "")                                                                      \
  X(rmsprop, "square_avg", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p", "-gW[+gp]+xp=ax|-g-a",         \
    VRAM__OPTIM_RMS_LOOP, 0)                                                                       \
  X(rmsprop_momentum, "square_avg momentum_buffer", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",     \
    "-gW[+gp]+xp=ax|-g-a", VRAM__OPTIM_RMS_LOOP, 0)                                                \
  X(rmsprop_centered, "square_avg grad_avg", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",            \
    "-gW[+gp]+xp=ax|-g-a", VRAM__OPTIM_RMS_LOOP, 0)                                                \
  X(rmsprop_centered_momentum, "square_avg momentum_buffer grad_avg", FOREACH,                     \
    VRAM__OPTIM_CAPTURE, "D[!s]!p!p!p", "-gW[+gp]+xp=ax|-g-a", VRAM__OPTIM_RMS_LOOP, 0)            \
  X(adadelta, "square_avg acc_delta", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",                   \
    "-gW[+gp]+xp=ax+xp=bx|-g-a-b", "W[+gp]+xp=ax+xp=bxW[-g]|-a-b", 0)                              \
  X(adamax, "exp_avg exp_inf", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",                          \
    "-g+gpC[+xs=bx+xP=dx]|-g-b-d", "W[+gp].pC[+xs.8+ys-x=by+xP=dx]W[-g]|-b-d", 0)                  \
  X(nadam, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s!s]!p!p",                      \
    "-gW[+gp]+xp=dxC[+xs+us+vs-x+ys-y+ys=mu-y+ys=kv-y+xP=nx]|-g-d-m-k-n", VRAM__OPTIM_NADAM_LOOP,  \
    0)                                                                                             \
  X(radam, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p", VRAM__OPTIM_RADAM,     \
    VRAM__OPTIM_RADAM_LOOP, 0)                                                                     \
  X(asgd, "step eta mu ax", FOREACH, VRAM__OPTIM_CAPTURE, "!s+xs!s-x!s!p", VRAM__OPTIM_ASGD,       \
    VRAM__OPTIM_ASGD_LOOP, 0)                                                                      \
  X(rprop, "prev step_size", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p", VRAM__OPTIM_RPROP,         \
    VRAM__OPTIM_RPROP_LOOP, 0)                                                                     \
  X(adafactor, "row_var col_var or variance", LOOP, VRAM__OPTIM_SPLIT, "2[!r!c]1[!p]",             \
    VRAM__OPTIM_ADAFACTOR, VRAM__OPTIM_ADAFACTOR_LOOP, 0)                                          \
  X(muon, "momentum_buffer", LOOP, VRAM__OPTIM_MATRIX, "!p", 0, VRAM__OPTIM_MUON_LOOP, 0)          \
  X(lion, "exp_avg", LOOP, 0, "", "F[!p]+xp=ax|-a", "F[!p]+xp+yp-x-y", 0)                          \
  X(lamb, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_DERIVED, "!p!p", "-g+gp+xp=dx+xp=ux|-g-d-u",  \
    "+gp+xp+yp-x=dy+xp=ux-g|-d-u", "")                                                             \
  X(adam_8bit, "state1 state2 absmax1 absmax2", LOOP, 0, VRAM__OPTIM_8BIT_2, 0, "", 0)             \
  X(adamw_8bit, "state1 state2 absmax1 absmax2", LOOP, 0, VRAM__OPTIM_8BIT_2, 0, "", 0)            \
  X(sgd_momentum_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)                    \
  X(rmsprop_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)                         \
  X(adagrad_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)                         \
  X(lion_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)

typedef enum vram_optimizer {
#define VRAM__OPTIM_ROW(name, state, def, flags, init, foreach, loop, fused) VRAM_OPTIM_##name,
  VRAM_OPTIMIZERS(VRAM__OPTIM_ROW)
#undef VRAM__OPTIM_ROW
      VRAM_OPTIM_COUNT
} vram_optimizer;

typedef struct vram_optimizer_info {
  const char *name;
  const char *state;           /* the names of its state tensors, as in PyTorch */
  const char *implementations; /* the first is the default */
} vram_optimizer_info;

#ifndef VRAM_NO_STEP
/* The row of an optimizer; 0: there is none. */
VRAM_API int vram_optimizer_get_info(uint32_t optimizer, vram_optimizer_info *info);

/* The optimizer of a name ("adamw"; a suffix "_wd" asks for L2 weight decay that is added to the
   gradient), VRAM_OPTIM_COUNT: there is none. *weight_decay, if not NULL, becomes 0 or 1. */
VRAM_API vram_optimizer vram_optimizer_from_name(const char *name, int *weight_decay);
#endif
