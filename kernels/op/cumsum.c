/* cumsum.c - running sums along a dimension, from the front or from the back. */
#include "kernels/op/op_impl.h"

enum { AXIS, REVERSE };

static int
rule(const struct call *c, struct str *rule)
{
    return rule_keep(c, (int)c->attr[AXIS].i, rule);
}

/* Modulo 2^64, as a sum of integers is. */
static int64_t
whole_sum(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a + (uint64_t)x);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    struct lines l = lines_of(x, (int)k->call->attr[AXIS].i);
    bool reverse = k->call->attr[REVERSE].i;
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t s = 0; s < l.size; s++)
            for (int64_t i = 0; i < l.inner; i++) {
                int64_t at = reverse ? l.size - 1 - s : s, here = (o * l.size + at) * l.inner + i;
                int64_t before = here + (reverse ? l.inner : -l.inner);
                if (is_real(y))
                    f64_of(y)[here] = elem_get_f(x->dtype, x->data, here) + (s ? f64_of(y)[before] : 0);
                else
                    i64_of(y)[here] = whole_sum(elem_get_i(x->dtype, x->data, here), s ? i64_of(y)[before] : 0);
            }
    return 0;
}

/* f32 with one accumulator in f64 for each line, all lines of `inner` together. */
static int
run(const struct kcall *k, const void *state)
{
    enum { WIDTH = 256 };
    const float *x = k->in[0].data;
    float *y = k->out[0].data;
    struct lines l = lines_of(&k->in[0], (int)k->call->attr[AXIS].i);
    bool reverse = k->call->attr[REVERSE].i;
    UNUSED(state);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t first = 0; first < l.inner; first += WIDTH) {
            double sum[WIDTH] = {0};
            int64_t width = MIN(l.inner - first, WIDTH);
            for (int64_t s = 0; s < l.size; s++) {
                int64_t here = (o * l.size + (reverse ? l.size - 1 - s : s)) * l.inner + first;
                for (int64_t i = 0; i < width; i++) y[here + i] = (float)(sum[i] += x[here + i]);
            }
        }
    return 0;
}

static bool
accepts(const struct kcall *k)
{
    return k->in[0].dtype == DT_F32 && view_is_dense(&k->out[0]);
}

static const struct kernel_row rows[] = {{"f32", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

/* dx = the running sum of dy the other way */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_cumsum, attr);
    attr_int(&op_cumsum, attr, "axis", n->attr[AXIS].i);
    attr_int(&op_cumsum, attr, "reverse", !n->attr[REVERSE].i);
    din[0] = b_call(b, &op_cumsum, 1, dout, attr);
}

const struct op op_cumsum = {
    .name = "cumsum",
    .doc = "y[i] = x[0] + ... + x[i] along axis",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension to sum along"},
             [REVERSE] = {"reverse", ATTR_BOOL, .doc = "from the last one on"}},
    .make_rule = rule,
    .dtype = OUT_SUM,
    .linear = "0",
    .grad = grad,
    .ref = ref,
    .kernel = rows,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} axis=1", "f32{2,3,5} axis=1 reverse=1", "i32{7} axis=0"},
};
