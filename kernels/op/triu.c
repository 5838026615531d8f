/* triu.c - the upper triangle of matrices: sets entries below a diagonal to zero. */
#include "kernels/op/lib/triangle.h"

extern const struct op op_triu;

static int
ref(const struct kcall *k)
{
    return triangle_run(k, true);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0) && dout[0]) din[0] = b_call(b, &op_triu, 1, dout, n->attr);
}

static const char element[] = BODY({ return place(NDIM - 1) - place(NDIM - 2) >= c->attr[DIAGONAL].i ? x0(at) : 0; });

const struct op op_triu = {
    .name = "triu",
    .doc = "y[i, j] = x[i, j] where j >= i + diagonal, else 0",
    .errors = "x must have at least 2 dimensions",
    .in = {{"x"}},
    .attr = {[TRIANGLE_DIAGONAL] = {"diagonal", ATTR_INT,
                                    .doc = "first diagonal that is kept; 0: the main one, 1: above it"}},
    .shape.make_rule = rule_same,
    .shape.infer = triangle_infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = grad,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = kernel_direct,
    .sample = {"f32{5,5}", "f32{2,3,7} diagonal=1", "i64{6,4} diagonal=-2"},
};
