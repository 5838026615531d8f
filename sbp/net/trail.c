/* trail.c - restores the values of eliminated variables, and writes the lines of a proof. */
#include "sbp/net/trail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
trail_gone(struct trail *t, const struct cfn *c, int32_t v)
{
    const struct cfn_var *x = &c->var[v];
    GROW(t->gone, t->ngone + 1, t->capacity);
    struct gone *g = &t->gone[t->ngone++];
    *g = (struct gone){.v = v, .n = x->n, .nedge = x->n > 1 ? x->nedge : 0};
    g->cost = cfn_dup(x->cost, sizeof *x->cost * (size_t)x->n);
    g->value = cfn_dup(x->value, sizeof *x->value * (size_t)x->n);
    g->edge = must_alloc(MAX(1, sizeof *g->edge * (size_t)g->nedge));
    for (int32_t k = 0; k < g->nedge; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        const struct cfn_var *o = &c->var[edge_other(e, v)];
        e->table->nref++;
        g->edge[k] = (struct gone_edge){.other = edge_other(e, v), .n = o->n, .table = e->table, .first = e->u == v};
        g->edge[k].value = cfn_dup(o->value, sizeof *o->value * (size_t)o->n);
    }
}

void
trail_cut(struct trail *t, int32_t ngone)
{
    while (t->ngone > ngone) {
        struct gone *g = &t->gone[--t->ngone];
        for (int32_t k = 0; k < g->nedge; k++) {
            cfn_table_drop(&g->edge[k].table);
            free(g->edge[k].value);
        }
        free(g->edge);
        free(g->cost);
        free(g->value);
    }
    if (t->ngone) return;
    free(t->gone);
    t->gone = NULL;
    t->capacity = 0;
}

static int32_t
search_gone(const struct gone_edge *e, int32_t value)
{
    int32_t j = 0;
    while (e->value[j] != value) j++;
    return j;
}

static int32_t
best_value(const struct gone *g, const int32_t *value)
{
    int64_t least = INT64_MAX;
    int32_t best = 0;
    for (int32_t i = 0; i < g->n; i++) {
        int64_t sum = g->cost[i];
        for (int32_t k = 0; k < g->nedge; k++) {
            const struct gone_edge *e = &g->edge[k];
            int64_t j = search_gone(e, value[e->other]);
            sum = cost_add(sum, e->table->cost[e->first ? i * e->n + j : j * g->n + i]);
        }
        if (sum >= least) continue;
        least = sum;
        best = i;
    }
    return g->value[best];
}

void
trail_restore(const struct trail *t, int32_t *value)
{
    for (int32_t k = t->ngone - 1; k >= 0; k--) value[t->gone[k].v] = best_value(&t->gone[k], value);
}

void
trail_say(struct trail *t, const char *fmt, ...)
{
    char line[256];
    va_list ap;
    if (!t->text) return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    str_add(t->text, line);
}
