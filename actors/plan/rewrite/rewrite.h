/* rewrite.h - edits a program under construction: moves, inserted nodes, in-place results. Used by assign.c, zero.c,
 * offload.c, recompute.c and hoist.c. The caller owns the program; one thread. */
#ifndef RILLE_PLAN_REWRITE_H
#define RILLE_PLAN_REWRITE_H

#include "actors/plan/model/program.h"

/* Appends a move of r to the program and returns its result. *room: capacity of p->node; set it to p->nnode before
 * the first call. */
struct ref rewrite_move(struct program *p, int32_t *room, struct ref r, const struct layout *to);
/* Sets the k-th operand of node i to r. */
void rewrite_operand(struct program *p, int32_t i, int32_t k, struct ref r);
/* A node to insert into a program. Until rewrite_insert(), nodes of the list and of the program refer to the k-th
 * node of the list as p->nnode + k. */
struct insertion {
    struct prog_node node;
    int32_t before; /* index of the program node before which to insert; nnode: insert at the end */
};
/* Inserts n nodes. Nodes inserted before the same program node keep the order of the list. Returns an array with the
 * new index of each node, by its old index, in p's arena. */
const int32_t *rewrite_insert(struct program *p, const struct insertion *list, int32_t n);
/* Reorders the nodes: node i becomes node index[i]. Operands must precede their readers in the new order. */
void rewrite_order(struct program *p, const int32_t *index);
/* Removes the nodes on which no root depends. */
void rewrite_sweep(struct program *p);
/* Returns the leaf of which r is the new version, if r is computed by an update that reads the leaf; -1: none.
 * root_leaf: by root, the leaf whose new version it is; -1: none. */
int32_t rewrite_updated(const struct program *p, struct ref r, const int32_t *root_leaf);
/* Makes moves that produce new versions of variables overwrite the old versions. */
void rewrite_land(struct program *p, const int32_t *root_leaf);
/* Returns the leaf that r, a result of an in-place operator, may overwrite if r becomes the leaf's new version; -1:
 * none. */
int32_t rewrite_over(const struct program *p, struct ref r, int32_t leaf);

#endif
