/* join.h - joins values along an axis in gradients and composites.
 *
 * The calls belong to the builder's call in progress. Session's thread. */
#ifndef RILLE_KERNELS_OP_JOIN_H
#define RILLE_KERNELS_OP_JOIN_H

#include "kernels/op/base/build.h"

/* Returns the n values, joined along the axis in order; joins long lists in parts. Overwrites x. */
struct val *b_join(struct build *b, int64_t axis, int32_t n, struct val **x);

#endif
