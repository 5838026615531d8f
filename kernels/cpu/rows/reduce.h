/* reduce.h - sums, products, maxima and minima over dimensions.
 *
 * For operators whose attributes 0 and 1 are axis (INTS; none: all) and keepdim. Reals accumulate in f64, integers
 * and bool in i64; NaN wins. An empty shard gives the identity. Any thread: calls keep no state, and the caller owns
 * all memory. */
#ifndef RILLE_KERNELS_CPU_REDUCE_H
#define RILLE_KERNELS_CPU_REDUCE_H

#include "runtime/graph/op.h"

int reduce_rule(const struct call *c, struct str *rule);
int reduce_rule_unsplit(const struct call *c, struct str *rule); /* reduced dimensions are unsplit */
int reduce_infer(const struct call *c, int64_t *size);           /* E_SHAPE: maximum of no elements */
void reduced_dims(const struct call *c, bool *gone);             /* sets gone[d] if d is reduced */
int64_t reduced_count(const struct call *c);                     /* global elements per result */
bool reduces_split(const struct call *c);                        /* true if a reduced dimension is split */
/* Sets, for each dimension of the operand, the stride in the result; 0 if the dimension is reduced. */
void reduced_strides(const struct kcall *k, int64_t *stride);
/* Returns the element of the dense result that element i of a dense operand contributes to. */
int64_t reduced_index(const struct kcall *k, int64_t i);
/* Return the identity: 0, 1, or the lowest or greatest value of the result's dtype. */
double reduce_start_f(enum reduce r);
int64_t reduce_start_i(enum reduce r, enum dtype d);
/* ref, accepts and run of operators whose records name a reduction (folds). */
int reduce_ref(const struct kcall *k);
bool reduce_accepts(const struct kcall *k);
int reduce_run(const struct kcall *k, const void *state);

#endif
