/* scatter_add.c - adds elements of src to x, at positions along an axis. If src is larger than ids, only the first
 * elements of src are used, as in PyTorch. For 16-bit floats, the sums are f32, and x is added in f32. */
#include "kernels/op/gather.h"

extern const struct op op_gather_grad;

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    const struct type *ids = &c->in[1], *src = &c->in[2];
    TRY(gather_check(c));
    if (src->ndim != ids->ndim)
        return call_fail(E_SHAPE, c, "src must have as many dimensions as ids, %d, found %d", ids->ndim, src->ndim);
    struct val *part = in[2];
    for (int d = 0; d < ids->ndim; d++) {
        if (ids->dim[d] > src->dim[d])
            return call_fail(E_SHAPE, c, "dimension %d of ids has size %lld, which must not exceed that of src, %lld",
                             d, (long long)ids->dim[d], (long long)src->dim[d]);
        if (ids->dim[d] < src->dim[d]) part = b_slice(b, part, d, 0, ids->dim[d], 1);
    }
    struct val *x = b_wide(b, in[0]);
    if (!x || !part) return (int)err_last();
    struct val *add[] = {x, in[1], b_cast(b, part, x->type.dtype)};
    out[0] = b_cast(b, b_add(b, x, b_call(b, &op_gather_grad, 3, add, c->attr)), c->in[0].dtype);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_scatter_add = {
    .name = "scatter_add",
    .doc = "y = x with src[i, j] added at y[i, ids[i, j]], along axis",
    .errors = "ids must have as many dimensions as x and src\n"
              "a size of ids must not exceed that of src, nor, except along axis, that of x\n"
              "an id must be from 0 to the size of x along axis - 1",
    .in = {{"x"}, {"ids", IN_INDEX}, {"src"}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that ids index"}},
    .shape.dtype = OUT_IN0,
    .build = build,
    .sample = {"f32{4,6} i64{4,3}<6 f32{4,3} axis=1", "f32{5,4} i64{3,2}<5 f32{7,2} axis=0"},
};
