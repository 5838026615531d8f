/* expert_matmul_grad.c - the gradient of expert_matmul with respect to the matrices: for each matrix, the sum of the
 * products of the rows that select it. A split of the rows leaves partial sums. */
#include "kernels/op/lib/experts.h"

extern const struct op op_expert_matmul;

enum { DY = W };
enum { EXPERTS, DTYPE };

static int
rule(const struct call *c, struct str *rule)
{
    str_addf(rule, "%s,gntm,nt->ge+km", experts_rule(&c->in[X], &c->in[IDS]));
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    *size = c->attr[EXPERTS].i;
    return product_dtype(c, DTYPE);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X], *dy = &k->in[DY], *dw = &k->out[0];
    double *matrix = f64_of(dw);
    int64_t depth = dw->dim[2], width = dw->dim[3], entries = dy->dim[1] * dy->dim[2];
    view_clear(dw);
    for (int64_t r = 0; r < dy->dim[0] * entries && !stop_now(); r++) {
        int64_t e = expert_of(dw, i64_of(&k->in[IDS])[r % entries], r / entries);
        const double *row = f64_of(x) + expert_row(x, dy, r) * depth, *g = f64_of(dy) + r * width;
        for (int64_t l = 0; e >= 0 && l < depth; l++)
            for (int64_t j = 0; j < width; j++) matrix[(e * depth + l) * width + j] += row[l] * g[j];
    }
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *dy = n->in[DY], *ids = n->in[IDS], *g = b_cast(b, dout[0], x->type.dtype);
    if (!g) return;
    if (b_wants(n, X)) din[X] = b_sum_to(b, b_call3(b, &op_expert_matmul, dy, b_transpose_last(b, g), ids), &x->type);
    if (b_wants(n, DY)) din[DY] = b_call3(b, &op_expert_matmul, x, g, ids);
}

static double
flops(const struct call *c)
{
    return 2 * (double)type_numel(&c->in[IDS]) * (double)c->out[0].dim[2] * (double)c->out[0].dim[3];
}

static const struct kernel_variant variants[] = {
    {"experts", .dense_in = true, .takes = experts_grad_takes, .accepts = experts_accepts,
     .prepare = experts_grad_prepare, .run = experts_grad_run, .drop = experts_drop},
    {NULL},
};

static const char element[] = BODY({
    const int64_t id = place(0) * whole(1) + place(1);
    double sum = 0;
    for (int64_t n = 0; n < dim2(0); n++)
        for (int64_t t = 0; t < dim2(1); t++) {
            const int64_t named[] = {n, t};
            if (x2(named) != id) continue;
            const int64_t from[] = {dim0(0) == 1 ? 0 : at[0], n, dim0(2) == 1 ? 0 : t, at[2]};
            const int64_t by[] = {at[0], n, t, at[3]};
            sum += (double)x0(from) * (double)x1(by);
        }
    return sum;
});

const struct op op_expert_matmul_grad = {
    .name = "expert_matmul_grad",
    .doc = "dw[g, e, k, m] = sum of x[g, n, t, k] dy[g, n, t, m] over all n, t whose ids[n, t] is e of group g",
    .in = {[X] = {"x", IN_FLOAT}, [DY] = {"dy", IN_FLOAT}, [IDS] = {"ids", IN_INDEX}},
    .attr = {[EXPERTS] = {"experts", ATTR_INT, ATTR_REQUIRED, .doc = "number of experts in a group"},
             [DTYPE] = {"dtype", ATTR_DTYPE, .doc = "dtype of the result; default: the operands'"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_ATTR,
    .partial.linear = "0|1",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .rewrite.unrounded = b_unrounded,
    .grad.saves = "012",
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN | OP_LEADS,
    .sample = {"f32{1,5,1,4} f32{1,5,2,6} i64{5,2}<3 experts=3", "f32{2,7,2,4} f32{2,7,2,6} i64{7,2}<4 experts=2",
               "f32{1,3,1,6} f32{2,3,3,5} i32{3,3}<7 experts=3", "bf16{1,6,1,4} bf16{2,6,2,8} i64{6,2}<4 experts=2",
               "f16{1,6,3,4} f16{1,6,3,5} i64{6,3}<2 experts=2 dtype=f32",
               "f64{2,4,1,3} f64{2,4,1,4} i64{4,1}<4 experts=2"},
};
