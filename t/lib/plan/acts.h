/* acts.h - checks the acts of a run, simulated or recorded. The acts of each task are listed in order. */
#ifndef RILLE_T_ACTS_H
#define RILLE_T_ACTS_H

#include "actors/plan/sim/plan_sim.h"
#include "t/lib/tap.h"

/* Returns true if the list contains each act of the plan exactly once. */
static bool
comes_once(const struct plan *p, const struct act_time *act, int64_t n)
{
    int64_t want = 0;
    int32_t *done = must_alloc(sizeof *done * (size_t)(p->ntask + 1));
    bool good = true;
    for (int64_t i = 0; i < n; i++) good = good && act[i].piece == done[act[i].task]++;
    for (int32_t i = 0; i < p->ntask; i++) want += p->task[i].nact;
    free(done);
    return good && n == want;
}

/* Returns true if each act begins after the acts that produce its inputs have ended. Compares only times; does not
 * follow tokens. */
static bool
has_inputs(const struct plan *p, const struct act_time *act, int64_t n)
{
    int64_t **end = must_alloc(sizeof *end * (size_t)(p->ntask + 1));
    bool good = true;
    for (int32_t i = 0; i < p->ntask; i++) end[i] = must_alloc(sizeof **end * (size_t)(p->task[i].nact + 1));
    for (int64_t i = 0; i < n; i++) end[act[i].task][act[i].piece] = act[i].end;
    for (int64_t i = 0; i < n; i++)
        for (int32_t k = 0; k < p->task[act[i].task].nin; k++) {
            const struct in_port *in = &p->task[act[i].task].in[k];
            const struct out_port *out = &p->task[in->task].out[in->out];
            int64_t published = 0, wanted = (int64_t)in->need * (act[i].piece / in->hold + 1);
            for (int32_t a = 0; a < p->task[in->task].nact; a++)
                published += end[in->task][a] <= act[i].begin && (out->control || (a + 1) % out->every == 0);
            good = good && published >= wanted;
        }
    for (int32_t i = 0; i < p->ntask; i++) free(end[i]);
    free(end);
    return good;
}

#endif
