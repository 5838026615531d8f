/* batch_share.h - tracks how a value of one micro-batch relates to the value of the whole batch (its "share").
 *
 * The micro-batches are treated as the ranks of one more mesh axis, on which a call has the signatures of sbp/sig.h.
 * So a micro-batch's sum over rows is an addend of the batch's sum, like P(sum) on a mesh. An operator that is not
 * linear cannot read an addend. Such an operator reads the batch's sum instead. There are two cases:
 *
 *   - If the sum follows from the arguments without a gradient (a count of labels, the sum of a mask), a separate
 *     step computes the sum before the batch (trace_total).
 *   - Otherwise the sum is taken over the micro-batches. Then the call happens once per batch, without a gradient.
 *
 * Used only on the session's thread, while a step of several micro-batches is traced. */
#ifndef RILLE_ACTORS_SESSION_BATCH_BATCH_SHARE_H
#define RILLE_ACTORS_SESSION_BATCH_BATCH_SHARE_H

#include "actors/session/batch/share.h"
#include "actors/session/core/call_context.h"

struct attr;
/* Computes the batch's value of v if v is a sum or a mean over rows; the value is known after the last
 * micro-batch. For other values, *out is v. */
int batch_share_batch(const struct call_context *ctx, struct val *v, struct val **out);
/* Corrects how *g, the gradient of v, relates to the batch's value. If v has rows of the batch, *g gets rows, too. If v
 * is the same for all micro-batches, *g becomes an addend: the batch's gradient is the sum over the micro-batches. */
int batch_share_rows(const struct call_context *ctx, const struct val *v, struct val **g);
/* Sets the shares of a new node's results: how they relate to the batch's values. E_PLAN: the call combines rows
 * of the batch, but a micro-batch has only some of these rows. */
int batch_share_note(struct rille_session *s, struct node *n);
/* n makes a tensor with one row per row of the micro-batch along dimension `axis`, without operands (zeros, arange) or
 * by repeating a value (expand). Sets how the tensor relates to the batch's value. E_PLAN: for the whole batch, the
 * tensor would have other values. */
int batch_share_source(struct rille_session *s, struct node *n, int axis);
/* Replaces operands of a call in place so that the call's result is right for the whole batch. E_PLAN: no operands
 * make the call right; the error says how to write the call instead. */
int batch_share_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                         const struct attr *attr);

/* Computes the batch's value of v, which has one value per micro-batch and no rows. *out is known after the last
 * micro-batch. For a max or min, *out has one row per micro-batch, and *reduce receives the operator that reduces
 * the rows; otherwise *reduce is NULL. */
int batch_share_join(const struct call_context *ctx, struct val *v, struct val **out, const struct op **reduce);

#endif
