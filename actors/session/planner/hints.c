/* hints.c - computes the cost of each hint of a planned step, by planning the step again without that hint.
 *
 * A hint is an explicit to_global, a strategy of an operator, or a variable with a layout from the user. The costs
 * of both plans (with and without the hint) have lower and upper bounds, so the hint's cost is known as an interval
 * even if time runs out. */
#include "actors/session/build/build_node.h"
#include "actors/session/core/face.h"
#include "actors/session/planner/planned.h"
#include "sbp/strategy.h"

#include <stdio.h>
#include <stdlib.h>

/* computing time for the cost of one hint (a layout that the program fixes), ns of counted work */
enum { HINT_NS = 250000000 };

struct pricing {
    struct rille_graph *g;
    struct rille_hints *out;
    struct arena *arena;
};

static char *
where_text(struct arena *a, const struct line *l)
{
    char text[512];
    if (!l || !l->file) return arena_strdup(a, "?");
    snprintf(text, sizeof text, "%s:%d", l->file, l->line);
    return arena_strdup(a, text);
}

/* Returns true if both nodes are parts of one call and have the strategy of that call. */
static bool
is_with(const struct prog_node *x, const struct prog_node *y)
{
    return x->strategy && y->strategy && x->strategy->group && x->strategy->group == y->strategy->group;
}

/* Plans the traced program again: without the hint (explicit layout) of node `node`, or with a free layout for
 * leaf `leaf` (-1: none). */
static int
plan_without(struct rille_graph *g, int32_t node, int32_t leaf, struct assigned **out)
{
    struct program q = *g->planning.traced;
    struct arena tmp = {0};
    struct planned_clock clock = planned_clock(g->s, HINT_NS);
    q.arena = (struct arena){0};
    q.dry_run = true;
    q.node = arena_dup(&q.arena, q.node, sizeof *q.node * (size_t)q.nnode);
    q.leaf = arena_dup(&q.arena, q.leaf, sizeof *q.leaf * (size_t)q.nleaf);
    q.root = arena_dup(&q.arena, q.root, sizeof *q.root * (size_t)q.nroot);
    struct assign_options o = {.mode = SOLVE_OPTIMAL, .stop = planned_is_late, .arg = &clock};
    struct assign_leaf *leaves = ARENA_ARRAY(&tmp, struct assign_leaf, q.nleaf + 1);
    struct assign_root *roots = ARENA_ARRAY(&tmp, struct assign_root, q.nroot + 1);
    o.leaf = leaves;
    o.root = roots;
    o.rates = g->s->devices.rates;
    o.memory_limit = g->planning.assigned->net.memory_limit;
    o.searched = g->planning.searched;
    planned_freedom(g, &q, leaf, leaves, roots);
    for (int32_t i = 0; node >= 0 && i < q.nnode; i++)
        if (i == node || q.node[i].again == node + 1 || is_with(&q.node[i], &g->planning.traced->node[node])) {
            q.node[i].asked = false;
            q.node[i].strategy = NULL;
        }
    int status = planned_end(&clock, assign_layouts(&q, g->s->atlas, &o, out));
    if (status) assigned_free(out);
    arena_fini(&tmp);
    arena_fini(&q.arena);
    return status;
}

static int
add_hint(struct pricing *w, const char *what, const struct line *line, int32_t node, int32_t leaf)
{
    struct assigned *a;
    const struct solved *with = &w->g->planning.assigned->solved;
    TRY(plan_without(w->g, node, leaf, &a));
    struct rille_hint *h = &w->out->hint[w->out->n++];
    h->what = arena_strdup(w->arena, what);
    h->line = where_text(w->arena, line);
    h->price = MAX(0, with->bound - a->solved.cost);
    h->price_high = MAX(h->price, with->cost - a->solved.bound);
    assigned_free(&a);
    return 0;
}

/* Returns true if an earlier node has the same strategy. */
static bool
is_hint_told(const struct program *p, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (is_with(&p->node[k], &p->node[i])) return true;
    return false;
}

static int
price_nodes(struct pricing *w)
{
    const struct program *p = w->g->planning.traced;
    int status = 0;
    for (int32_t i = 0; !status && i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        struct str what = {0};
        if ((!n->asked && !n->strategy) || (n->again && n->again != i + 1)) continue;
        if (n->strategy && is_hint_told(p, i)) continue;
        str_addf(&what, "%s ", n->name);
        if (n->asked)
            layout_print(n->layout[0], &what);
        else
            str_add(&what, "strategy");
        status = add_hint(w, str_text(&what), &n->line, i, -1);
        str_free(&what);
    }
    return status;
}

/* Returns true for a variable whose layout came from the user, not from this or an earlier plan. */
static bool
is_hint(const struct origin *o)
{
    return o->kind == FROM_VARIABLE && !o->free && !o->t->placed;
}

/* Returns an array by leaf: 1 + index of the node that updates the leaf or, without an update, of the first node
 * that reads the leaf; 0: none. Moves and updates do not count as readers. */
static int32_t *
readers_of(const struct program *p, struct arena *a)
{
    int32_t *reader = ARENA_ARRAY(a, int32_t, p->nleaf + 1);
    for (int32_t i = p->nnode - 1; i >= 0; i--) {
        const struct prog_node *n = &p->node[i];
        for (int k = 0; k < n->nin && !(n->op->flags & (OP_MOVE | OP_UPDATE)); k++) {
            int32_t leaf = planned_leaf_behind(p, n->in[k]);
            if (leaf >= 0) reader[leaf] = i + 1;
        }
    }
    for (int32_t i = 0; i < p->nnode; i++) {
        int32_t leaf = p->node[i].op->flags & OP_UPDATE ? planned_leaf_behind(p, p->node[i].in[0]) : -1;
        if (leaf >= 0) reader[leaf] = i + 1;
    }
    return reader;
}

static int
price_leaves(struct pricing *w)
{
    const struct program *p = w->g->planning.traced;
    struct arena tmp = {0};
    const int32_t *reader = readers_of(p, &tmp);
    int status = 0;
    for (int32_t i = 0; !status && i < p->nleaf; i++) {
        struct str what = {0};
        if (!reader[i] || !is_hint(&w->g->origin[i])) continue;
        str_add(&what, "variable ");
        type_print(&p->leaf[i].type, &what);
        str_add(&what, " ");
        layout_print(p->leaf[i].layout, &what);
        status = add_hint(w, str_text(&what), &p->node[reader[i] - 1].line, -1, i);
        str_free(&what);
    }
    arena_fini(&tmp);
    return status;
}

int
rille_graph_hints(struct rille_graph *g, struct rille_hints **out)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(out, "out", __func__));
    if (!g->planning.assigned) return fail(E_STATE, "hints: the step was not planned: make it with auto_parallel");
    planned_call(g->s);
    struct pricing w = {.g = g, .out = must_alloc(sizeof *w.out), .arena = must_alloc(sizeof *w.arena)};
    w.out->memory = w.arena;
    w.out->hint = ARENA_ARRAY(w.arena, struct rille_hint, g->planning.traced->nnode + g->planning.traced->nleaf + 1);
    int status = price_nodes(&w);
    if (!status) status = price_leaves(&w);
    if (status) rille_hints_free(&w.out);
    *out = w.out;
    return build_settle(g->s, status);
}

void
rille_hints_free(struct rille_hints **hp)
{
    if (face_given(hp, "the pointer to the record", __func__)) return;
    struct rille_hints *h = *hp;
    *hp = NULL;
    if (!h) return;
    arena_fini(h->memory);
    free(h->memory);
    free(h);
}
