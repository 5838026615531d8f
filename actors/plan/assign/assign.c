/* assign.c - builds the cost network ("net") of a program, and writes the chosen layouts back to the program. */
#include "actors/plan/assign/assign.h"
#include "actors/plan/assign/lifetimes.h"

#include "actors/plan/assign/constraint_conflict.h"
#include "actors/plan/assign/price.h"
#include "actors/plan/outline/hops.h"
#include "actors/plan/rewrite/rewrite.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "boxing/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

/* Returns true for a move that the user did not ask for, on one placement. Such a move is dropped from the program,
 * because the chosen layouts decide whether it is needed. */
static bool
is_alias(const struct program *p, int32_t i)
{
    struct ref r = program_source(p, (struct ref){.kind = REF_NODE, .index = i});
    return r.kind != REF_NODE || r.index != i;
}

static int32_t
add_net_node(struct planner *w, int32_t ncand, const int64_t *cost)
{
    struct net *n = &w->a->net;
    n->node[n->nnode] = (struct net_node){.ncand = ncand, .cost = cost, .time = running(n->nnode)};
    w->moment[n->nnode] = w->in_pieces ? (uint16_t)(1 + w->now.stage * NPHASE + w->now.phase) : 0;
    return n->nnode++;
}

static void
made(struct value *v, int32_t node, const struct layout *const *layout, int32_t stride, const struct type *t,
     int64_t times)
{
    *v = (struct value){.maker = node,
                        .layout = layout,
                        .stride = stride,
                        .type = *t,
                        .times = times,
                        .nreg = 1,
                        .born = running(node)};
    v->dies = v->born + 1;
    v->end = &v->reader;
}

static void
note_read(struct planner *w, struct value *v, int32_t node, const struct layout *const *layout, int32_t stride)
{
    struct reader *x = ARENA_NEW(&w->a->arena, struct reader);
    *x = (struct reader){.node = node, .layout = layout, .stride = stride, .begin = moving(node)};
    x->dies = running(node) + 1;
    *v->end = x;
    v->end = &x->next;
    v->dies = MAX(v->dies, x->dies);
    if (v->times > 1 && !w->o->searched) v->nreg = MAX(v->nreg, stages_credits(w->p, &w->stages, v->at, w->now));
}

static const int64_t *
nothing(struct planner *w, int32_t n)
{
    int64_t *cost = ARENA_ARRAY(&w->a->arena, int64_t, n);
    return hash_keep(&w->kept, cost, sizeof *cost * (size_t)n);
}

/* Adds a net node that only chooses among n layouts, at no cost. */
static int32_t
place_node(struct planner *w, const struct layout *const *layout, int32_t n, const struct layout *now)
{
    int32_t node = add_net_node(w, n, nothing(w, n));
    w->form[node] = layout;
    for (int32_t k = 0; k < n; k++)
        if (layout[k] == now) w->start[node] = k;
    return node;
}

static const struct layout *const *
just(struct planner *w, const struct layout *l)
{
    return arena_dup(&w->a->arena, &l, sizeof l);
}

static int
leaf_node(struct planner *w, int32_t i)
{
    const struct prog_leaf *f = &w->p->leaf[i];
    const struct assign_leaf *o = &w->o->leaf[i];
    const struct layout **layout;
    int32_t n = 1;
    if (o->follows >= 0) {
        w->a->leaf[i] = w->a->leaf[o->follows];
    } else if (o->free) {
        TRY(candidate_layouts(&w->cand, w->p->nnode * OP_OUT + i, &f->type, f->layout, &layout, &n));
        w->a->leaf[i] = place_node(w, layout, n, f->layout);
    } else {
        w->a->leaf[i] = place_node(w, just(w, f->layout), 1, f->layout);
    }
    int32_t node = w->a->leaf[i];
    made(&w->value[w->p->nnode * OP_OUT + i], node, w->form[node], 1, &f->type, f->piece ? w->p->pieces : 1);
    w->value[w->p->nnode * OP_OUT + i].holds = HOLDS_PARTS;
    return 0;
}

static int64_t
node_times(const struct planner *w, const struct prog_node *n)
{
    return n->piece ? w->p->pieces : 1;
}

static const int64_t *
candidate_costs(struct planner *w, const struct prog_node *n, const struct candidate_list *l)
{
    struct arena tmp = {0};
    int64_t *cost = ARENA_ARRAY(&tmp, int64_t, l->n);
    candidates_work(w->p, n, l, &w->o->rates, node_times(w, n), cost);
    const int64_t *kept = hash_keep(&w->kept, cost, sizeof *cost * (size_t)l->n);
    arena_fini(&tmp);
    return kept;
}

/* Returns a layout's index in the list; appends the layout if it is absent. */
static uint16_t
layout_index(const struct layout **list, int32_t *n, const struct layout *l)
{
    int32_t k = 0;
    while (k < *n && list[k] != l) k++;
    if (k == *n) list[(*n)++] = l;
    return (uint16_t)k;
}

static bool
makes_partial(const struct prog_node *n)
{
    return n->asked && n->op->flags & OP_MOVE && layout_partial(n->layout[0]) != RED_NONE;
}

/* Returns the value that node i of the program reads. A fetch or a repeated gather is never shared with an earlier
 * move. So it reads a copy of the value that no other node reads. All explicit moves that make a value partial read
 * one common copy. */
struct value *
planner_source(struct planner *w, int32_t i)
{
    const struct prog_node *n = &w->p->node[i];
    struct value *v = value_of(w, n->in[0]);
    if (n->again && n->op->flags & OP_MOVE) return &w->value[i * OP_OUT + 1];
    return v->partly && makes_partial(n) ? v->partly : v;
}

/* Adds the net node of an explicit move, of a move to another placement, or of a sum over micro-batches. Its
 * candidates are the layouts of the result; it reads the operand in the same layout. */
static int
move_node(struct planner *w, int32_t i)
{
    const struct prog_node *n = &w->p->node[i];
    const struct layout **all, **layout;
    int32_t nall, count = 0;
    TRY(candidate_layouts(&w->cand, i * OP_OUT, &n->type[0], n->layout[0], &all, &nall));
    layout = ARENA_ARRAY(&w->a->arena, const struct layout *, nall + 2);
    struct value *from = value_of(w, n->in[0]);
    if (n->again || (makes_partial(n) && !from->partly)) {
        struct value *own = &w->value[i * OP_OUT + 1];
        made(own, from->maker, from->layout, from->stride, &from->type, n->again ? node_times(w, n) : from->times);
        own->holds = HOLDS_NOTHING;
        own->asked = makes_partial(n);
        own->at = from->at;
        if (own->asked) from->partly = own;
    }
    if (n->again || makes_partial(n)) from->dies = MAX(from->dies, running(w->a->net.nnode) + 1);
    if (n->asked) {
        layout[count++] = n->layout[0];
    } else {
        memcpy(layout, all, sizeof *all * (size_t)nall);
        count = nall;
        layout_index(layout, &count, n->layout[0]);
    }
    /* The node that computes a gradient also adds up the gradient over micro-batches. So any layout that is legal
     * for the node's result is legal for the sum. */
    if (n->accumulate) {
        int32_t ncand = w->a->net.node[from->maker].ncand;
        layout = ARENA_ARRAY(&w->a->arena, const struct layout *, ncand + 1);
        count = 0;
        for (int32_t k = 0; k < ncand; k++) layout_index(layout, &count, from->layout[(int64_t)k * from->stride]);
        layout_index(layout, &count, n->layout[0]);
    }
    int32_t node = w->a->node[i] = place_node(w, layout, count, n->layout[0]);
    note_read(w, planner_source(w, i), node, layout, 1);
    made(&w->value[i * OP_OUT], node, layout, 1, &n->type[0], n->accumulate ? 1 : node_times(w, n));
    if (!n->accumulate) w->value[i * OP_OUT].holds = HOLDS_NOTHING;
    return 0;
}

/* Adds the net node of an operator without operands. The planner may choose any layout for the result, unless the
 * user has called the operator and given a layout. */
static int
source_node(struct planner *w, int32_t i)
{
    const struct prog_node *n = &w->p->node[i];
    const struct layout **layout;
    int32_t count = 1;
    if (!strcmp(n->name, n->op->name)) /* the user has called the operator, with a layout as argument */
        w->a->node[i] = place_node(w, just(w, n->layout[0]), 1, n->layout[0]);
    else {
        TRY(candidate_layouts(&w->cand, i * OP_OUT, &n->type[0], n->layout[0], &layout, &count));
        w->a->node[i] = place_node(w, layout, count, n->layout[0]);
    }
    made(&w->value[i * OP_OUT], w->a->node[i], w->form[w->a->node[i]], 1, &n->type[0], node_times(w, n));
    return 0;
}

static int
compute_node(struct planner *w, int32_t i)
{
    const struct prog_node *n = &w->p->node[i];
    const struct candidate_list *l;
    int32_t now;
    TRY(candidates_of(&w->cand, i, &l, &now));
    int32_t node = w->a->node[i] = add_net_node(w, l->n, candidate_costs(w, n, l));
    w->a->candidate[node] = l->candidate;
    w->list[node] = l;
    w->start[node] = now;
    w->a->net.node[node].part = l->part;
    int32_t stride = l->nlayout;
    const struct layout **flat = ARENA_ARRAY(&w->a->arena, const struct layout *, (int64_t)l->n *stride);
    for (int32_t k = 0; k < l->n; k++)
        memcpy(flat + (int64_t)k * stride, l->candidate[k].layout, sizeof *flat * (size_t)stride);
    for (int k = 0; k < n->nin; k++)
        if (n->in[k].kind == REF_NODE || n->in[k].kind == REF_LEAF)
            note_read(w, value_of(w, n->in[k]), node, flat + k, stride);
    for (int k = 0; k < n->nout; k++)
        made(&w->value[i * OP_OUT + k], node, flat + n->nin + k, stride, &n->type[k], node_times(w, n));
    if (n->op->flags & OP_VIEW) w->value[i * OP_OUT].holds = HOLDS_NOTHING;
    return 0;
}

static int
program_node(struct planner *w, int32_t i)
{
    const struct prog_node *n = &w->p->node[i];
    w->a->node[i] = -1;
    if (is_alias(w->p, i)) return 0;
    if (w->p->pieces > 1) w->now = (struct moment){w->stages.stage[i], w->stages.phase[i]};
    w->in_pieces = node_times(w, n) > 1;
    if (n->op->flags & OP_MOVE)
        TRY(move_node(w, i));
    else if (n->op->flags & OP_SOURCE)
        TRY(source_node(w, i));
    else
        TRY(compute_node(w, i));
    for (int k = 0; k < n->nout; k++) w->value[i * OP_OUT + k].at = w->now;
    return 0;
}

/* Returns true if r, the new version of a variable, may overwrite the old version. */
static bool
is_overwritten(struct planner *w, struct ref r, int32_t leaf)
{
    r = program_source(w->p, r);
    if (r.kind != REF_NODE) return false;
    const struct prog_node *n = &w->p->node[r.index];
    if (!(n->op->flags & OP_INPLACE) || r.out >= n->op->ninplace) return false;
    struct ref old = program_source(w->p, n->in[r.out]);
    return old.kind == REF_LEAF && old.index == leaf;
}

/* Adds a net node for a root with a required layout. The node reads the root's value in that layout, so a move to
 * the layout runs last. If the root is a new version of a variable, the move overwrites the old version. */
static void
root_node(struct planner *w, int32_t k)
{
    const struct prog_root *r = &w->p->root[k];
    const struct assign_root *o = &w->o->root[k];
    struct value *v = value_of(w, r->ref);
    struct reader **last = v->end;
    bool over = o->leaf >= 0 && !v->reader && is_overwritten(w, r->ref, o->leaf);
    int32_t node = -1;
    if (o->leaf >= 0) {
        node = w->a->leaf[o->leaf];
    } else if (o->fixed) {
        const struct layout *const *l = just(w, ref_layout(w->p, r->ref));
        node = place_node(w, l, 1, l[0]);
    }
    if (node >= 0) note_read(w, v, node, w->form[node], 1);
    w->a->root[k] = node;
    v->holds = over ? HOLDS_OVER : HOLDS_PARTS;
    v->dies = INT32_MAX;
    if (!*last) return;
    (*last)->begin = o->fixed && o->leaf < 0 ? 0 : over ? v->born : INT32_MAX;
    (*last)->dies = INT32_MAX;
}

/* ---- tensors ---- */

/* Returns a pointer to the entry of a layout in `listed`: 1 + the layout's index in the list under construction; 0:
 * the list does not have the layout. */
static int32_t *
listed(struct planner *w, const struct layout *l)
{
    if (l->id >= w->nlisted) {
        int32_t was = w->nlisted;
        w->nlisted = 2 * l->id + 1;
        w->listed = arena_extend(&w->a->arena, w->listed, sizeof *w->listed * (size_t)was,
                                 sizeof *w->listed * (size_t)w->nlisted);
    }
    return &w->listed[l->id];
}

/* Returns, by candidate, the index of the candidate's layout in a list of distinct layouts. Appends missing layouts
 * to the list. */
static const uint16_t *
forms(struct planner *w, int32_t ncand, const struct layout *const *layout, int32_t stride, const struct layout **list,
      int32_t *n)
{
    struct arena tmp = {0};
    uint16_t *f = ARENA_ARRAY(&tmp, uint16_t, ncand);
    for (int32_t k = 0; k < *n; k++) *listed(w, list[k]) = k + 1;
    for (int32_t k = 0; k < ncand; k++) {
        const struct layout *l = layout[(int64_t)k * stride];
        int32_t *at = listed(w, l);
        if (*at == 0) {
            list[(*n)++] = l;
            *at = *n;
        }
        f[k] = (uint16_t)(*at - 1);
    }
    for (int32_t k = 0; k < *n; k++) *listed(w, list[k]) = 0;
    const uint16_t *kept = hash_keep(&w->kept, f, sizeof *f * (size_t)ncand);
    arena_fini(&tmp);
    return kept;
}

/* Returns the bytes that must be held additionally if a value is converted. own: bytes of the value in the source
 * layout; moved: bytes of the copy in the destination layout; sent: bytes that the move sends.
 *
 * Two kinds of values hold nothing if they are not converted. The new version of a variable then overwrites the old
 * version; if it is made in another layout, it holds `own` bytes, and its copy overwrites the old version. An
 * intermediate value of a chain has no register; if it is converted, it needs `own` bytes besides the copy. */
static int64_t
conversion_bytes(const struct value *v, const struct layout *from, const struct layout *to, int64_t own, int64_t moved,
                 int64_t sent)
{
    if (from == to) return 0;
    int64_t inner = v->holds == HOLDS_INNER ? own : 0;
    if (box_renames(&v->type, from, to, sent)) return inner; /* a move that only renames the layout makes no copy */
    return inner + (v->holds == HOLDS_OVER ? own : moved);
}

static int64_t *
largest_parts(struct arena *a, const struct type *t, const struct layout **layout, int32_t n)
{
    int64_t *bytes = ARENA_ARRAY(a, int64_t, n);
    for (int32_t k = 0; k < n; k++) bytes[k] = assign_part(t, layout[k]);
    return bytes;
}

/* Computes the prices of converting a value from each layout of one list to each of another. */
static struct priced *
price_pairs(struct planner *w, const struct value *v, const struct layout **from, int32_t nfrom,
            const struct layout **to, int32_t nto)
{
    struct arena tmp = {0};
    int64_t *price = ARENA_ARRAY(&w->a->arena, int64_t, (int64_t)nfrom * nto), sent;
    int64_t *moved = ARENA_ARRAY(&w->a->arena, int64_t, (int64_t)nfrom * nto);
    int64_t *copy = ARENA_ARRAY(&w->a->arena, int64_t, (int64_t)nfrom * nto);
    const int64_t *own = largest_parts(&tmp, &v->type, from, nfrom), *there = largest_parts(&tmp, &v->type, to, nto);
    for (int32_t f = 0; f < nfrom; f++) {
        struct pair_row *row = move_table_from(&w->pairs, &v->type, v->asked, from[f]);
        for (int32_t t = 0; t < nto; t++) {
            int64_t one = move_table_price(&w->pairs, row, to[t], there[t], &sent);
            price[(int64_t)f * nto + t] = one >= NET_NEVER / v->times ? NET_NEVER : one * v->times;
            moved[(int64_t)f * nto + t] = sent >= NET_NEVER / v->times ? NET_NEVER : sent * v->times;
            copy[(int64_t)f * nto + t] =
                conversion_bytes(v, from[f], to[t], assign_aligned(own[f]), assign_aligned(there[t]), sent);
        }
    }
    arena_fini(&tmp);
    struct priced *p = ARENA_NEW(&w->a->arena, struct priced);
    *p = (struct priced){.price = price, .moved = moved, .copy = copy};
    return p;
}

struct price_key {
    struct type type;
    int64_t times;
    int32_t nfrom, nto, holds, asked;
};

static struct priced *
prices(struct planner *w, const struct value *v, const struct layout **from, int32_t nfrom, const struct layout **to,
       int32_t nto)
{
    struct arena tmp = {0};
    size_t bytes = sizeof(struct price_key) + sizeof *from * (size_t)(nfrom + nto);
    char *key = arena_alloc(&tmp, bytes);
    struct price_key head;
    memset(&head, 0, sizeof head);
    head.type.dtype = v->type.dtype;
    head.type.ndim = v->type.ndim;
    memcpy(head.type.dim, v->type.dim, sizeof v->type.dim[0] * v->type.ndim);
    head.times = v->times;
    head.nfrom = nfrom;
    head.nto = nto;
    head.holds = v->holds == HOLDS_OVER || v->holds == HOLDS_INNER ? v->holds : HOLDS_REGISTER;
    head.asked = v->asked;
    memcpy(key, &head, sizeof head);
    memcpy(key + sizeof head, from, sizeof *from * (size_t)nfrom);
    memcpy(key + sizeof head + sizeof *from * (size_t)nfrom, to, sizeof *to * (size_t)nto);
    uint64_t hash = hash_bytes(0, key, bytes);
    uint32_t at = 0;
    struct priced *p;
    while ((p = hash_next(&w->priced, hash, &at)) && (p->bytes != bytes || memcmp(p->key, key, bytes))) continue;
    if (!p) {
        p = price_pairs(w, v, from, nfrom, to, nto);
        p->bytes = bytes;
        p->key = arena_dup(&w->a->arena, key, bytes);
        hash_add(&w->priced, hash, p);
    }
    arena_fini(&tmp);
    return p;
}

/* Returns, by layout, the bytes of `times` shards of a value. */
static const int64_t *
price_row(struct planner *w, const struct value *v, const struct layout **from, int32_t n, int64_t times)
{
    struct arena tmp = {0};
    int64_t *bytes = ARENA_ARRAY(&tmp, int64_t, n);
    for (int32_t k = 0; k < n; k++)
        bytes[k] =
            times * (v->holds == HOLDS_PARTS ? assign_part(&v->type, from[k]) : assign_register(&v->type, from[k]));
    const int64_t *kept = hash_keep(&w->kept, bytes, sizeof *bytes * (size_t)n);
    arena_fini(&tmp);
    return kept;
}

/* Returns the only reader that is last to read the value; NULL if several readers are last, if the last reader does
 * not compute with the value, or if the value has several registers. */
static struct reader *
last_value_reader(const struct planner *w, const struct value *v)
{
    struct reader *last = NULL;
    int32_t n = 0;
    for (struct reader *r = v->reader; r; r = r->next) {
        if (r->dies != v->dies) continue;
        last = r;
        n++;
    }
    bool once = n == 1 && v->nreg == 1; /* with several registers, other micro-batches still hold their values */
    return once && v->holds == HOLDS_REGISTER && w->list[last->node] && last->dies == last->begin + 2 ? last : NULL;
}

/* Ends the life of a value before its last reader runs, if that reader alone needs a converted copy of the value.
 * The copy then counts as memory of the reader. */
static void
end_before(struct planner *w, struct value *v)
{
    struct reader *r = last_value_reader(w, v);
    if (!r) return;
    struct arena tmp = {0};
    struct net_node *n = &w->a->net.node[r->node];
    int64_t *bytes = ARENA_ARRAY(&tmp, int64_t, n->ncand);
    for (int32_t k = 0; k < n->ncand; k++)
        bytes[k] = (n->memory ? n->memory[k] : 0) + assign_register(&v->type, r->layout[(int64_t)k * r->stride]);
    n->memory = hash_keep(&w->kept, bytes, sizeof *bytes * (size_t)n->ncand);
    v->dies = r->dies = r->dies - 1;
    arena_fini(&tmp);
}

/* Finds the pairs of layouts (of a partial value, and of its reader) with which the value is reduced early
 * (hops_early). Returns, by pair of layouts, the bytes of the addends and of the sum. */
static const struct early *
early_of(struct planner *w, const struct net_tensor *t, const struct type *type, const struct layout **from,
         const struct layout **to)
{
    struct early *e = ARENA_NEW(&w->a->arena, struct early);
    struct arena tmp = {0};
    int32_t n = t->nfrom * t->nto;
    bool *early = ARENA_ARRAY(&tmp, bool, t->nto + 1);
    int64_t *bytes[] = {ARENA_ARRAY(&tmp, int64_t, t->nfrom), ARENA_ARRAY(&tmp, int64_t, t->nfrom)};
    int64_t *copy[] = {ARENA_ARRAY(&tmp, int64_t, n + 1), ARENA_ARRAY(&tmp, int64_t, n + 1)};
    for (int32_t f = 0; f < t->nfrom; f++) {
        bool may = false;
        for (int32_t g = 0; g < t->nto; g++) may |= early[g] = hops_early_fits(type, from[f], to[g]);
        e->any = e->any || may;
        bytes[may][f] = t->bytes[f];
        for (int32_t g = 0, at = f * t->nto; g < t->nto; g++, at++) {
            copy[early[g]][at] = t->copy[at];
            if (may && !early[g]) copy[1][at] = t->bytes[f];
        }
    }
    for (int k = 0; k < 2 && e->any; k++) {
        e->bytes[k] = hash_keep(&w->kept, bytes[k], sizeof *bytes[k] * (size_t)t->nfrom);
        e->copy[k] = hash_keep(&w->kept, copy[k], sizeof *copy[k] * (size_t)n);
    }
    if (e->any) e->nothing = nothing(w, n);
    arena_fini(&tmp);
    return e;
}

/* Divides the tensor of a value that may be reduced early (hops_early) into two tensors. The first is the addends,
 * which live only until they are reduced. The second is the sum, which lives from then on until its only reader,
 * much later. */
static void
sum_early(struct planner *w, struct net_tensor *t, const struct value *v, struct priced *p, const struct layout **from,
          const struct layout **to)
{
    int32_t soon = v->born + 1;
    if (!v->early || v->holds != HOLDS_REGISTER || t->nuse != 1 || t->use->begin <= soon) return;
    if (!p->early) p->early = early_of(w, t, &v->type, from, to);
    if (!p->early->any) return;
    struct net_tensor sum = *t;
    struct net_use *use = arena_dup(&w->a->arena, t->use, sizeof *use);
    t->bytes = p->early->bytes[0];
    t->copy = p->early->copy[0];
    use->begin = soon;
    sum.use = use;
    sum.bytes = p->early->bytes[1];
    sum.copy = p->early->copy[1];
    sum.price = p->early->nothing;
    sum.moved = NULL;
    sum.dies = soon + 1;
    w->a->net.tensor[w->a->net.ntensor++] = sum;
}

static void
tensor_of(struct planner *w, struct value *v)
{
    struct net *n = &w->a->net;
    struct net_tensor *t = &n->tensor[n->ntensor++];
    struct arena tmp = {0};
    int32_t ncand = n->node[v->maker].ncand, most = 0, end = running(n->nnode);
    bool parts = v->holds == HOLDS_PARTS;
    end_before(w, v);
    *t = (struct net_tensor){.maker = v->maker, .born = parts ? 0 : v->born, .dies = parts ? end : MIN(v->dies, end)};
    for (const struct reader *r = v->reader; r; r = r->next) {
        most += n->node[r->node].ncand;
        t->nuse++;
    }
    const struct layout **from = ARENA_ARRAY(&tmp, const struct layout *, ncand);
    const struct layout **to = ARENA_ARRAY(&tmp, const struct layout *, most + 1);
    struct net_use *use = ARENA_ARRAY(&w->a->arena, struct net_use, t->nuse + 1), *u = use;
    t->form = forms(w, ncand, v->layout, v->stride, from, &t->nfrom);
    for (const struct reader *r = v->reader; r; r = r->next, u++) {
        u->node = r->node;
        u->begin = MIN(r->begin, end - 1);
        u->end = MIN(r->dies, end);
        u->form = forms(w, n->node[r->node].ncand, r->layout, r->stride, to, &t->nto);
    }
    t->use = use;
    struct priced *p = NULL;
    if (t->nuse) {
        p = prices(w, v, from, t->nfrom, to, t->nto);
        t->price = p->price;
        t->moved = p->moved;
        t->copy = p->copy;
        t->credit = v->times > 1 ? w->credit : NULL;
    }
    if (v->holds == HOLDS_REGISTER || parts) t->bytes = price_row(w, v, from, t->nfrom, parts ? v->times : 1);
    if (v->holds == HOLDS_REGISTER && v->nreg > 1) {
        struct net_tensor *others = &n->tensor[n->ntensor++];
        *others = (struct net_tensor){.maker = t->maker, .form = t->form, .nfrom = t->nfrom};
        others->bytes = price_row(w, v, from, t->nfrom, v->nreg - 1);
        others->born = n->round_begin;
        others->dies = n->round_end;
    }
    sum_early(w, t, v, p, from, to);
    arena_fini(&tmp);
}

static int
build_net(struct planner *w)
{
    struct program *p = w->p;
    struct assigned *a = w->a;
    int32_t capacity = p->nleaf + p->nnode + p->nroot + 1;
    a->net.node = ARENA_ARRAY(&a->arena, struct net_node, capacity);
    a->net.tensor = ARENA_ARRAY(&a->arena, struct net_tensor, 2 * (p->nnode * OP_OUT + p->nleaf) + 1);
    a->net.memory_limit = w->o->memory_limit;
    a->net.nlevel = MAX_AXIS;
    a->nprog = p->nnode;
    a->node = ARENA_ARRAY(&a->arena, int32_t, p->nnode + 1);
    a->leaf = ARENA_ARRAY(&a->arena, int32_t, p->nleaf + 1);
    a->root = ARENA_ARRAY(&a->arena, int32_t, p->nroot + 1);
    a->candidate = ARENA_ARRAY(&a->arena, const struct assign_candidate *, capacity);
    w->list = ARENA_ARRAY(&a->arena, const struct candidate_list *, capacity);
    w->form = ARENA_ARRAY(&a->arena, const struct layout *const *, capacity);
    w->start = ARENA_ARRAY(&a->arena, int32_t, capacity);
    w->whole = ARENA_ARRAY(&a->arena, int32_t, capacity);
    w->moment = ARENA_ARRAY(&a->arena, uint16_t, capacity);
    w->value = ARENA_ARRAY(&a->arena, struct value, p->nnode * OP_OUT + p->nleaf + 1);
    if (p->pieces > 1) TRY(stages_find(&w->stages, p, &a->arena));
    for (int32_t i = 0; i < p->nleaf; i++)
        if (w->o->leaf[i].follows < 0) TRY(leaf_node(w, i));
    for (int32_t i = 0; i < p->nleaf; i++)
        if (w->o->leaf[i].follows >= 0) TRY(leaf_node(w, i));
    for (int32_t i = 0; i < p->nnode; i++) TRY(program_node(w, i));
    w->in_pieces = false;
    for (int32_t k = 0; k < p->nroot; k++) root_node(w, k);
    planner_lifetimes(w);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int k = 0; k < OP_OUT && a->node[i] >= 0; k++)
            if (w->value[i * OP_OUT + k].end) tensor_of(w, &w->value[i * OP_OUT + k]);
    for (int32_t i = 0; i < p->nleaf; i++) tensor_of(w, &w->value[p->nnode * OP_OUT + i]);
    return 0;
}

/* ---- the choice with replicated layouts, from which the search may start ---- */

/* Returns the node's candidate in which all layouts are replicated. If there is none, returns the candidate with
 * the traced layouts. */
static int32_t
whole_of(const struct planner *w, int32_t node)
{
    const struct net_node *v = &w->a->net.node[node];
    const struct candidate_list *l = w->list[node];
    for (int32_t k = 0; k < v->ncand; k++) {
        bool whole = v->cost[k] < NET_NEVER && (l || candidate_is_whole(w->form[node][k]));
        for (int32_t i = 0; l && whole && i < l->nlayout; i++) whole = candidate_is_whole(l->candidate[k].layout[i]);
        if (whole) return k;
    }
    return w->start[node];
}

/* ---- writing back ---- */

static const struct layout *
chosen(const struct planner *w, const struct value *v)
{
    return v->layout[(int64_t)w->a->solved.choice[v->maker] * v->stride];
}

static void
rewrite_node(struct planner *w, int32_t i)
{
    struct prog_node *n = &w->p->node[i];
    const struct layout **want = ARENA_ARRAY(&w->p->arena, const struct layout *, n->nin + 1);
    const struct layout **layout = ARENA_ARRAY(&w->p->arena, const struct layout *, n->nout);
    int32_t node = w->a->node[i];
    if (node < 0) {
        want[0] = layout[0] = chosen(w, value_of(w, (struct ref){.kind = REF_NODE, .index = i}));
    } else if (w->list[node]) {
        const struct layout *const *l = w->a->candidate[node][w->a->solved.choice[node]].layout;
        memcpy(want, l, sizeof *want * (size_t)n->nin);
        memcpy(layout, l + n->nin, sizeof *layout * (size_t)n->nout);
    } else {
        layout[0] = w->form[node][w->a->solved.choice[node]];
        if (n->op->flags & OP_MOVE) want[0] = layout[0];
    }
    n->want = want;
    n->layout = layout;
}

static void
rewrite_root(struct planner *w, int32_t k, const struct layout *was, int32_t *room)
{
    struct prog_root *r = &w->p->root[k];
    const struct assign_root *o = &w->o->root[k];
    struct ref source = program_source(w->p, r->ref);
    const struct layout *must = o->leaf >= 0 ? w->p->leaf[o->leaf].layout : o->fixed ? was : NULL;
    const struct layout *is = ref_layout(w->p, source);
    r->overwrites_leaf = -1;
    if (must && is != must) {
        r->ref = rewrite_move(w->p, room, source, must);
    } else if (must) {
        if (source.kind == REF_NODE) r->ref = source;
        r->overwrites_leaf = rewrite_over(w->p, source, o->leaf);
    }
}

static void
rewrite(struct planner *w)
{
    struct program *p = w->p;
    int32_t nnode = p->nnode, room = nnode;
    const struct layout **was = ARENA_ARRAY(&w->a->arena, const struct layout *, p->nroot + 1);
    for (int32_t k = 0; k < p->nroot; k++) was[k] = ref_layout(p, p->root[k].ref);
    for (int32_t i = 0; i < p->nleaf; i++) p->leaf[i].layout = chosen(w, &w->value[p->nnode * OP_OUT + i]);
    for (int32_t i = 0; i < nnode; i++) rewrite_node(w, i);
    for (int32_t k = 0; k < p->nroot; k++) rewrite_root(w, k, was[k], &room);
}

/* Returns the choice that the caller found earlier (options.known); NULL if it does not have a valid candidate for
 * every node of this net. */
static const int32_t *
known_start(const struct planner *w)
{
    const struct net *n = &w->a->net;
    bool known = w->o->known && w->o->nknown == n->nnode;
    for (int32_t i = 0; i < n->nnode && known; i++) known = w->o->known[i] < n->node[i].ncand;
    return known ? w->o->known : NULL;
}

/* Returns the choice in which all layouts are replicated. */
static const int32_t *
whole_start(const struct planner *w)
{
    for (int32_t i = 0; i < w->a->net.nnode; i++) w->whole[i] = whole_of(w, i);
    return w->whole;
}

/* Builds the cost network of the program. The caller frees *out and the arena of the network. */
static int
begin_planner(struct program *p, struct atlas *at, const struct assign_options *o, struct planner **out)
{
    struct planner *w = *out = must_alloc(sizeof *w);
    struct assigned *a = must_alloc(sizeof *a);
    *w = (struct planner){.p = p, .atlas = at, .o = o, .a = a};
    a->mode = o->mode;
    if (o->links) a->links = arena_dup(&a->arena, o->links, sizeof *o->links);
    w->kept.arena = w->priced.arena = &a->arena;
    struct arena tmp = {0};
    struct hash_table known = {.arena = &tmp};
    struct assign_prices prices = {.cost = &p->cost, .links = o->links, .known = &known};
    move_table_begin(&w->pairs, &tmp, &prices);
    candidates_begin(&w->cand, &a->arena, at, p);
    int status = build_net(w);
    w->pairs = (struct pairs){0};
    arena_fini(&tmp);
    return status;
}

int
assign_layouts(struct program *p, struct atlas *at, const struct assign_options *o, struct assigned **out)
{
    struct planner *w;
    int status = begin_planner(p, at, o, &w);
    bool built = !status;
    struct assigned *a = w->a;
    struct solve_options s = {.mode = a->mode, .start = w->start, .stop = o->stop, .arg = o->arg, .proof = o->proof};
    s.quick = o->quick;
    if (!status) {
        const int32_t *known = known_start(w);
        s.other = known ? known : whole_start(w);
        if (known && a->mode == SOLVE_GREEDY) s.start = known;
    }
    int64_t start = computed_ns();
    if (!status) status = net_solve(&a->arena, &a->net, &s, &a->solved);
    a->search_ns = computed_ns() - start;
    if (!status) {
        a->solved.bound = MIN(a->solved.cost, MAX(a->solved.bound, o->bound));
        a->form = ARENA_ARRAY(&a->arena, const struct layout *const *, a->net.nnode);
        memcpy(a->form, w->form, sizeof *a->form * (size_t)a->net.nnode);
        rewrite(w);
    }
    free(w);
    if (status && o->least) *o->least = (struct assign_least){a->solved.peak, a->solved.floor};
    if (status == E_PLAN && built) status = constraint_conflict_report(p, a, status);
    if (status) assigned_free(&a);
    *out = a;
    return status;
}

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
