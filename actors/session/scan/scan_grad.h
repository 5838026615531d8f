/* scan_grad.h - gradients of loops over the positions of an axis (kernels/op/scan.c). Session's thread. */
#ifndef RILLE_SESSION_SCAN_GRAD_H
#define RILLE_SESSION_SCAN_GRAD_H

#include "actors/session/core/call_context.h"

/* Adds the gradient of a scan: another scan, in the opposite direction. Its states are the gradients of the
 * original states. Its sums are the gradients of the captured values. Its body recomputes the values of a position
 * from the original state before the position. */
int scan_gradient(const struct call_context *ctx, const struct node *n, struct val *const *dout, struct val **din);

#endif
