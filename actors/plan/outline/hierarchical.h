/* hierarchical.h - chooses the method by which a move computes a sum. Either the sum is passed from host to host
 * (struct box_relay), or the owners of the sum read all addends.
 *
 * The decision depends only on the type, the two layouts, the map and the network costs, so all plan partitions make
 * the same decision. One thread. */
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
    /* segments (legs) of addends; a segment is on one host in every replica. NULL: owners read all addends */
    const struct box_relay *relay;
    /* costs of the two methods. owners: the owners of the sum read all addends; handed: hierarchical reduction */
    struct wire_price owners, handed;
};

/* Computes the cost of both methods: hierarchical reduction, and owners that read all addends. Sets out->relay,
 * allocated in a, if hierarchical reduction is faster. Returns false, and computes no costs, if no sum has
 * addends on several hosts. */
bool hierarchical_of(struct arena *a, struct local_set *m, const struct box_cost *cost, const struct type *t,
                     const struct layout *from, const struct layout *to, struct hierarchical *out);

#endif
