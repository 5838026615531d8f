/* hoist.h - groups casts of variables, so that one task computes many.
 *
 * Autocast casts each variable right before the first use. The casts are scattered over the forward pass, and each
 * launch takes longer than the copy of its bytes. hoist_casts() moves casts that may form a group (fusion.c) behind
 * the first cast of the group. That is legal because a cast reads only a leaf, and a leaf has its value before the
 * step begins, even if it is updated later. Results live longer, so the bytes of a group are bounded. The remaining
 * nodes keep their order, hoisting twice changes nothing, and results stay bit-identical. Without devices that
 * compile kernels it does nothing. The program must not be shared yet; call it on the thread that makes the program. */
#ifndef RILLE_PLAN_HOIST_H
#define RILLE_PLAN_HOIST_H

#include "actors/plan/model/program.h"

/* Hoists the casts. The program's layouts must be chosen. */
void hoist_casts(struct program *p);

#endif
