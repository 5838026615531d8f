/* batch_numbers.h - numbers that a step's function computes from the size of the batch: loss * (1 / x.shape[1]).
 *
 * In a step of several micro-batches, x.shape[1] is the size of a micro-batch, so such a number would be wrong for
 * the whole batch. The caller therefore calls the function once with the whole batch, in a trace that is aborted
 * (rille_graph_options.whole). The next trace uses the numbers of that call, one by one, as long as both calls
 * pass numbers to the same operators. Values of rille.tensor() are replaced in the same way. Attributes of calls
 * are replaced by batch_calls.h. In rille.per_micro_batch(), numbers and values are those of the micro-batch.
 *
 * Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_BATCH_NUMBERS_H
#define RILLE_ACTORS_SESSION_BATCH_BATCH_NUMBERS_H

#include <stdbool.h>

struct node;
struct op;
struct rille_arg;
struct rille_session;
struct type;
/* Begins a trace. A trace with the whole batch forgets the stored numbers and stores new numbers. Any other trace
 * starts at the first stored number. */
void batch_numbers_begin(struct rille_session *s);
/* Handles the next number that the user passes to an operator. A trace with the whole batch stores the number. A
 * trace of several micro-batches replaces the number by the stored number. */
void batch_numbers_next(struct rille_session *s, const struct op *op, struct rille_arg *a);
/* Returns true if the trace has read as many numbers, sources and tensors as the trace with the whole batch, for the
 * same operators. */
bool batch_numbers_same(const struct rille_session *s);
/* Replaces the values of a tensor by the values that it had in the call with the whole batch. E_PLAN: those values
 * have another shape. */
int batch_numbers_data(struct rille_session *s, const struct type *t, const void **data);
/* Handles the result of a call without operands (zeros, arange). A trace with the whole batch stores the result's
 * type. A trace of several micro-batches compares the type with the type stored for the same call, and sets *axis to
 * the dimension of rows, whose sizes differ; -1: none. E_PLAN: the sizes differ in another way. */
int batch_numbers_source(struct rille_session *s, const struct node *n, int *axis);
/* Returns true if numbers are replaced by the numbers of the call with the whole batch. */
bool batch_numbers_known(const struct rille_session *s);
/* Ends a trace. Frees the stored numbers, except after the trace with the whole batch, because the next trace uses
 * them. */
void batch_numbers_end(struct rille_session *s);

#endif
