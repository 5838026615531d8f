/* triangle.h - the common part of tril and triu, which keep entries of the last two dimensions by global position.
 * Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_TRIANGLE_H
#define RILLE_KERNELS_OP_TRIANGLE_H

#include "kernels/op/lib/op_impl.h"

enum { TRIANGLE_DIAGONAL }; /* attribute index */

int triangle_infer(const struct call *c, int64_t *size);
/* Accepts any dtype, dense. upper: keeps columns >= row + diagonal; else columns <= row + diagonal. */
int triangle_run(const struct kcall *k, bool upper);

#endif
