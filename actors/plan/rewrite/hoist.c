/* hoist.c - reorders the program so that casts of variables stand together. The casts of a group follow directly
 * after the group's first cast. */
#include "actors/plan/rewrite/hoist.h"

#include "actors/plan/outline/fusion.h"
#include "actors/plan/rewrite/rewrite.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"

static bool
compiles(const struct program *p)
{
    for (int32_t i = 0; i < p->nnode; i++)
        if (device_kind(p->node[i].layout[0]->place->kind)->flags & COMPILES) return true;
    return false;
}

/* Returns the new index of each node for an order in which the casts of each group are adjacent. */
static int32_t *
hoisted(const struct fusion *f)
{
    int32_t *index = ARENA_ARRAY(f->arena, int32_t, f->program->nnode + 1), member[FUSE_STEPS], at = 0;
    for (int32_t i = 0; i < f->program->nnode; i++) {
        bool casts = fusion_casts(f, f->group[i]);
        int n = fusion_members(f, f->group[i], member);
        if (!casts) index[i] = at++;
        for (int k = 0; k < n && casts && member[0] == i; k++) index[member[k]] = at++;
    }
    return index;
}

void
hoist_casts(struct program *p)
{
    struct arena a = {0};
    struct stages stages;
    if (!compiles(p)) return;
    if (stages_find(&stages, p, &a)) {
        err_clear(); /* ignored, because compiling the program reports the same error */
    } else {
        struct fusion f = {.program = p, .stages = &stages, .arena = &a, .hoists = true};
        fusion_nodes(&f);
        rewrite_order(p, hoisted(&f));
    }
    arena_fini(&a);
}
