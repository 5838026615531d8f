/* play.h - a plan on a virtual clock: when its acts would begin and end if each took a given time.
 *
 * It follows the actors' own rule, one act at a time on each stream of a device, the first ready task by priority, and
 * computes nothing. Pure: of the plan and the times alone. Any thread; the acts lie in the arena given. */
#ifndef RILLE_PLAN_PLAY_H
#define RILLE_PLAN_PLAY_H

#include "actors/plan/plan.h"
#include "runtime/str.h"

/* One act, played or as it happened: act number `piece` of its task, from 0. Nanoseconds, on any one clock. */
struct act_time {
    int32_t task, piece;
    int64_t begin, end;
};

enum play_share {
    PLAY_DEVICES, /* each device works by itself, and each of its streams */
    PLAY_THREADS, /* as plans run: those of a thread that have no streams take turns */
};

/* What does one act at a time: a stream of a device, or a thread for its devices without any. */
struct play_lanes {
    int32_t n;
    int32_t *of;    /* by task */
    int32_t *first; /* by thread, and where the last one's end: where threads share them */
};
struct play_lanes play_lanes(const struct plan *p, enum play_share share, struct arena *a);

/* Each act takes up to so much longer or shorter, as a share of its cost; a function of seed, task and act. */
struct play_jitter {
    double share; /* 0 to 1 */
    uint64_t seed;
};

/* What each lane is expected to do, in order. Where acts of many lanes end at about the same moment, who takes what is
 * ready at once puts off what comes a little later, and others wait for, by a whole act. A lane with a row takes of
 * what is ready the first in it, and waits for an earlier one a share of what it would begin instead. Moves and what
 * comes once a batch, where they are little, are in no row: they go before. */
struct lane_rows {
    int32_t nlane;                             /* 0: nobody waits */
    int32_t *lane_of, *first_lane, *max_ready; /* by task; by thread, where its lanes begin, and the last one's end; by
                                                lane: tasks */
    int64_t *first;                            /* by lane, and where the last one ends */
    struct row_act {
        int32_t task, piece;
    } * act;
    int64_t *patience;  /* by task: nanoseconds that a lane waits rather than begin it */
    int64_t *first_act; /* by task: its acts' first place */
    int32_t *place; /* by task and act: whose turn it is, the least; 0, 1, ... of those in no row, which come first */
    int32_t nact;   /* from here on: of those in rows */
};

/* The place of a task's act: in task_key's stead. */
static inline uint64_t
row_key(const struct lane_rows *r, int32_t task, int32_t act)
{
    return (uint64_t)r->place[r->first_act[task] + act];
}

struct play_how {
    enum play_share share;
    struct play_jitter jitter;
    const struct lane_rows *rows; /* of lanes that share so; NULL: none */
};

/* cost: by task, nanoseconds of an act. Gives every act of the plan in the order in which they end, from time 0. E_PLAN
 * when the plan does not run to its end, as every proved plan does. */
int plan_play(const struct plan *p, const int64_t *cost, const struct play_how *how, struct arena *a,
              struct act_time **act, int64_t *nact);

/* Gives the rows of a plan whose acts take so long, in arena a, and how long one waits: of nothing, a fifth of an act,
 * one and four what lets draws of the jitter, from its seed on, end soonest. What comes in pieces counts as even: that
 * is what stages are meant to be. Devices that have streams have rows in any case, where these are threads' lanes: what
 * is enqueued ahead is in the order of rows, or in none. Plans of many acts have no rows: all draws together take about
 * 0.1 s. E_PLAN. */
int play_rows(const struct plan *p, const int64_t *cost, const struct play_how *how, struct arena *a,
              struct lane_rows *out);

/* Rows travel to the processes that run the parts of a plan: writes those of `part`, whose tasks are first, first + 1,
 * ... of the plan that r is of. */
void play_rows_write(const struct lane_rows *r, const struct plan *part, int32_t first, struct str *out);
/* Reads rows of threads' lanes for a plan, whoever wrote them, in arena a. E_BUS: they are of another plan, or none. */
int play_rows_read(const struct plan *p, const void *bytes, size_t n, struct arena *a, struct lane_rows *out);

#endif
