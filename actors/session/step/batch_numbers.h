/* batch_numbers.h - numbers that a step's function computes from the size of the batch: loss * (1 / x.shape[1]).
 *
 * In a step of several micro-batches, x.shape[1] is the size of a micro-batch, so such a number would be wrong for the
 * whole batch. The caller therefore calls the function once with the whole batch, in a trace that is aborted
 * (rille_graph_options.whole). The next trace uses the numbers of that call, one by one, as long as both calls pass
 * numbers to the same operators. Sizes of reshape() are not replaced but compared, because a size that is equal in
 * both calls does not belong to the dimension of rows. Session's thread. */
#ifndef RILLE_SESSION_BATCH_NUMBERS_H
#define RILLE_SESSION_BATCH_NUMBERS_H

struct attr;
struct node;
struct op;
struct rille_arg;
struct rille_session;
/* Begins a trace: forgets the numbers if the trace finds them (whole), else starts at the first number. */
void batch_numbers_begin(struct rille_session *s);
/* Stores the number in a trace that finds numbers. In a trace of several micro-batches, replaces the number by the
 * stored one. */
void batch_numbers_next(struct rille_session *s, const struct op *op, struct rille_arg *a);
/* Compares the attributes of the user's next call with those in the call with the whole batch, if the operator is
 * reshape. */
void batch_numbers_sizes(struct rille_session *s, const struct op *op, const struct attr *attr);
/* Returns which sizes of the last reshape depend on the size of the batch: bit d: that of dimension d. All bits are
 * set if that is not known. */
unsigned batch_numbers_scales(const struct rille_session *s, const struct op *op);
/* Compares the tensor of an operator without operands with that of the call with the whole batch. Returns the dimension
 * that depends on the size of the batch; -1: none, or not known. */
int batch_numbers_source(struct rille_session *s, const struct node *n);
/* Ends a trace: frees the numbers, unless the trace has found them. */
void batch_numbers_end(struct rille_session *s);

#endif
