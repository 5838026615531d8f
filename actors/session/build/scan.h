/* scan.h - loops over the positions of an axis (kernels/op/scan.c), and their gradients.
 *
 * The user's function is called once, with stand-ins: nodes that stand for the states and slices at one position, and
 * are never run. The nodes between stand-ins and results become the body, which runs at each position. Values that do
 * not depend on a stand-in, such as transposed weights, are computed once outside the body, which captures these
 * values. Session's thread. */
#ifndef RILLE_SESSION_SCAN_H
#define RILLE_SESSION_SCAN_H

#include "actors/session/core/call_context.h"

/* Adds the gradient of a scan: another scan, in the opposite direction. Its states are the gradients of the
 * original states. Its sums are the gradients of the captured values. Its body recomputes the values of a position
 * from the original state before the position. */
int scan_gradient(const struct call_context *ctx, const struct node *n, struct val *const *dout, struct val **din);

#endif
