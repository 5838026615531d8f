/* path.h - how to carry a move out: at once, or as a sequence of collectives.
 *
 * The direct exchange (box_plan) sends the fewest bytes, but a rank may read from as many others as there are. A
 * sequence over layouts in between - slice, reduce-scatter, all-to-all, permute, all-gather - can send the very same
 * bytes in fewer messages: gathering 8 x 16 x 8 ranks axis by axis takes 7 + 15 + 7 of them instead of 1023. A sequence
 * is a candidate only if it gives no rank more bytes than the direct exchange does; a price decides: so much a hop, a
 * message, a byte received, a byte reduced.
 *
 * It prices ranks, not hosts: a sum by hops is another fold than one at once, so hops that depended on where ranks lie
 * would make other bits on two hosts than on one. What hosts decide keeps the fold: whether a hop's sum is handed on,
 * which actors/plan/legs.h prices. Pure but for the atlas, and on its thread. */
#ifndef RILLE_BOXING_PATH_H
#define RILLE_BOXING_PATH_H

#include "boxing/box.h"

/* What a machine asks. A hop costs what its slowest rank pays, level by level (stages are a level of their own). */
struct box_cost {
    double alpha_ns;          /* a message */
    double beta_ns_per_byte;  /* a byte received */
    double gamma_ns_per_byte; /* a byte read to combine */
    double copy_ns_per_byte;  /* a byte of the rank's own that it copies to where it now belongs */
    double hop_ns;            /* a hop, whatever it moves: its actors, and the wait for the last */
    double wire_ns;           /* from one memory to another, which does not read it in place: what must arrive first */
    double wire_ns_per_byte;  /* a byte on its way there */
    int64_t staging_bytes;    /* a rank may hold at most this between hops; 0: no limit */
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
    int64_t bytes;   /* over all ranks and hops */
    int64_t staging; /* bytes of the largest rank between hops */
    double ns;
};

/* Axes of more than one rank. On more than BOX_FEW_AXES of them layouts in between are too many to go on from all: only
 * what may become the cheapest is looked at. */
enum { BOX_FEW_AXES = 3 };
int box_long_axes(const struct place *p);

struct box_path {
    int64_t bound; /* the least bytes over all ranks */
    int ncandidate;
    /* Best first, one of each length at most; the direct exchange is among them. On more than three axes those that are
     * dearer than shorter ones may be missing. */
    struct box_candidate *candidate;
};

/* Plans in arena a; the atlas interns layouts in between. E_SBP: P to another kind of P. */
int box_path(struct arena *a, struct atlas *at, const struct type *t, const struct layout *from,
             const struct layout *to, const struct box_cost *cost, struct box_path **out);
/* One line a candidate: its hops with names, bytes, price. */
void box_path_print(const struct box_path *p, struct str *s);

#endif
