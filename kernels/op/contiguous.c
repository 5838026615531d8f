/* contiguous.c - a dense copy of a tensor with any strides. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0]; });

INTEGERS({ return x[0]; });

const struct op op_contiguous = {
    .name = "contiguous",
    .doc = "y = x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = b_same_grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_COPY},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6}", "i64{5}", "bf16{3,2}"},
};
