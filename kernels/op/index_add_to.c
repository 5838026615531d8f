/* index_add_to.c - x plus entries at given positions: adds the gradient of embedding or index_select to another
 * gradient of the same table. Only the rows at these positions change, so a small batch writes few bytes. */
#include "kernels/op/lib/lookup.h"

#include <string.h>

extern const struct op op_index_select;

static int
ref(const struct kcall *k)
{
    lookup_find(k);
    if (k->out[0].data != k->in[0].data)
        memcpy(k->out[0].data, k->in[0].data, (size_t)view_numel(&k->out[0]) * sizeof(double));
    lookup_put(&k->out[0], axis_of(k->call), &k->in[1], &k->in[2]);
    return 0;
}

static bool
accepts(const struct kcall *k)
{
    enum dtype from = k->in[2].dtype, to = k->out[0].dtype;
    return to == k->in[0].dtype && (from == to || to == DT_F32) && view_numel(&k->in[1]) < INT32_MAX;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    lookup_find(k);
    lookup_put_fast(&k->out[0], axis_of(k->call), &k->in[1], &k->in[2], &k->in[0], k->threads, k->scratch);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = dout[0];
    if (!b_wants(n, 2) || !dout[0]) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_index_select, attr);
    attr_int(&op_index_select, attr, "axis", n->attr[0].i);
    struct val *g = b_call(b, &op_index_select, 2, (struct val *[]){dout[0], n->in[1]}, attr);
    din[2] = b_cast(b, g, n->in[2]->type.dtype);
}

static const struct kernel_variant variants[] = {
    {"lists", .dense_in = true, .accepts = accepts, .prepare = lookup_prepare, .run = run}, {NULL}};

static const char start[] = LOOKUP_START((double)x0(i));
static const char sum[] = LOOKUP_SUM(x0(i));
static const struct line_pass passes[] = {
    {.body = start, .writes = 1, .copies = true}, {.body = sum, .writes = 1}, {NULL}};

const struct op op_index_add_to = {
    .name = "index_add_to",
    .doc = "y[.., v, ..] = x[.., v, ..] + sum of src[.., j, ..] over all j with ids[j] = v, along axis",
    .in = {{"x", IN_FLOAT}, {"ids", IN_INDEX}, {"src", IN_FLOAT}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that ids index"}},
    .shape.make_rule = lookup_put_rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "02",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "1",
    .host.ref = ref,
    .gpu.pass = passes,
    .gpu.line_dims = lookup_entry_dims,
    .gpu.by_position = 1 << 1 | 1 << 2,
    .host.allows = lookup_allows,
    .host.say = lookup_say_gradient,
    .host.kernel = variants,
    .ninplace = 1,
    .flags = OP_INPLACE | OP_HIDDEN | OP_FOLLOWS,
    .flops = lookup_flops,
    .sample = {"f32{7,3} i64{5}<7 f32{5,3} axis=0", "f32{2,4,3} i64{2,3}<4 f32{2,2,3,3} axis=1",
               "bf16{4,3} i32{6}<4 bf16{6,3} axis=0"},
};
