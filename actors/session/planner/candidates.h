/* candidates.h - lists the planner's layout candidates, for explain().
 *
 * Layers of a model are alike: nodes with equal lists share one array. The caller of explain() owns the struct and
 * uses it on one thread; results are allocated in the arena of the explain record. */
#ifndef RILLE_SESSION_CANDIDATES_H
#define RILLE_SESSION_CANDIDATES_H

#include "actors/session/planner/planned.h"
#include "actors/session/core/session.h"
#include "runtime/data/hash.h"

struct explain_candidates {
    struct rille_session *s;
    const struct program *p;
    const struct assigned *planned; /* NULL: the step was not planned */
    struct arena *a;
    /* sent: memo of the bytes that moves send. told: memo of candidate lists; the list is without the data that
     * differ between nodes with equal candidates */
    struct hash_table sent, told;
    struct arena tmp;
    struct hash_table counted; /* memo of box_bytes_known(), allocated in tmp */
};

void explain_candidates_begin(struct explain_candidates *t, struct rille_session *s, const struct program *p,
                              const struct assigned *planned, struct arena *a);
/* Frees the caches; keeps the reported results. */
void explain_candidates_end(struct explain_candidates *t);
/* Fills op->candidates and op->ncandidate: the chosen candidate first, then the others by regret. Nodes with equal
 * candidates and regrets share one array. node: net node of the prog_node; must have candidates. */
void explain_candidates_report(struct explain_candidates *t, int32_t node, const struct prog_node *n,
                               struct rille_explain_op *op);
/* Returns the texts of n layouts. Omits the layouts of numbers and absent operands. *count: number of texts; count
 * may be NULL. */
const char **explain_candidates_texts(struct explain_candidates *t, int n, const struct layout *const *l, int *count);

#endif
