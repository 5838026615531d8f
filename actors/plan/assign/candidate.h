/* candidate.h - lists the legal signatures of a program node, as lists of layouts (inside actors/plan).
 *
 * A candidate combines one legal signature per mesh axis. A list holds all combinations, without duplicates; equal
 * calls share one list. On three or more mesh axes, a long program has too many combinations. The list of a call
 * then holds the traced combination, and the combinations with one signature on all major axes and one on all minor
 * axes. A proof of optimality then covers only the listed candidates. An axis of one rank offers no choice and keeps
 * the entry that it had in the trace. Mesh axes split a dimension in mesh order, or in an order used by a fixed
 * layout of the program. A struct candidates has one owner and is used by one thread. */
#ifndef RILLE_PLAN_CANDIDATE_H
#define RILLE_PLAN_CANDIDATE_H

#include "actors/plan/assign/assign.h"
#include "actors/plan/assign/units.h"
#include "runtime/data/hash.h"

struct candidate_list {
    int32_t n, nlayout;
    struct assign_candidate *candidate;
    /* work of the complete call over all ranks. flops: number of floating-point operations; bytes: number of bytes
     * read and written */
    double flops, bytes;
    /* [candidate * MAX_AXIS + axis]: index of the signature that the candidate has on this mesh axis */
    uint8_t *part;
};
struct candidates {      /* candidate lists of one program */
    struct arena *arena; /* owner of the lists' memory */
    struct atlas *atlas;
    const struct program *program;
    units_row *unit; /* units of the program's values (units.h); NULL: none */
    /* limit of combinations per call on three or more mesh axes; a call with more gets a restricted list */
    int64_t most;
    int32_t norder;
    uint8_t (*order)[MAX_AXIS];
    struct hash_table calls; /* candidate lists by call (candidate.c) */
};
void candidates_begin(struct candidates *c, struct arena *a, struct atlas *at, const struct program *p);
/* Returns the candidate list of node i in *out, and in *now the index of the candidate with the traced layouts. */
int candidates_of(struct candidates *c, int32_t i, const struct candidate_list **out, int32_t *now);
/* Lists all layouts of value `at` (units_at) of this type, on the placement of layout `now`, that have no partial
 * entries. */
int candidate_layouts(struct candidates *c, int32_t at, const struct type *t, const struct layout *now,
                      const struct layout ***out, int32_t *n);
/* Returns the node as a call with the traced layouts of its operands. in, out: arrays for the types. */
struct call candidate_call(const struct program *p, const struct prog_node *n, struct type *in, struct type *out,
                           struct arena *a);
/* Returns true if the layout is NULL, or replicated on all its devices. */
bool candidate_is_whole(const struct layout *l);

#endif
