/* trail.h - what a search did to a cost function network: to find the values of eliminated variables again, and as the
 * text of a proof (inside sbp/).
 *
 * An eliminated variable takes the value that is best for its neighbours' values, so the trail keeps what it cost at
 * that moment. The text says what the search did and nothing of why: proof.c, which shares no code with the search,
 * does it again. One search owns a trail, on one thread. */
#ifndef RILLE_SBP_TRAIL_H
#define RILLE_SBP_TRAIL_H

#include "runtime/str.h"
#include "sbp/cfn.h"

struct gone_edge {
    int32_t other, n; /* the other end, how many values it had, which */
    uint16_t *value;
    struct cfn_table *table; /* held */
    bool first;              /* the variable is the table's rows */
};
struct gone {
    int32_t v, n, nedge;
    int64_t *cost;
    uint16_t *value;
    struct gone_edge *edge;
};
struct trail {
    struct gone *gone;
    int32_t ngone, capacity;
    struct str *text; /* NULL: nobody wants a proof */
};

/* Notes, before v goes out of c, what it costs beside its neighbours. */
void trail_gone(struct trail *t, const struct cfn *c, int32_t v);
/* Goes back to a branching point. */
void trail_cut(struct trail *t, int32_t ngone);
/* The caller has set value[v], a candidate, of every variable that is left in the network; sets those of eliminated
 * ones. */
void trail_restore(const struct trail *t, int32_t *value);
/* Writes one line of the proof; without a text nothing. */
void trail_say(struct trail *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
