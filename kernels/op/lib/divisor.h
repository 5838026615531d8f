/* divisor.h - integer division, which rejects some divisors. The session thread builds. */
#ifndef RILLE_KERNELS_OP_DIVISOR_H
#define RILLE_KERNELS_OP_DIVISOR_H

#include "kernels/op/lib/op_impl.h"

enum division { DIVIDE_QUOTIENT, DIVIDE_REMAINDER };

/* build() of a flooring division: divides integers by divisors that op_divisor has checked. Leaves reals, whose
 * quotient by zero is infinite or NaN, to the call itself. */
int divide_integer(struct build *b, const struct call *c, struct val *const *in, enum division of, struct val **out);

#endif
