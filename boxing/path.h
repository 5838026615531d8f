/* path.h - chooses how to carry out a move: as one direct exchange, or as a sequence of collectives.
 *
 * The direct exchange (box_plan) sends the fewest bytes, but a rank may read from all other ranks. A sequence of
 * hops over intermediate layouts (slice, reduce-scatter, all-to-all, permute, all-gather) can send as many bytes in
 * fewer messages: gathering 8 x 16 x 8 ranks axis by axis takes 7 + 15 + 7 messages instead of 1023. A sequence is a
 * candidate only if no rank receives more bytes than in the direct exchange. A price selects the best: a cost per
 * hop (collective step), per message, per byte received and per byte reduced.
 *
 * Prices depend on ranks, not on hosts. A sum in several hops adds in another order than a direct sum, so if hosts
 * influenced the choice of hops, the bits of results would depend on the number of hosts. Hosts decide only whether
 * a hop's sum is a hierarchical reduction, which keeps the order of additions; actors/plan/outline/hierarchical.h
 * prices that. Pure, except that new layouts are interned in the atlas; the atlas's thread. */
#ifndef RILLE_BOXING_PATH_H
#define RILLE_BOXING_PATH_H

#include "boxing/box.h"

/* Cost parameters of a machine. The cost of a hop is hop_ns, plus the cost of filling stage buffers, plus the cost
 * of filling destination shards. The cost of each filling is the sum of four terms: messages, bytes received, bytes
 * reduced and bytes copied. Each term is that of the rank with the most. */
struct box_cost {
    double alpha_ns;          /* cost per message, ns */
    double beta_ns_per_byte;  /* cost per byte received, ns */
    double gamma_ns_per_byte; /* cost per byte read to reduce, ns */
    double copy_ns_per_byte;  /* cost per byte that a rank copies within its own memory, ns */
    double hop_ns;            /* fixed cost per hop, ns: actors, and waiting for the slowest rank */
    double wire_ns;           /* latency between hosts that do not share memory, ns */
    double wire_ns_per_byte;  /* cost per byte sent between hosts that do not share memory, ns */
    int64_t staging_bytes;    /* maximum number of bytes that a rank may hold between hops; 0: no limit */
};

struct box_hop {
    const struct layout *from, *to;
    const char *name; /* result of box_name() */
    int64_t bytes;    /* bytes sent by all ranks together */
    double ns;
};

struct box_candidate {
    int nhop; /* number of hops; 1: the direct exchange */
    struct box_hop *hop;
    int64_t bytes;   /* bytes sent, sum over ranks and hops */
    int64_t staging; /* maximum number of bytes that a rank holds between hops, on this path */
    double ns;
};

/* box_long_axes returns the number of axes with more than one rank. If there are more than BOX_FEW_AXES, there are
 * too many intermediate layouts to try all of them. The search then continues only from layouts that may become part
 * of the cheapest path. */
enum { BOX_FEW_AXES = 3 };
int box_long_axes(const struct place *p);

struct box_path {
    int64_t bound; /* least possible bytes, sum over ranks */
    int ncandidate;
    /* Candidates, best first: at most one per number of hops, and always the direct exchange. With more than
     * BOX_FEW_AXES axes, the list may lack candidates that cost more than a candidate with fewer hops. */
    struct box_candidate *candidate;
};

/* Plans a move in arena a. The atlas interns intermediate layouts. E_SBP: a move from P to another kind of P. */
int box_path(struct arena *a, struct atlas *at, const struct type *t, const struct layout *from,
             const struct layout *to, const struct box_cost *cost, struct box_path **out);

#endif
