/* divisor.h - dividing integers, which not every divisor allows. Pure, but for what is written to the caller's
 * memory; any thread. */
#ifndef RILLE_KERNELS_OP_DIVISOR_H
#define RILLE_KERNELS_OP_DIVISOR_H

#include "kernels/op/op_impl.h"

enum division { DIVIDE_QUOTIENT, DIVIDE_REMAINDER };

/* build() of a division that floors: integers are divided by what op_divisor lets through. Reals, whose quotient by
 * zero is infinite or NaN, are left to the call itself. */
int divide_integer(struct build *b, const struct call *c, struct val *const *in, enum division of, struct val **out);

#endif
