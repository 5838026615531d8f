/* concat.c - joins tensors along an axis. The axis must not be split over ranks. The result may be rounded to another
 * float dtype. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/copies.h"

extern const struct op op_concat;

enum { AXIS, DTYPE };
/* maximum number of operands of one call, because an SBP rule has few letters; longer lists are joined in parts */
enum { MOST = 32 };

static int
rule(const struct call *c, struct str *rule)
{
    int axis = (int)c->attr[AXIS].i, n = c->in[0].ndim;
    for (int k = 0; k <= c->nin; k++) {
        str_add(rule, k == c->nin ? "->" : k ? "," : "");
        for (int d = 0; d < n; d++) {
            if (d == axis)
                str_addf(rule, "[%c]", letter(n + k));
            else
                str_addf(rule, "%c", letter(d));
        }
    }
    return 0;
}

static int
check(const struct call *c)
{
    if (c->in[0].ndim == 0) return call_fail(E_SHAPE, c, "operands must have at least 1 dimension");
    for (int k = 1; k < c->nin; k++)
        if (c->in[k].ndim != c->in[0].ndim)
            return call_fail(E_SHAPE, c, "operands must have as many dimensions as the first, %d, found %d",
                             c->in[0].ndim, c->in[k].ndim);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    enum dtype d = (enum dtype)c->out[0].dtype;
    TRY(check(c));
    for (int k = 0; k < c->nin && c->attr[DTYPE].set; k++)
        if (c->in[k].dtype != d && !(dtype_is_float(c->in[k].dtype) && dtype_is_float(d)))
            return call_fail(E_DTYPE, c,
                             "dtype must be the operands' or, if they are float, another float dtype; found %s",
                             dtype_text(d));
    size[0] = 0;
    for (int k = 0; k < c->nin; k++) size[0] = size_add(size[0], c->in[k].dim[c->attr[AXIS].i]);
    return 0;
}

/* Returns op_partial.linear, the operands in which the call is linear: all operands together, if there are at most
 * 16. Returns NULL if the result is rounded, because a sum must be complete before it is rounded (cast.c). */
static const char *
linear_of(const struct call *c)
{
    static const char all[] = "fedcba9876543210";
    return c->nin <= 16 && !c->attr[DTYPE].set ? all + 16 - c->nin : NULL;
}

/* Joins a long list in parts, then joins the parts. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (c->nin <= MOST) return 0;
    TRY(check(c));
    struct val *part[MOST];
    int npart = 0;
    assert(c->nin <= MOST * MOST);
    for (int k = 0; k < c->nin; k += MOST) part[npart++] = b_call(b, c->op, MIN(MOST, c->nin - k), in + k, c->attr);
    out[0] = b_call(b, c->op, npart, part, c->attr);
    return b->failed ? (int)err_last() : 0;
}

static void
window(const struct kcall *k, int i, struct view *window, int64_t *skip)
{
    int axis = (int)k->call->attr[AXIS].i;
    *window = k->out[0];
    *skip = 0;
    for (int j = 0; j < i; j++) *skip += k->in[j].dim[axis] * window->stride[axis];
    window->dim[axis] = k->in[i].dim[axis];
}

/* Copies the operands, of any strides and dtype, into the result. */
static int
ref(const struct kcall *k)
{
    copies_join(&k->out[0], k->call->nin, k->in, (int)k->call->attr[AXIS].i, k->threads);
    return 0;
}

/* Builds the gradients: a slice of dout for each operand. An f32 operand that was rounded to 16 bits gets an f32
 * gradient. dout is converted to f32 before it is sliced, so that an operator that computes dout as a sum need not
 * round the sum (b_cast). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    int axis = (int)n->attr[AXIS].i;
    int64_t at = 0;
    struct val *wide = NULL;
    for (int k = 0; k < n->nin; k++) {
        int64_t size = n->in[k]->type.dim[axis];
        enum dtype d = (enum dtype)n->in[k]->type.dtype;
        bool was_rounded = d == DT_F32 && dtype_is_half((enum dtype)dout[0]->type.dtype);
        if (b_wants(n, k) && was_rounded && !wide) wide = b_cast(b, dout[0], d);
        if (b_wants(n, k)) din[k] = b_cast(b, b_slice(b, was_rounded ? wide : dout[0], axis, at, at + size, 1), d);
        at += size;
    }
}

const struct op op_concat = {
    .name = "concat",
    .doc = "y = the operands, joined along axis",
    .result = "a tensor of the shape of x's tensors; its size along axis is the sum of theirs",
    .errors = "the tensors, at most 65536, must have equally many dimensions, at least 1\n"
              "sizes must be equal, except along axis\n"
              "dtype must be a float dtype, and then the tensors must be of floats",
    .in = {{"x", IN_LIST}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = 0, .doc = "dimension to join along"},
             [DTYPE] = {"dtype", ATTR_DTYPE,
                        .doc = "dtype of the result, a float, for float operands; default: the promoted dtype"}},
    .shape.dtype = OUT_ATTR,
    .shape.make_rule = rule,
    .shape.infer = infer,
    .partial.linear_of = linear_of,
    .build = build,
    .rewrite.joins_with = &op_concat,
    .grad.build = grad,
    .host.ref = ref,
    .host.window = window,
    .host.kernel = kernel_strided,
    .flops = flops_of_copy,
    .sample = {"f32{4,6} f32{2,6}", "f32{2,3,5} f32{2,1,5} f32{2,0,5} axis=1", "i64{3} i32{2}", "f32{5}",
               "f32{4,6} f32{2,6} dtype=bf16", "f32{2,3} f64{2,4} axis=1 dtype=f16"},
    .flags = OP_UNPLACED,
};
