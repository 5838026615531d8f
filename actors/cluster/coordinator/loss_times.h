/* loss_times.h - times of the last losses of workers, to limit the number of losses within a period.
 *
 * Times are in any unit. Owner: the cluster (controller.h), under the cluster's lock. */
#ifndef RILLE_CLUSTER_LOSS_TIMES_H
#define RILLE_CLUSTER_LOSS_TIMES_H

#include <stdint.h>

enum { LOSS_TIMES = 64 }; /* number of times that are kept */
struct loss_times {
    uint32_t n;             /* number of losses so far */
    int64_t at[LOSS_TIMES]; /* time of loss i, at i % LOSS_TIMES */
};

void loss_times_add(struct loss_times *l, int64_t at);
/* Returns the time that passed during the last `most` + 1 losses, from the first to the last of them; -1: there were
 * fewer losses. most: less than LOSS_TIMES. */
int64_t loss_times_span(const struct loss_times *l, int most);

#endif
