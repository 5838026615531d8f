/* cross_entropy_target.c - the logit at each label, where the classes may be split: a rank gives those that it holds,
 * and zeros for others, so that only one number a position moves. Ignored labels give 0.
 *
 * A number m of each position comes off where the logit is: off the ranks' sum it could be as a P, whose addends would
 * be as large as m and lose the digits of what is left. */
#include "kernels/op/cross_entropy.h"

/* m has size one where the classes are. */
static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, labels = {0}, m = {0};
    int axis = ce_axis(c->in[0].ndim);
    ce_rule(&c->in[0], false, &x, &labels);
    str_addf(&m, "%.*s1%s", axis, str_text(&labels), str_text(&labels) + axis);
    str_addf(rule, "%s,%s,%s->%s", str_text(&x), str_text(&labels), str_text(&m), str_text(&labels));
    str_free(&m);
    str_free(&x);
    str_free(&labels);
    return 0;
}

/* A function of x and m is not linear in x. */
static const char *
linear_of(const struct call *c)
{
    return absent(&c->in[2]) ? "0" : NULL;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[0];
    const double *m = absent(&k->call->in[2]) ? NULL : f64_of(&k->in[2]);
    int axis = ce_axis(x->ndim);
    struct lines l = lines_of(x, axis);
    lookup_find(k);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t label = i64_of(&k->in[1])[r], at = lookup_here(label, x->offset[axis], l.size);
        bool here = label != k->call->attr[CE_IGNORE].i && at >= 0;
        double *y = f64_of(&k->out[0]) + r;
        *y = here ? f64_of(x)[(r / l.inner * l.size + at) * l.inner + r % l.inner] - (m ? m[r] : 0) : 0;
    }
    return 0;
}

/* Reads one element a position: the operands as they lie, without conversion of all logits. */
static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    const struct view *x = &k->in[0], *labels = &k->in[1], *m = &k->in[2], *y = &k->out[0];
    bool less = !absent(&k->call->in[2]);
    int axis = ce_axis(x->ndim);
    struct lines l = lines_of(x, axis);
    lookup_find(k);
    for (int64_t r = 0, since = 0; r < l.outer * l.inner && !stop_after(&since, 64); r++) {
        int64_t label = elem_get_i(labels->dtype, labels->data, r), at = lookup_here(label, x->offset[axis], l.size);
        bool here = label != k->call->attr[CE_IGNORE].i && at >= 0;
        int64_t from = (r / l.inner * l.size + at) * l.inner + r % l.inner;
        double off = here && less ? elem_get_f(m->dtype, m->data, r) : 0;
        elem_set_f(y->dtype, y->data, r, here ? elem_get_f(x->dtype, x->data, from) - off : 0);
    }
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *in[] = {n->in[0], n->in[1], dout[0]};
    if (b_wants(n, 0)) din[0] = b_call(b, &op_cross_entropy_spread, 3, in, n->attr);
    if (!b_wants(n, 2)) return;
    struct val *counts = ce_which_count(b, n->in[1], n->attr[CE_IGNORE].i);
    din[2] = b_unsqueeze(b, b_where(b, counts, b_neg(b, dout[0]), b_number(b, 0)), ce_axis(n->in[0]->type.ndim));
}

static const struct kernel_variant variants[] = {{"simple", .dense_in = true, .run = run}, {NULL}};

static const char element[] = BODY({
    const int axis = NDIM0 > 1;
    int64_t from[8];
    for (int d = 0; d < NDIM0; d++) from[d] = at[d < axis ? d : d - 1];
    from[axis] = x1(at) - place0(axis);
    if (x1(at) == c->attr[IGNORE_INDEX].i || from[axis] < 0 || from[axis] >= dim0(axis)) return (real)0;
    const real logit = x0(from);
    from[axis] = 0;
    return logit - x2(from);
});

const struct op op_cross_entropy_target = {
    .name = "cross_entropy_target",
    .doc = "the logit at each label, less m; 0 where it is ignored",
    .in = {{"logits", IN_FLOAT}, {"labels", IN_INDEX}, {"m", IN_FLOAT | IN_OPTIONAL}},
    .attr = {[CE_IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "a label that does not count"}},
    .make_rule = rule,
    .dtype = OUT_IN0,
    .linear_of = linear_of,
    .reduce = RED_SUM,
    .grad = grad,
    .saves = "01",
    .ref = ref,
    .element = element,
    .allows = ce_allows,
    .kernel = variants,
    .say = ce_say,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6", "f32{2,5,3} i32{2,3}<5 ignore_index=1", "bf16{7} i64{}<7",
               "f32{4,6} i64{4}<6 f32{4,1}", "f32{7} i64{}<7 f32{1}", "f32{2,5,3} i32{2,3}<5 f32{2,1,3}"},
};
