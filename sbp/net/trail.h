/* trail.h - the record of what a search did to a cost function network (inside sbp/).
 *
 * The trail restores the values of eliminated variables: an eliminated variable takes the best value for its
 * neighbours' values, so its costs at elimination are kept. The trail also writes the text of a proof. That text
 * lists steps without reasons; proof.c, which shares no code with the search, replays the steps. One search owns a
 * trail, on one thread. */
#ifndef RILLE_SBP_TRAIL_H
#define RILLE_SBP_TRAIL_H

#include "runtime/base/str.h"
#include "sbp/net/cfn.h"

struct gone_edge {
    int32_t other, n; /* the edge's other end, and the values that end had then */
    uint16_t *value;
    struct cfn_table *table; /* counted reference */
    bool first;              /* the variable indexes the table's rows */
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
    struct str *text; /* NULL: no proof is wanted */
};

/* Records v's unary costs and edges, before v is removed from c. */
void trail_gone(struct trail *t, const struct cfn *c, int32_t v);
/* Drops the records after a branching point. */
void trail_cut(struct trail *t, int32_t ngone);
/* Sets the values of eliminated variables. The caller has set value[v], a candidate, for every variable left in the
 * network. */
void trail_restore(const struct trail *t, int32_t *value);
/* Writes one line of the proof; does nothing without a text. */
void trail_say(struct trail *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
