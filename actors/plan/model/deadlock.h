/* deadlock.h - prints a deadlock report: the blocked tasks, and the registers for which they wait.
 *
 * Used by the verifier's token simulation and by the engine during a run. Any thread. */
#ifndef RILLE_PLAN_DEADLOCK_H
#define RILLE_PLAN_DEADLOCK_H

#include "actors/plan/model/plan.h"

struct deadlock {
    const struct plan *plan;
    const void *state;
    int32_t (*begun)(const void *state, int32_t task); /* returns the number of acts that a task has begun */
    /* returns true if the task waits for a full register at this in-port */
    bool (*in_waits)(const void *state, int32_t task, int32_t port);
    /* returns true if the task waits for a free register at this out-port */
    bool (*out_waits)(const void *state, int32_t task, int32_t port);
};
/* Prints a report of the blocked tasks, for example "add (a.lua:3) on cpu:1, 2 of 8 acts done, waits for a free
 * register of result 0 (it has 2); and 3 more". */
void deadlock_print(const struct deadlock *s, struct str *text);
/* Prints a task, for example "matmul (a.lua:3) on cpu:1". */
void task_print(const struct plan *p, int32_t task, struct str *s);

#endif
