/* microbatch.h - sums and means over the micro-batches of a step. Owns nothing. Used only on the session's
 * thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_MICROBATCH_H
#define RILLE_ACTORS_SESSION_BATCH_MICROBATCH_H

#include "actors/session/core/call_context.h"

/* Returns v * f. */
int microbatch_scaled(const struct call_context *ctx, struct val *v, double f, struct val **out);
/* Returns the sum of v over the micro-batches. Returns v itself if the step has no micro-batches, or v is computed
 * once per batch. */
int microbatch_sum(const struct call_context *ctx, struct val *v, struct val **out);
/* Returns the mean of a per-micro-batch value over the micro-batches. The mean is known after the last
 * micro-batch. */
int microbatch_mean(const struct call_context *ctx, struct val *v, struct val **out);
/* Returns the reason why a node has no gradient in a micro-batch, as a text that follows the node's name in an
 * error: the node is a nonlinear function of means over the batch's rows, or a maximum or minimum of rows. NULL:
 * the node has a gradient. */
const char *microbatch_ungraded(const struct node *n);
/* Fails: the node reads a value of one micro-batch, and a value that is known only after the last micro-batch. */
int microbatch_refuse_late(const struct node *n);

#endif
