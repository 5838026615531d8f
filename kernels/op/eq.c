/* eq.c - equality of two tensors, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] == x[1]; });

INTEGERS({ return x[0] == x[1]; });

const struct op op_eq = {
    .name = "eq",
    .doc = "y = (a == b)",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.dtype = OUT_BOOL,
    .build = build_comparison,
    .grad.build = b_zero_grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_EQ},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} f32{4,6}", "f32{4,6} f32{6}", "f32{4,1} f32{3,1,5}", "f32{3} #2.5", "i64{3,2}<3 i64{2}<3"},
};
