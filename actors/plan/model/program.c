/* program.c - derives properties of a program: types, updates, checks of data, sums over micro-batches. */
#include "actors/plan/model/program.h"

#include "sbp/strategy.h"

#include <stdlib.h>

const struct type *
ref_type_of(const struct program *p, struct ref r)
{
    static const struct type absent;
    switch (r.kind) {
    case REF_NODE: return &p->node[r.index].type[r.out];
    case REF_LEAF: return &p->leaf[r.index].type;
    case REF_NUMBER: return p->number[r.index];
    default: return &absent;
    }
}

int64_t
program_move_times(const struct program *p, const struct prog_node *n, struct ref r)
{
    if (n->again && n->piece) return p->pieces;
    bool piece = r.kind == REF_LEAF ? p->leaf[r.index].piece : p->node[r.index].piece && !p->node[r.index].accumulate;
    return piece ? p->pieces : 1;
}

struct type
ref_type(const struct program *p, struct ref r)
{
    return *ref_type_of(p, r);
}

const struct layout *
ref_layout(const struct program *p, struct ref r)
{
    switch (r.kind) {
    case REF_NODE: return p->node[r.index].layout[r.out];
    case REF_LEAF: return p->leaf[r.index].layout;
    default: return NULL;
    }
}

bool
ref_varies(const struct program *p, struct ref r)
{
    if (r.kind == REF_LEAF) return p->leaf[r.index].piece;
    return r.kind == REF_NODE && p->node[r.index].piece && !p->node[r.index].accumulate;
}

bool *
program_updates(const struct program *p, struct arena *a)
{
    bool *update = ARENA_ARRAY(a, bool, p->nnode + 1);
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].overwrites_leaf >= 0 && p->root[k].ref.kind == REF_NODE) update[p->root[k].ref.index] = true;
    return update;
}

/* Returns the range of element values that a node accepts, if the node validates its input data. */
static struct allowed
allowed_by(const struct program *p, int32_t i, struct arena *a)
{
    const struct call *c = program_call(p, &p->node[i], a);
    struct view *view = ARENA_ARRAY(a, struct view, c->nin + c->nout);
    struct allowed allowed = {0};
    for (int k = 0; k < c->nin; k++) view[k] = view_dense(&c->in[k], NULL);
    for (int k = 0; k < c->nout; k++) view[c->nin + k] = view_dense(&c->out[k], NULL);
    const struct kcall k = {.call = c, .in = view, .out = view + c->nin};
    c->op->host.allows(&k, &allowed);
    return allowed;
}

static bool
allow_the_same(const struct allowed *a, const struct allowed *b)
{
    return !a->after && !b->after && a->lo == b->lo && a->count == b->count && !a->also == !b->also &&
           (!a->also || *a->also == *b->also);
}

bool *
program_checks(const struct program *p, struct arena *a)
{
    bool *checks = ARENA_ARRAY(a, bool, p->nnode + 1);
    struct allowed *by = ARENA_ARRAY(a, struct allowed, p->nnode + 1);
    /* by value: 1 + the last node that validates the value; 0: none */
    int32_t *last = ARENA_ARRAY(a, int32_t, p->nleaf + p->nnode * OP_OUT + 1);
    for (int32_t i = 0; i < p->nnode; i++) {
        if (!p->node[i].op->host.say) continue;
        by[i] = allowed_by(p, i, a);
        struct ref r = p->node[i].in[by[i].operand];
        checks[i] = true;
        if (r.kind != REF_LEAF && r.kind != REF_NODE) continue;
        int32_t *before = &last[r.kind == REF_LEAF ? r.index : p->nleaf + r.index * OP_OUT + r.out];
        checks[i] = !*before || !allow_the_same(&by[*before - 1], &by[i]);
        *before = checks[i] ? 1 + i : *before;
    }
    return checks;
}

int32_t *
program_sums(const struct program *p, struct arena *a)
{
    enum { UNREAD = -2, NONE = -1 };
    int32_t *sum = ARENA_ARRAY(a, int32_t, p->nnode + 1);
    for (int32_t i = 0; i < p->nnode; i++)
        sum[i] = p->node[i].op && p->node[i].op->partial.reduce == RED_SUM && p->node[i].nout == 1 ? UNREAD : NONE;
    for (int32_t k = 0; k < p->nroot; k++) {
        struct ref r = p->root[k].ref;
        if (r.kind == REF_NODE && r.index >= 0 && r.index < p->nnode) sum[r.index] = NONE;
    }
    for (int32_t j = 0; j < p->nnode; j++)
        for (int32_t k = 0; k < p->node[j].nin; k++) {
            struct ref r = p->node[j].in[k];
            if (r.kind != REF_NODE || r.index < 0 || r.index >= j) continue;
            bool sums = p->node[j].accumulate && !p->node[j].append;
            sum[r.index] = sums && sum[r.index] == UNREAD ? j : NONE;
        }
    for (int32_t i = 0; i < p->nnode; i++) sum[i] = MAX(sum[i], NONE);
    return sum;
}

/* Returns a pointer to the bit mask of results of the node that computes r. NULL: no node computes r, or r is
 * invalid, as may happen in an unverified program. */
static uint32_t *
bits_of(const struct program *p, uint32_t *bits, struct ref r)
{
    bool is = r.kind == REF_NODE && r.index >= 0 && r.index < p->nnode && r.out < p->node[r.index].nout;
    return is ? &bits[r.index] : NULL;
}

uint32_t *
program_wide(const struct program *p, struct arena *a)
{
    uint32_t *wide = ARENA_ARRAY(a, uint32_t, p->nnode + 1), *read = ARENA_ARRAY(a, uint32_t, p->nnode + 1), *at;
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct op *op = p->node[i].op;
        if (op && op->partial.reduce == RED_SUM) wide[i] = p->node[i].nout == 1 ? 1 : op->partial.sums;
    }
    for (int32_t k = 0; k < p->nroot; k++)
        if ((at = bits_of(p, wide, p->root[k].ref))) *at &= ~(1u << p->root[k].ref.out);
    for (int32_t j = 0; j < p->nnode; j++) {
        bool sums = p->node[j].accumulate && !p->node[j].append && p->node[j].type[0].dtype == DT_F32;
        for (int32_t k = 0; k < p->node[j].nin; k++) {
            struct ref r = p->node[j].in[k];
            if (!sums && (at = bits_of(p, wide, r))) *at &= ~(1u << r.out);
            if ((at = bits_of(p, read, r))) *at |= 1u << r.out;
        }
    }
    for (int32_t i = 0; i < p->nnode; i++) wide[i] &= read[i];
    return wide;
}

void
program_widen(struct program *p)
{
    struct arena a = {0};
    const uint32_t *wide = program_wide(p, &a);
    for (int32_t i = 0; i < p->nnode; i++) {
        struct prog_node *n = &p->node[i];
        if (!wide[i]) continue;
        struct type *type = arena_dup(&p->arena, n->type, sizeof *type * (size_t)n->nout);
        for (int k = 0; k < n->nout; k++)
            if (wide[i] >> k & 1 && dtype_is_half((enum dtype)type[k].dtype)) type[k].dtype = DT_F32;
        n->type = type;
    }
    arena_fini(&a);
}

static struct type
held_type(struct type t, const struct layout *l)
{
    if (l) t.dtype = (uint8_t)layout_dtype(l, (enum dtype)t.dtype);
    return t;
}

void
program_free(struct program **gp)
{
    struct program *g = *gp;
    if (!g) return;
    arena_fini(&g->arena);
    free(g);
    *gp = NULL;
}

static void *
copied(struct arena *a, const void *p, size_t size, int32_t n)
{
    return p ? arena_dup(a, p, size * (size_t)n) : NULL;
}

static void
copy_program_node(struct arena *a, struct prog_node *n)
{
    n->attr = copied(a, n->attr, sizeof *n->attr, op_nattr(n->op));
    n->in = copied(a, n->in, sizeof *n->in, n->nin);
    n->want = copied(a, n->want, sizeof *n->want, n->nin);
    n->type = copied(a, n->type, sizeof *n->type, n->nout);
    n->layout = copied(a, n->layout, sizeof *n->layout, n->nout);
    n->strategy = copied(a, n->strategy, sizeof *n->strategy, 1);
    if (n->line.file) n->line.file = arena_strdup(a, n->line.file);
}

struct program *
program_copy(const struct program *p)
{
    struct program *to = must_alloc(sizeof *to);
    struct arena *a = &to->arena;
    *to = *p;
    *a = (struct arena){0};
    to->leaf = copied(a, p->leaf, sizeof *p->leaf, p->nleaf);
    to->number = copied(a, p->number, sizeof *p->number, p->nnumber);
    to->node = copied(a, p->node, sizeof *p->node, p->nnode);
    to->root = copied(a, p->root, sizeof *p->root, p->nroot);
    to->pool = copied(a, p->pool, sizeof *p->pool, p->npool);
    for (int32_t i = 0; i < p->nnumber; i++) to->number[i] = arena_dup(a, p->number[i], sizeof **p->number);
    for (int32_t i = 0; i < p->nnode; i++) copy_program_node(a, &to->node[i]);
    return to;
}

struct call *
program_call(const struct program *p, const struct prog_node *n, struct arena *a)
{
    struct call *c = ARENA_NEW(a, struct call);
    struct type *in = ARENA_ARRAY(a, struct type, n->nin);
    for (int i = 0; i < n->nin; i++) in[i] = held_type(ref_type(p, n->in[i]), n->want[i]);
    *c = (struct call){.op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .attr = n->attr, .layout = n->want};
    c->out = ARENA_ARRAY(a, struct type, n->nout);
    for (int k = 0; k < n->nout; k++) c->out[k] = held_type(n->type[k], n->layout[k]);
    return c;
}

struct ref
program_whole(const struct program *p, struct ref r)
{
    while (r.kind == REF_NODE && p->node[r.index].op->flags & OP_VIEW) r = p->node[r.index].in[0];
    return r;
}

struct ref
program_source(const struct program *p, struct ref r)
{
    while (r.kind == REF_NODE) {
        const struct prog_node *n = &p->node[r.index];
        if (!(n->op->flags & OP_MOVE) || n->accumulate || n->asked) break;
        const struct layout *from = ref_layout(p, n->in[0]);
        if (!from || from->place != n->layout[0]->place) break;
        r = n->in[0];
    }
    return r;
}
