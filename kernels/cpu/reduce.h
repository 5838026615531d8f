/* reduce.h - sums, products, greatest and least values over dimensions.
 *
 * For operators whose attributes 0 and 1 are axis (INTS; none: all) and keepdim. Reals accumulate in f64, integers and
 * bool in i64; NaN wins. Where there is nothing to reduce (an empty shard) the result is the identity. Any thread:
 * calls keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_REDUCE_H
#define RILLE_KERNELS_CPU_REDUCE_H

#include "runtime/op.h"

int reduce_rule(const struct call *c, struct str *rule);
int reduce_rule_unsplit(const struct call *c, struct str *rule); /* the reduced dimensions stay whole */
int reduce_infer(const struct call *c, int64_t *size);           /* E_SHAPE: nothing to take the greatest of */
void reduced_dims(const struct call *c, bool *gone);             /* which dimensions go */
int64_t reduced_count(const struct call *c);                     /* elements of the whole that go into one result */
bool reduces_split(const struct call *c);                        /* is a reduced dimension cut? */
/* For each dimension of the operand the stride in the result: 0 where it is reduced. */
void reduced_strides(const struct kcall *k, int64_t *stride);
/* For a dense operand: the element of the dense result that element i goes into. */
int64_t reduced_index(const struct kcall *k, int64_t i);
/* What is there before the first addend: 0, 1, the least or greatest value of the result's dtype. */
double reduce_start_f(enum reduce r);
int64_t reduce_start_i(enum reduce r, enum dtype d);
/* ref, accepts and run of operators whose records say what they fold. */
int reduce_ref(const struct kcall *k);
bool reduce_accepts(const struct kcall *k);
int reduce_run(const struct kcall *k, const void *state);

#endif
