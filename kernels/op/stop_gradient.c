/* stop_gradient.c - returns x, but as a constant for differentiation. Example: a softmax subtracts the maximum
 * from its logits; this does not change the result, so the maximum needs no gradient. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0]; });

const struct op op_stop_gradient = {
    .name = "stop_gradient",
    .doc = "y = x, whose derivative is 0",
    .in = {{"x", IN_FLOAT}},
    .shape.make_rule = rule_same,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = b_zero_grad,
    .eltwise = {.f = reals, .f_text = reals_text, .tile = TILE_COPY},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6}", "f32{7}", "bf16{3,2}"},
};
