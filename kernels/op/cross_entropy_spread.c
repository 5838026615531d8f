/* cross_entropy_spread.c - one number a position put at its label, zeros elsewhere: the gradient of
 * cross_entropy_target. Operand like is only looked at. It tells of labels that are no class: where nobody wants the
 * loss it is the only one to see them. */
#include "kernels/op/cross_entropy.h"

#include <string.h>

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, l = {0};
    ce_rule(&c->in[0], false, &x, &l);
    str_addf(rule, "%s,%s,%s->%s", str_text(&x), str_text(&l), str_text(&l), str_text(&x));
    str_free(&x);
    str_free(&l);
    return 0;
}

/* Element by element through elem_set_f: right for every dtype, so that the row is the reference. */
static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    const struct view *y = &k->out[0], *labels = &k->in[1], *g = &k->in[2];
    int axis = ce_axis(y->ndim);
    struct lines l = lines_of(y, axis);
    lookup_find(k);
    view_clear(y);
    for (int64_t r = 0, since = 0; r < l.outer * l.inner && !stop_after(&since, 64); r++) {
        int64_t label = elem_get_i(labels->dtype, labels->data, r), at = lookup_here(label, y->offset[axis], l.size);
        if (label == k->call->attr[CE_IGNORE].i || at < 0) continue;
        int64_t to = (r / l.inner * l.size + at) * l.inner + r % l.inner;
        elem_set_f(y->dtype, y->data, to, elem_get_f(g->dtype, g->data, r));
    }
    return 0;
}

static int
ref(const struct kcall *k)
{
    return run(k, NULL);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 2))
        din[2] = b_call(b, &op_cross_entropy_target, 3, (struct val *[]){dout[0], n->in[1], NULL}, n->attr);
}

static const struct kernel_variant variants[] = {{"simple", .dense_in = true, .run = run}, {NULL}};

static const char element[] = BODY({
    const int axis = NDIM > 1;
    int64_t of[8];
    for (int d = 0; d < NDIM - 1; d++) of[d] = at[d < axis ? d : d + 1];
    return x1(of) != c->attr[IGNORE_INDEX].i && x1(of) == place(axis) ? x2(of) : 0;
});

const struct op op_cross_entropy_spread = {
    .name = "cross_entropy_spread",
    .doc = "y[label] = g at each position, 0 elsewhere; of like's shape",
    .in = {{"like", IN_FLOAT}, {"labels", IN_INDEX}, {"g", IN_FLOAT}},
    .attr = {[CE_IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "a label that does not count"}},
    .make_rule = rule,
    .dtype = OUT_IN0,
    .linear = "2",
    .grad = grad,
    .saves = "1",
    .ref = ref,
    .element = element,
    .allows = ce_allows,
    .kernel = variants,
    .say = ce_say,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6 f32{4}", "f32{2,5,3} i32{2,3}<5 f32{2,3} ignore_index=1", "bf16{7} i64{}<7 bf16{}"},
};
