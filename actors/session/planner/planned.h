/* planned.h - the planner's part in a compiled step: the layouts that it may choose, and the report of its choice.
 *
 * Called between the trace (trace.c) and plan_compile(). The compiled step owns the result. Session's thread. */
#ifndef RILLE_SESSION_PLANNED_H
#define RILLE_SESSION_PLANNED_H

#include "actors/plan/assign/assign.h"
#include "actors/session/step/compiled.h"

/* Parses a mode's name; E_ARG lists the modes. */
int planned_mode(const char *name, enum solve_mode *out);
/* Chooses layouts for g's program p (leaves come from g->origin, roots become g->outcome) and keeps the result in g.
 * limit: bytes per device as the planner counts bytes, 0: none. quick: as in solve.h; plans by "optimal" whatever
 * the mode. *least: known lower figures if no layouts keep within the limit; 0: success, or another error. */
int planned_assign(struct rille_graph *g, struct program *p, const struct rille_graph_options *o, int64_t limit,
                   bool quick, struct assign_least *least);
/* ZeRO: splits updates and optimisers' state over the ranks that hold a parameter alike. */
int planned_zero(struct rille_graph *g, struct program *p, int level);
/* Gathers sharded variables a second time for the backward pass (offload.h), in a step that a planner will lay out. */
void planned_gather(struct rille_graph *g, struct program *p, const struct rille_graph_options *o);
/* Lets new versions of variables that a move produces overwrite the old versions. */
void planned_land(struct rille_graph *g, struct program *p);
/* Rewrites a planned program: gathers values again or offloads them until backward; lets new versions overwrite the
 * old. */
int planned_offload(struct rille_graph *g, struct program *p, const struct rille_graph_options *o);
/* Sets which leaves and roots of p are free for the planner, and leaf `also` (-1: none). leaf and root have room for
 * all of the program's. */
void planned_freedom(const struct rille_graph *g, const struct program *p, int32_t also, struct assign_leaf *leaf,
                     struct assign_root *root);
/* Returns the leaf that a value is, ignoring moves; -1: none. */
int32_t planned_leaf_behind(const struct program *p, struct ref r);
/* Begins a call that may search several times: forgets earlier interrupts. */
void planned_call(struct rille_session *s);
/* When a search ends: at a count of work (work_done), which is the same on every machine; at a much later computing
 * time of this thread (computed_ns), so that slow machines end, too; or at rille_interrupt() after the call began. */
struct planned_clock {
    struct rille_session *s;
    int64_t until, late;
};
/* Returns a clock that begins now and lasts ns counted nanoseconds. */
struct planned_clock planned_clock(struct rille_session *s, int64_t ns);
bool planned_is_late(void *clock);
/* Returns the outcome of a search: status, or E_CANCEL if its call was interrupted. */
int planned_end(const struct planned_clock *c, int status);
/* Computes, once, the regret of each candidate that was not chosen. Does nothing for a step without a planner. */
int planned_regret(struct rille_graph *g);
/* Adds to the planner's record the predicted time, the memory of the plan, and the scratch memory of kernels. Does
 * nothing for a step without a planner. */
int planned_told(struct rille_graph *g);
/* Records what a plan of these layouts holds. */
void planned_measure(struct assigned *a, const struct plan *p);
struct assigned *graph_assigned(struct rille_graph *g);
/* Converts variables, for good, to the layouts that the step chose for them. Called after the trace. */
int planned_settle(struct rille_graph *g);

#endif
