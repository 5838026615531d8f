/* gather.h - code shared by gather and gather_grad.
 *
 * x and ids have the same number of dimensions; ids may be smaller in all dimensions but the axis. Pure, except for
 * writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_GATHER_H
#define RILLE_KERNELS_OP_GATHER_H

#include "kernels/op/lib/lookup.h"

/* Writes the SBP rule's texts for x and for ids. A dimension other than the axis has the same letter in both texts
 * if x and ids have equal sizes there. If ids is smaller, that dimension of x is unsplit. */
void gather_rule(const struct type *x, const struct type *ids, int axis, struct str *x_text, struct str *ids_text);
int gather_check(const struct call *c);
/* Returns the index, in the dense x, of the element that the id at position `at` selects; -1: another rank's shard
 * has that element. */
int64_t gather_index(const struct view *x, int axis, const struct view *ids, const int64_t *at);

#endif
