/* reduce.h - sums, products, maxima and minima over dimensions.
 *
 * Attribute 0 of these operators is `axis` (INTS; none: all dimensions), attribute 1 is `keepdim`. Floats
 * accumulate in f64, integers and bool in i64. A maximum or minimum is NaN if an element is NaN. The result of an
 * empty shard is the identity of the reduction. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_REDUCE_H
#define RILLE_KERNELS_CPU_REDUCE_H

#include "runtime/graph/op.h"

int reduce_rule(const struct call *c, struct str *rule);
/* Writes the SBP rule of a call whose reduced dimensions must not be split. */
int reduce_rule_unsplit(const struct call *c, struct str *rule);
/* Implements infer() for reductions: fails with E_SHAPE if the call is a maximum or minimum of no elements. */
int reduce_infer(const struct call *c, int64_t *size);
void reduced_dims(const struct call *c, bool *gone); /* sets gone[d] to true if dimension d is reduced */
int64_t reduced_count(const struct call *c); /* returns the number of elements per result, in the global tensor */
bool reduces_split(const struct call *c);    /* returns true if a reduced dimension is split */
/* Sets stride[d] to the stride, in the result, of the operand's dimension d; 0 if dimension d is reduced. */
void reduced_strides(const struct kcall *k, int64_t *stride);
/* Returns the index, in the dense result, of the result to which element i of a dense operand is reduced. */
int64_t reduced_index(const struct kcall *k, int64_t i);
/* Return the identity of a reduction: 0, 1, or the least or greatest value of the result's dtype. */
double reduce_start_f(enum reduce r);
int64_t reduce_start_i(enum reduce r, enum dtype d);
/* Implement `ref`, `accepts` and `run` of operators whose records specify a reduction (folds). */
int reduce_ref(const struct kcall *k);
bool reduce_accepts(const struct kcall *k);
int reduce_run(const struct kcall *k, const void *state);

#endif
