/* flip.c - reverses the order of entries along axes, which stay unsplit. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/copies.h"

extern const struct op op_flip;

enum { AXES };

static int
rule(const struct call *c, struct str *rule)
{
    struct axes axes = axes_of(&c->attr[AXES], ATTR_INTS, c->in[0].ndim);
    struct str x = {0};
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(&x, axes.has[d] ? "[%c]" : "%c", letter(d));
    str_addf(rule, "%s->%s", str_text(&x), str_text(&x));
    str_free(&x);
    return 0;
}

/* Copies with negative strides, starting from the last entry. Any dtype. */
static int
ref(const struct kcall *k)
{
    struct view x = k->in[0];
    if (view_numel(&x) == 0) return 0;
    struct axes axes = axes_of(&k->call->attr[AXES], ATTR_INTS, x.ndim);
    for (int i = 0; i < axes.n; i++) {
        int d = axes.axis[i];
        x.data = (char *)x.data + (x.dim[d] - 1) * x.stride[d] * (int64_t)dtype_bytes(x.dtype);
        x.stride[d] = -x.stride[d];
    }
    copies_run(&k->out[0], &x, k->threads);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0) && dout[0]) din[0] = b_call(b, &op_flip, 1, dout, n->attr);
}

static const char element[] = BODY({
    int64_t from[8];
    for (int d = 0; d < NDIM; d++) from[d] = c->attr[AXES].n ? at[d] : dim0(d) - 1 - at[d];
    for (int i = 0; i < c->attr[AXES].n; i++) {
        const int64_t d = c->attr[AXES].list[i];
        from[d] = dim0(d) - 1 - at[d];
    }
    return x0(from);
});

const struct op op_flip = {
    .name = "flip",
    .doc = "y[i] = x[n - 1 - i] along axes",
    .in = {{"x"}},
    .attr = {[AXES] = {"axes", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reverse; default: all"}},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = grad,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = kernel_strided,
    .sample = {"f32{4,6} axes=1", "f32{2,3,5} axes=0,2", "i64{7}", "f32{0,3} axes=0"},
};
