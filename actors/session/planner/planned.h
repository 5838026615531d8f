/* planned.h - runs the planner on a step that is being compiled: finds the layouts that the planner may choose,
 * and reports the choice.
 *
 * Called between the trace (trace.c) and plan_compile(). The compiled step owns the result. Used only on the
 * session's thread. */
#ifndef RILLE_SESSION_PLANNED_H
#define RILLE_SESSION_PLANNED_H

#include "actors/plan/assign/assign.h"
#include "actors/session/step/compiled.h"

/* Parses the name of a planner mode. E_ARG: unknown name; the text lists all modes. */
int planned_mode(const char *name, enum solve_mode *out);
/* Chooses layouts for p, the program of step g, and keeps the result in g. The leaves of p are those of g->origin,
 * and its roots those of g->outcome. limit: bytes per device by the planner's count; 0: none. quick: takes the
 * first layouts found, always in mode "optimal". *least: if no layouts fit the limit, the least memory known;
 * otherwise 0. */
int planned_assign(struct rille_graph *g, struct program *p, const struct rille_graph_options *o, int64_t limit,
                   bool quick, struct assign_least *least);
/* ZeRO: splits updates and the optimiser's state over the ranks that hold the same shard of a parameter. */
int planned_zero(struct rille_graph *g, struct program *p, int level);
/* Gathers sharded variables a second time for the backward pass (offload.h). Called before a planner chooses
 * layouts. */
void planned_gather(struct rille_graph *g, struct program *p, const struct rille_graph_options *o);
/* Lets a move that produces a variable's new version write into the buffer of the old version. */
void planned_land(struct rille_graph *g, struct program *p);
/* Rewrites a program with layouts to save memory. For backward, sharded variables are gathered a second time, or
 * values are offloaded until then. New versions may overwrite old versions. */
int planned_offload(struct rille_graph *g, struct program *p, const struct rille_graph_options *o);
/* Marks the leaves and roots of p whose layouts the planner may choose. also: another leaf to mark; -1: none.
 * leaf, root: arrays by leaf and by root of p. */
void planned_freedom(const struct rille_graph *g, const struct program *p, int32_t also, struct assign_leaf *leaf,
                     struct assign_root *root);
/* Returns the leaf to which r refers, directly or through moves; -1: none. */
int32_t planned_leaf_behind(const struct program *p, struct ref r);
/* Begins a public call that may search several times: clears earlier interrupts. */
void planned_call(struct rille_session *s);
/* Conditions that end a search. A count of work (work_done), the same on every machine, is the normal limit. A
 * much higher limit of this thread's computing time (computed_ns) ends searches on slow machines.
 * rille_interrupt() after the call began ends a search at once. */
struct planned_clock {
    struct rille_session *s;
    int64_t until, late;
};
/* Returns a clock that starts now and ends after `ns` nanoseconds of counted work. */
struct planned_clock planned_clock(struct rille_session *s, int64_t ns);
bool planned_is_late(void *clock);
/* Returns the status of a search, or E_CANCEL if the call was interrupted. */
int planned_end(const struct planned_clock *c, int status);
/* Computes the regret (cost above the best plan) of each layout candidate that was not chosen, if it is not known
 * yet. Does nothing if no planner was used. */
int planned_regret(struct rille_graph *g);
/* Adds to the planner's record: predicted time of the step, memory of the plan, and scratch memory of kernels.
 * Does nothing if no planner was used. */
int planned_told(struct rille_graph *g);
/* Records the memory that a plan with these layouts holds. */
void planned_measure(struct assigned *a, const struct plan *p);
struct assigned *graph_assigned(struct rille_graph *g);
/* Converts variables permanently to the layouts that the step chose. Called when the trace has ended. */
int planned_settle(struct rille_graph *g);

#endif
