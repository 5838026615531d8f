/* logical_and.c - true where x and y are nonzero. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] != 0 && x[1] != 0; });

INTEGERS({ return x[0] != 0 && x[1] != 0; });

const struct op op_logical_and = {
    .name = "logical_and",
    .doc = "y = (a != 0 and b != 0)",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.dtype = OUT_BOOL,
    .grad.build = b_zero_grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_AND},
    .flags = OP_ELTWISE,
    .sample = {"bool{4,6} bool{4,6}", "bool{4,1} bool{3,1,5}", "f32{6} f32{4,6}", "i64{3}<2 #1"},
};
