/* triangle.c - computes tril and triu: copies each matrix row up to a diagonal, or from a diagonal on, and sets the
 * rest to zero. */
#include "kernels/op/lib/triangle.h"

#include <string.h>

int
triangle_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[0].ndim < 2) return call_fail(E_SHAPE, c, "x must have at least 2 dimensions, found %d", c->in[0].ndim);
    return 0;
}

int
triangle_run(const struct kcall *k, bool upper)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    int row = x->ndim - 2, col = x->ndim - 1;
    int64_t n = x->dim[col], count = n ? view_numel(x) / n : 0, bytes = (int64_t)dtype_bytes(x->dtype);
    int64_t most = (int64_t)1 << 62, diagonal = MAX(-most, MIN(most, k->call->attr[TRIANGLE_DIAGONAL].i));
    for (int64_t r = 0, since = 0; r < count && !stop_after(&since, n * bytes); r++) {
        /* Local index of the column where the diagonal crosses this row; may be outside the row. */
        int64_t i = x->offset[row] + r % x->dim[row] - x->offset[col] + diagonal;
        int64_t edge = MAX(0, MIN(n, upper ? i : i + 1)), lo = upper ? edge : 0, hi = upper ? n : edge;
        char *to = (char *)y->data + r * n * bytes;
        memset(to, 0, (size_t)(n * bytes));
        memcpy(to + lo * bytes, (const char *)x->data + (r * n + lo) * bytes, (size_t)((hi - lo) * bytes));
    }
    return 0;
}
