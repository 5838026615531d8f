/* loss_times.c - keeps the times of the last losses in a ring buffer. */
#include "actors/cluster/coordinator/loss_times.h"

#include <assert.h>

void
loss_times_add(struct loss_times *l, int64_t at)
{
    l->at[l->n++ % LOSS_TIMES] = at;
}

int64_t
loss_times_span(const struct loss_times *l, int most)
{
    assert(most >= 0 && most < LOSS_TIMES);
    if (l->n <= (uint32_t)most) return -1;
    uint32_t last = l->n - 1;
    return l->at[last % LOSS_TIMES] - l->at[(last - (uint32_t)most) % LOSS_TIMES];
}
