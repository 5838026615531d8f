/* rewrite.c - moves, and what may be written in place. */
#include "actors/plan/rewrite.h"

#include "kernels/op/table.h"

#include <string.h>

struct ref
rewrite_source(const struct program *p, struct ref r)
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

struct ref
rewrite_move(struct program *p, struct ref r, const struct layout *to)
{
    struct prog_node *more = ARENA_ARRAY(&p->arena, struct prog_node, p->nnode + 1);
    struct type *t = ARENA_NEW(&p->arena, struct type);
    memcpy(more, p->node, sizeof *more * (size_t)p->nnode);
    p->node = more;
    *t = ref_type(p, r);
    struct prog_node *n = &p->node[p->nnode];
    if (r.kind == REF_NODE) *n = p->node[r.index];
    n->op = op_find("to_global");
    n->attr = NULL;
    n->nin = n->nout = 1;
    n->in = arena_dup(&p->arena, &r, sizeof r);
    n->want = n->layout = arena_dup(&p->arena, &to, sizeof to);
    n->type = t;
    n->accumulate = n->asked = false;
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
    struct ref old = rewrite_source(p, n->in[r.out]);
    if (old.kind != REF_LEAF || old.index != leaf || n->want[r.out] != n->layout[r.out]) return -1;
    if (p->leaf[leaf].layout != n->layout[r.out]) return -1;
    return type_equal(&p->leaf[leaf].type, &n->type[r.out]) ? leaf : -1;
}
