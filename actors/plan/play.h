/* play.h - a plan on a virtual clock: when its acts would begin and end if each took a given time.
 *
 * It follows the actors' own rule, one act at a time on each device, the first ready task by priority, and computes
 * nothing. Pure: of the plan and the times alone. Any thread; the acts lie in the arena given. */
#ifndef RILLE_PLAN_PLAY_H
#define RILLE_PLAN_PLAY_H

#include "actors/plan/plan.h"

/* One act, played or as it happened: act number `piece` of its task, from 0. Nanoseconds, on any one clock. */
struct act_time {
    int32_t task, piece;
    int64_t begin, end;
};

enum play_share {
    PLAY_DEVICES, /* each device works by itself */
    PLAY_THREADS, /* devices of one thread take turns, as where threads are few */
};

/* Each act takes up to so much longer or shorter, as a share of its cost; a function of seed, task and act. */
struct play_jitter {
    double share; /* 0 to 1 */
    uint64_t seed;
};

/* jitter NULL: none. cost: by task, nanoseconds of an act. Gives every act of the plan in the order in which they end,
 * from time 0. E_PLAN when the plan does not run to its end, as every proved plan does. */
int plan_play(const struct plan *p, const int64_t *cost, const struct play_jitter *jitter, enum play_share share,
              struct arena *a, struct act_time **act, int64_t *nact);

#endif
