/* candidate.h - the signatures that a node of a program may take, as lists of layouts (inside actors/plan).
 *
 * All products of one signature a mesh axis that are legal, each once; equal calls share one list. Of a long program
 * on three mesh axes and more, where products are many: those that have one signature on the major axes and one on the
 * others, and what is there; what a plan proves it proves of these. An axis of one rank
 * gives no choice: what it is called stays as it was traced. The order in which mesh axes cut is the mesh's, or one
 * that the program's fixed layouts have. One owner, one thread. */
#ifndef RILLE_PLAN_CANDIDATE_H
#define RILLE_PLAN_CANDIDATE_H

#include "actors/plan/assign.h"
#include "runtime/hash.h"

struct candidate_list {
    int32_t n, nlayout;
    struct assign_candidate *candidate;
    double flops, bytes; /* of the whole call */
    uint8_t *part;       /* [candidate * axes + axis]: which signature of that axis */
};
struct candidates {      /* of one program */
    struct arena *arena; /* lists live in it */
    struct atlas *atlas;
    const struct program *program;
    int64_t most; /* products of one call that are all looked at, on three axes and more */
    int32_t norder;
    uint8_t (*order)[MAX_AXIS];
    struct hash_table calls; /* whose lists are there (candidate.c) */
};
void candidates_begin(struct candidates *c, struct arena *a, struct atlas *at, const struct program *p);
/* Gives the list of node i, and which of it the node is now: *now. */
int candidates_of(struct candidates *c, int32_t i, const struct candidate_list **out, int32_t *now);
/* Lists every layout without partial values that a tensor of this type may have where it lies `now`. */
int candidate_layouts(struct candidates *c, const struct type *t, const struct layout *now, const struct layout ***out,
                      int32_t *n);
/* Fills cost, by candidate of the node: whole nanoseconds that the busiest rank computes, of all times; NET_NEVER where
 * its strategy rules the candidate out (price.c). */
void candidates_work(const struct program *p, const struct prog_node *n, const struct candidate_list *l,
                     const struct compute_rates *r, int64_t times, int64_t *cost);
/* Has every device everything that lies so? NULL: yes. */
bool candidate_is_whole(const struct layout *l);

#endif
