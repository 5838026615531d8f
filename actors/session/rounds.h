/* rounds.h - a planned step written again as its layouts ask.
 *
 * Some calls are made of other operators where an operand is cut (a softmax over split columns), which moves fewer
 * bytes and computes more. Whether they are, is decided as they are traced, before a planner has chosen a layout. So
 * the planner's choice is followed by a look at each such call: if it would be written otherwise with its operands as
 * they now lie, the function is traced once more with them moved there, and planned anew. If calls were made in parts
 * for the bytes alone, so it is with them in one piece. Of all rounds the one whose plan costs least is kept.
 *
 * Belongs to the session, from the first round's trace to the last one's end; on its thread. */
#ifndef RILLE_SESSION_ROUNDS_H
#define RILLE_SESSION_ROUNDS_H

#include "actors/session/compiled.h"

enum { MOST_ROUNDS = 3 };

/* At a planned trace's begin: the first round, or the next one. */
void rounds_begin(struct rille_session *s, double time_limit);
/* When the search of all rounds has to end. */
int64_t rounds_deadline(const struct rille_session *s); /* computed_ns */
/* Takes part in this call of the function being traced. */
bool rounds_due(const struct rille_session *s, const struct op *op);
/* Are calls to be made in one piece, whatever they move? */
bool rounds_whole(const struct rille_session *s);
/* The call, its operands moved to where the round before had them; remembered. */
int rounds_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
                struct val **out);
/* Keeps *g or the best so far, the other one goes. True, with *g NULL: another round would be written otherwise.
 * became: by node of the session's collection, the node of g's program that stands for it. */
bool rounds_again(struct rille_session *s, const int32_t *became, struct rille_graph **g);
/* What was remembered of the trace goes; with all, of earlier rounds too. */
void rounds_end(struct rille_session *s, bool all);
/* The best of earlier rounds, taken over; NULL. */
struct rille_graph *rounds_best(struct rille_session *s);

#endif
