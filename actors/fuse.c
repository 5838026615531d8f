/* fuse.c - chains of element-wise operators become one task.
 *
 * Two of them are computed together when the second reads the first as it lies:
 * same shape, same layout, same phase. A member may have other readers, if all
 * of them come after the chain's last node: the chain then shows that result
 * too. Since every reader of what is inside comes later than the end, nothing
 * that the chain reads can depend on it.
 *
 * Results inside a chain are not rounded to memory, so only dtypes that are
 * computed in themselves are joined: fused or not, the bits are the same. */
#include "actors/lower.h"

#include "runtime/device.h"

#include <string.h>

static bool
whole_dtype(enum dtype d)
{
    return d == DT_F32 || d == DT_F64 || d == DT_I64;
}

static bool
fusible(const struct prog_node *n)
{
    int kind = n->layout[0]->place->kind;
    return n->op->flags & OP_ELTWISE && n->nout == 1 && !n->accumulate && n->op->eltwise.f &&
           (kind == DEV_CPU || kind == DEV_LATE);
}

int
fuse_members(const struct lower *l, int32_t node, int32_t *member)
{
    int n = 0;
    for (int32_t i = 0; i <= node; i++)
        if (l->group[i] == node) member[n++] = i;
    return n;
}

/* Readers of node outside of the chain that ends at `end`: none before `end`? */
static bool
readers_follow(const struct lower *l, int32_t node, int32_t end)
{
    const struct program *p = l->program;
    for (int32_t i = node + 1; i < end; i++) {
        if (l->group[i] == end) continue;
        for (int32_t k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NODE && p->node[i].in[k].index == node && l->group[i] != l->group[node])
                return false;
    }
    return true;
}

bool
fuse_shown(const struct lower *l, int32_t node)
{
    const struct program *p = l->program;
    if (l->group[node] == node) return true;
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE && p->root[k].ref.index == node) return true;
    for (int32_t i = node + 1; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NODE && p->node[i].in[k].index == node && l->group[i] != l->group[node])
                return true;
    return false;
}

/* Operands that the members read from outside, and results that they show. */
static void
count_ends(const struct lower *l, const int32_t *member, int n, int *nin, int *nout)
{
    const struct program *p = l->program;
    *nin = *nout = 0;
    for (int i = 0; i < n; i++) {
        const struct prog_node *m = &p->node[member[i]];
        for (int k = 0; k < m->nin; k++)
            if (m->in[k].kind != REF_NONE &&
                !(m->in[k].kind == REF_NODE && l->group[m->in[k].index] == l->group[member[i]]))
                ++*nin;
        *nout += fuse_shown(l, member[i]);
    }
}

static bool
joins(const struct lower *l, int32_t a, int32_t b, int operand)
{
    const struct prog_node *x = &l->program->node[a], *y = &l->program->node[b];
    return l->group[a] == a && fusible(x) && x->phase == y->phase && x->piece == y->piece &&
           x->layout[0] == y->want[operand] && x->layout[0] == y->layout[0] && shape_equal(&x->type[0], &y->type[0]) &&
           whole_dtype(x->type[0].dtype);
}

/* The chain that ends at a becomes part of b's, unless that makes it too long or breaks the order. */
static void
try_join(struct lower *l, int32_t a, int32_t b)
{
    int32_t member[FUSE_STEPS], all[FUSE_STEPS];
    int nin, nout, size = l->group_size[a] + l->group_size[b];
    if (size > FUSE_STEPS) return;
    int n = fuse_members(l, a, member);
    for (int i = 0; i < n; i++)
        if (!readers_follow(l, member[i], b)) return;
    for (int i = 0; i < n; i++) l->group[member[i]] = b;
    int total = fuse_members(l, b, all);
    count_ends(l, all, total, &nin, &nout);
    if (nin <= FUSE_INPUTS && nout <= OP_OUT) {
        l->group_size[b] = size;
        return;
    }
    for (int i = 0; i < n; i++) l->group[member[i]] = a;
}

void
fuse_nodes(struct lower *l)
{
    const struct program *p = l->program;
    l->group = ARENA_ARRAY(&l->tmp, int32_t, p->nnode + 1);
    l->group_size = ARENA_ARRAY(&l->tmp, int32_t, p->nnode + 1);
    for (int32_t b = 0; b < p->nnode; b++) {
        const struct prog_node *n = &p->node[b];
        l->group[b] = b;
        l->group_size[b] = 1;
        if (!fusible(n)) continue;
        for (int k = 0; k < n->nin; k++)
            if (n->in[k].kind == REF_NODE && joins(l, n->in[k].index, b, k)) try_join(l, n->in[k].index, b);
    }
}
