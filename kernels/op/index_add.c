/* index_add.c - adds entries at given positions in a tensor of zeros: the gradient of embedding and index_select.
 *
 * Operand `like` only determines the shape and layout of the result. If `like` is split, a rank adds at the
 * positions that it holds. Split sources leave partial sums. index_add checks the ids, because the forward
 * operator that would check them may have been dropped as unused. */
#include "kernels/op/lib/lookup.h"

extern const struct op op_index_add_to, op_index_select;

static int
ref(const struct kcall *k)
{
    lookup_find(k);
    view_clear(&k->out[0]);
    lookup_put(&k->out[0], axis_of(k->call), &k->in[1], &k->in[2]);
    return 0;
}

static bool
accepts(const struct kcall *k)
{
    enum dtype from = k->in[2].dtype, to = k->out[0].dtype;
    return (from == to || to == DT_F32) && view_numel(&k->in[1]) < INT32_MAX;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    lookup_find(k);
    lookup_put_fast(&k->out[0], axis_of(k->call), &k->in[1], &k->in[2], NULL, k->threads, k->scratch);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 2) || !dout[0]) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_index_select, attr);
    attr_int(&op_index_select, attr, "axis", n->attr[0].i);
    din[2] = b_call(b, &op_index_select, 2, (struct val *[]){dout[0], n->in[1]}, attr);
}

static struct val *
onto(struct build *b, const struct node *n, struct val *x)
{
    if (x->type.dtype != n->out[0]->type.dtype) return NULL;
    return b_call(b, &op_index_add_to, 3, (struct val *[]){x, n->in[1], n->in[2]}, n->attr);
}

static const struct kernel_variant variants[] = {
    {"lists", .dense_in = true, .accepts = accepts, .prepare = lookup_prepare, .run = run}, {NULL}};

static const char start[] = LOOKUP_START(0.0);
static const char sum[] = LOOKUP_SUM(0.0);
static const struct line_pass passes[] = {{.body = start, .writes = 1}, {.body = sum, .writes = 1}, {NULL}};

const struct op op_index_add = {
    .name = "index_add",
    .doc = "y[.., v, ..] = sum of src[.., j, ..] over all j with ids[j] = v, along axis; of like's shape",
    .in = {{"like"}, {"ids", IN_INDEX}, {"src", IN_FLOAT}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that ids index"}},
    .shape.make_rule = lookup_put_rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "2",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .rewrite.onto = onto,
    .grad.saves = "1",
    .host.ref = ref,
    .gpu.pass = passes,
    .gpu.line_dims = lookup_entry_dims,
    .gpu.by_position = 1 << 1 | 1 << 2,
    .host.allows = lookup_allows,
    .host.say = lookup_say_gradient,
    .host.kernel = variants,
    .flags = OP_HIDDEN,
    .flops = lookup_flops,
    .sample = {"f32{7,3} i64{5}<7 f32{5,3} axis=0", "f32{2,4,3} i64{2,3}<4 f32{2,2,3,3} axis=1",
               "bf16{4,3} i32{6}<4 bf16{6,3} axis=0"},
};
