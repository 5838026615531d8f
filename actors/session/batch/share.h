/* share.h - how a value of one micro-batch relates to the value of the whole batch (its "share").
 *
 * batch_share.h sets the shares while a step of several micro-batches is traced. Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_SHARE_H
#define RILLE_ACTORS_SESSION_BATCH_SHARE_H

#include <stdbool.h>

struct val;
enum batch_share {
    SHARE_WHOLE, /* the value is the same for all micro-batches */
    /* the value has rows of the batch along axis val->rows; the batch's value joins the rows of all micro-batches.
     * If val->blocks is n > 1, the axis consists of n equal blocks, each with rows of all micro-batches. If
     * val->blocks is -n, the axis before val->rows has size n. Each of its entries is a group of segments
     * (segments.h) with rows of its own. */
    SHARE_ROWS,
    SHARE_SUM,  /* the batch's value is the sum of the micro-batches' values */
    SHARE_MEAN, /* the batch's value is the mean of the micro-batches' values */
    /* the value is a nonlinear function of means and sums over the rows, and has no gradient */
    SHARE_FROM_MEANS,
    SHARE_MAX,       /* the batch's value is the maximum of the micro-batches' values */
    SHARE_MIN,       /* the batch's value is the minimum of the micro-batches' values */
    SHARE_DRAWN,     /* the values are random numbers */
    SHARE_POSITIONS, /* the value counts the rows of one micro-batch: 0, 1, 2, ... (positions.h) */
    /* the value is a function of several rows of one micro-batch; the batch's value is unknown. Such values result
     * from calls in rille.per_micro_batch(), and from calls that read randomly chosen rows. */
    SHARE_OTHER,
};
enum batch_share batch_share_of(const struct val *v);
/* Returns true if the batch's value is the sum of the micro-batches' values, or has the rows of all micro-batches;
 * false if the batch's value is their mean. */
bool batch_share_adds(const struct val *v);
/* Returns true if the batch's value is the mean of the micro-batches' values, or a function of such means. */
bool share_is_mean(const struct val *v);
/* Returns the dimension with the rows of the batch, and the number of its blocks (struct val), of a value with rows. */
int share_rows(const struct val *v);
int share_blocks(const struct val *v);
/* Returns true if one of n values has the share. */
bool share_among(int nin, struct val *const *in, enum batch_share share);

#endif
