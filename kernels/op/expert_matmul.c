/* expert_matmul.c - multiplies each row by the matrix that the row's id selects: a layer of a mixture of experts.
 *
 * Experts are in groups. For each group, the result has one row for each row of x. The row is zeros if the expert of
 * that row of x is in another group. If each rank has one group, each rank's result is complete, not a partial sum,
 * so non-linear functions may follow. A split within a group leaves partial sums, as for a lookup table. Ids count
 * through all groups. If an id selects no expert, the row is zeros. */
#include "kernels/op/lib/experts.h"

extern const struct op op_expert_matmul, op_expert_matmul_grad;

static int
rule(const struct call *c, struct str *rule)
{
    str_addf(rule, "%s,gekm,nt->gntm", experts_rule(&c->in[X], &c->in[IDS]));
    return 0;
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    enum dtype d = dtype_promote(c->in[X].dtype, false, c->in[W].dtype, false);
    if (c->in[X].dtype == c->in[W].dtype) return 0;
    out[0] = b_call3(b, &op_expert_matmul, b_cast(b, in[X], d), b_cast(b, in[W], d), in[IDS]);
    return b->failed ? (int)err_last() : 0;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X], *w = &k->in[W], *y = &k->out[0];
    const double *matrix = f64_of(w);
    int64_t depth = w->dim[2], width = w->dim[3], entries = y->dim[1] * y->dim[2];
    view_clear(y);
    for (int64_t r = 0; r < y->dim[0] * entries && !stop_now(); r++) {
        int64_t e = expert_of(w, i64_of(&k->in[IDS])[r % entries], r / entries);
        const double *row = f64_of(x) + expert_row(x, y, r) * depth;
        double *sum = f64_of(y) + r * width;
        for (int64_t l = 0; e >= 0 && l < depth; l++)
            for (int64_t j = 0; j < width; j++) sum[j] += row[l] * matrix[(e * depth + l) * width + j];
    }
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *w = n->in[W], *ids = n->in[IDS], *g = b_cast(b, dout[0], x->type.dtype);
    if (!g) return;
    if (b_wants(n, X)) din[X] = b_sum_to(b, b_call3(b, &op_expert_matmul, g, b_transpose_last(b, w), ids), &x->type);
    if (b_wants(n, W)) {
        struct attr attr[OP_ATTR];
        op_attr_defaults(&op_expert_matmul_grad, attr);
        attr_int(&op_expert_matmul_grad, attr, "experts", w->type.dim[1]);
        din[W] = b_call(b, &op_expert_matmul_grad, 3, (struct val *[]){x, g, ids}, attr);
    }
}

static double
flops(const struct call *c)
{
    return 2 * (double)type_numel(&c->in[IDS]) * (double)c->in[W].dim[2] * (double)c->in[W].dim[3];
}

static const struct kernel_variant variants[] = {
    {"experts", .dense_in = true, .takes = experts_takes, .accepts = experts_accepts, .prepare = experts_prepare,
     .run = experts_run, .drop = experts_drop},
    {NULL},
};

static const char element[] = BODY({
    const int64_t named[] = {at[1], at[2]};
    const int64_t e = x2(named) - place(0) * whole1(1) - place1(1);
    double sum = 0;
    for (int64_t l = 0; l < dim1(2) && e >= 0 && e < dim1(1); l++) {
        const int64_t from[] = {dim0(0) == 1 ? 0 : at[0], at[1], dim0(2) == 1 ? 0 : at[2], l};
        const int64_t by[] = {at[0], e, l, at[3]};
        sum += (double)x0(from) * (double)x1(by);
    }
    return sum;
});

const struct op op_expert_matmul = {
    .name = "expert_matmul",
    .doc = "y[g, n, t, m] = sum over k of x[g, n, t, k] w[g, e, k, m], e of group g being expert ids[n, t]; or else 0",
    .in = {[X] = {"x", IN_FLOAT}, [W] = {"w", IN_FLOAT}, [IDS] = {"ids", IN_INDEX}},
    .shape.make_rule = rule,
    .build = build,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0|1",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "012",
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN | OP_NARROW | OP_LEADS,
    .sample = {"f32{1,5,1,4} f32{1,3,4,6} i64{5,2}<3", "f32{2,7,2,4} f32{2,2,4,6} i64{7,2}<4",
               "f32{1,3,1,6} f32{2,3,6,5} i32{3,3}<7", "bf16{1,6,1,4} bf16{2,2,4,8} i64{6,2}<4",
               "f16{1,6,3,4} f16{1,2,4,5} i64{6,3}<2", "f64{2,4,1,3} f64{2,2,3,4} i64{4,1}<4"},
};
