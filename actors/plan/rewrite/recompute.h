/* recompute.h - saves memory at the cost of work: backward recomputes values of forward, part by part.
 *
 * The forward pass of a virtual stage is divided into parts of about equal work, at points where few bytes are
 * live. For a recomputed part, only its inputs and outputs are kept for backward. If all parts of a stage are
 * recomputed, only the inputs of the stage are kept (Chen et al. 2016). The same calls run on the same values, so
 * results are bit-identical. Call these functions before moves are inserted again (offload.h), on the thread that
 * makes the program; the program must not be shared yet. */
#ifndef RILLE_PLAN_RECOMPUTE_H
#define RILLE_PLAN_RECOMPUTE_H

#include "actors/plan/model/program.h"

enum { RECOMPUTE_PARTS = 8 }; /* maximum number of parts of a stage */

/* Chooses where to divide n calls, in order, into RECOMPUTE_PARTS parts of about equal work. Among the calls near
 * each even division, takes the call after which the fewest bytes are live. work[k]: work of call k; alive[k]:
 * bytes of the values that calls up to k make and later calls read. Sets ends[k] for the last call of each part
 * except the last part. */
void recompute_cut(int32_t n, const double *work, const int64_t *alive, bool *ends);

/* Returns the number of virtual stages; 1 if the program has no micro-batches. */
int32_t recompute_stages(const struct program *p);
/* Recomputes parts[s] of the RECOMPUTE_PARTS parts of stage s, for each of n stages. Chooses the parts that free
 * the most bytes. If parts[s] is RECOMPUTE_PARTS, recomputes the stage as one part. */
int recompute_parts(struct program *p, const int32_t *parts, int32_t n);
/* Makes recomputation in each stage start from values that forward kept on the same stage. This is needed if
 * stages were divided after recomputation was inserted: a recomputed value may then be in another stage than its
 * reader. */
int recompute_apart(struct program *p);

#endif
