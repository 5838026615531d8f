/* arg.h - code shared by argmax and argmin.
 *
 * Attribute 0 is axis (INT; not set: all elements), attribute 1 is keepdim. Pure, except for writes to the caller's
 * memory; any thread. */
#ifndef RILLE_KERNELS_OP_ARG_H
#define RILLE_KERNELS_OP_ARG_H

#include "kernels/op/base/op_impl.h"

int arg_rule(const struct call *c, struct str *rule);
int arg_infer(const struct call *c, int64_t *size);
/* Reference of argmax and argmin: finds the first position with the best value. better: returns true if x is better
 * than `best`. */
int arg_ref(const struct kcall *k, bool (*better)(double x, double best));
/* Variant of argmax and argmin for dense operands. */
bool arg_accepts(const struct kcall *k);
int arg_run(const struct kcall *k, enum reduce best);
/* Implements build() for a split dimension; leaves out[0] unset if the dimension is not split. best: op_max or
 * op_min. */
int arg_build(struct build *b, const struct call *c, const struct op *best, struct val *x, struct val **out);

#endif
