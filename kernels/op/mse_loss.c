/* mse_loss.c - the mean squared error: the mean of (x - y)^2. */
#include "kernels/op/base/op_impl.h"

extern const struct op op_mean;

enum { REDUCTION };
enum { MEAN, SUM, NONE };

/* Checks that x and y have one shape. With shapes {n, 1} and {n}, broadcasting would compare each x with each y. */
static int
check_shapes(const struct call *c)
{
    const struct type *x = &c->in[0], *y = &c->in[1];
    if (shape_equal(x, y)) return 0;
    struct str a = {0}, b = {0};
    shape_print(x, &a);
    shape_print(y, &b);
    int code = call_fail(E_SHAPE, c, "x and y must have the same shape, found %s and %s; use reshape%s, or expand y",
                         str_text(&a), str_text(&b), str_text(&a));
    str_free(&a);
    str_free(&b);
    return code;
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    TRY(check_shapes(c));
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
    .result = "a tensor without dimensions; with reduction \"none\", a tensor of x's shape",
    .errors = "x and y must have the same shape: they do not broadcast",
    .in = {{"x", IN_FLOAT}, {"y", IN_FLOAT}},
    .attr = {[REDUCTION] = {"reduction", ATTR_TEXT, .text = "mean|sum|none", .doc = "reduction of the squares"}},
    .build = build,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} f32{4,6}", "f32{7} f32{7} reduction=sum", "f32{2,3} f32{2,3} reduction=none"},
};
