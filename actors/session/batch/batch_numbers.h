/* batch_numbers.h - numbers that a step's function computes from the size of the batch: loss * (1 / x.shape[1]).
 *
 * In a step of several micro-batches, x.shape[1] is the size of a micro-batch, so such a number would be wrong for
 * the whole batch. The caller therefore calls the function once with the whole batch, in a trace that is aborted
 * (rille_graph_options.whole). The next trace uses the numbers of that call, one by one, as long as both calls
 * pass numbers to the same operators. Values of rille.tensor() are replaced in the same way. Sizes of reshape()
 * and positions of slices are not replaced but compared, because a size that is equal in both calls does not
 * belong to the dimension of rows. If the function calls other operators for a micro-batch than for the whole
 * batch, a branch depends on the number of rows, which is an error.
 *
 * Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_BATCH_NUMBERS_H
#define RILLE_ACTORS_SESSION_BATCH_BATCH_NUMBERS_H

#include <stdbool.h>

struct attr;
struct node;
struct op;
struct rille_arg;
struct rille_session;
struct type;
struct val;
/* Begins a trace. A trace with the whole batch forgets the stored numbers and stores new numbers. Any other trace
 * starts at the first stored number. */
void batch_numbers_begin(struct rille_session *s);
/* Handles the next number that the user passes to an operator. A trace with the whole batch stores the number. A
 * trace of several micro-batches replaces the number by the stored number. */
void batch_numbers_next(struct rille_session *s, const struct op *op, struct rille_arg *a);
/* Compares the user's next call with the same call in the trace with the whole batch: its operator, its parameter,
 * sizes of reshape and positions of slice. */
void batch_numbers_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in,
                        const struct attr *attr);
/* Fails if the function made other calls for the whole batch than for a micro-batch (E_PLAN). */
int batch_numbers_same(struct rille_session *s);
/* Replaces the values of a tensor by the values that it had in the call with the whole batch. E_PLAN: those values
 * have another shape. */
int batch_numbers_data(struct rille_session *s, const struct type *t, const void **data);
/* Returns true if the positions of the last slice are the positions for the whole batch, divided by the number of
 * micro-batches. */
bool batch_numbers_multiplied(const struct rille_session *s);
/* Returns a bit mask of the dimensions of the last reshape whose sizes depend on the size of the batch. Returns a
 * mask of all bits if that is not known. */
unsigned batch_numbers_scales(const struct rille_session *s, const struct op *op);
/* Handles the result of a call without operands (zeros, arange). A trace with the whole batch stores the result's
 * type, and the function returns -1. A trace of several micro-batches compares the type with the type stored for the
 * same call, and the function returns the dimension whose sizes differ; -1: none, or the calls differ. */
int batch_numbers_source(struct rille_session *s, const struct node *n);
/* Returns true if numbers are replaced by the numbers of the call with the whole batch. */
bool batch_numbers_known(const struct rille_session *s);
/* Ends a trace. Frees the stored numbers, except after the trace with the whole batch, because the next trace uses
 * them. */
void batch_numbers_end(struct rille_session *s);

#endif
