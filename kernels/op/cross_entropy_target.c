/* cross_entropy_target.c - the logit at each label, where the classes may be split: a rank gives those that it holds,
 * and zeros for others, so that only one number a position moves. Ignored labels give 0. */
#include "kernels/op/cross_entropy.h"

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, labels = {0};
    ce_rule(&c->in[0], false, &x, &labels);
    str_addf(rule, "%s,%s->%s", str_text(&x), str_text(&labels), str_text(&labels));
    str_free(&x);
    str_free(&labels);
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[0];
    int axis = ce_axis(x->ndim);
    struct lines l = lines_of(x, axis);
    lookup_find(k);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t label = i64_of(&k->in[1])[r], at = lookup_here(label, x->offset[axis], l.size);
        bool here = label != k->call->attr[CE_IGNORE].i && at >= 0;
        double *y = f64_of(&k->out[0]) + r;
        *y = here ? f64_of(x)[(r / l.inner * l.size + at) * l.inner + r % l.inner] : 0;
    }
    return 0;
}

/* Reads one element a position: the operands as they lie, without conversion of all logits. */
static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    const struct view *x = &k->in[0], *labels = &k->in[1], *y = &k->out[0];
    int axis = ce_axis(x->ndim);
    struct lines l = lines_of(x, axis);
    lookup_find(k);
    for (int64_t r = 0, since = 0; r < l.outer * l.inner && !stop_after(&since, 64); r++) {
        int64_t label = elem_get_i(labels->dtype, labels->data, r), at = lookup_here(label, x->offset[axis], l.size);
        bool here = label != k->call->attr[CE_IGNORE].i && at >= 0;
        int64_t from = (r / l.inner * l.size + at) * l.inner + r % l.inner;
        elem_set_f(y->dtype, y->data, r, here ? elem_get_f(x->dtype, x->data, from) : 0);
    }
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *in[] = {n->in[0], n->in[1], dout[0]};
    din[0] = b_call(b, &op_cross_entropy_spread, 3, in, n->attr);
}

static const struct kernel_variant variants[] = {{"simple", .dense_in = true, .run = run}, {NULL}};

static const char element[] = BODY({
    const int axis = NDIM0 > 1;
    int64_t from[8];
    for (int d = 0; d < NDIM0; d++) from[d] = at[d < axis ? d : d - 1];
    from[axis] = x1(at) - place0(axis);
    return x1(at) != c->attr[IGNORE_INDEX].i && from[axis] >= 0 && from[axis] < dim0(axis) ? x0(from) : 0;
});

const struct op op_cross_entropy_target = {
    .name = "cross_entropy_target",
    .doc = "the logit at each label; 0 where it is ignored",
    .in = {{"logits", IN_FLOAT}, {"labels", IN_INDEX}},
    .attr = {[CE_IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "a label that does not count"}},
    .make_rule = rule,
    .dtype = OUT_IN0,
    .linear = "0",
    .reduce = RED_SUM,
    .grad = grad,
    .saves = "01",
    .ref = ref,
    .element = element,
    .allows = ce_allows,
    .kernel = variants,
    .say = ce_say,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6", "f32{2,5,3} i32{2,3}<5 ignore_index=1", "bf16{7} i64{}<7"},
};
