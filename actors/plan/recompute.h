/* recompute.h - less memory for more work: what forward leaves for backward is computed again, part by part.
 *
 * The forward pass of a virtual stage is cut into parts of about like work, where little is alive. Of a part that is
 * computed again backward keeps what enters and leaves it; of a stage of which all is, what enters the stage alone
 * (Chen et al. 2016). The same calls on the same values: no bit changes. It changes a program that nobody else reads
 * yet, before its moves are made anew (bring.h), on the thread that makes it. */
#ifndef RILLE_PLAN_RECOMPUTE_H
#define RILLE_PLAN_RECOMPUTE_H

#include "actors/plan/program.h"

enum { RECOMPUTE_PARTS = 8 }; /* of a stage, at most */

/* Where to cut what n calls make, in order, into RECOMPUTE_PARTS of about like work: of the places nearest to an even
 * cut that where the least is alive. alive[k]: bytes made up to call k and read behind it; ends[k] becomes true where a
 * part ends, but for the last. */
void recompute_cut(int32_t n, const double *work, const int64_t *alive, bool *ends);

/* Returns how many virtual stages the program has: 1 where nothing comes in pieces. */
int32_t recompute_stages(const struct program *p);
/* Lets backward compute again so many parts of each of the n stages, 0 to RECOMPUTE_PARTS (all as one), those first
 * that leave most. */
int recompute_parts(struct program *p, const int32_t *parts, int32_t n);
/* What is computed again begins on each stage with what forward left there, also where stages are parts of one
 * device's. */
int recompute_apart(struct program *p);

#endif
