/* sign.c - the sign of each element: -1, 0 or 1. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] > 0 ? 1 : x[0] < 0 ? -1 : 0; });

INTEGERS({ return (x[0] > 0) - (x[0] < 0); });

const struct op op_sign = {
    .name = "sign",
    .doc = "y = -1 where x < 0, 1 where x > 0, else 0",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.accepts = "FI",
    .partial.increasing = "0",
    .grad.build = b_zero_grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_SIGN},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "i64{5}"},
};
