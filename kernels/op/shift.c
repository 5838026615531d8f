/* shift.c - moves the shards of a tensor around a mesh axis (rille.per_rank): a ring exchange.
 *
 * The tensor is split along `axis` over one mesh axis into equal shards. The rank with coordinate c of the mesh axis
 * receives the shard of coordinate c - ranks (modulo the axis size). Boxing (redistribution) does this: it moves the
 * operand to a placement with the same devices in another order. On each device, the result is a view of the moved
 * operand. */
#include "kernels/op/base/op_impl.h"

#include <string.h>

enum { AXIS, MESH, RANKS };

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    UNUSED(c);
    for (int d = 0; d < in->ndim; d++) out->stride[d] = in->stride[d];
    *skip = 0;
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct attr attr[OP_ATTR];
    if (!b_wants(n, 0)) return;
    memcpy(attr, n->attr, sizeof *attr * (size_t)op_nattr(n->op));
    attr[RANKS].i = -attr[RANKS].i;
    din[0] = b_call(b, n->op, 1, dout, attr);
}

const struct op op_shift = {
    .name = "shift",
    .doc = "y = x; each rank receives the shard of another rank",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that is split"},
             [MESH] = {"mesh_axis", ATTR_INT, .doc = "axis of the mesh"},
             [RANKS] = {"ranks", ATTR_INT, .i = 1, .doc = "number of ranks by which shards move"}},
    .shape.make_rule = rule_same,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = grad,
    .host.view = view,
    .flags = OP_VIEW | OP_HIDDEN | OP_SHIFT,
    .sample = {"f32{4,6} axis=0", "i64{5} axis=0 ranks=2"},
};
