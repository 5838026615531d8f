/* copies.h - a net under a memory limit in which each converted copy is a node (inside sbp/).
 *
 * How long a copy takes memory depends on all its readers, and what it takes on its maker. Prices of memory know nodes
 * alone. So the copy of a tensor in a form becomes a node: its candidates are that it is not made, and each span of
 * time for which it may be there with the bytes that it may take. The maker pays for it; a reader rules out the spans
 * that do not cover its own. Whoever chooses the shortest spans that readers allow has the bytes and the cost of net.h,
 * and no choice has less: so the best choice of the one net is that of the other. A tensor with one reader has one such
 * node for all forms. A copy that is there only when no choice is over the limit remains as it was, and takes nothing.
 *
 * All is in the arena that the caller gives; one thread. */
#ifndef RILLE_SBP_COPIES_H
#define RILLE_SBP_COPIES_H

#include "sbp/net.h"

struct copy_span {
    int32_t form;       /* that is made; -1: none */
    int64_t bytes;      /* of one */
    int32_t begin, end; /* where bytes are 0: of no reader */
};
struct copied {
    int32_t tensor, form; /* one form of several readers; -1: any, of one reader */
    int32_t nspan;
    struct copy_span *span; /* by candidate of its node */
};
struct copies {
    const struct net *net;
    struct net apart;      /* the nodes of net, then those of copies */
    struct copied *copied; /* by node less net->nnode */
};
/* False: the net has no copies, or no limit. */
bool copies_begin(struct arena *a, const struct net *n, struct copies *c);
/* choice: of apart. Makes the copies what those of net's nodes want, and no longer than they want it. */
void copies_settle(const struct copies *c, int32_t *choice);

#endif
