/* eltwise.h - the meaning of an element-wise operator: one body for every machine.
 *
 *     REALS({ return x[0] / (1 + exp(-x[0])); });
 *
 * makes the C function `reals` and its text `reals_text`; INTEGERS the same for whole numbers. kernels/cuda compiles
 * the text with `real` as float or double, so a body uses what C and CUDA C++ have in common: x[k] is operand k, locals
 * are of type real, int64_t or uint64_t, and such a local first takes a constant that is no whole number (0.5 alone is
 * a double). Of c it reads attributes, c->attr[NAME].i or .f, NAME their name in the record in capitals, words as
 * NAME_WORD; and absent(&c->in[k]). Any thread. */
#ifndef RILLE_KERNELS_OP_ELTWISE_H
#define RILLE_KERNELS_OP_ELTWISE_H

#include "kernels/op/op_impl.h"

#include <math.h>

typedef double real; /* of the C function */

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

#endif
