/* trail.h - the record of a search's changes to a cost function network (inside sbp/).
 *
 * The trail restores the values of eliminated variables: an eliminated variable takes the best value for its
 * neighbours' values, so its costs at elimination are kept. The trail also writes the text of a proof. That text
 * lists steps without reasons; proof.c, which shares no code with the search, replays the steps. One search owns a
 * trail, on one thread. */
#ifndef RILLE_SBP_TRAIL_H
#define RILLE_SBP_TRAIL_H

#include "runtime/data/str.h"
#include "sbp/net/cfn.h"

struct gone_edge {
    /* other: variable at the edge's other end; n: number of values that `other` had at the elimination */
    int32_t other, n;
    uint16_t *value;
    struct cfn_table *table; /* counted reference to the edge's table */
    bool first;              /* true: a row of the table belongs to a value of the eliminated variable */
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
    struct str *text; /* text of the proof; NULL: no proof is needed */
};

/* Records the unary costs and edges of v, before v is removed from c. */
void trail_gone(struct trail *t, const struct cfn *c, int32_t v);
/* Keeps only the first ngone records, to return to a branching point. */
void trail_cut(struct trail *t, int32_t ngone);
/* Computes the values of eliminated variables. The caller has set value[v] (a candidate) of every variable that is
 * left in the network. */
void trail_restore(const struct trail *t, int32_t *value);
/* Writes one line of the proof. Does nothing if there is no text. */
void trail_say(struct trail *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
