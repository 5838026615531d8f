/* experts.h - code shared by expert_matmul and its gradient. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_EXPERTS_H
#define RILLE_KERNELS_OP_EXPERTS_H

#include "kernels/cpu/layers/experts.h"
#include "kernels/op/base/op_impl.h"

/* Returns the text of operand x in the SBP rule. */
static inline const char *
experts_rule(const struct type *x, const struct type *ids)
{
    static const char *const text[2][2] = {{"gntk", "gn1k"}, {"1ntk", "1n1k"}};
    return text[x->ndim > 0 && x->dim[0] == 1][x->ndim > 2 && x->dim[2] == 1 && ids->ndim == 2 && ids->dim[1] != 1];
}

#endif
