/* hierarchical.h - decides whether the sum of a move is passed from host to host (struct box_relay), or computed by
 * owners that read all addends.
 *
 * A pure function of the type, the two layouts, the map and the network costs, so all plan partitions decide alike.
 * One thread. */
#ifndef RILLE_PLAN_HIERARCHICAL_H
#define RILLE_PLAN_HIERARCHICAL_H

#include "actors/plan/model/local_set.h"
#include "boxing/path.h"

/* Network cost of a reduction method: bytes that the busiest host sends or receives, whichever is more; time until
 * the last byte arrives, ns. */
struct wire_price {
    double bytes, ns;
};
struct hierarchical {
    /* segments (legs), each on one host in every replica; NULL: owners read all addends */
    const struct box_relay *relay;
    struct wire_price owners, handed;
};

/* Computes the cost of a hierarchical reduction, and of owners that read all addends. Sets out->relay, allocated in
 * a, if passing the sum from host to host is faster. Returns false, and no prices, if no sum spans hosts. */
bool hierarchical_of(struct arena *a, struct local_set *m, const struct box_cost *cost, const struct type *t,
                     const struct layout *from, const struct layout *to, struct hierarchical *out);

#endif
