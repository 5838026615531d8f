/* reuse.h - common subexpressions, and moves below views. Session's thread; nothing is owned. */
#ifndef RILLE_SESSION_REUSE_H
#define RILLE_SESSION_REUSE_H

#include "actors/session/core/call_context.h"

struct collection;
struct program;
/* Merges equal calls of p, the program of c. */
void reuse_equal(struct program *p, const struct collection *c);
/* In a trace: if *v, which a reader needs in layout `want`, is a view and it costs no more to move the viewed value,
 * makes *v a view of the moved value. */
int reuse_below(const struct call_context *ctx, const struct layout *want, struct val **v);

#endif
