/* update.h - code shared by optimiser updates: the scale factor of the gradient.
 *
 * Gradient clipping by norm multiplies each gradient by one number, a tensor without dimensions. An update accepts
 * that number as a separate operand beside the unscaled one, so scaled gradients are never stored. Any thread. */
#ifndef RILLE_KERNELS_OP_UPDATE_H
#define RILLE_KERNELS_OP_UPDATE_H

#include "kernels/op/base/op_impl.h"

/* Fails with E_SHAPE if the operand `scale` is present and has dimensions. */
int update_check_scale(const struct call *c, int scale);
/* Returns the value of the scale operand; 1 if it is absent. */
double update_scale(const struct view *scale);
/* Implements absorb() for updates. If operand g is the product of a gradient and one number, and is not computed
 * yet, replaces operands g and `scale` by the two factors. Returns the number of operands. */
int update_absorb(struct val **in, int nin, int g, int scale);

#endif
