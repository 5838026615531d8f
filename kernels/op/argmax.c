/* argmax.c - the first position of the maximum along a dimension; NaN counts as the maximum.
 *
 * For a split dimension, the operator is a composite: the maximum (P(max)), then the lowest position that has this
 * value (P(min)). */
#include "kernels/op/lib/arg.h"

extern const struct op op_max;

enum { AXIS, KEEPDIM };

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    return arg_build(b, c, &op_max, in[0], out);
}

static bool
better(double x, double best)
{
    return x > best || (x != x && best == best);
}

static int
ref(const struct kcall *k)
{
    return arg_ref(k, better);
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return arg_run(k, RED_MAX);
}

static const struct kernel_variant variants[] = {{"blocks", .dense_in = true, .accepts = arg_accepts, .run = run},
                                                 {NULL}};

static const char line[] = BODY({
    const wide best = fold<greatest>((wide)x0(0), [&](element i) { return x0(i); });
    const int64_t first = fold<least>(INT64_MAX, [&](element i) {
        return x0(i) == best || (is_nan(best) && is_nan(x0(i))) ? (int64_t)i : INT64_MAX;
    });
    once([&] { y0(0, first); });
});

const struct op op_argmax = {
    .name = "argmax",
    .doc = "y = first i with x[i] = max of x along axis",
    .errors = "the searched dimension must not be empty",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS | ATTR_ABSENT,
                       .doc = "dimension to search; default: all, the elements in row-major order"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep the reduced dimension, with size 1"}},
    .shape.make_rule = arg_rule,
    .shape.infer = arg_infer,
    .shape.dtype = OUT_I64,
    .grad.build = b_zero_grad,
    .build = build,
    .host.ref = ref,
    .gpu.line = line,
    .host.kernel = variants,
    .sample = {"f32{4,6} axis=1", "f32{2,3,5} axis=1 keepdim=1", "i64{7}<4", "f32{3,4}", "f32{3,1000} axis=1"},
};
