/* matmul.c - the product of matrices, over a batch that is broadcast as in NumPy.
 *
 * A vector counts as one row if it is operand a, and as one column if it is operand b; the result has no dimension
 * for this row or column. A split of the summed dimension k leaves partial sums; a split of any other dimension
 * splits the result. Operands of different dtypes are first cast to the promoted dtype. The result for 16-bit
 * floats may be f32 (attribute dtype): the sums, before they are rounded. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_int.h"
#include "kernels/cpu/gemm/gemm_own.h"
#include "kernels/cpu/gemm/gemm_long.h"
#include "kernels/cpu/gemm/gemm_transposed.h"
#include "kernels/cpu/base/wide.h"
#include "kernels/op/base/op_impl.h"
#include "runtime/base/stop.h"

extern const struct op op_contract, op_matmul;

enum { DTYPE };

/* Returns the number of batch dimensions of an operand of ndim dimensions. */
static int
batch_dims(int ndim)
{
    return MAX(ndim - 2, 0);
}

/* Appends the SBP rule's letters of operand k's batch dimensions. As in NumPy, they are aligned with the last of the
 * result's n batch dimensions. A dimension that is broadcast has '1' instead of a letter. */
static void
add_batch(const struct call *c, int k, int n, struct str *rule)
{
    const struct type *t = &c->in[k], *other = &c->in[1 - k];
    int own = batch_dims(t->ndim), theirs = batch_dims(other->ndim);
    for (int d = n - own; d < n; d++) {
        int at = d - (n - theirs);
        bool repeated = t->dim[d - (n - own)] == 1 && at >= 0 && other->dim[at] != 1;
        str_addf(rule, "%c", repeated ? '1' : letter(d));
    }
}

static int
matmul_rule(const struct call *c, struct str *rule)
{
    bool row = c->in[0].ndim == 1, col = c->in[1].ndim == 1;
    int n = MAX(batch_dims(c->in[0].ndim), batch_dims(c->in[1].ndim));
    add_batch(c, 0, n, rule);
    str_add(rule, row ? "k," : "mk,");
    add_batch(c, 1, n, rule);
    str_add(rule, col ? "k->" : "kn->");
    for (int d = 0; d < n; d++) str_addf(rule, "%c", letter(d));
    str_addf(rule, "%s%s", row ? "" : "m", col ? "" : "n");
    return 0;
}

static int
matmul_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    for (int k = 0; k < 2; k++)
        if (c->in[k].ndim == 0)
            return call_fail(E_SHAPE, c, "%s must have at least 1 dimension, found a tensor of one element",
                             c->op->in[k].name);
    return product_dtype(c, DTYPE);
}

static int
matmul_build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (c->in[0].dtype == c->in[1].dtype) return 0;
    enum dtype d = dtype_promote(c->in[0].dtype, false, c->in[1].dtype, false);
    out[0] = b_call2(b, &op_matmul, b_cast(b, in[0], d), b_cast(b, in[1], d));
    return b->failed ? (int)err_last() : 0;
}

/* ---- gradient ---- */

/* Builds da = g b^T and db = a^T g, where g is the gradient of the result. Sums da and db over the batch dimensions
 * along which the operand was repeated. If b has no batch dimensions, one product (contract) computes db and its sum
 * over the batch. */
static void
matmul_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0], *y = n->in[1], *g = b_cast(b, dout[0], n->in[0]->type.dtype);
    if (n->in[1]->type.ndim == 1) y = b_unsqueeze(b, y, 1), g = b_unsqueeze(b, g, g->type.ndim);
    if (n->in[0]->type.ndim == 1) x = b_unsqueeze(b, x, 0), g = g ? b_unsqueeze(b, g, g->type.ndim - 1) : NULL;
    if (!x || !y || !g) return;
    if (b_wants(n, 0)) {
        struct val *dx = b_sum_to(b, b_call2(b, &op_matmul, g, b_transpose_last(b, y)), &x->type);
        din[0] = b_reshape(b, dx, n->in[0]->type.ndim, n->in[0]->type.dim);
    }
    if (b_wants(n, 1)) {
        bool one = y->type.ndim == 2 && x->type.ndim == g->type.ndim;
        struct val *dy = one ? b_call2(b, &op_contract, x, g)
                             : b_sum_to(b, b_call2(b, &op_matmul, b_transpose_last(b, x), g), &y->type);
        din[1] = b_reshape(b, dy, n->in[1]->type.ndim, n->in[1]->type.dim);
    }
}

/* ---- reference ---- */

struct product {
    int64_t m, n, k;
    const struct view *a, *b, *c;
};

static void
product_f(const struct product *p, int64_t a, int64_t b, int64_t c)
{
    const double *x = f64_of(p->a) + a, *y = f64_of(p->b) + b;
    double *z = f64_of(p->c) + c;
    for (int64_t i = 0; i < p->m * p->n; i++) z[i] = 0;
    for (int64_t i = 0; i < p->m && !stop_now(); i++)
        for (int64_t l = 0; l < p->k; l++)
            for (int64_t j = 0; j < p->n; j++) z[i * p->n + j] += x[i * p->k + l] * y[l * p->n + j];
}

static void
product_i(const struct product *p, int64_t a, int64_t b, int64_t c)
{
    const int64_t *x = i64_of(p->a) + a, *y = i64_of(p->b) + b;
    int64_t *z = i64_of(p->c) + c;
    for (int64_t i = 0; i < p->m && !stop_now(); i++)
        for (int64_t j = 0; j < p->n; j++) {
            uint64_t sum = 0; /* sums of integers wrap around */
            for (int64_t l = 0; l < p->k; l++) sum += (uint64_t)x[i * p->k + l] * (uint64_t)y[l * p->n + j];
            z[i * p->n + j] = (int64_t)sum;
        }
}

/* Returns the offset, in elements, of the matrix of v for position at[] of the result's batch. Dimensions of size 1
 * are repeated. */
static int64_t
matrix_at(const struct view *v, const int64_t *at, int nbatch, int64_t elements)
{
    int own = batch_dims(v->ndim);
    int64_t index = 0;
    for (int d = 0; d < own; d++) index = index * v->dim[d] + (v->dim[d] == 1 ? 0 : at[nbatch - own + d]);
    return index * elements;
}

static int
matmul_ref(const struct kcall *k)
{
    const struct view *a = &k->in[0], *b = &k->in[1], *c = &k->out[0];
    struct product p = {.a = a, .b = b, .c = c, .k = a->dim[a->ndim - 1]};
    p.m = a->ndim == 1 ? 1 : a->dim[a->ndim - 2];
    p.n = b->ndim == 1 ? 1 : b->dim[b->ndim - 1];
    struct view batch = {.ndim = (uint8_t)MAX(batch_dims(a->ndim), batch_dims(b->ndim))};
    for (int d = 0; d < batch.ndim; d++) batch.dim[d] = batch.global[d] = c->dim[d];
    struct walk w;
    for (walk_start(&w, &batch); w.left > 0; walk_next(&w, &batch)) {
        int64_t at[] = {matrix_at(a, w.at, batch.ndim, p.m * p.k), matrix_at(b, w.at, batch.ndim, p.k * p.n)};
        if (is_real(c))
            product_f(&p, at[0], at[1], w.global * p.m * p.n);
        else
            product_i(&p, at[0], at[1], w.global * p.m * p.n);
    }
    return 0;
}

static const struct kernel_variant variants[] = {
    {"few", .dense_in = true, .takes = gemm_takes, .accepts = gemm_few_accepts, .prepare = gemm_few_prepare,
     .run = gemm_few_run},
    {"long", .dense_in = true, .takes = gemm_takes, .accepts = gemm_long_accepts, .prepare = gemm_long_prepare,
     .run = gemm_long_run, .drop = gemm_long_drop},
    {"turned", .dense_in = true, .takes = gemm_takes, .accepts = gemm_transposed_accepts,
     .prepare = gemm_transposed_prepare, .run = gemm_transposed_run, .drop = gemm_transposed_drop},
    {"small", .dense_in = true, .takes = gemm_takes, .accepts = gemm_small_accepts, .run = gemm_small_run},
    {"dnnl", .dense_in = true, .takes = gemm_takes, .accepts = gemm_accepts, .prepare = gemm_prepare, .run = prim_run,
     .drop = prim_drop},
    {"f64", .dense_in = true, .accepts = gemm_f64_accepts, .prepare = gemm_f64_prepare, .run = gemm_f64_run},
    {"int", .dense_in = true, .takes = gemm_takes, .accepts = gemm_int_accepts, .prepare = gemm_int_prepare,
     .run = gemm_int_run},
    WIDE_ROW,
    {NULL},
};

static const char product[] = BODY({
    enum { BATCH = NDIM - (NDIM0 > 1) - (NDIM1 > 1), ROOM = 10 };
    struct position {
        int64_t left, right;
    };
    const auto matrix = [&](int64_t b, int operand, int ndim, int64_t *at) {
        for (int d = BATCH - 1; d >= 0; b /= size(d--)) {
            const int own = d - BATCH + ndim - 2;
            if (own >= 0) at[own] = (operand ? dim1(own) : dim0(own)) == 1 ? 0 : b % size(d);
        }
    };
    const auto left = [&](int64_t b, int64_t i, int64_t l) {
        int64_t at[ROOM] = {};
        matrix(b, 0, NDIM0, at);
        at[NDIM0 - 1 - (NDIM0 > 1)] = i;
        at[NDIM0 - 1] = l;
        return x0_at(at);
    };
    const auto right = [&](int64_t b, int64_t l, int64_t j) {
        int64_t at[ROOM] = {};
        matrix(b, 1, NDIM1, at);
        at[NDIM1 - 1] = j;
        at[NDIM1 - 1 - (NDIM1 > 1)] = l;
        return x1_at(at);
    };
    int64_t count = 1;
    for (int d = 0; d < BATCH; d++) count *= size(d);
    const int64_t m = NDIM0 > 1 ? size(BATCH) : 1, n = NDIM1 > 1 ? size(NDIM - 1) : 1;
    const int64_t first_left = left(0, 0, 0), first_right = right(0, 0, 0);
    multiply(
        count, m, n, dim0(NDIM0 - 1), {left(0, 1, 0) - first_left == 1, right(0, 1, 0) - first_right == 1},
        [&](int64_t b, int64_t i) { return left(b, i, 0); }, [&](int64_t b, int64_t j) { return right(b, 0, j); },
        [&](int64_t l) {
            return position{left(0, 0, l) - first_left, right(0, l, 0) - first_right};
        },
        [&](int64_t row, const position &l) { return row + l.left; }, [&](int64_t o) { return x0_stored(o); },
        [&](const position &l, int64_t column) { return column + l.right; }, [&](int64_t o) { return x1_stored(o); },
        [&](int64_t b, int64_t i, int64_t j, real v) {
            int64_t at[ROOM];
            for (int d = BATCH - 1; d >= 0; b /= size(d--)) at[d] = b % size(d);
            at[BATCH + (NDIM0 > 1)] = j;
            if (NDIM0 > 1) at[BATCH] = i;
            write(at, v);
        });
});

const struct op op_matmul = {
    .name = "matmul",
    .doc = "c[..., m, n] = sum over k of a[..., m, k] b[..., k, n]",
    .result = "a tensor (..., m, n); without m or n, if a or b has one dimension",
    .errors = "a must be (..., m, k) or (k), b (..., k, n) or (k); the dimensions before the last two must broadcast",
    .in = {{"a", 0}, {"b", 0}},
    .attr = {[DTYPE] = {"dtype", ATTR_DTYPE, ATTR_HIDDEN, .doc = "dtype of the result; default: the operands'"},
             TF32_ATTR},
    .shape.make_rule = matmul_rule,
    .shape.infer = matmul_infer,
    .shape.dtype = OUT_ATTR,
    .shape.accepts = "FI",
    .partial.linear = "0|1",
    .partial.reduce = RED_SUM,
    .build = matmul_build,
    .grad.build = matmul_grad,
    .grad.saves = "01",
    .host.ref = matmul_ref,
    .gpu.product = product,
    .host.kernel = variants,
    .flags = OP_NARROW | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{4,6} f32{6,8}", "f16{64,70} f16{70,64}", "f32{8,24} f32{24,24}", "f32{2,3,4} f32{4,16}",
               "f32{2,1,3,4} f32{3,4,2}", "f32{5} f32{5}", "f32{4} f32{2,4,3}", "bf16{8,5} bf16{5,3}",
               "f16{2,3,5} f16{2,5,4} dtype=f32", "i64{2,3}<7 i64{3,2}<7"},
};
