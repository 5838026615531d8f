/* hierarchical.h - decides whether the sum of a move is handed on from host to host (struct box_relay), or made by
 * owners that read all addends.
 *
 * A pure function of the type, the two layouts, the map and the cost of a wire, so that all plan partitions decide
 * alike. One thread. */
#ifndef RILLE_PLAN_HIERARCHICAL_H
#define RILLE_PLAN_HIERARCHICAL_H

#include "actors/plan/model/local_set.h"
#include "boxing/path.h"

/* Network cost of a method: bytes sent or received by the busiest host, whichever is more; time until the last byte
 * arrives, ns. */
struct wire_price {
    double bytes, ns;
};
struct hierarchical {
    const struct box_relay *relay; /* each segment (leg) of a replica is on one host; NULL: owners read all */
    struct wire_price owners, handed;
};

/* Prices both methods; sets out->relay, allocated in a, if handing on is faster. Returns false, and no prices, if no
 * sum spans hosts. */
bool hierarchical_of(struct arena *a, struct local_set *m, const struct box_cost *cost, const struct type *t,
                     const struct layout *from, const struct layout *to, struct hierarchical *out);

#endif
