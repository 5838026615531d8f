/* eltwise.h - defines an element-wise operator by one body of code for CPU and GPU.
 *
 *     REALS({ return x[0] / (1 + exp(-x[0])); });
 *
 * makes the C function `reals` and its text `reals_text`; INTEGERS does the same for integers. kernels/cuda compiles
 * the text with `real` as float or double, so a body uses the common subset of C and CUDA C++. x[k] is operand k.
 * Locals have type real, int64_t or uint64_t; assign a non-integer constant to such a local first (0.5 alone is a
 * double). A body reads absent(&c->in[k]) and attributes from c: c->attr[NAME].i or .f, where NAME is the
 * attribute's name in capitals and words as NAME_WORD. Any thread. */
#ifndef RILLE_KERNELS_OP_ELTWISE_H
#define RILLE_KERNELS_OP_ELTWISE_H

#include "kernels/op/base/op_impl.h"

#include <math.h>

typedef double real; /* element type in the C function */

#define REALS(...)                                                                                                     \
    static double reals(const struct call *c, const double *x)                                                         \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        __VA_ARGS__                                                                                                    \
    }                                                                                                                  \
    static const char reals_text[] = #__VA_ARGS__
#define INTEGERS(...)                                                                                                  \
    static int64_t integers(const struct call *c, const int64_t *x)                                                    \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        __VA_ARGS__                                                                                                    \
    }                                                                                                                  \
    static const char integers_text[] = #__VA_ARGS__
/* Defines block(), the fast f32 function (block_f32) of an operator with one operand, from a function of
 * kernels/cpu/math/vmath.h. */
#define BLOCK(vec)                                                                                                     \
    static void block(const struct call *c, int64_t n, const float *const *x, float *y)                                \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        vec(n, x[0], y);                                                                                               \
    }

#endif
