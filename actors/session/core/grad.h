/* grad.h - reverse-mode differentiation. Session's thread; new values belong to the call in progress. */
#ifndef RILLE_SESSION_GRAD_H
#define RILLE_SESSION_GRAD_H

#include "actors/session/core/call_context.h"

/* grad_values returns d sum(y) / d x[i] in dx[i], NULL if y does not depend on x[i]. grad_deposit adds gradients to
 * all leaves that y depends on; afterwards the forward nodes release what they saved. */
int grad_values(const struct call_context *ctx, struct val *y, int n, struct val *const *x, struct val **dx);
int grad_deposit(const struct call_context *ctx, struct val *y);
/* Returns the layout of a gradient for a parameter of layout l: l, except that a partial axis of `has` stays partial
 * if l has B there. */
int grad_suiting(struct rille_session *s, const struct layout *l, const struct layout *has, const struct layout **out);

#endif
