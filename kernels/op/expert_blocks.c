/* expert_blocks.c - multiplies each row by the matrix that the row's id selects, like expert_matmul.c. The matrices
 * stay quantised, in the blocks of a GGUF file.
 *
 *   y[g, n, t, m] = sum over k of x[g, n, t, k] value(w[g, e, m])[k]       w: u8 (g, e, m, blocks, bytes of a block)
 *
 * turned: y[g, n, t, k] = sum over m of x[g, n, t, m] value(w[g, e, m])[k], the gradient with respect to x. Layouts are
 * those of expert_matmul.c; k is split by whole blocks. */
#include "kernels/cpu/base/wide.h"
#include "kernels/op/lib/blocks.h"
#include "kernels/op/lib/experts.h"

#include <string.h>

extern const struct op op_expert_blocks;

enum { KIND, TURNED };

static int
rule(const struct call *c, struct str *rule)
{
    const char *rows = experts_rule(&c->in[X], &c->in[IDS]);
    str_addf(rule, "%.3s%s,gemZ[B],nt->gnt%s", rows, c->attr[TURNED].i ? "m" : "(Z[K])",
             c->attr[TURNED].i ? "(Z[K])" : "m");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct type *x = &c->in[X], *w = &c->in[W];
    if (x->ndim != 4) return call_fail(E_SHAPE, c, "x must have 4 dimensions, found %d", x->ndim);
    TRY(blocks_check(c, w, 5));
    if (!c->attr[TURNED].i) return blocks_check_depth(c, x, 3, w);
    size[0] = blocks_coding(c)->elements;
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X], *w = &k->in[W], *y = &k->out[0];
    const struct coding *c = blocks_coding(k->call);
    int64_t lines = w->dim[2], nblock = w->dim[3], entries = y->dim[1] * y->dim[2];
    bool turned = k->call->attr[TURNED].i;
    view_clear(y);
    for (int64_t r = 0; r < y->dim[0] * entries && !stop_now(); r++) {
        int64_t e = expert_of(w, i64_of(&k->in[IDS])[r % entries], r / entries);
        const double *row = f64_of(x) + expert_row(x, y, r) * x->dim[3];
        double *sum = f64_of(y) + r * y->dim[3];
        for (int64_t b = 0; e >= 0 && b < lines * nblock; b++) {
            float value[256];
            int64_t line = b / nblock, at = b % nblock * c->elements;
            ref_block(c, w, e * lines * nblock + b, value);
            for (int l = 0; l < c->elements; l++)
                sum[turned ? at + l : line] += row[turned ? line : at + l] * (double)value[l];
        }
    }
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, X)) return;
    struct attr attr[OP_ATTR];
    memcpy(attr, n->attr, sizeof *attr * (size_t)op_nattr(n->op));
    attr_int(&op_expert_blocks, attr, "turned", !attr[TURNED].i);
    struct val *dx = b_call(b, &op_expert_blocks, 3, (struct val *[]){dout[0], n->in[W], n->in[IDS]}, attr);
    din[X] = b_sum_to(b, dx, &n->in[X]->type);
}

static double
flops(const struct call *c)
{
    const struct type *w = &c->in[W];
    return 2 * (double)type_numel(&c->in[IDS]) * (double)w->dim[2] * (double)(w->dim[3] * blocks_coding(c)->elements);
}

static const struct kernel_variant variants[] = {
    {"blocks", .dense_in = true, .accepts = experts_blocks_accepts, .prepare = experts_blocks_prepare,
     .run = experts_run, .drop = experts_drop},
    WIDE_ROW,
    {NULL},
};

const struct op op_expert_blocks = {
    .name = "expert_blocks",
    .doc = "y[g, n, t, m] = sum over k of x[g, n, t, k] value of w[g, e, m, k], e of group g being expert ids[n, t]",
    .source = "GGUF",
    .in = {[X] = {"x", IN_FLOAT}, [W] = {"w", IN_INDEX}, [IDS] = {"ids", IN_INDEX}},
    .attr = {[KIND] = BLOCK_KIND_ATTR,
             [TURNED] = {"turned", ATTR_BOOL, .doc = "sum over m, the gradient with respect to x"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "12",
    .host.ref = ref,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN | OP_NARROW,
    .sample = {"f32{1,5,1,64} u8{1,3,4,2,34}<60 i64{5,2}<3", "f32{2,7,2,32} u8{2,2,4,1,18}<60 i64{7,2}<4 kind=Q4_0",
               "f32{1,3,1,256} u8{2,3,5,1,144}<60 i32{3,3}<7 kind=Q4_K",
               "f32{2,4,2,3} u8{2,2,3,1,20}<60 i64{4,2}<4 kind=Q4_1 turned=1",
               "bf16{1,6,2,4} u8{1,3,4,2,34}<60 i64{6,2}<3 turned=1"},
};
