/* path.h - chooses how to carry out a move: directly, or as a sequence of collectives.
 *
 * The direct exchange (box_plan) sends the fewest bytes, but a rank may read from all other ranks. A sequence over
 * intermediate layouts (slice, reduce-scatter, all-to-all, permute, all-gather) can send as many bytes in fewer
 * messages: gathering 8 x 16 x 8 ranks axis by axis takes 7 + 15 + 7 messages instead of 1023. A sequence is a
 * candidate only if no rank receives more bytes than in the direct exchange. A price selects the best: a cost per
 * hop (collective step), per message, per byte received and per byte reduced.
 *
 * Prices depend on ranks, not on hosts: a sum in hops is another fold than a direct sum, so hops chosen by host
 * would change the bits with the number of hosts. Hosts decide only what keeps the fold: whether a hop's sum is a
 * hierarchical reduction, which actors/plan/outline/hierarchical.h prices. Pure except for the atlas; the atlas's
 * thread. */
#ifndef RILLE_BOXING_PATH_H
#define RILLE_BOXING_PATH_H

#include "boxing/box.h"

/* Cost parameters of a machine. A hop costs what its slowest rank pays, level by level (stages are a level of their
 * own). */
struct box_cost {
    double alpha_ns;          /* per message */
    double beta_ns_per_byte;  /* per byte received */
    double gamma_ns_per_byte; /* per byte read to reduce */
    double copy_ns_per_byte;  /* per byte that a rank copies within its own memory */
    double hop_ns;            /* cost per hop besides bytes: actors, and the wait for the slowest */
    double wire_ns;           /* latency between memories that do not read each other in place */
    double wire_ns_per_byte;  /* per byte on a wire */
    int64_t staging_bytes;    /* maximum bytes of a rank between hops; 0: no limit */
};

struct box_hop {
    const struct layout *from, *to;
    const char *name; /* box_name */
    int64_t bytes;    /* over all ranks */
    double ns;
};

struct box_candidate {
    int nhop; /* 1: the direct exchange */
    struct box_hop *hop;
    int64_t bytes;   /* sum over ranks and hops */
    int64_t staging; /* bytes of the largest rank between hops */
    double ns;
};

/* box_long_axes returns the number of axes with more than one rank. With more than BOX_FEW_AXES of them there are
 * too many intermediate layouts to continue from all: only those that may become the cheapest are. */
enum { BOX_FEW_AXES = 3 };
int box_long_axes(const struct place *p);

struct box_path {
    int64_t bound; /* least bytes, sum over ranks */
    int ncandidate;
    /* Best first, at most one per length, including the direct exchange. With more than three axes, candidates
     * dearer than a shorter one may be missing. */
    struct box_candidate *candidate;
};

/* Plans in arena a; the atlas interns intermediate layouts. E_SBP: P to another kind of P. */
int box_path(struct arena *a, struct atlas *at, const struct type *t, const struct layout *from,
             const struct layout *to, const struct box_cost *cost, struct box_path **out);

#endif
