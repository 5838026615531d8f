/* contract.c - the product of two batches of rows, summed over all rows.
 *
 * Backward of y = x w uses this operator for the gradient of w, where x may have any number of leading dimensions.
 * A split of a leading dimension leaves partial sums. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_own.h"
#include "kernels/cpu/gemm/gemm_long.h"
#include "kernels/cpu/base/wide.h"
#include "kernels/op/base/op_impl.h"

extern const struct op op_contract, op_matmul;

enum { DTYPE };

static int
contract_rule(const struct call *c, struct str *rule)
{
    struct str lead = {0};
    for (int d = 0; d < c->in[0].ndim - 1; d++) str_addf(&lead, "%c", letter(d));
    str_addf(rule, "%sm,%sn->mn", str_text(&lead), str_text(&lead));
    str_free(&lead);
    return 0;
}

/* Builds the gradients da = b dc^T and db = a dc, where dc is the gradient of the result c. */
static void
contract_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *g = b_cast(b, dout[0], n->in[0]->type.dtype);
    if (b_wants(n, 0)) din[0] = b_call2(b, &op_matmul, n->in[1], b_transpose(b, g, 0, 1));
    if (b_wants(n, 1)) din[1] = b_call2(b, &op_matmul, n->in[0], g);
}

static struct val *
contract_transposed(struct build *b, const struct node *n)
{
    return b_call(b, &op_contract, 2, (struct val *[]){n->in[1], n->in[0]}, n->attr);
}

static int
contract_ref(const struct kcall *k)
{
    int64_t m = k->out[0].dim[0], n = k->out[0].dim[1], rows = 1;
    for (int d = 0; d < k->in[0].ndim - 1; d++) rows *= k->in[0].dim[d];
    const double *a = f64_of(&k->in[0]), *b = f64_of(&k->in[1]);
    double *c = f64_of(&k->out[0]);
    for (int64_t i = 0; i < m * n; i++) c[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[r * m + i] * b[r * n + j];
    return 0;
}

static int
contract_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    return product_dtype(c, DTYPE);
}

static const struct kernel_variant variants[] = {
    {"few", .dense_in = true, .takes = gemm_takes, .accepts = gemm_few_accepts, .prepare = gemm_few_prepare,
     .run = gemm_few_run},
    {"long", .dense_in = true, .takes = gemm_takes, .accepts = gemm_long_accepts, .prepare = gemm_long_prepare,
     .run = gemm_long_run, .drop = gemm_long_drop},
    {"small", .dense_in = true, .takes = gemm_takes, .accepts = gemm_small_accepts, .run = gemm_small_run},
    {"dnnl", .dense_in = true, .takes = gemm_takes, .accepts = gemm_accepts, .prepare = gemm_prepare, .run = prim_run,
     .drop = prim_drop},
    {"f64", .dense_in = true, .accepts = gemm_f64_accepts, .prepare = gemm_f64_prepare, .run = gemm_f64_run},
    WIDE_ROW,
    {NULL},
};

static const char product[] = BODY({
    struct position {
        int64_t left, right;
    };
    int64_t rows = 1;
    for (int d = 0; d < NDIM0 - 1; d++) rows *= dim0(d);
    multiply(
        1, size(0), size(1), rows, {true, false},
        [&](int64_t, int64_t i) {
            int64_t at[8] = {};
            at[NDIM0 - 1] = i;
            return x0_at(at);
        },
        [&](int64_t, int64_t j) {
            int64_t at[8] = {};
            at[NDIM0 - 1] = j;
            return x1_at(at);
        },
        [&](int64_t l) {
            int64_t at[8] = {};
            for (int d = NDIM0 - 2; d >= 0; l /= dim0(d--)) at[d] = l % dim0(d);
            return position{x0_at(at), x1_at(at)};
        },
        [&](int64_t row, const position &l) { return row + l.left; }, [&](int64_t o) { return x0_stored(o); },
        [&](const position &l, int64_t column) { return column + l.right; }, [&](int64_t o) { return x1_stored(o); },
        [&](int64_t, int64_t i, int64_t j, real v) {
            const int64_t at[] = {i, j};
            write(at, v);
        });
});

const struct op op_contract = {
    .name = "contract",
    .doc = "c[m, n] = sum over all leading positions of a[..., m] b[..., n]",
    .in = {{"a", IN_FLOAT}, {"b", IN_FLOAT}},
    .attr = {[DTYPE] = {"dtype", ATTR_DTYPE, .doc = "dtype of the result; default: the operands'"}, TF32_ATTR},
    .shape.make_rule = contract_rule,
    .shape.infer = contract_infer,
    .shape.dtype = OUT_ATTR,
    .partial.linear = "0|1",
    .partial.reduce = RED_SUM,
    .grad.build = contract_grad,
    .rewrite.transposed = contract_transposed,
    .rewrite.unrounded = b_unrounded,
    .grad.saves = "01",
    .host.ref = contract_ref,
    .host.sums_leading = true,
    .gpu.product = product,
    .host.kernel = variants,
    .flags = OP_HIDDEN | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{6,4} f32{6,5}", "f32{2,3,4} f32{2,3,1}", "f32{3,4} f32{3,16}", "bf16{5,3} bf16{5,7}",
               "f16{5,3} f16{5,7}", "f64{2,40,9} f64{2,40,20}", "bf16{2,5,3} bf16{2,5,7} dtype=f32",
               "f16{5,3} f16{5,7} dtype=f32", "f16{70,60} f16{70,64}"},
};
