/* alternatives.h - what explain() tells of the candidates that a planner had.
 *
 * Layers of a model are alike: a list that nodes have in common is made once, and stands in the record of each of them.
 * It belongs to who explains a step, and to that thread; what it makes lies in the arena of the record. */
#ifndef RILLE_SESSION_ALTERNATIVES_H
#define RILLE_SESSION_ALTERNATIVES_H

#include "actors/session/planned.h"
#include "actors/session/session.h"
#include "runtime/hash.h"

struct alternatives {
    struct rille_session *s;
    const struct program *p;
    const struct assigned *planned; /* NULL: the step was not planned */
    struct arena *a;
    struct hash_table sent, told; /* what moves send; candidates without what depends on the choice */
    struct arena tmp;
    struct hash_table counted; /* of box_bytes_known, in tmp */
};

void alternatives_begin(struct alternatives *t, struct rille_session *s, const struct program *p,
                        const struct assigned *planned, struct arena *a);
void alternatives_end(struct alternatives *t); /* what was made stays */
/* Fills candidates and ncandidate: the chosen one in front, then by regret. Nodes for which all that is the same,
 * regrets too, have one array. node: the prog_node's in the net of the plan, one that has candidates. */
void alternatives_tell(struct alternatives *t, int32_t node, const struct prog_node *n, struct rille_explain_op *op);
/* Layouts as text, without those of numbers and absent operands; *count: how many, if it is wanted. */
const char **alternatives_texts(struct alternatives *t, int n, const struct layout *const *l, int *count);

#endif
