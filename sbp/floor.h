/* floor.h - what every choice of a net holds at the least, proved (inside sbp/).
 *
 * Bytes alone count: at each time they have a share of one price. Whatever the shares are, the choice that is cheapest
 * then costs no more than the peak of any. Shares rise where that choice holds much; where they say no more, what is
 * possible is split (parts.h) until each part is bounded by a peak that is known, or one below it turns up. Pure; one
 * call, one thread. */
#ifndef RILLE_SBP_FLOOR_H
#define RILLE_SBP_FLOOR_H

#include "sbp/net.h"

struct floor_options {
    int64_t until;           /* it ends when so much is counted (work.h) */
    bool split;              /* once prices say no more */
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
};
/* All peaks are multiples of it. */
int64_t floor_unit(const struct net *n);
/* No peak is below it: each value by itself takes its least. */
int64_t floor_alone(const struct net *n);
/* *bound: no peak is below it; in, what is known. *peak: of a choice that is known; out, the least that it saw. The two
 * are equal where the search came to its end. *choice, in a: what has that peak, if it is less than was known; NULL. */
void floor_find(struct arena *a, const struct net *n, const struct floor_options *o, int64_t *bound, int64_t *peak,
                const int32_t **choice);

#endif
