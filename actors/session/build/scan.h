/* scan.h - loops over the positions of an axis (kernels/op/scan.c), and their gradients.
 *
 * The user's function is called once, with stand-ins: nodes that compute the states and slices of one position, and are
 * never run. The nodes between stand-ins and results are written as a body. Values that do not depend on a stand-in,
 * such as transposed weights, stay outside: the body captures them. Session's thread. */
#ifndef RILLE_SESSION_SCAN_H
#define RILLE_SESSION_SCAN_H

#include "actors/session/core/call_context.h"

/* Adds the gradient of a scan: another scan in the opposite direction. Its states are the gradients of the states, its
 * sums the gradients of captured values. It computes the values of each position again, from the state before. */
int scan_gradient(const struct call_context *ctx, const struct node *n, struct val *const *dout, struct val **din);

#endif
