/* batch_calls.h - compares the calls of a step's function for one micro-batch with its calls for the whole batch.
 *
 * The function of a step of several micro-batches is called once with the whole batch, in a trace that is aborted
 * (rille_graph_options.whole). That trace stores each call of the user: operator, attributes, and types of operands
 * and results. The next trace, of one micro-batch, must make the same calls.
 *
 *   - Attributes that differ get their values for the whole batch: x:topk(x.shape[1], 1). Sizes and positions along
 *     a dimension that has the rows of the micro-batch are left as they are.
 *   - Results must be those of the whole batch: a dimension of rows has 1/n of the batch's rows, and all other
 *     dimensions have equal sizes. x:slice(0, 0, 2) of a micro-batch of 2 rows has all rows, but only 2 rows of the
 *     batch, so the call fails.
 *
 * Calls in rille.per_micro_batch() are neither stored nor compared. Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_BATCH_CALLS_H
#define RILLE_ACTORS_SESSION_BATCH_BATCH_CALLS_H

#include "actors/session/core/call_context.h"

#include <stdbool.h>

struct attr;
struct node;
struct op;
struct rille_session;
struct val;

/* Begins a trace, also for batch_numbers.h. A trace with the whole batch forgets the stored calls and stores new calls.
 * Any other trace starts at the first stored call. */
void batch_calls_begin(struct rille_session *s);
/* Handles the user's next call, before its nodes are added. A trace with the whole batch stores the call. A trace of
 * several micro-batches compares the call with the stored call, and changes attr. */
void batch_calls_next(struct rille_session *s, const struct op *op, int nin, struct val *const *in, struct attr *attr);
/* Returns the dimension of rows in the result of n, if n is the user's call of expand; -1: none. The operand must be
 * the same for all micro-batches, and the call must repeat it once per row of the micro-batch. */
int batch_calls_rows(const struct rille_session *s, const struct node *n);
/* Handles the results of the call that batch_calls_next() has handled last. E_PLAN: the results of all micro-batches
 * do not make the result of the whole batch. */
int batch_calls_results(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, int nout,
                        struct val *const *out);
/* Fails if the function made other calls for the whole batch than for a micro-batch (E_PLAN). */
int batch_calls_same(struct rille_session *s);
/* Returns true if start and stop of the last slice are n times smaller than for the whole batch, for n micro-batches.
 */
bool batch_calls_multiplied(const struct rille_session *s);
/* Returns a bit mask of the dimensions of the last reshape whose sizes depend on the size of the batch. Returns a
 * mask of all bits if that is not known. */
unsigned batch_calls_scales(const struct rille_session *s, const struct op *op);
/* Ends a trace, also for batch_numbers.h. Frees the stored calls, except after the trace with the whole batch, because
 * the next trace uses them. */
void batch_calls_end(struct rille_session *s);

#endif
