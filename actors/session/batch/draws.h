/* draws.h - random numbers in a step of several micro-batches: each element of the batch gets the number that it
 * would get without micro-batches. So dropout masks do not depend on the number of micro-batches. In
 * rille.per_micro_batch(), each micro-batch has a sequence of its own. Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_DRAWS_H
#define RILLE_ACTORS_SESSION_BATCH_DRAWS_H

#include <stdbool.h>

struct node;
struct op;
struct rille_session;
struct val;
/* Returns true if the random call draws other numbers in each micro-batch, even if its operands are the same in all
 * micro-batches. */
bool draws_apart(const struct rille_session *s, const struct node *n);
/* Sets the attributes of a random call (kernels/cpu/math/random.h): they say where the elements of the result are
 * in the whole batch. The calls that compute the gradient copy these attributes. */
void draws_set(const struct rille_session *s, struct node *n);

/* Adapts operands of an element-wise call that consist of random numbers and constants, for example noise for
 * concat({a, b}, 0). Such an operand gets the row blocks of the other operands, which may have several blocks
 * (batch_share.h). */
void draws_adopt(const struct rille_session *s, const struct op *op, int nin, struct val *const *in);

#endif
