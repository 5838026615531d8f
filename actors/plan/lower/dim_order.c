/* dim_order.c - chooses the order of dimensions in which a result is stored in its register.
 *
 * Example: attention moves the head dimension in front of the positions, and back afterwards. The reshape after
 * the second transpose merges the heads with a neighbouring dimension, and would need a copy. A kernel that can
 * write in any order (OP_ANY_ORDER) avoids the copy: it stores its result in the order in which the view that
 * reads the result is dense. The other readers of the result must accept any order. */
#include "actors/plan/lower/lower.h"
#include "runtime/device/device.h"

/* Returns the node of a view operator that reads the result in the same layout; -1: there is none, or another
 * reader depends on the order of dimensions. */
static int32_t
viewer_of(const struct lower *l, int32_t node, int32_t out)
{
    const struct program *p = l->program;
    const struct prog_node *n = &p->node[node];
    int32_t reader = l->reader[node * OP_OUT + out];
    if (!(n->op->flags & OP_ANY_ORDER) || n->accumulate || l->shares[node] || reader < 0) return -1;
    const struct prog_node *r = &p->node[reader];
    bool views = r->op->flags & OP_VIEW && !r->accumulate && r->nin == 1;
    return views && r->want[0] == n->layout[out] ? reader : -1;
}

/* Sets the strides of `dense` so that its elements lie in memory in the order of `shown`, a view of the same elements
 * with permuted dimensions. Returns false if `shown` does not have the same dimensions in another order. */
static bool
turn_strides(struct view *dense, const struct view *shown)
{
    int64_t step = 1, stride[MAX_DIM];
    bool taken[MAX_DIM] = {false};
    if (view_numel(shown) != view_numel(dense) || shown->ndim != dense->ndim) return false;
    for (int j = shown->ndim - 1; j >= 0; j--) {
        int d = 0;
        while (d < dense->ndim && (taken[d] || dense->dim[d] != shown->dim[j] ||
                                   (dense->dim[d] > 1 && dense->stride[d] != shown->stride[j])))
            d++;
        if (d == dense->ndim) return false;
        taken[d] = true;
        stride[d] = step;
        step *= dense->dim[d];
    }
    for (int d = 0; d < dense->ndim; d++) dense->stride[d] = stride[d];
    return true;
}

const struct view *
dim_order_result(struct lower *l, int32_t node, int32_t out, int32_t own, const struct pval *v)
{
    const struct view *dense = v->part[own].view;
    int32_t reader = viewer_of(l, node, out);
    if (reader < 0 || view_numel(dense) == 0) return dense;
    const struct prog_node *r = &l->program->node[reader];
    struct call *c = program_call(l->program, r, &l->tmp);
    struct view lies = *dense, operand = part_placed(v, own);
    struct view shown = part_local(r->layout[0], &r->type[0], v->mine->pos[own]);
    int64_t skip = 0;
    if (r->op->host.view(c, &operand, &shown, &skip) || skip != 0 || !turn_strides(&lies, &shown)) return dense;
    if (device_kind(v->layout->place->kind)->flags & COMPILES && lies.stride[lies.ndim - 1] != 1) return dense;
    return intern_view(l, &lies);
}
