/* positions.h - tensors that count the entries of an axis, as rille.arange(n) does: rows[i] = i.
 *
 * With micro-batches, a tensor that counts rows counts the rows of one micro-batch. Its values differ from the
 * values for the whole batch, so operators refuse the tensor. Only indexing accepts the tensor:
 * x[{rille.arange(n), ids}] selects an entry of each row, and reads the shape of the counting tensor instead of
 * its values. Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_POSITIONS_H
#define RILLE_ACTORS_SESSION_BATCH_POSITIONS_H

#include <stdbool.h>

struct op;
struct rille_session;
struct val;
/* Returns the dimension along which v counts 0, 1, 2, ...; all other dimensions have size 1. -1: v does not count, or
 * its operators are forgotten. */
int positions_axis(const struct val *v);
/* Returns true if a call of the operator on a counting tensor returns a tensor that counts the same numbers. */
bool positions_pass(const struct op *op);
/* Fails with E_PLAN, because a call reads a tensor that counts the rows of one micro-batch. */
int positions_refuse(const struct rille_session *s, const struct op *op, int nin, struct val *const *in);

#endif
