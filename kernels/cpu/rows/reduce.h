/* reduce.h - sums, products, maxima and minima over dimensions.
 *
 * Attribute 0 of these operators is `axis` (INTS; none: all dimensions), attribute 1 is `keepdim`. Floats
 * accumulate in f64, integers and bool in i64. A maximum or minimum is NaN if an element is NaN. The result of an
 * empty shard is the identity of the reduction. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_REDUCE_H
#define RILLE_KERNELS_CPU_REDUCE_H

#include "runtime/graph/op.h"
#include "kernels/cpu/rows/reduced.h"

/* Kernel variants of operators whose records specify a reduction (folds); reduce_ref() is their reference. */
extern const struct kernel_variant reduce_variants[];
/* Variants of sums of products (products.h); attribute 0 is `axis`, and results keep the reduced dimensions. */
extern const struct kernel_variant reduce_products[];

#endif
