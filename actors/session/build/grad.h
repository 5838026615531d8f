/* grad.h - reverse-mode differentiation. New values belong to the call in progress. Used only on the session's
 * thread. */
#ifndef RILLE_SESSION_GRAD_H
#define RILLE_SESSION_GRAD_H

#include "actors/session/core/call_context.h"

/* grad_values returns d sum(y) / d x[i] in dx[i]; NULL: y does not depend on x[i]. grad_deposit adds gradients to
 * all leaves on which y depends. Unless `retain` is true, the forward nodes then free the values that they saved. */
int grad_values(const struct call_context *ctx, struct val *y, int n, struct val *const *x, struct val **dx);
int grad_deposit(const struct call_context *ctx, struct val *y, bool retain);
/* Returns, in dx[i], the sum over k of dy[k] d y[k] / d x[i]; NULL: no y[k] depends on x[i]. */
int grad_of_results(const struct call_context *ctx, int ny, struct val *const *y, struct val *const *dy, int n,
                    struct val *const *x, struct val **dx);
/* Returns the layout for the gradient of a parameter with layout l. `has`: present layout of the gradient. The
 * result is l, with one exception: a mesh axis that is partial in `has` and B in l stays partial. */
int grad_suiting(struct rille_session *s, const struct layout *l, const struct layout *has, const struct layout **out);

#endif
