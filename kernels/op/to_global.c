/* to_global.c - converts a tensor to another layout. The operator computes nothing: boxing (redistribution) moves the
 * data (boxing/box.h).
 *
 * The requested layout is a property of the result, not an attribute. The gradient has the result's layout; it is
 * boxed to the operand's layout when it is added to other gradients of the operand. */
#include "kernels/op/base/op_impl.h"

#include <string.h>

static int
ref(const struct kcall *k)
{
    if (view_numel(&k->out[0]) > 0)
        memcpy(k->out[0].data, k->in[0].data, (size_t)view_numel(&k->out[0]) * dtype_bytes(k->out[0].dtype));
    return 0;
}

const struct op op_to_global = {
    .name = "to_global",
    .doc = "y = x on another placement or in another layout",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = b_same_grad,
    .host.ref = ref,
    .flags = OP_MOVE,
    .sample = {"f32{4,6}", "i64{5}"},
};
