/* reuse.h - merges common subexpressions, and moves viewed values instead of views. Owns nothing. Used only on
 * the session's thread. */
#ifndef RILLE_SESSION_REUSE_H
#define RILLE_SESSION_REUSE_H

#include "actors/session/core/call_context.h"

struct collection;
struct program;
/* Merges equal calls of program p, which was made from collection c. */
void reuse_equal(struct program *p, const struct collection *c);
/* Moves the viewed value instead of a view, in a trace. If a reader needs view *v in layout `want`, and moving
 * the viewed value costs no more, makes *v a view of the moved value. */
int reuse_below(const struct call_context *ctx, const struct layout *want, struct val **v);

#endif
