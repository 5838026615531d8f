/* rewrite.h - edits a program under construction: inserts moves and nodes, reorders and removes nodes, finds
 * results that may be computed in place. Used by assign.c, zero.c, offload.c, recompute.c and hoist.c. The caller
 * owns the program; one thread. */
#ifndef RILLE_PLAN_REWRITE_H
#define RILLE_PLAN_REWRITE_H

#include "actors/plan/model/program.h"

/* Appends a move of r to the program and returns the move's result. *room: capacity of p->node, which the call may
 * increase; set it to p->nnode before the first call. */
struct ref rewrite_move(struct program *p, int32_t *room, struct ref r, const struct layout *to);
/* Sets the k-th operand of node i to r. */
void rewrite_operand(struct program *p, int32_t i, int32_t k, struct ref r);
/* A node to insert into a program. Its operands may be nodes of the same list: until rewrite_insert() runs, the
 * k-th node of the list is referred to as node p->nnode + k. */
struct insertion {
    struct prog_node node;
    int32_t before; /* index of the program node before which to insert; p->nnode: insert at the end */
};
/* Inserts n nodes. Nodes inserted before the same program node keep the order of the list. Returns the new index of
 * each node, by old index; the array is in p's arena. */
const int32_t *rewrite_insert(struct program *p, const struct insertion *list, int32_t n);
/* Reorders the nodes: node i becomes node index[i]. Operands must precede their readers in the new order. */
void rewrite_order(struct program *p, const int32_t *index);
/* Removes the nodes on which no root depends. */
void rewrite_sweep(struct program *p);
/* Returns the leaf of which r is a new version; -1: none. The update that computes r must read this leaf.
 * root_leaf: by root, the leaf of which the root is a new version; -1: none. */
int32_t rewrite_updated(const struct program *p, struct ref r, const int32_t *root_leaf);
/* Marks moves that make the new version of a variable as overwriting the old version. */
void rewrite_land(struct program *p, const int32_t *root_leaf);
/* Returns the leaf whose memory r may overwrite if r becomes a new version of `leaf`; -1: none. r must be a result
 * of an in-place operator. */
int32_t rewrite_over(const struct program *p, struct ref r, int32_t leaf);

#endif
