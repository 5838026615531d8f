/* rotary.c - rotary position embedding: rotates pairs of the last dimension by an angle that grows with the position
 * along the second last dimension.
 *
 *   a, b -> a cos - b sin, b cos + a sin
 *
 * a, b: a pair. A pair is entry i of the first half and entry i of the second half of the last dimension; if
 * `interleaved` is set, two neighbours. Su et al. 2021. */
#include "kernels/op/base/op_impl.h"

extern const struct op op_concat, op_stack;

enum { X, COS, SIN };
enum { INTERLEAVED };

static int
check(const struct call *c)
{
    const struct type *x = &c->in[X];
    if (x->ndim < 2) return call_fail(E_SHAPE, c, "x must have at least 2 dimensions, found %d", x->ndim);
    int64_t length = x->dim[x->ndim - 2], half = x->dim[x->ndim - 1] / 2;
    if (x->dim[x->ndim - 1] % 2)
        return call_fail(E_SHAPE, c, "the last dimension of x must be even, found %lld",
                         (long long)x->dim[x->ndim - 1]);
    for (int i = COS; i <= SIN; i++)
        if (c->in[i].ndim != 2 || c->in[i].dim[0] < length || c->in[i].dim[1] != half)
            return call_fail(E_SHAPE, c, "%s must have 2 dimensions, of at least %lld rows and of %lld columns",
                             c->op->in[i].name, (long long)length, (long long)half);
    return 0;
}

static struct val *
join(struct build *b, struct val *one, struct val *two, const struct type *x, bool interleaved)
{
    struct attr attr[OP_ATTR];
    const struct op *op = interleaved ? &op_stack : &op_concat;
    if (!one || !two) return NULL;
    op_attr_defaults(op, attr);
    attr_int(op, attr, "axis", interleaved ? x->ndim : x->ndim - 1);
    return b_reshape(b, b_call(b, op, 2, (struct val *[]){one, two}, attr), x->ndim, x->dim);
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    TRY(check(c));
    const struct type *x = &c->in[X];
    bool neighbours = c->attr[INTERLEAVED].i;
    int last = x->ndim - 1;
    int64_t size = x->dim[last], length = x->dim[last - 1];
    struct val *p = b_slice(b, in[X], last, 0, neighbours ? size : size / 2, neighbours ? 2 : 1);
    struct val *q = b_slice(b, in[X], last, neighbours ? 1 : size / 2, size, neighbours ? 2 : 1);
    struct val *cosine = b_slice(b, in[COS], 0, 0, length, 1), *sine = b_slice(b, in[SIN], 0, 0, length, 1);
    struct val *one = b_sub(b, b_mul(b, p, cosine), b_mul(b, q, sine));
    struct val *two = b_add(b, b_mul(b, q, cosine), b_mul(b, p, sine));
    out[0] = b_cast(b, join(b, one, two, x, neighbours), x->dtype);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_rotary = {
    .name = "rotary",
    .doc = "y = x with pairs of the last dimension rotated by the angle of their position",
    .errors = "x must be (..., length, size) with an even size; cos and sin (length or more, size / 2)",
    .source = "Su et al. 2021",
    .in = {{"x", IN_FLOAT}, {"cos", IN_FLOAT}, {"sin", IN_FLOAT}},
    .attr = {[INTERLEAVED] = {"interleaved", ATTR_BOOL,
                              .doc = "true: pairs are neighbours; false: pairs are from the two halves"}},
    .shape.dtype = OUT_IN0,
    .build = build,
    .sample = {"f32{2,3,4} f32{3,2} f32{3,2}", "f32{2,2,3,6} f32{5,3} f32{5,3} interleaved=true"},
};
