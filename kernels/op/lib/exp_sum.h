/* exp_sum.h - code of exp_sum, the sum of e^(x - m) along an axis. Ranks use it to compute a logsumexp with a split
 * axis.
 *
 * Operands are x and m, with one number m per sum. m and the results keep the reduced dimensions with size 1.
 * Attribute 0 is axis. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_EXP_SUM_H
#define RILLE_KERNELS_OP_EXP_SUM_H

#include "kernels/op/base/op_impl.h"

int exp_sum_rule(const struct call *c, struct str *rule);
int exp_sum_infer(const struct call *c); /* fails with E_SHAPE if x and m differ in the number of dimensions */
/* Returns the index of the sum to which element i of x is added. */
int64_t exp_sum_place(const struct kcall *k, int64_t i);
/* Sets *c to the lines of x, one line per sum. Returns false if the reduced dimensions of size > 1 are not adjacent. */
bool exp_sum_lines(const struct kcall *k, line_fn *one, struct line_call *c);

#endif
