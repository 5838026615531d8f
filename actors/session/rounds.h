/* rounds.h - writes a planned step again as its layouts ask.
 *
 * Some calls become other operators where an operand is cut (a softmax over split columns), which move fewer bytes and
 * compute more. The trace decides whether they do, before a planner has chosen a layout. So more rounds follow, each
 * traced and planned anew:
 *
 *   there   after a round in which calls were in parts where that moves fewer bytes: operands lie where its plan has
 *           them, if some call would be written otherwise there
 *   whole   all calls in one piece, once, if some of the last round is not, and no round was so; the third round is, if
 *           neither of the two before it was
 *   mixed   last, once: each call as in the round where it cost least (ways.h), if no round was so
 *
 * Where no plan of a round keeps within a memory limit the next is whole, and then mixed: each call as in the round in
 * which it held less when most was held. That depends on no clock.
 *
 * An "optimal" step that would be written otherwise in what a rule chooses ("propagate", then "recursive") is planned
 * by that rule first, in rounds of its own, if all of these fit into a quarter of the time: of a step of 500 operators,
 * with the default limit. The step's own rounds begin with calls as they are in the best of those, so that it costs no
 * more than these modes do. A memory limit has no such rounds.
 *
 * There are three rounds of a mode at most, and a mixed one: after one in parts and one in one piece that is the third.
 * None begins that could not end in time. Of all rounds the session keeps the one whose plan costs least.
 *
 * The session owns them, from the first round's trace to the last one's end; on its thread. */
#ifndef RILLE_SESSION_ROUNDS_H
#define RILLE_SESSION_ROUNDS_H

#include "actors/plan/assign.h"
#include "actors/session/compiled.h"

enum { MOST_ROUNDS = 4 /* the mixed one counted */ };

/* A planned step's time limit as whole nanoseconds, 30 years at most; 1 s where none is given. */
int64_t rounds_limit_ns(const struct rille_graph_options *o);
/* As much of it as a search takes: where none is given 0.1 s for a choice that needs no search, whose bound alone is
 * looked for then ("propagate" and "greedy" without a memory limit). */
int64_t rounds_search_ns(const struct rille_graph_options *o);
/* At a planned trace's begin: the first round, or the next one. */
void rounds_begin(struct rille_session *s, const struct rille_graph_options *o);
/* When the search of all rounds has to end. */
struct planned_clock;
const struct planned_clock *rounds_clock(const struct rille_session *s);
/* Is it to be asked now, and once, what rules would choose? Then rounds_glance is asked for each
 * (assign_options.glance), of the session. */
bool rounds_look(struct rille_session *s, const struct rille_graph_options *o);
bool rounds_glance(void *session, enum solve_mode mode, const struct program *p);
/* The mode of this round; true in *rule where it is another one than the step's, which needs no search. */
enum solve_mode rounds_mode(const struct rille_session *s, enum solve_mode mode, bool *rule);
/* Will a round of calls in one piece follow this one, which has been traced? */
bool rounds_follow(const struct rille_session *s);
/* Do rounds take part in this call of the traced function? */
bool rounds_due(const struct rille_session *s, const struct op *op);
/* Does this round make the call in the making in one piece, whatever it moves? */
bool rounds_whole(const struct rille_session *s);
/* Makes the call, its operands moved to where the round before had them, and remembers it. */
int rounds_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
                struct val **out);
/* Keeps *g or the best so far, frees the other. True, with *g NULL: another round would write it otherwise. */
bool rounds_again(struct rille_session *s, struct rille_graph **g);
/* This round has a plan that holds so much, more than it may: that of the least is remembered. */
void rounds_hold(struct rille_session *s, const struct rille_graph *g, int64_t held);
/* No plan of this round keeps within the memory limit. True: none of an earlier one did, and another round writes calls
 * in one piece, or last each as it held less, which may take less. */
bool rounds_after_failure(struct rille_session *s);
/* Bytes with which a round could do that held too much: by its plans, and by what the planner counts. */
struct rounds_least {
    int64_t held;
    struct assign_least counted;
};
/* Returns the least of these and of those of rounds before. */
struct rounds_least rounds_least(struct rille_session *s, const struct rounds_least *here);
/* Forgets the trace; with all, earlier rounds too. */
void rounds_end(struct rille_session *s, bool all);
/* Has an earlier round a plan? */
bool rounds_have_best(const struct rille_session *s);
/* Returns the best of earlier rounds, which the caller takes over; NULL: none. */
struct rille_graph *rounds_best(struct rille_session *s);

#endif
