/* rewrite.c - inserts and removes moves and nodes, and finds values that may be overwritten in place. */
#include "actors/plan/rewrite/rewrite.h"

#include "kernels/op/base/table.h"

#include <stdlib.h>
#include <string.h>

struct ref
rewrite_move(struct program *p, int32_t *room, struct ref r, const struct layout *to)
{
    ARENA_GROW(&p->arena, p->node, p->nnode + 1, *room);
    struct type *t = ARENA_NEW(&p->arena, struct type);
    *t = ref_type(p, r);
    struct prog_node *n = &p->node[p->nnode];
    *n = r.kind == REF_NODE ? p->node[r.index] : (struct prog_node){0};
    n->op = op_find("to_global");
    n->attr = NULL;
    n->nin = n->nout = 1;
    n->in = arena_dup(&p->arena, &r, sizeof r);
    n->want = n->layout = arena_dup(&p->arena, &to, sizeof to);
    n->type = t;
    n->accumulate = n->append = n->asked = false;
    n->recompute = 0;
    n->strategy = NULL;
    n->name = n->op->name;
    if (r.kind == REF_NODE && p->node[r.index].accumulate) n->piece = false;
    return (struct ref){.kind = REF_NODE, .index = p->nnode++};
}

int32_t
rewrite_over(const struct program *p, struct ref r, int32_t leaf)
{
    if (r.kind != REF_NODE || leaf < 0) return -1;
    const struct prog_node *n = &p->node[r.index];
    if (!(n->op->flags & OP_INPLACE) || r.out >= n->op->ninplace) return -1;
    struct ref old = program_source(p, n->in[r.out]);
    if (old.kind != REF_LEAF || old.index != leaf || n->want[r.out] != n->layout[r.out]) return -1;
    if (p->leaf[leaf].layout != n->layout[r.out]) return -1;
    return type_equal(&p->leaf[leaf].type, &n->type[r.out]) ? leaf : -1;
}

int32_t
rewrite_updated(const struct program *p, struct ref r, const int32_t *root_leaf)
{
    r = program_source(p, r);
    for (int32_t k = 0; r.kind == REF_LEAF && k < p->nroot; k++)
        if (root_leaf[k] == r.index) return r.index;
    return -1;
}

void
rewrite_land(struct program *p, const int32_t *root_leaf)
{
    for (int32_t k = 0; k < p->nroot; k++) {
        struct prog_root *r = &p->root[k];
        if (root_leaf[k] < 0 || r->overwrites_leaf >= 0 || r->join || r->ref.kind != REF_NODE) continue;
        const struct prog_node *n = &p->node[r->ref.index];
        const struct prog_leaf *f = &p->leaf[root_leaf[k]];
        bool moved = n->op->flags & OP_MOVE && !n->accumulate && n->layout[0] == f->layout;
        if (moved && type_equal(&n->type[0], &f->type)) r->overwrites_leaf = root_leaf[k];
    }
}

/* ---- more nodes ---- */

void
rewrite_operand(struct program *p, int32_t i, int32_t k, struct ref r)
{
    struct ref *in = arena_dup(&p->arena, p->node[i].in, sizeof *in * (size_t)p->node[i].nin);
    in[k] = r;
    p->node[i].in = in;
}

static int
compare_insert_places(const void *x, const void *y)
{
    const struct insertion *a = *(const struct insertion *const *)x, *b = *(const struct insertion *const *)y;
    return a->before != b->before ? (a->before > b->before) - (a->before < b->before) : (a > b) - (a < b);
}

/* Returns the node with renumbered operands: a result of node k becomes a result of node index[k]. */
static struct prog_node
renamed(struct program *p, const struct prog_node *n, const int32_t *index)
{
    struct prog_node to = *n;
    struct ref *in = arena_dup(&p->arena, n->in, sizeof *in * (size_t)n->nin);
    for (int32_t k = 0; k < n->nin; k++)
        if (in[k].kind == REF_NODE) in[k].index = index[in[k].index];
    to.in = in;
    if (n->again) to.again = index[n->again - 1] + 1;
    if (n->recompute) to.recompute = index[n->recompute - 1] + 1;
    return to;
}

/* Merges the list of insertions into the program. index: new index of each node; first the nodes of the program,
 * then the nodes of the list. */
static void
merge_insertions(struct program *p, const struct insertion *list, int32_t n, const int32_t *index)
{
    int32_t all = p->nnode + n;
    struct prog_node *node = ARENA_ARRAY(&p->arena, struct prog_node, all + 1);
    for (int32_t i = 0; i < all; i++)
        node[index[i]] = renamed(p, i < p->nnode ? &p->node[i] : &list[i - p->nnode].node, index);
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) p->root[k].ref.index = index[p->root[k].ref.index];
    p->node = node;
    p->nnode = all;
}

const int32_t *
rewrite_insert(struct program *p, const struct insertion *list, int32_t n)
{
    int32_t all = p->nnode + n, *index = ARENA_ARRAY(&p->arena, int32_t, all + 1), at = 0, next = 0;
    const struct insertion **order = ARENA_ARRAY(&p->arena, const struct insertion *, n + 1);
    for (int32_t k = 0; k < n; k++) order[k] = &list[k];
    if (n) qsort(order, (size_t)n, sizeof *order, compare_insert_places);
    for (int32_t i = 0; i <= p->nnode; i++) {
        for (; next < n && order[next]->before == i; next++) index[p->nnode + (order[next] - list)] = at++;
        if (i < p->nnode) index[i] = at++;
    }
    merge_insertions(p, list, n, index);
    return index;
}

void
rewrite_order(struct program *p, const int32_t *index)
{
    merge_insertions(p, NULL, 0, index);
}

void
rewrite_sweep(struct program *p)
{
    bool *wanted = ARENA_ARRAY(&p->arena, bool, p->nnode + 1);
    int32_t *index = ARENA_ARRAY(&p->arena, int32_t, p->nnode + 1), n = 0;
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) wanted[p->root[k].ref.index] = true;
    for (int32_t i = p->nnode - 1; i >= 0; i--)
        for (int32_t k = 0; k < p->node[i].nin && wanted[i]; k++)
            if (p->node[i].in[k].kind == REF_NODE) wanted[p->node[i].in[k].index] = true;
    for (int32_t i = 0; i < p->nnode; i++) index[i] = wanted[i] ? n++ : -1;
    for (int32_t i = 0; i < p->nnode; i++) {
        struct prog_node *node = &p->node[i];
        if (node->recompute && !wanted[node->recompute - 1]) node->recompute = i + 1;
        if (wanted[i]) p->node[index[i]] = renamed(p, node, index);
    }
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) p->root[k].ref.index = index[p->root[k].ref.index];
    p->nnode = n;
}
