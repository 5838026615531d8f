/* microbatch.h - sums and means over the micro-batches of a step. Session's thread; nothing is owned. */
#ifndef RILLE_SESSION_MICROBATCH_H
#define RILLE_SESSION_MICROBATCH_H

#include "actors/session/core/call_context.h"

/* Returns v summed over the micro-batches; v itself without micro-batches, or if it is computed once per batch. */
int microbatch_sum(const struct call_context *ctx, struct val *v, struct val **out);
/* Returns the mean over the micro-batches of a value that differs between them; known after the last micro-batch. */
int microbatch_mean(const struct call_context *ctx, struct val *v, struct val **out);

#endif
