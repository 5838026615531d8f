/* fold.c - reduces a network once, by the reductions that do not depend on unary costs. */
#include "sbp/net/fold.h"

#include "sbp/net/reduce.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

/* How the folded network determines an original variable. */
struct fate {
    int32_t left; /* variable of the folded network that decides the value; -1: the value is fixed */
    /* by candidate of variable `left`: the original variable's candidate; NULL: the candidate numbers are equal */
    const uint16_t *to;
    int32_t sure;
};

/* Returns how the folded network determines an eliminated variable. Call in reverse order of elimination: the fate
 * of the variable that replaces this one is then known. */
static struct fate
fate_of(struct folded *f, const struct cfn_fate *became, const struct fate *fate, const struct gone *g)
{
    const struct cfn_fate *b = &became[g->v];
    if (!b->to) return (struct fate){.left = -1, .sure = g->value[0]};
    const struct fate *u = &fate[b->into];
    if (u->left < 0) return (struct fate){.left = -1, .sure = b->to[u->sure]};
    if (!u->to) return (struct fate){.left = u->left, .to = arena_dup(&f->arena, b->to, sizeof *b->to * (size_t)b->n)};
    const struct cfn_var *x = &f->c->var[u->left];
    int32_t n = x->value[x->n - 1] + 1;
    uint16_t *to = ARENA_ARRAY(&f->arena, uint16_t, n);
    for (int32_t i = 0; i < x->n; i++) to[x->value[i]] = b->to[u->to[x->value[i]]];
    return (struct fate){.left = u->left, .to = to};
}

/* Builds f->c from the remaining variables and edges. */
static void
compact(struct folded *f, const struct cfn *c, struct fate *fate)
{
    struct cfn *to = f->c = must_alloc(sizeof *to);
    *to = (struct cfn){.constant = c->constant, .scale = c->scale};
    to->var = must_alloc(sizeof *to->var * (size_t)(c->nvar + 1));
    to->rank = must_alloc(sizeof *to->rank * (size_t)(c->nvar + 1));
    for (int32_t v = 0; v < c->nvar; v++) {
        const struct cfn_var *x = &c->var[v];
        if (!x->n) continue;
        struct cfn_var *y = &to->var[to->nvar];
        *y = (struct cfn_var){.n = x->n};
        y->cost = must_alloc(sizeof *y->cost * (size_t)x->n);
        y->value = must_alloc(sizeof *y->value * (size_t)x->n);
        memcpy(y->cost, x->cost, sizeof *y->cost * (size_t)x->n);
        memcpy(y->value, x->value, sizeof *y->value * (size_t)x->n);
        to->rank[to->nvar] = c->rank[v];
        fate[v] = (struct fate){.left = to->nvar++};
    }
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) cfn_join(to, fate[c->edge[k].u].left, fate[c->edge[k].v].left, c->edge[k].table);
}

static void
list_folded_nodes(struct folded *f, const struct net *n, const struct fate *fate)
{
    f->first = ARENA_ARRAY(&f->arena, int32_t, f->c->nvar + 2);
    f->node = ARENA_ARRAY(&f->arena, struct fold_node, n->nnode + 1);
    f->sure = ARENA_ARRAY(&f->arena, struct fold_sure, n->nnode + 1);
    for (int32_t i = 0; i < n->nnode; i++)
        if (fate[i].left >= 0) f->first[fate[i].left + 2]++;
    for (int32_t v = 0; v < f->c->nvar; v++) f->first[v + 2] += f->first[v + 1];
    for (int32_t i = 0; i < n->nnode; i++) {
        if (fate[i].left < 0)
            f->sure[f->nsure++] = (struct fold_sure){i, fate[i].sure};
        else
            f->node[f->first[fate[i].left + 1]++] = (struct fold_node){i, fate[i].to};
    }
}

bool
fold_begin(struct folded *f, const struct net *n, int64_t scale)
{
    struct cfn *c = cfn_new(n, scale, NULL);
    struct trail trail = {0};
    *f = (struct folded){.net = n};
    c->trail = &trail;
    c->fate = must_alloc(sizeof *c->fate * (size_t)MAX(1, c->nvar));
    bool possible = cfn_fold(c);
    if (possible) {
        struct fate *fate = must_alloc(sizeof *fate * (size_t)MAX(1, c->nvar));
        compact(f, c, fate);
        for (int32_t k = trail.ngone - 1; k >= 0; k--)
            fate[trail.gone[k].v] = fate_of(f, c->fate, fate, &trail.gone[k]);
        list_folded_nodes(f, n, fate);
        free(fate);
    }
    for (int32_t v = 0; v < c->nvar; v++) free(c->fate[v].to);
    free(c->fate);
    trail_cut(&trail, 0);
    cfn_free(&c);
    return possible;
}

void
fold_end(struct folded *f)
{
    cfn_free(&f->c);
    arena_fini(&f->arena);
}

void
fold_reprice(const struct folded *f, int64_t *const *extra, struct cfn *c)
{
    c->constant = f->c->constant;
    for (int32_t v = 0; v < c->nvar; v++) {
        struct cfn_var *x = &c->var[v];
        memcpy(x->cost, f->c->var[v].cost, sizeof *x->cost * (size_t)x->n);
        for (int32_t k = f->first[v]; k < f->first[v + 1]; k++) {
            const struct fold_node *m = &f->node[k];
            work_add(4 + 2 * (int64_t)x->n);
            for (int32_t i = 0; i < x->n; i++)
                x->cost[i] = cost_add(x->cost[i], extra[m->node][m->to ? m->to[x->value[i]] : x->value[i]]);
        }
    }
    for (int32_t k = 0; k < f->nsure; k++)
        c->constant = cost_add(c->constant, extra[f->sure[k].node][f->sure[k].candidate]);
}

void
fold_choice(const struct folded *f, const int32_t *candidate, int32_t *choice)
{
    for (int32_t v = 0; v < f->c->nvar; v++)
        for (int32_t k = f->first[v]; k < f->first[v + 1]; k++) {
            const struct fold_node *m = &f->node[k];
            choice[m->node] = m->to ? m->to[candidate[v]] : candidate[v];
        }
    for (int32_t k = 0; k < f->nsure; k++) choice[f->sure[k].node] = f->sure[k].candidate;
}
