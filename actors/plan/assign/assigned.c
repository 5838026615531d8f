/* assigned.c - functions on the results of a planner: computes the regret of the alternatives, and frees the
 * results. */
#include "actors/plan/assign/assigned.h"
#include "runtime/data/arena.h"
#include "sbp/solve/solve.h"

#include <stdlib.h>

void
assigned_free(struct assigned **ap)
{
    struct assigned *a = *ap;
    if (!a) return;
    str_free(&a->solved.proof);
    arena_fini(&a->arena);
    free(a);
    *ap = NULL;
}

int
assign_regret(struct assigned *a, bool (*stop)(void *arg), void *arg)
{
    if (a->regret) return 0;
    int32_t n = a->net.nnode;
    a->regret = ARENA_ARRAY(&a->arena, int64_t *, n + 1);
    a->regret_high = ARENA_ARRAY(&a->arena, int64_t *, n + 1);
    for (int32_t i = 0; i < n; i++) {
        a->regret[i] = ARENA_ARRAY(&a->arena, int64_t, a->net.node[i].ncand);
        a->regret_high[i] = ARENA_ARRAY(&a->arena, int64_t, a->net.node[i].ncand);
    }
    return net_regret(&a->net, &a->solved, stop, arg, a->regret, a->regret_high);
}
