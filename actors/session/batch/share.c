/* share.c - reads how a value of one micro-batch relates to the value of the whole batch. */
#include "actors/session/batch/share.h"

#include "actors/session/core/tracer.h"

enum batch_share
batch_share_of(const struct val *v)
{
    if (v->is_number || !trace_per_microbatch(v)) return SHARE_WHOLE;
    return v->input >= 0 ? SHARE_ROWS : (enum batch_share)v->share;
}

bool
batch_share_adds(const struct val *v)
{
    enum batch_share share = batch_share_of(v);
    return share == SHARE_SUM || share == SHARE_ROWS;
}

bool
share_is_mean(const struct val *v)
{
    enum batch_share share = batch_share_of(v);
    return share == SHARE_MEAN || share == SHARE_FROM_MEANS;
}

int
share_rows(const struct val *v)
{
    return v->input >= 0 ? 0 : v->rows;
}

bool
share_among(int nin, struct val *const *in, enum batch_share share)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && batch_share_of(in[i]) == share) return true;
    return false;
}

int
share_blocks(const struct val *v)
{
    return v->input >= 0 || !v->blocks ? 1 : v->blocks;
}
