/* stack.c - joins tensors of one shape along a new axis. */
#include "kernels/op/base/op_impl.h"

extern const struct op op_concat, op_unsqueeze;

enum { AXIS, MOST = 256 };

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    assert(c->nin <= MOST);
    TRY(infer_one_more(c, NULL));
    struct val *line[MOST];
    struct attr attr[OP_ATTR], one[OP_ATTR];
    op_attr_defaults(&op_unsqueeze, one);
    attr_int(&op_unsqueeze, one, "axis", c->attr[AXIS].i);
    for (int k = 0; k < c->nin; k++) {
        if (!shape_equal(&c->in[k], &c->in[0])) return call_fail(E_SHAPE, c, "operands must have the same shape");
        line[k] = b_call(b, &op_unsqueeze, 1, (struct val *[]){in[k]}, one);
    }
    op_attr_defaults(&op_concat, attr);
    attr_int(&op_concat, attr, "axis", c->attr[AXIS].i);
    out[0] = b->failed ? NULL : b_call(b, &op_concat, c->nin, line, attr);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_stack = {
    .name = "stack",
    .doc = "y = the operands, joined along a new dimension",
    .result = "a tensor with one more dimension, whose size is the number of tensors",
    .errors = "the tensors, at most 65536, must have the same shape, of at most 7 dimensions",
    .in = {{"x", IN_LIST}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS_NEW, .i = 0, .doc = "position of the new dimension"}},
    .build = build,
    .rewrite.joins_with = &op_concat,
    .sample = {"f32{4,6} f32{4,6}", "f32{2,3} f32{2,3} f32{2,3} axis=2", "f32{} f32{}"},
};
