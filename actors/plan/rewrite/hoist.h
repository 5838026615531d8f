/* hoist.h - moves casts of variables together, so that one task computes many casts.
 *
 * Autocast casts each variable right before its first use. So the casts are scattered over the forward pass, and
 * each has a kernel launch, which takes longer than copying the bytes of the cast. hoist_casts() moves casts that
 * may form a group (fusion.c) to the place after the first cast of the group. That is legal because a cast reads only a
 * leaf, and a leaf has its value before the step begins, even if the step updates the leaf later. The results of
 * hoisted casts live longer, so the bytes of a group are bounded. The other nodes keep their order. Hoisting twice
 * changes nothing, and results are bit-identical. Without devices that compile kernels hoist_casts() does nothing. The
 * program must not be shared yet; call it on the thread that makes the program. */
#ifndef RILLE_PLAN_HOIST_H
#define RILLE_PLAN_HOIST_H

#include "actors/plan/model/program.h"

/* Moves casts of variables together. The program's layouts must already be chosen. */
void hoist_casts(struct program *p);

#endif
