/* update.h - what optimisers' updates share: a factor of the gradient.
 *
 * Gradients that are cut to a norm are products with one number, which is a tensor of no dimensions. An update takes
 * that number as an operand of its own and the gradient as it was: the products are never in memory. Any thread. */
#ifndef RILLE_KERNELS_OP_UPDATE_H
#define RILLE_KERNELS_OP_UPDATE_H

#include "kernels/op/op_impl.h"

/* E_SHAPE: operand `scale`, if it is there, is not a number in a tensor. */
int update_check_scale(const struct call *c, int scale);
/* Its value; 1 where it is absent. */
double update_scale(const struct view *scale);
/* The .absorb of updates: where operand g is such a product, and nobody has computed it yet, its two factors take its
 * place and that of `scale`. Gives the number of operands. */
int update_absorb(struct val **in, int nin, int g, int scale);

#endif
