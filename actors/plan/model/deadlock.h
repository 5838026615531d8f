/* deadlock.h - the deadlock report: blocked tasks, and the registers that they wait for. Used by the verifier, which
 * simulates tokens, and by the engine. Any thread. */
#ifndef RILLE_PLAN_DEADLOCK_H
#define RILLE_PLAN_DEADLOCK_H

#include "actors/plan/model/plan.h"

struct deadlock {
    const struct plan *plan;
    const void *state;
    int32_t (*begun)(const void *state, int32_t task);                /* number of acts */
    bool (*in_waits)(const void *state, int32_t task, int32_t port);  /* true: waits for full registers */
    bool (*out_waits)(const void *state, int32_t task, int32_t port); /* true: waits for a free register */
};
/* Prints a report: "add (a.lua:3) on cpu:1, 2 of 8 acts done, waits for a free register of result 0 (it has 2); and
 * 3 more". */
void deadlock_print(const struct deadlock *s, struct str *text);
/* Prints a task: "matmul (a.lua:3) on cpu:1". */
void task_print(const struct plan *p, int32_t task, struct str *s);

#endif
