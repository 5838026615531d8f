/* fusion_groups.c - finds the chains of a program whose layouts are not chosen yet. */
#include "actors/plan/outline/fusion_groups.h"

#include "actors/plan/outline/hops.h"
#include "actors/plan/outline/fusion.h"
#include "runtime/base/error.h"

/* Returns true if a move that was inserted for other layouts reads the node. If the chosen layouts agree, that move
 * disappears. Otherwise the move reads the stored result of the node. */
static bool
any_vanishes(const struct fusion *f, int32_t node)
{
    for (int32_t k = f->reader_first[node]; k < f->reader_first[node + 1]; k++) {
        struct ref r = {.kind = REF_NODE, .index = f->reader[k]}, from = program_source(f->program, r);
        if (from.kind != REF_NODE || from.index != r.index) return true;
    }
    return false;
}

void
fusion_groups_find(const struct program *p, struct arena *a, struct fusion_groups *t)
{
    struct stages stages = {0};
    struct fusion f = {.program = p, .stages = &stages, .arena = a, .any_layout = true};
    int32_t *end = ARENA_ARRAY(a, int32_t, p->nnode + 1);
    bool *inner = ARENA_ARRAY(a, bool, p->nnode + 1), *early = ARENA_ARRAY(a, bool, p->nnode + 1);
    bool known = !stages_find(&stages, p, a);
    if (known)
        fusion_nodes(&f);
    else
        err_clear(); /* ignored, because compiling the program reports the same error */
    for (int32_t i = 0; i < p->nnode; i++) {
        end[i] = known ? f.group[i] : i;
        inner[i] = known && p->node[i].nout == 1 && !fusion_shown(&f, i, 0);
        early[i] = known && hops_early_open(&f, i) && !any_vanishes(&f, i);
    }
    *t = (struct fusion_groups){.end = end, .inner = inner, .early = early};
}
