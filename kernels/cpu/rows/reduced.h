/* reduced.h - reduced dimensions of a call, the identity of each reduction, and the reference of reductions. Any
 * thread: calls keep no state. */
#ifndef RILLE_KERNELS_CPU_ROWS_REDUCED_H
#define RILLE_KERNELS_CPU_ROWS_REDUCED_H

#include "runtime/tensor/type.h"
#include "runtime/tensor/layout.h"

struct call;
struct kcall;

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
/* Implements ref() for operators whose records specify a reduction (folds). */
int reduce_ref(const struct kcall *k);

#endif
