/* exp_sum.h - what the sums of exponentials of a logsumexp whose axis is split share: x, and a number m for each sum,
 * which like the results keeps the dimensions that go, with size one. Attribute 0 is axis. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_EXP_SUM_H
#define RILLE_KERNELS_OP_EXP_SUM_H

#include "kernels/op/op_impl.h"

int exp_sum_rule(const struct call *c, struct str *rule);
int exp_sum_infer(const struct call *c); /* E_SHAPE */
/* The sum that element i of x goes into. */
int64_t exp_sum_place(const struct kcall *k, int64_t i);
/* As lines of a record: one of x for each sum. False: what goes does not lie together. */
bool exp_sum_lines(const struct kcall *k, line_fn *one, struct line_call *c);

#endif
