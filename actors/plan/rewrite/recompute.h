/* recompute.h - saves memory at the cost of work: backward recomputes values of forward, part by part.
 *
 * The forward pass of a virtual stage is cut into parts of about equal work, at points where few bytes are alive.
 * For a recomputed part, backward keeps only the inputs and outputs of the part; if all parts of a stage are
 * recomputed, only the inputs of the stage (Chen et al. 2016). The same calls run on the same values, so results are
 * bit-identical. Call these functions before moves are made anew (offload.h), on the thread that makes the program;
 * the program must not be shared yet. */
#ifndef RILLE_PLAN_RECOMPUTE_H
#define RILLE_PLAN_RECOMPUTE_H

#include "actors/plan/model/program.h"

enum { RECOMPUTE_PARTS = 8 }; /* parts of a stage, at most */

/* Chooses where to cut n calls, in order, into RECOMPUTE_PARTS parts of about equal work: of the places near an even
 * cut, the one with the fewest bytes alive. alive[k]: bytes made up to call k and read after it. Sets ends[k] at the
 * last call of each part except the last part. */
void recompute_cut(int32_t n, const double *work, const int64_t *alive, bool *ends);

/* Returns the number of virtual stages; 1 if nothing is micro-batched. */
int32_t recompute_stages(const struct program *p);
/* Recomputes, for each of the n stages, the given number of parts, 0 to RECOMPUTE_PARTS (all, as one part). Parts
 * that leave the most bytes are chosen first. */
int recompute_parts(struct program *p, const int32_t *parts, int32_t n);
/* Makes recomputation on each stage begin with values that forward left there, also if the stages are parts of one
 * device's stage. */
int recompute_apart(struct program *p);

#endif
