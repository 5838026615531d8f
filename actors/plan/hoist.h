/* hoist.h - casts of variables stand together, so that one task computes many of them.
 *
 * Autocast casts each variable right before it is first read, so that casts are strewn over the forward pass, each a
 * launch that takes longer than its bytes. Of those that may be one group (fuse.c) all follow the first of them here: a
 * leaf has its value before the step begins, whoever updates it later, and nothing else is read. Results are there
 * earlier, and that is why a group has a bound on its bytes. Whatever else there is keeps its order, and so does a
 * program that was hoisted before; no bit changes. It does nothing where no kernel is compiled. It changes a program
 * that nobody else reads yet, on the thread that makes it. */
#ifndef RILLE_PLAN_HOIST_H
#define RILLE_PLAN_HOIST_H

#include "actors/plan/program.h"

/* The program's layouts are chosen. */
void hoist_casts(struct program *p);

#endif
