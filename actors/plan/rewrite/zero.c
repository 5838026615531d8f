/* zero.c - shards updates over the ranks that hold replicas of a parameter. */
#include "actors/plan/rewrite/zero.h"

#include "actors/plan/rewrite/rewrite.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

/* Sets *out to layout l, with dimension 0 also split over the mesh axes of the set `axes`. These axes are
 * replicated in l. The axes that already split dimension 0 in l come first in the order of splitting. Their unit holds
 * for the other axes too, because a dimension has one unit. */
static int
sliced(struct atlas *at, const struct layout *l, uint32_t axes, const struct layout **out)
{
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    int n = 0, naxis = l->place->naxis;
    int32_t unit = 0;
    bool any = false;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < naxis; k++) {
            int a = l->order[k];
            bool whole = l->sbp[a].kind == SBP_B && l->place->axis[a] > 1 && axes >> a & 1;
            if (whole != (pass == 1)) continue;
            if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == 0) unit = MAX(unit, l->sbp[a].unit);
            sbp[a] = whole ? (struct sbp){.kind = SBP_S, .unit = unit} : l->sbp[a];
            order[n++] = (uint8_t)a;
            any = any || whole;
        }
    *out = l;
    return any ? layout_new(at, l->place, sbp, order, out) : 0;
}

/* Returns a bit mask of the mesh axes on which the update's gradient is a pending reduction. On these axes a sliced
 * update costs no more than a replicated update, because the gradient must be reduced anyway. If there are no such
 * axes, returns all axes. */
static uint32_t
axes_of(const struct program *p, const struct prog_node *n, const int32_t *root_leaf)
{
    uint32_t axes = 0;
    for (int k = 1; k < n->nin; k++) {
        struct type type = ref_type(p, n->in[k]);
        if (!n->want[k] || !shape_equal(&type, &n->type[0]) || rewrite_updated(p, n->in[k], root_leaf) >= 0) continue;
        const struct layout *l = ref_layout(p, program_source(p, n->in[k]));
        for (int a = 0; a < l->place->naxis; a++)
            if (l->sbp[a].kind == SBP_P) axes |= UINT32_C(1) << a;
    }
    return axes ? axes : UINT32_MAX;
}

static int
slice_update(struct program *p, struct atlas *at, int32_t i, int level, const int32_t *root_leaf)
{
    struct prog_node *n = &p->node[i];
    const struct type *t = &n->type[0];
    const struct layout *l;
    if (t->ndim == 0 || layout_has_partial(n->layout[0])) return 0;
    TRY(sliced(at, n->layout[0], axes_of(p, n, root_leaf), &l));
    if (l == n->layout[0]) return 0;
    struct ref *in = arena_dup(&p->arena, n->in, sizeof *in * (size_t)n->nin);
    const struct layout **want = arena_dup(&p->arena, n->want, sizeof *want * (size_t)n->nin);
    const struct layout **layout = arena_dup(&p->arena, n->layout, sizeof *layout * (size_t)n->nout);
    for (int k = 0; k < n->nin; k++) {
        struct type type = ref_type(p, n->in[k]);
        if (!want[k] || !shape_equal(&type, t)) continue;
        int32_t state = k > 0 ? rewrite_updated(p, n->in[k], root_leaf) : -1;
        if (state >= 0) p->leaf[state].layout = l;
        if (state >= 0 || level > 1) in[k] = program_source(p, in[k]);
        want[k] = l;
    }
    for (int k = 0; k < n->nout; k++)
        if (shape_equal(&n->type[k], t)) layout[k] = l;
    n->in = in;
    n->want = want;
    n->layout = layout;
    return 0;
}

/* Inserts moves that convert new versions back to the layouts of their variables. */
static void
bring_back(struct program *p, const int32_t *root_leaf)
{
    int32_t room = p->nnode;
    for (int32_t k = 0; k < p->nroot; k++) {
        if (root_leaf[k] < 0) continue;
        struct ref source = program_source(p, p->root[k].ref);
        const struct layout *must = p->leaf[root_leaf[k]].layout;
        if (ref_layout(p, source) == must) {
            p->root[k].ref = source;
            p->root[k].overwrites_leaf = rewrite_over(p, source, root_leaf[k]);
        } else {
            p->root[k].ref = rewrite_move(p, &room, source, must);
            p->root[k].overwrites_leaf = -1;
        }
    }
}

int
zero_layouts(struct program *p, struct atlas *at, int level, const int32_t *root_leaf)
{
    for (int32_t i = 0; i < p->nnode; i++)
        if (p->node[i].op->flags & OP_UPDATE) TRY(slice_update(p, at, i, level, root_leaf));
    bring_back(p, root_leaf);
    return 0;
}
