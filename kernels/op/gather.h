/* gather.h - what gather and gather_grad share: x and ids have as many dimensions, and ids may be smaller beside the
 * axis. Pure, but for what they write to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_GATHER_H
#define RILLE_KERNELS_OP_GATHER_H

#include "kernels/op/lookup.h"

/* Beside the axis a dimension of one size in both is one letter; where ids are smaller, x is whole there. */
void gather_rule(const struct type *x, const struct type *ids, int axis, struct str *x_text, struct str *ids_text);
int gather_check(const struct call *c);
/* Where in the dense x the element lies that position `at` of ids names; -1: not in this rank's part. */
int64_t gather_index(const struct view *x, int axis, const struct view *ids, const int64_t *at);

#endif
