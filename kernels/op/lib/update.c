/* update.c - reads the scale operand of optimiser updates, and replaces a scaled gradient by its two factors. */
#include "kernels/op/lib/update.h"

#include "kernels/cpu/eltwise/tile.h"

int
update_check_scale(const struct call *c, int scale)
{
    if (c->nin <= scale || absent(&c->in[scale]) || c->in[scale].ndim == 0) return 0;
    return call_fail(E_SHAPE, c, "%s must have no dimensions", c->op->in[scale].name);
}

double
update_scale(const struct view *scale)
{
    return scale->dtype == DT_NONE ? 1 : elem_get_f(scale->dtype, scale->data, 0);
}

int
update_absorb(struct val **in, int nin, int g, int scale)
{
    const struct val *product = in[g];
    const struct node *n = product ? product->node : NULL;
    if ((nin > scale && in[scale]) || !n || n->op->eltwise.tile != TILE_MUL || product->store || n->state != NODE_NEW)
        return nin;
    struct val *gradient = n->in[0], *by = n->in[1];
    if (by->is_number || by->type.ndim > 0 || gradient->is_number || n->want[0] != gradient->layout) return nin;
    if (n->want[0] != product->layout || gradient->type.dtype != product->type.dtype) return nin;
    if (!shape_equal(&gradient->type, &product->type)) return nin;
    while (nin <= scale) in[nin++] = NULL;
    in[g] = gradient;
    in[scale] = by;
    return nin;
}
