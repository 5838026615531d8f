/* program.c - what is read off a program, and its end. */
#include "actors/plan/program.h"

#include <stdlib.h>

struct type
ref_type(const struct program *p, struct ref r)
{
    switch (r.kind) {
    case REF_NODE: return p->node[r.index].type[r.out];
    case REF_LEAF: return p->leaf[r.index].type;
    case REF_NUMBER: return *p->number[r.index];
    default: return (struct type){0};
    }
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

void
program_free(struct program **gp)
{
    struct program *g = *gp;
    if (!g) return;
    arena_fini(&g->arena);
    free(g);
    *gp = NULL;
}

struct call *
program_call(const struct program *p, const struct prog_node *n, struct arena *a)
{
    struct call *c = ARENA_NEW(a, struct call);
    struct type *in = ARENA_ARRAY(a, struct type, n->nin);
    for (int i = 0; i < n->nin; i++) in[i] = ref_type(p, n->in[i]);
    *c = (struct call){.op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .attr = n->attr, .layout = n->want};
    c->out = arena_dup(a, n->type, sizeof(*n->type) * (size_t)n->nout);
    return c;
}
