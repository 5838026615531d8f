/* logical_not.c - true where x is zero. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] == 0; });

INTEGERS({ return x[0] == 0; });

const struct op op_logical_not = {
    .name = "logical_not",
    .doc = "y = (x == 0)",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_BOOL,
    .grad.build = b_zero_grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_NOT},
    .flags = OP_ELTWISE,
    .sample = {"bool{4,6}", "f32{7}", "i64{5}<2"},
};
