/* rewrite.h - what changes a program in the making (assign.c, zero.c, bring.c, recompute.c, hoist.c): the moves
 * between, and what may lie in place. The program belongs to the caller; one thread. */
#ifndef RILLE_PLAN_REWRITE_H
#define RILLE_PLAN_REWRITE_H

#include "actors/plan/program.h"

/* Returns r, or what it was before moves that nobody asked for, on its placement. */
struct ref rewrite_source(const struct program *p, struct ref r);
/* Adds a move of r at the program's end. *room: nodes for which p->node has room, which is p->nnode before the first.
 */
struct ref rewrite_move(struct program *p, int32_t *room, struct ref r, const struct layout *to);
/* Lets node i read r as its k-th operand. */
void rewrite_operand(struct program *p, int32_t i, int32_t k, struct ref r);
/* A node to be put in before another. The k-th of a list is named p->nnode + k, by those of the list and by the
 * program, until program and list are one. */
struct insertion {
    struct prog_node node;
    int32_t before; /* a node of the program; nnode: at the end */
};
/* Puts n nodes in, those before one node in the order of the list. Returns, by node as it was named, its name now; in
 * p's arena. */
const int32_t *rewrite_insert(struct program *p, const struct insertion *list, int32_t n);
/* Puts the nodes in another order, in which what they read still comes before them: node i becomes node index[i]. */
void rewrite_order(struct program *p, const int32_t *index);
/* Leaves out the nodes of which no root comes. */
void rewrite_sweep(struct program *p);
/* Returns the leaf that an update reads and whose new version it gives; -1. root_leaf: by root, -1. */
int32_t rewrite_updated(const struct program *p, struct ref r, const int32_t *root_leaf);
/* Lets new versions of variables that a move brings lie over the old ones. */
void rewrite_land(struct program *p, const int32_t *root_leaf);
/* Returns the leaf over whose bytes r, a result of an in-place operator, may lie if it is to become its new version;
 * -1. */
int32_t rewrite_over(const struct program *p, struct ref r, int32_t leaf);

#endif
