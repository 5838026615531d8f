/* tril.c - the lower triangle of matrices: zero above a diagonal. */
#include "kernels/op/triangle.h"

#include <string.h>

enum { DIAGONAL };

int
triangle_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[0].ndim < 2) return call_fail(E_SHAPE, c, "x must have 2 dimensions at least, found %d", c->in[0].ndim);
    return 0;
}

int
triangle_run(const struct kcall *k, bool upper)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    int row = x->ndim - 2, col = x->ndim - 1;
    int64_t n = x->dim[col], count = n ? view_numel(x) / n : 0, bytes = (int64_t)dtype_bytes(x->dtype);
    int64_t most = (int64_t)1 << 62, diagonal = MAX(-most, MIN(most, k->call->attr[DIAGONAL].i));
    for (int64_t r = 0; r < count; r++) {
        /* The first local column beyond the diagonal. */
        int64_t i = x->offset[row] + r % x->dim[row] - x->offset[col] + diagonal;
        int64_t edge = MAX(0, MIN(n, upper ? i : i + 1)), lo = upper ? edge : 0, hi = upper ? n : edge;
        char *to = (char *)y->data + r * n * bytes;
        memset(to, 0, (size_t)(n * bytes));
        memcpy(to + lo * bytes, (const char *)x->data + (r * n + lo) * bytes, (size_t)((hi - lo) * bytes));
    }
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return triangle_run(k, false);
}

static int
ref(const struct kcall *k)
{
    return triangle_run(k, false);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0) && dout[0]) din[0] = b_call(b, &op_tril, 1, dout, n->attr);
}

static const struct kernel_row rows[] = {{"copy", .dense_in = true, .run = run}, {NULL}};

const struct op op_tril = {
    .name = "tril",
    .doc = "y[i, j] = x[i, j] where j <= i + diagonal, else 0",
    .in = {{"x"}},
    .attr = {[DIAGONAL] = {"diagonal", ATTR_INT,
                           .doc = "the last one that is kept, counted from the main one upwards"}},
    .make_rule = rule_same,
    .infer = triangle_infer,
    .dtype = OUT_IN0,
    .linear = "0",
    .increasing = "0",
    .grad = grad,
    .ref = ref,
    .kernel = rows,
    .sample = {"f32{5,5}", "f32{2,3,7} diagonal=1", "i64{6,4} diagonal=-2"},
};
