/* bring.h - less memory for more bytes: values that lie on other devices, or are gathered again, until backward wants
 * them.
 *
 * Offload (Rhu et al. 2016): what forward leaves for backward goes to another placement and comes back; so does the
 * state of optimisers. ZeRO's third stage (Rajbhandari et al. 2020): a variable that lies in slices is gathered for
 * forward and once more for backward. Moves in the program and nothing else: no bit changes, every operator stays on
 * its devices, and registers say how far ahead a fetch is (credit.c). These change a program that nobody else reads
 * yet, on the thread that makes it. */
#ifndef RILLE_PLAN_BRING_H
#define RILLE_PLAN_BRING_H

#include "actors/plan/program.h"

/* Puts what backward reads of forward, and optimisers' state, on the placement: a rank of a value's own on each device.
 * leaf[].layout says where state lies from now on. variable: by leaf; root_leaf: by root, the leaf whose new version it
 * is, -1. E_ARG: the placement has fewer devices than a value, or its own. */
int bring_aside(struct program *p, struct atlas *at, const struct place *aside, const bool *variable,
                const int32_t *root_leaf, int32_t depth);
/* Gathers variables again for backward where the user asks for them whole; for each piece. depth: so many values are
 * there, or under way, beside the one that is read (1). Returns, by node as it was, where it is now; in p's arena. */
const int32_t *bring_again(struct program *p, const bool *variable, int32_t depth);

#endif
