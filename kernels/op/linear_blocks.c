/* linear_blocks.c - a linear layer whose weights stay quantised, in the blocks of a GGUF file; for inference.
 *
 *   y[.., n] = sum over k of x[.., k] value(w[n])[k]        w: u8 (n, blocks, bytes of a block)
 *
 * n: output feature; k: input feature; value(): dequantises a row. A split of k splits x by whole blocks, and
 * leaves partial sums; a split of n splits w's rows. */
#include "kernels/cpu/base/wide.h"
#include "kernels/op/lib/blocks.h"

enum { IN_X, IN_W };
enum { KIND };

static int
rule(const struct call *c, struct str *rule)
{
    int batch = c->in[IN_X].ndim - 1;
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "(Z[K]),YZ[B]->");
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "Y");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct type *x = &c->in[IN_X], *w = &c->in[IN_W];
    UNUSED(size);
    if (x->ndim == 0) return call_fail(E_SHAPE, c, "x must have at least 1 dimension");
    TRY(blocks_check(c, w, 3));
    return blocks_check_depth(c, x, x->ndim - 1, w);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[IN_X], *w = &k->in[IN_W];
    const struct coding *c = blocks_coding(k->call);
    int64_t depth = x->dim[x->ndim - 1], m = depth ? view_numel(x) / depth : view_numel(&k->out[0]) / MAX(w->dim[0], 1);
    double *y = f64_of(&k->out[0]);
    view_clear(&k->out[0]);
    for (int64_t j = 0; j < w->dim[0]; j++)
        for (int64_t b = 0; b < w->dim[1]; b++) {
            float value[256];
            ref_block(c, w, j * w->dim[1] + b, value);
            for (int64_t i = 0; i < m; i++)
                for (int l = 0; l < c->elements; l++)
                    y[i * w->dim[0] + j] += f64_of(x)[i * depth + b * c->elements + l] * (double)value[l];
        }
    return 0;
}

extern const struct op op_matmul, op_from_blocks;

/* Builds the gradient dx = dy w. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, IN_X)) return;
    struct val *w = b_call(b, &op_from_blocks, 1, &n->in[IN_W], n->attr);
    din[IN_X] = b_call2(b, &op_matmul, dout[0], b_cast(b, w, n->in[IN_X]->type.dtype));
}

static double
flops(const struct call *c)
{
    return 2.0 * (double)type_numel(&c->in[IN_X]) * (double)c->in[IN_W].dim[0];
}

static const struct kernel_variant variants[] = {
    {"blocks", .dense_in = true, .accepts = blocks_accepts, .prepare = blocks_prepare, .run = blocks_run,
     .drop = blocks_drop},
    WIDE_ROW,
    {NULL},
};

const struct op op_linear_blocks = {
    .name = "linear_blocks",
    .doc = "y[.., n] = sum over k of x[.., k] value of w[n, k]; w: u8, the blocks of a quantised type",
    .result = "a tensor (..., n)",
    .errors = "x must be (..., k), w (n, blocks, bytes of a block) of dtype u8\n"
              "k must be the number of blocks times the elements of a block",
    .source = "GGUF",
    .in = {{"x", IN_FLOAT}, {"w", IN_INDEX}},
    .attr = {[KIND] = BLOCK_KIND_ATTR},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "1",
    .host.ref = ref,
    .host.kernel = variants,
    .flags = OP_NARROW | OP_UNPLACED,
    .flops = flops,
    .sample = {"f32{3,96} u8{5,3,34}<60", "f32{1,1,512} u8{7,2,144}<60 kind=Q4_K",
               "f32{2,512} u8{6,2,210}<60 kind=Q6_K", "bf16{2,3,64} u8{5,2,18}<60 kind=Q4_0",
               "f32{35,64} u8{3,2,20}<60 kind=Q4_1"},
};
