/* constraint_conflict.c - finds sharding strategies that exclude every candidate of their operator. */
#include "actors/plan/assign/constraint_conflict.h"

#include "runtime/base/error.h"
#include "sbp/strategy.h"

static bool
has_none(const struct net_node *v)
{
    for (int32_t k = 0; k < v->ncand; k++)
        if (v->cost[k] < NET_NEVER) return false;
    return true;
}

/* Returns true if node i has a strategy that no candidate satisfies. group: the call whose strategy was reported
 * last. Operators of one call share a strategy, so they are not reported again. */
static bool
is_blamed(const struct program *p, const struct assigned *a, int32_t i, int32_t group)
{
    const struct prog_node *n = &p->node[i];
    return n->strategy && n->strategy->group != group && a->node[i] >= 0 && has_none(&a->net.node[a->node[i]]);
}

int
constraint_conflict_report(const struct program *p, const struct assigned *a, int status)
{
    struct str s = {0};
    int32_t group = -1, left = 0;
    for (int32_t i = 0; i < p->nnode; i++) left += is_blamed(p, a, i, -1);
    if (!left) return status;
    err_clear();
    str_add(&s, "hint: no plan satisfies ");
    for (int32_t i = 0, told = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        left -= is_blamed(p, a, i, -1);
        if (!is_blamed(p, a, i, group)) continue;
        str_addf(&s, "%s%s strategy", !told++ ? "" : left ? ", " : " and ", n->name);
        if (n->line.file) str_addf(&s, " (%s:%d)", n->line.file, n->line.line);
        if (n->strategy->group) group = n->strategy->group;
    }
    status = fail(E_SBP, "%s: no layout on %d devices splits the operands this way", str_text(&s),
                  (int)p->node[0].layout[0]->place->nrank);
    str_free(&s);
    return status;
}
