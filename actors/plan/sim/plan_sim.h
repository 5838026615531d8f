/* plan_sim.h - plan simulator: computes when each act of a plan begins and ends if each task's acts take a given
 * time.
 *
 * The simulator follows the rule of actors: each stream of a device runs one act at a time, and chooses the ready
 * task with the highest priority. The simulator computes no tensors. Pure: the result depends on the plan and the
 * times alone. The simulation may run on any thread; acts are allocated in the given arena. */
#ifndef RILLE_PLAN_PLAN_SIM_H
#define RILLE_PLAN_PLAN_SIM_H

#include "actors/plan/model/plan.h"
#include "runtime/data/str.h"

/* One act, simulated or measured: act number `piece` (from 0) of its task. begin, end: times in ns, on one clock
 * for all acts. */
struct act_time {
    int32_t task, piece;
    int64_t begin, end;
};

enum plan_sim_share {
    PLAN_SIM_DEVICES, /* each stream of a device is a lane; devices run independently */
    PLAN_SIM_THREADS, /* as in a real run: the devices without streams of a thread take turns */
};

/* Lanes run one act at a time. A lane is a stream of a device, or a thread for all its devices without streams. */
struct plan_sim_lanes {
    int32_t n;
    int32_t *of;    /* by task: its lane */
    int32_t *first; /* PLAN_SIM_THREADS: by thread, its first lane; after the last thread, the number of lanes */
};
struct plan_sim_lanes plan_sim_lanes(const struct plan *p, enum plan_sim_share share, struct arena *a);

/* Random change of each act's time, by at most `share` of the task's cost. The change is a function of seed, task
 * and act. */
struct plan_sim_jitter {
    double share; /* largest relative change, 0 to 1 */
    uint64_t seed;
};

/* The rows of the lanes: the expected order of acts on each lane.
 *
 * Without a row, a lane that becomes idle starts any ready act. If a more urgent act becomes ready slightly later,
 * that act is delayed by a whole act. With a row, the lane starts the ready act that is first in the row. If an
 * earlier act of the row is not ready yet, the lane first waits for it, for a fraction of the ready act's time.
 * Short moves, and short acts that run once per batch, are in no row and have priority. */
struct lane_rows {
    int32_t nlane; /* number of lanes; 0: there are no rows */
    /* lane_of: by task, its lane; first_lane: by thread, its first lane, and after the last thread the number of
     * lanes; max_ready: by lane, number of its tasks */
    int32_t *lane_of, *first_lane, *max_ready;
    /* by lane: index in `act` of the first act of the lane's row; after the last lane, the number of acts in rows */
    int64_t *first;
    struct row_act {
        int32_t task, piece;
    } * act;
    /* by task: time for which a lane waits for an earlier act of its row before it begins this task, ns */
    int64_t *patience;
    int64_t *first_act; /* by task: index of its first act in `place` */
    /* by act of each task: its priority, where the lowest number runs first. Acts in no row have lower numbers (0,
     * 1, ...) than acts in rows */
    int32_t *place;
    int32_t nact; /* lowest priority number of an act that is in a row */
};

/* Returns the priority of a task's act, used instead of task_key(). */
static inline uint64_t
row_key(const struct lane_rows *r, int32_t task, int32_t act)
{
    return (uint64_t)r->place[r->first_act[task] + act];
}

struct plan_sim_options {
    enum plan_sim_share share;
    struct plan_sim_jitter jitter;
    const struct lane_rows *rows; /* rows to follow, computed with the same `share`; NULL: none */
};

/* Simulates a plan. cost: by task, duration of an act, ns. Returns all acts in the order of their ends, starting at
 * time 0. E_PLAN: the plan does not run to its end, which cannot happen to a verified plan. */
int plan_sim_run(const struct plan *p, const int64_t *cost, const struct plan_sim_options *how, struct arena *a,
                 struct act_time **act, int64_t *nact);

/* Computes the rows of a plan with these costs, in arena a, and the lanes' patience. Patience is the time that a
 * lane waits for an earlier act of its row before it begins a ready act: 0, 0.2, 1 or 4 times the ready act's time.
 * The best patience is found by simulations with random jitter, with seeds from how->jitter.seed on. All acts of a
 * task count as equally long. If lanes are threads and devices have streams, there are always rows, because without
 * rows the order of work enqueued in advance is arbitrary. Plans with too many acts have no rows. The simulations
 * take about 0.1 s in total. E_PLAN: the plan does not run to its end, as for plan_sim_run(). */
int plan_sim_rows(const struct plan *p, const int64_t *cost, const struct plan_sim_options *how, struct arena *a,
                  struct lane_rows *out);

/* Serialises the rows of plan partition `part` for the process that runs the partition. first: index of the
 * partition's first task in the joined plan for which r was computed. */
void plan_sim_rows_write(const struct lane_rows *r, const struct plan *part, int32_t first, struct str *out);
/* Reads a plan's rows, with threads as lanes (PLAN_SIM_THREADS), from untrusted bytes. The rows are allocated in
 * arena a. E_BUS: the bytes are malformed, or belong to another plan. */
int plan_sim_rows_read(const struct plan *p, const void *bytes, size_t n, struct arena *a, struct lane_rows *out);

#endif
