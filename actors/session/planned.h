/* planned.h - a compiled step that a planner lays out: which layouts it may choose, and what it says of its choice.
 *
 * Between trace.c, which has the program, and plan_compile(). The compiled step owns it. On the session thread. */
#ifndef RILLE_SESSION_PLANNED_H
#define RILLE_SESSION_PLANNED_H

#include "actors/plan/assign.h"
#include "actors/session/compiled.h"

/* Reads a mode's name; E_ARG names those there are. */
int planned_mode(const char *name, enum solve_mode *out);
/* Chooses layouts for g's program p, whose leaves come from g->origin and whose roots become g->outcome; keeps what it
 * found in g. limit: bytes a device as the planner reckons them, 0: any; quick: as solve.h has it, "optimal" whichever
 * mode is asked for; *least: what is known where none keeps to that, 0: it failed for another reason, or not. */
int planned_assign(struct rille_graph *g, struct program *p, const struct rille_graph_options *o, int64_t limit,
                   bool quick, struct assign_least *least);
/* ZeRO: splits updates and optimisers' state over the ranks that hold a parameter alike. */
int planned_zero(struct rille_graph *g, struct program *p, int level);
/* What a step that is to be planned gathers again for the backward pass (bring.h). Returns, by node of p as it was,
 * where it is now. */
const int32_t *planned_gather(struct rille_graph *g, struct program *p, const struct rille_graph_options *o);
/* New versions of variables that come by a move lie over the old ones. */
void planned_land(struct rille_graph *g, struct program *p);
/* What is brought again, or aside, for the backward pass; where new versions lie. */
int planned_bring(struct rille_graph *g, struct program *p, const struct rille_graph_options *o);
/* Says what is free in p, and leaf `also` (-1: none); leaf and root have room for the program's. */
void planned_freedom(const struct rille_graph *g, const struct program *p, int32_t also, struct assign_leaf *leaf,
                     struct assign_root *root);
/* Returns the leaf that a value is but for moves, -1. */
int32_t planned_leaf_behind(const struct program *p, struct ref r);
/* A call begins that may search, more than once perhaps: interrupts from before it do not count. */
void planned_call(struct rille_session *s);
/* When a search ends: when so much is counted (work_done), which is at the same place on every machine; far behind that
 * when this thread has computed until then (computed_ns), so that a slow machine ends, too; or at rille_interrupt()
 * after its call began. */
struct planned_clock {
    struct rille_session *s;
    int64_t until, late;
};
/* One that begins now and counts so many nanoseconds. */
struct planned_clock planned_clock(struct rille_session *s, int64_t ns);
bool planned_is_late(void *clock);
/* What a search came to: status, or E_CANCEL when its call was interrupted. */
int planned_end(const struct planned_clock *c, int status);
/* Finds how much worse each other candidate would be, once; does nothing for a step without a planner. */
int planned_regret(struct rille_graph *g);
/* Tells the planner's record what a step takes, what the plan holds, and its kernels' scratch memory; nothing for a
 * step without a planner. */
int planned_told(struct rille_graph *g);
/* What any plan of those layouts holds. */
void planned_measure(struct assigned *a, const struct plan *p);
struct assigned *graph_assigned(struct rille_graph *g);
/* Moves variables whose layout the step may choose to where it wants them, for good; after the trace. */
int planned_settle(struct rille_graph *g);

#endif
