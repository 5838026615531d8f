/* cast.c - converts a tensor to another dtype. Floats are truncated to integers; bool is true for nonzero values. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/eltwise/tile.h"

enum { DTYPE };

REALS({ return x[0]; });

INTEGERS({ return x[0]; });

/* Returns "0" (linear in operand 0) for the casts that pass partial sums: casts between floats, and from integers,
 * unless they round. Casts to integers truncate and casts to bool compare with 0, so these are not additive. Casts to
 * 16 bits and from f64 round. For them, ranks add up the sum first, and then round the sum once. */
static const char *
linear_of(const struct call *c)
{
    enum dtype from = c->in[0].dtype, to = (enum dtype)c->attr[DTYPE].i;
    bool rounds = dtype_bytes(to) == 2 ? from != to : from == DT_F64 && to != from;
    if (to == DT_BOOL || from == DT_BOOL || rounds) return NULL;
    return dtype_is_float(from) && !dtype_is_float(to) ? NULL : "0";
}

static struct val *
fold(const struct call *c, struct val *x, const struct node *before)
{
    UNUSED(before);
    return c->attr[DTYPE].i == x->type.dtype ? x : NULL;
}

static enum follow
follow(const struct call *c)
{
    return dtype_is_float((enum dtype)c->in[0].dtype) && dtype_is_float((enum dtype)c->out[0].dtype) ? FOLLOW_CAST
                                                                                                     : FOLLOW_NONE;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_cast(b, dout[0], n->in[0]->type.dtype);
}

/* ---- variant: between f32 and 16-bit floats, directly from operand to result ----
 *
 * f32{256, 768} to bf16 on one core of an EPYC: 10 us; through the engine's blocks 21 us. */

static bool
accepts(const struct kcall *k)
{
    enum dtype from = (enum dtype)k->in[0].dtype, to = (enum dtype)k->out[0].dtype;
    bool halves = from == DT_F32 ? to == DT_BF16 || to == DT_F16 : to == DT_F32 && (from == DT_BF16 || from == DT_F16);
    return halves && view_is_dense(&k->out[0]);
}

static void
convert(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    enum dtype from = (enum dtype)k->in[0].dtype, to = (enum dtype)k->out[0].dtype;
    const char *x = (const char *)k->in[0].data + lo * (int64_t)dtype_bytes(from);
    char *y = (char *)k->out[0].data + lo * (int64_t)dtype_bytes(to);
    if (from == DT_F32)
        block_store(COMP_F32, to, x, hi - lo, y, 1);
    else
        block_load(COMP_F32, from, x, 1, hi - lo, y);
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct kcall call = *k;
    team_run(k->threads, view_numel(&k->in[0]), 16384, convert, &call);
    return 0;
}

static const struct kernel_variant variants[] = {{"convert", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

const struct op op_cast = {
    .name = "cast",
    .doc = "y = x in another dtype",
    .in = {{"x"}},
    .attr = {[DTYPE] = {"dtype", ATTR_DTYPE, ATTR_REQUIRED, .doc = "dtype of the result"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_ATTR,
    .partial.linear_of = linear_of,
    .grad.build = grad,
    .rewrite.fold = fold,
    .eltwise =
        {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_COPY, .follow = follow},
    .host.kernel = variants,
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} dtype=bf16", "f32{4,6} dtype=f64", "i64{5} dtype=f32", "f32{5} dtype=i32", "bool{3} dtype=f32",
               "f32{3} dtype=bool"},
};
