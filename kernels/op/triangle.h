/* triangle.h - what tril and triu share: which entries of the last two dimensions stay depends on their global
 * position. Pure, but for what they write to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_TRIANGLE_H
#define RILLE_KERNELS_OP_TRIANGLE_H

#include "kernels/op/op_impl.h"

enum { TRIANGLE_DIAGONAL }; /* their attribute */

int triangle_infer(const struct call *c, int64_t *size);
/* Any dtype, dense. upper: keeps columns from row + diagonal on, else up to there. */
int triangle_run(const struct kcall *k, bool upper);

#endif
