/* copies.h - a net under a memory limit in which each converted copy is a node (inside sbp/).
 *
 * The lifetime of a copy depends on all its readers, and its bytes depend on its maker, but memory prices apply to
 * single nodes. So a tensor's copy in a form becomes a node. Its candidates are "not made" and each pair of a live
 * range and a size that the copy may have. The maker pays the size; a reader forbids ranges that do not cover its
 * own use. The shortest ranges that readers allow have the bytes and the cost of net.h, and no choice has less, so
 * both nets have the same best choice. If a tensor has one reader, a single copy node serves all forms. A copy that
 * is live only when no choice is over the limit stays as it was and counts no bytes.
 *
 * All memory is in the caller's arena; one thread. */
#ifndef RILLE_SBP_COPIES_H
#define RILLE_SBP_COPIES_H

#include "sbp/net/net.h"

struct copy_span {
    int32_t form;       /* form of the copy; -1: no copy */
    int64_t bytes;      /* bytes of one copy */
    int32_t begin, end; /* live range [begin, end); if bytes is 0, that of no reader */
};
struct copied {
    int32_t tensor, form; /* form: a form with several readers; -1: every form of a tensor with a single reader */
    int32_t nspan;
    struct copy_span *span; /* by candidate of the copy's node */
};
struct copies {
    const struct net *net;
    struct net apart;      /* the nodes of `net`, followed by the copy nodes */
    struct copied *copied; /* by node number minus net->nnode */
};
/* Returns false if the net has no copies or no limit. */
bool copies_begin(struct arena *a, const struct net *n, struct copies *c);
/* Sets the copy nodes of a choice of `apart` to what the other nodes need, with the shortest live ranges. */
void copies_settle(const struct copies *c, int32_t *choice);

#endif
