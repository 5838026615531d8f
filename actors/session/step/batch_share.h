/* batch_share.h - how a value of one micro-batch belongs to the value of the whole batch.
 *
 * The micro-batches are treated as the ranks of one more mesh axis, and a call has the signatures of sbp/sig.h on it.
 * So a sum over rows is a share of the batch's sum, as P(sum) is on a mesh. An operator that is not linear cannot read
 * a share; it reads the batch's sum instead:
 *
 *   if the sum follows from the arguments without a gradient (a count of labels, the sum of a mask), a step of its own
 *   computes it before the batch (trace_total)
 *   otherwise it is summed over the micro-batches, and the call happens once per batch, without a gradient
 *
 * Session's thread, while a step of several micro-batches is traced. */
#ifndef RILLE_SESSION_BATCH_SHARE_H
#define RILLE_SESSION_BATCH_SHARE_H

#include "actors/session/core/call_context.h"

struct attr;
enum batch_share {
    SHARE_WHOLE,      /* the same for all micro-batches */
    SHARE_ROWS,       /* the batch's value joins the micro-batches' along one axis (val->rows) */
    SHARE_SUM,        /* the batch's value is the sum of the micro-batches' */
    SHARE_MEAN,       /* the batch's value is their mean */
    SHARE_FROM_MEANS, /* a function of means and sums; a gradient takes it for a mean, as of a batch norm's statistics
                       */
    SHARE_EXTREME,    /* the batch's value is the greatest or the least of them */
    SHARE_DRAWN,      /* random numbers */
    SHARE_OTHER,      /* a function of several rows of a micro-batch */
};
enum batch_share batch_share_of(const struct val *v);
/* Returns true if the batch's value is the sum of the values (or of all rows) of its micro-batches, and not their
 * mean. */
bool batch_share_adds(const struct val *v);
/* Sets the shares of a new node's results. */
void batch_share_note(struct rille_session *s, struct node *n);
/* Replaces operands of a call in place, so that the call is right for the whole batch. E_PLAN: no such call exists; the
 * error says what to write instead. */
int batch_share_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                         const struct attr *attr);

/* Makes the batch's value of a value of each micro-batch that has no rows: known after the last micro-batch. E_PLAN. */
int batch_share_join(const struct call_context *ctx, struct val *v, struct val **out);

#endif
