/* lifetimes.c - computes the lifetimes of the values of a planned step. Accounts for three facts: a chain is
 * computed at once; a view keeps its operand alive; micro-batches keep values between phases. */
#include "actors/plan/assign/lifetimes.h"

#include "actors/plan/outline/fusion_groups.h"

/* Returns, by net node, the last net node of the node's chain; the node itself if the node is in no chain. */
static int32_t *
chain_ends(struct planner *w, const struct fusion_groups *t, struct arena *a)
{
    int32_t *end = ARENA_ARRAY(a, int32_t, w->a->net.nnode + 1);
    for (int32_t v = 0; v < w->a->net.nnode; v++) end[v] = v;
    for (int32_t i = 0; i < w->p->nnode; i++)
        if (w->a->node[i] >= 0) end[w->a->node[i]] = w->a->node[t->end[i]];
    return end;
}

/* Adjusts lifetimes for chains: a chain reads its operands until its last node, writes its live-out results at its
 * last node, and holds no intermediate values. */
static void
compute_together(struct planner *w)
{
    struct arena tmp = {0};
    struct fusion_groups t;
    fusion_groups_find(w->p, &tmp, &t);
    const int32_t *end = chain_ends(w, &t, &tmp);
    for (int32_t i = 0; i < w->p->nnode * OP_OUT + w->p->nleaf; i++) {
        struct value *v = &w->value[i];
        int32_t own = v->end && i < w->p->nnode * OP_OUT ? end[v->maker] : -1;
        bool inner = own >= 0 && v->holds == HOLDS_REGISTER && t.inner[i / OP_OUT];
        if (inner) v->holds = HOLDS_INNER;
        if (own >= 0 && !inner) v->born = running(own);
        v->early = own >= 0 && t.early[i / OP_OUT];
        for (struct reader *r = v->reader; r && !inner; r = r->next) {
            if (end[r->node] == r->node || end[r->node] == own) continue;
            r->begin = moving(end[r->node]);
            r->dies = running(end[r->node]) + 1;
            v->dies = MAX(v->dies, r->dies);
        }
        for (struct reader *r = v->reader; r && inner; r = r->next) r->begin = v->born;
    }
    for (int32_t v = 0; v < w->a->net.nnode; v++) w->a->net.node[v].time = running(end[v]);
    arena_fini(&tmp);
}

/* Returns the last net node that runs per micro-batch; -1: none. */
static int32_t
last_of_pieces(const struct planner *w)
{
    int32_t last = w->a->net.nnode - 1;
    while (last >= 0 && !w->moment[last]) last--;
    return last;
}

/* Extends the lifetime of values that are made once and read per micro-batch, until the last micro-batch has read
 * them. */
static void
stay_for_pieces(struct planner *w)
{
    int32_t last = last_of_pieces(w);
    for (int32_t i = 0; i < w->p->nnode * OP_OUT + w->p->nleaf && last >= 0; i++) {
        struct value *v = &w->value[i];
        for (struct reader *r = v->end && v->times == 1 ? v->reader : NULL; r; r = r->next) {
            if (!w->moment[r->node]) continue;
            r->dies = MAX(r->dies, running(last) + 1);
            v->dies = MAX(v->dies, r->dies);
        }
    }
}

/* Keeps the operand of a view or a move alive as long as its result. */
static void
lengthen(struct planner *w)
{
    for (int32_t i = w->p->nnode - 1; i >= 0; i--) {
        struct value *own = &w->value[i * OP_OUT];
        if (w->a->node[i] < 0 || own->holds != HOLDS_NOTHING) continue;
        struct value *v = planner_source(w, i), *whole = value_of(w, w->p->node[i].in[0]);
        v->dies = MAX(v->dies, own->dies);
        whole->dies = MAX(whole->dies, own->dies);
        v->nreg = MAX(v->nreg, own->nreg);
        whole->nreg = MAX(whole->nreg, own->nreg);
        for (struct reader *r = v->reader; r; r = r->next)
            if (r->node == own->maker) r->dies = MAX(r->dies, own->dies);
    }
}

/* Finds which values have several registers because of micro-batches: those that are made per micro-batch and read
 * in a later phase. The net counts one register during the value's own lifetime, and the others from the first to
 * the last node that runs per micro-batch. A converted copy that is read in both phases has several, too. */
static void
keep_rounds(struct planner *w)
{
    struct net *n = &w->a->net;
    int32_t last = last_of_pieces(w), first = 0;
    if (last < 0) return;
    while (!w->moment[first]) first++;
    n->round_begin = moving(first);
    n->round_end = running(last) + 1;
    if (w->o->searched) return;
    n->nmoment = 1 + w->stages.n * NPHASE;
    uint16_t *moment = ARENA_ARRAY(&w->a->arena, uint16_t, moving(n->nnode) + 1);
    int32_t *credit = ARENA_ARRAY(&w->a->arena, int32_t, n->nmoment * n->nmoment);
    for (int32_t i = 0; i < n->nnode; i++) moment[moving(i)] = moment[running(i)] = w->moment[i];
    for (int32_t x = 0; x < n->nmoment; x++)
        for (int32_t y = 0; y < n->nmoment; y++) {
            struct moment from = {(x - 1) / NPHASE, (uint8_t)((x - 1) % NPHASE)},
                          to = {(y - 1) / NPHASE, (uint8_t)((y - 1) % NPHASE)};
            credit[x * n->nmoment + y] = x && y ? MAX(1, stages_credits(w->p, &w->stages, from, to)) : 1;
        }
    n->moment = moment;
    w->credit = credit;
}

/* Extends the lifetime of a sum over micro-batches back to the first micro-batch. */
static void
sum_from_first(struct planner *w)
{
    for (int32_t i = 0; i < w->p->nnode && w->p->pieces > 1; i++)
        if (w->a->node[i] >= 0 && w->p->node[i].accumulate) w->value[i * OP_OUT].born = 0;
}

void
planner_lifetimes(struct planner *w)
{
    compute_together(w);
    stay_for_pieces(w);
    lengthen(w);
    sum_from_first(w);
    keep_rounds(w);
}
