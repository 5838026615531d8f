/* replan.h - replanning rounds: traces and plans a step again if other operators suit the chosen layouts better.
 *
 * Some calls have a form in parts for split operands (a softmax over split columns): several operators that move
 * fewer bytes and compute more. The trace picks the form of each call before a planner has chosen layouts. So more
 * rounds may follow, each a new trace and a new plan:
 *
 *   there   after a round that made some call in parts because that moves fewer bytes: operands get the layouts of
 *           that round's plan; only if some call would be written differently in them
 *   whole   all calls in one piece; once, if the last round made some call in parts and no round was whole. The
 *           third round is whole if neither of the two before was
 *   mixed   last, once: each call as in the round of least cost for the call (call_cost.h); only if no round was like
 * that
 *
 * If no plan of a round keeps within a memory limit, the next round is whole, and the one after it mixed: each call
 * as in the round in which it held fewer bytes at the peak. That does not depend on a clock.
 *
 * An "optimal" step is first planned by rule ("propagate", then "recursive") if calls would be written differently
 * in the layouts that the rule chooses. Rules have rounds of their own, if all of these fit into a quarter of the
 * time: about 500 operators with the default limit. The step's own rounds begin with the calls of the best rule
 * round, so the result costs no more than the rule's. Under a memory limit there are no rule rounds.
 *
 * A mode has at most three rounds and a mixed one; after one round in parts and one in one piece, the mixed round is
 * the third. No round begins that could not end in time. The session keeps the round whose plan costs least.
 *
 * The session owns the rounds from the first round's trace to the end of the last round. Session's thread. */
#ifndef RILLE_SESSION_REPLAN_H
#define RILLE_SESSION_REPLAN_H

#include "actors/plan/assign/assign.h"
#include "actors/session/step/compiled.h"

enum { REPLAN_MOST = 4 /* with the mixed round */ };

/* Returns the step's time limit, ns, at most 30 years; 1 s if none is given. */
int64_t replan_limit_ns(const struct rille_graph_options *o);
/* Returns the part of the limit that a search may use. 0.1 s if no limit is given and the choice needs no search
 * ("propagate" and "greedy" without a memory limit): only a bound is searched then. */
int64_t replan_search_ns(const struct rille_graph_options *o);
/* Called when a planned trace begins: begins the first round, or the next. */
void replan_begin(struct rille_session *s, const struct rille_graph_options *o);
/* Returns the clock that ends the search of all rounds. */
struct planned_clock;
const struct planned_clock *replan_clock(const struct rille_session *s);
/* Returns true, once, if the planner should try what rules would choose. replan_glance is then called for each rule
 * (assign_options.glance; session: the session). */
bool replan_look(struct rille_session *s, const struct rille_graph_options *o);
bool replan_glance(void *session, enum solve_mode mode, const struct program *p);
/* Returns the mode of this round. *rule: the mode is a rule's, which needs no search, in place of the step's. */
enum solve_mode replan_mode(const struct rille_session *s, enum solve_mode mode, bool *rule);
/* Returns true if a whole round will follow the round just traced. */
bool replan_follow(const struct rille_session *s);
/* Ends a round: keeps the better of *g and the best so far, and frees the other. Returns true, with *g NULL, if
 * another round follows; else returns the best in *g. */
bool replan_again(struct rille_session *s, struct rille_graph **g);
/* Reports a plan of this round that holds `held` bytes, more than the limit. Remembers the plan that holds least. */
void replan_hold(struct rille_session *s, const struct rille_graph *g, int64_t held);
/* Called if no plan of this round keeps within the memory limit. Returns true if another round should try: no
 * earlier round had a plan, and a whole or a mixed round is left. */
bool replan_after_failure(struct rille_session *s);
/* Least bytes of rounds without a plan within the limit: held by plans, and as counted by the planner. */
struct replan_least {
    int64_t held;
    struct assign_least counted;
};
/* Returns the minimum of `here` and all earlier rounds. */
struct replan_least replan_least(struct rille_session *s, const struct replan_least *here);
/* Forgets the trace of the round; all: earlier rounds, too. */
void replan_end(struct rille_session *s, bool all);
/* Returns true if an earlier round has a plan. */
bool replan_have_best(const struct rille_session *s);
/* Returns the best of earlier rounds, for the caller to own; NULL: none. */
struct rille_graph *replan_best(struct rille_session *s);

#endif
