/* triangle.h - code shared by tril and triu, which keep the entries of the last two dimensions on one side of a
 * diagonal.
 *
 * A rank compares global positions. Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_TRIANGLE_H
#define RILLE_KERNELS_OP_TRIANGLE_H

#include "kernels/op/base/op_impl.h"

enum { TRIANGLE_DIAGONAL }; /* index of the attribute diagonal */

int triangle_infer(const struct call *c, int64_t *size);
/* Copies the kept entries and clears the others; dense, any dtype. upper: keeps columns >= row + diagonal; otherwise
 * columns <= row + diagonal. */
int triangle_run(const struct kcall *k, bool upper);

#endif
