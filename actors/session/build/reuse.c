/* reuse.c - common subexpression elimination in a trace.
 *
 * Equal calls on equal operands become one node of the program. So a step that casts or transposes a weight three
 * times, or whose gradient repeats a call of the forward pass, does the work once. The pass runs after derivation
 * and differentiation, so no value changes by a bit. Random calls, updates and sources are never equal, nor are
 * calls with different strategies. A value that is needed after the run keeps its own node.
 *
 * If the cost is no higher, the viewed value is moved instead of the view. For example, a reader that needs the
 * replicated transpose of a split weight gathers the weight, and then transposes the gathered value. So all readers
 * of the weight, including its gradient, share one gathered value. A view with a strategy keeps its layout. */
#include "actors/session/build/reuse.h"
#include "actors/session/build/build_node.h"
#include "actors/session/build/derive.h"
#include "actors/session/core/session.h"

#include "sbp/choose.h"
#include "sbp/strategy.h"
#include "sbp/infer.h"

#include <stdlib.h>
#include <string.h>

/* ---- merging equal calls ---- */

struct merge {
    struct program *p;
    const struct collection *c;
    struct arena scratch;
    int32_t *node;           /* by program node: index of an earlier equal node; its own index: there is none */
    int32_t *number;         /* by number operand: index of an earlier equal number; its own index: there is none */
    bool *kept;              /* by node: a result is needed after the run */
    struct hash_table nodes; /* hash table of the nodes that have no earlier equal node */
};

static bool
same_number(const struct number *x, const struct number *y)
{
    if (x->kind != y->kind || x->is_int != y->is_int) return false;
    /* comparing i also compares the bits of a float, because i and f form a union */
    return x->kind == NUM_LIVE ? x->live == y->live : x->kind == NUM_FIXED && x->i == y->i;
}

/* Merges equal number operands of the program. Compares each number with all earlier numbers, because a program has
 * few numbers. */
static void
merge_numbers(struct merge *m)
{
    for (int32_t i = 0; i < m->p->nnumber; i++) {
        int32_t k = 0;
        while (k < i && (m->number[k] != k || m->p->number[k]->dtype != m->p->number[i]->dtype ||
                         !same_number(&m->c->number[k]->number, &m->c->number[i]->number)))
            k++;
        m->number[i] = k;
    }
}

/* Returns the reference that replaces r after equal nodes and numbers are merged. */
static struct ref
settled(const struct merge *m, struct ref r)
{
    if (r.kind == REF_NODE) r.index = m->node[r.index];
    if (r.kind == REF_NUMBER) r.index = m->number[r.index];
    return r;
}

static uint64_t
hash_node(const struct merge *m, const struct prog_node *n)
{
    uint64_t h = hash_number(0x9e3779b97f4a7c15ull, (uint64_t)(uintptr_t)n->op);
    for (int i = 0; i < n->nin; i++) {
        struct ref r = settled(m, n->in[i]);
        h = hash_number(h, (uint64_t)r.kind << 40 | (uint64_t)r.out << 32 | (uint32_t)r.index);
    }
    for (int i = 0, nattr = op_nattr(n->op); i < nattr; i++) {
        h = hash_number(h, (uint64_t)n->attr[i].i);
        for (int k = 0; k < n->attr[i].n; k++) h = hash_number(h, (uint64_t)n->attr[i].list[k]);
    }
    for (int k = 0; k < n->nout; k++) h = hash_number(h, (uint64_t)n->layout[k]->id);
    return h;
}

static bool
same_node(const struct merge *m, const struct prog_node *a, const struct prog_node *b)
{
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout) return false;
    for (int i = 0; i < a->nin; i++) {
        struct ref x = settled(m, a->in[i]), y = settled(m, b->in[i]);
        if (x.kind != y.kind || x.index != y.index || x.out != y.out || a->want[i] != b->want[i]) return false;
    }
    for (int k = 0; k < a->nout; k++)
        if (a->layout[k] != b->layout[k] || !type_equal(&a->type[k], &b->type[k])) return false;
    return strategy_same(a->strategy, b->strategy) && op_attr_same(a->op, a->attr, b->attr);
}

static bool
is_repeatable(const struct merge *m, int32_t i)
{
    const struct prog_node *n = &m->p->node[i];
    return !(n->op->flags & (OP_RANDOM | OP_INPLACE | OP_UPDATE | OP_SOURCE)) && !n->accumulate && !n->recompute &&
           !m->kept[i];
}

/* Finds an earlier node equal to node i. The earlier node, which remains, gets the earlier of the two phases. */
static void
find_equal(struct merge *m, int32_t i)
{
    struct prog_node *n = &m->p->node[i];
    m->node[i] = i;
    if (!is_repeatable(m, i)) return;
    uint64_t hash = hash_node(m, n);
    uint32_t at = 0;
    for (const void *found; (found = hash_next(&m->nodes, hash, &at));) {
        struct prog_node *other = &m->p->node[hash_index_of(found)];
        if (!same_node(m, other, n)) continue;
        m->node[i] = hash_index_of(found);
        other->phase = MIN(other->phase, n->phase);
        return;
    }
    hash_add(&m->nodes, hash, hash_index(i));
}

/* Removes from the program the nodes that were merged into an earlier equal node. */
static void
renumber_nodes(struct merge *m)
{
    struct program *p = m->p;
    int32_t *index = ARENA_ARRAY(&p->arena, int32_t, p->nnode + 1), n = 0;
    for (int32_t i = 0; i < p->nnode; i++) {
        if (m->node[i] != i) continue;
        struct prog_node *to = &p->node[n];
        *to = p->node[i];
        struct ref *in = ARENA_ARRAY(&p->arena, struct ref, to->nin);
        for (int k = 0; k < to->nin; k++) {
            in[k] = settled(m, to->in[k]);
            if (in[k].kind == REF_NODE) in[k].index = index[in[k].index];
        }
        to->in = in;
        index[i] = n++;
    }
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) p->root[k].ref.index = index[p->root[k].ref.index];
    for (int32_t i = 0; i < p->nnode; i++) index[i] = index[m->node[i]];
    for (int32_t i = 0; i < n; i++)
        if (p->node[i].recompute) p->node[i].recompute = index[p->node[i].recompute - 1] + 1;
    p->nnode = n;
}

void
reuse_equal(struct program *p, const struct collection *c)
{
    struct merge m = {.p = p, .c = c};
    m.nodes.arena = &m.scratch;
    m.node = ARENA_ARRAY(&m.scratch, int32_t, p->nnode + 1);
    m.number = ARENA_ARRAY(&m.scratch, int32_t, p->nnumber + 1);
    m.kept = ARENA_ARRAY(&m.scratch, bool, p->nnode + 1);
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) m.kept[p->root[k].ref.index] = true;
    merge_numbers(&m);
    for (int32_t i = 0; i < p->nnode; i++) find_equal(&m, i);
    renumber_nodes(&m);
    arena_fini(&m.scratch);
}

/* ---- moving the operand of a view instead of the view ---- */

/* Returns the cheapest layout of a view's operand that gives the view the layout `want` without a move of the view.
 * NULL: a move of the view costs less. */
static const struct layout *
layout_below(struct rille_session *s, const struct node *n, const struct layout *want)
{
    const struct val *x = n->in[0], *y = n->out[0];
    struct type out[OP_OUT] = {0};
    struct rule rule;
    struct sig_choice all;
    struct call c = {
        .op = n->op, .nin = 1, .nout = n->nout, .in = &x->type, .out = out, .attr = n->attr, .layout = &x->layout};
    struct sig_question q = {s->atlas, want->place, &c, &rule, price_move, NULL};
    if (call_infer(&s->calls.scratch, &c, &rule) || sig_list_all(&s->calls.scratch, &q, &all)) return NULL;
    const struct sig_candidate *best = NULL;
    for (int i = 0; i < all.ncandidate; i++) {
        const struct sig_candidate *k = &all.candidate[i];
        if (k->layout[1] == want && (!best || k->bytes < best->bytes)) best = k;
    }
    return best && best->bytes <= price_move(NULL, &y->type, y->layout, want) ? best->layout[0] : NULL;
}

int
reuse_below(const struct call_context *ctx, const struct layout *want, struct val **v)
{
    const struct node *n = (*v)->node;
    bool view = n && n->traced && n->op->flags & OP_VIEW && n->nin == 1 && n->nout == 1 && !n->strategy;
    if (!view || (*v)->layout == want || (*v)->owner || want->place != (*v)->layout->place) return 0;
    const struct layout *below = layout_below(ctx->s, n, want);
    if (!below) return 0;
    struct val *x = n->in[0];
    if (ctx->grad && x->needs_grad != (*v)->needs_grad) return 0;
    TRY(reuse_below(ctx, below, &x));
    struct node_made made = {.nin = 1, .nout = 1, .want = &below, .type = &n->out[0]->type, .layout = &want};
    struct call_context there = *ctx;
    there.at = n->line;
    TRY(build_add(&there, n->op, &x, n->attr, &made, v));
    (*v)->node->shows = node_shown(n);
    return 0;
}
