/* legs.h - is the sum of a move handed on from memory to memory (struct box_relay), or made by owners that read all
 * addends?
 *
 * A pure function of the type, the two layouts, the map and what a wire costs, so that all parts decide alike. One
 * thread. */
#ifndef RILLE_PLAN_LEGS_H
#define RILLE_PLAN_LEGS_H

#include "actors/plan/mine.h"
#include "boxing/path.h"

/* What goes over wires in either way: bytes that the busiest memory sends or receives, and when the last is there. */
struct wire_price {
    double bytes, ns;
};
struct legs {
    const struct box_relay *relay; /* of a replica each leg lies in one memory; NULL: owners read all addends */
    struct wire_price owners, handed;
};

/* relay, in arena a, where handing on is done sooner. False: there is no sum between memories, and no price. */
bool legs_of(struct arena *a, struct mines *m, const struct box_cost *cost, const struct type *t,
             const struct layout *from, const struct layout *to, struct legs *out);

#endif
