/* mse_loss.c - the mean of squared differences. */
#include "kernels/op/lib/op_impl.h"

extern const struct op op_mean;

enum { REDUCTION };
enum { MEAN, SUM, NONE };

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    struct val *loss = b_square(b, b_sub(b, b_wide(b, in[0]), b_wide(b, in[1])));
    switch (c->attr[REDUCTION].i) {
    case MEAN: loss = b_reduce(b, &op_mean, loss, NULL, 0, false); break;
    case SUM: loss = b_sum(b, loss, NULL, 0, false); break;
    }
    struct type result = {.dtype = (uint8_t)dtype_promote(c->in[0].dtype, false, c->in[1].dtype, false)};
    out[0] = b_narrow(b, loss, &result);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_mse_loss = {
    .name = "mse_loss",
    .doc = "mean of (x - y)^2",
    .in = {{"x", IN_FLOAT}, {"y", IN_FLOAT}},
    .attr = {[REDUCTION] = {"reduction", ATTR_TEXT, .text = "mean|sum|none", .doc = "what becomes of the squares"}},
    .build = build,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} f32{4,6}", "f32{7} f32{1} reduction=sum", "f32{2,3} f32{3} reduction=none"},
};
