/* divisor.h - builds integer division whose divisors are checked for 0. Session thread. */
#ifndef RILLE_KERNELS_OP_DIVISOR_H
#define RILLE_KERNELS_OP_DIVISOR_H

#include "kernels/op/base/op_impl.h"

enum division { DIVIDE_QUOTIENT, DIVIDE_REMAINDER };

/* Implements build() for a flooring division. For integers, builds a division by divisors that op_divisor has
 * checked. Leaves out[0] unset for floats, because their quotient by zero is infinite or NaN. */
int divide_integer(struct build *b, const struct call *c, struct val *const *in, enum division of, struct val **out);

#endif
