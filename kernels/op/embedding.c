/* embedding.c - rows of a table, selected by ids.
 *
 * A table split by rows leaves partial sums: a rank looks up the ids whose rows it holds, and returns zeros for all
 * other ids. */
#include "kernels/op/lib/lookup.h"

static int
rule(const struct call *c, struct str *rule)
{
    struct lookup_text t = lookup_text(&c->in[1], &c->in[0], 0);
    str_addf(rule, "%s,%s->%s", t.ids, t.x, t.out);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    if (c->in[1].ndim != 2) return call_fail(E_SHAPE, c, "table must have 2 dimensions, found %d", c->in[1].ndim);
    return infer_one_more(c, size);
}

static int
ref(const struct kcall *k)
{
    lookup_find(k);
    lookup_take(&k->in[1], 0, &k->in[0], &k->out[0]);
    return 0;
}

static int
say(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"embedding", "id", "in a table of ", " rows"};
    return lookup_say(k, 0, k->in[1].global[0], &words, f);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 1)) din[1] = b_index_add(b, n->in[1], 0, n->in[0], dout[0]);
}

static const char element[] = BODY({
    const int64_t from[] = {x0(at) - place1(0), at[NDIM - 1]};
    return from[0] >= 0 && from[0] < dim1(0) ? x1(from) : 0;
});

static void
allows(const struct kcall *k, struct allowed *a)
{
    *a = (struct allowed){.operand = 0, .count = (uint64_t)k->in[1].global[0]};
}

const struct op op_embedding = {
    .name = "embedding",
    .doc = "y[..., d] = table[ids[...], d]",
    .result = "a tensor of ids' shape with one more dimension, the second of table",
    .errors = "table must have 2 dimensions, (rows, size)\n"
              "an id must be from 0 to the number of rows - 1",
    .in = {{"ids", IN_INDEX}, {"table"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN1,
    .partial.linear = "1",
    .partial.increasing = "1",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.element = element,
    .host.allows = allows,
    .host.say = say,
    .host.kernel = kernel_direct,
    .flops = flops_of_copy,
    .sample = {"i64{5}<7 f32{7,3}", "i32{2,3}<4 f32{4,5}", "i64{}<3 bf16{3,2}", "i64{0}<3 f32{3,4}"},
};
