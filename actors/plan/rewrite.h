/* rewrite.h - what changes the layouts of a program in the making (assign.c, zero.c): the moves between, and what may
 * lie in place. The program belongs to the caller; one thread. */
#ifndef RILLE_PLAN_REWRITE_H
#define RILLE_PLAN_REWRITE_H

#include "actors/plan/program.h"

/* Returns r, or what it was before moves that nobody asked for, on its placement. */
struct ref rewrite_source(const struct program *p, struct ref r);
/* Adds a move of r at the program's end. */
struct ref rewrite_move(struct program *p, struct ref r, const struct layout *to);
/* Returns the leaf over whose bytes r, a result of an in-place operator, may lie if it is to become its new version;
 * -1. */
int32_t rewrite_over(const struct program *p, struct ref r, int32_t leaf);

#endif
