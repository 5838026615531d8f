/* body_bind.h - binds a body to the types of a call. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_BASE_BODY_BIND_H
#define RILLE_KERNELS_OP_BASE_BODY_BIND_H

#include "kernels/op/base/body.h"

/* Infers the types of all values of a call's body, and the factors of their dimensions. axis: dimension over which
 * the scan iterates, in tensors of slices and outputs. E_ARG, E_SHAPE, E_DTYPE: the operands do not suit the body. */
int body_bind(struct arena *a, const struct call *c, int64_t axis, struct bound_body *out);
/* Returns the view of one position of a tensor of slices or outputs. */
struct view body_slice(const struct view *whole, int64_t axis);
/* Returns true if the shards of all operands and results can be used together. The tensors of slices and outputs
 * must have `length` positions. A factor that a layout may split must have one size in all shards. All other
 * dimensions must be complete. */
bool body_fits(struct arena *a, const struct bound_body *b, const struct kcall *k, int64_t axis, int64_t length);
/* Returns the views of all values on one rank, without data. Inputs have the strides of the operands, other values are
 * dense. */
struct view *body_views(struct arena *a, const struct bound_body *b, const struct kcall *k, int64_t axis);

#endif
