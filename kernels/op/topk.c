/* topk.c - the k greatest (or least) values along an axis, best first, and where they stand. NaN counts as the
 * greatest; of equals the first stands first. */
#include "kernels/op/op_impl.h"

enum { K, AXIS, LARGEST, SORTED };

static int
rule(const struct call *c, struct str *rule)
{
    struct str y = {0};
    for (int d = 0; d < c->in[0].ndim; d++) {
        bool axis = d == c->attr[AXIS].i;
        str_addf(rule, axis ? "[%c]" : "%c", letter(d));
        str_addf(&y, axis ? "[%c]" : "%c", axis ? 'K' : letter(d));
    }
    str_addf(rule, "->%s,%s", str_text(&y), str_text(&y));
    str_free(&y);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    if (c->in[0].ndim == 0) return call_fail(E_SHAPE, c, "x must have a dimension at least");
    int64_t k = c->attr[K].i, n = c->in[0].dim[c->attr[AXIS].i];
    if (k < 0 || k > n) return call_fail(E_ATTR, c, "k must be from 0 to %lld, found %lld", (long long)n, (long long)k);
    size[0] = k;
    c->out[1].dtype = DT_I64;
    return 0;
}

/* Does element i stand before j? */
static bool
before(const struct view *x, int64_t i, int64_t j, bool largest)
{
    if (!is_real(x)) {
        int64_t a = i64_of(x)[i], b = i64_of(x)[j];
        return largest ? a > b : a < b;
    }
    double a = f64_of(x)[i], b = f64_of(x)[j];
    bool greater = a > b || (a != a && b == b), less = a < b || (b != b && a == a);
    return largest ? greater : less;
}

/* Keeps the best k so far in order: each element is let in at its place. */
static int
ref(const struct kcall *k)
{
    const struct attr *attr = k->call->attr;
    const struct view *x = &k->in[0], *value = &k->out[0];
    struct lines l = lines_of(x, (int)attr[AXIS].i);
    int64_t n = attr[K].i;
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t from = r / l.inner * l.size * l.inner + r % l.inner, to = r / l.inner * n * l.inner + r % l.inner;
        int64_t *at = i64_of(&k->out[1]) + to, have = 0;
        for (int64_t i = 0; i < l.size; i++) {
            int64_t p = have;
            while (p > 0 && before(x, from + i * l.inner, from + at[(p - 1) * l.inner] * l.inner, attr[LARGEST].i)) p--;
            if (p == n) continue;
            have = MIN(have + 1, n);
            for (int64_t q = have - 1; q > p; q--) at[q * l.inner] = at[(q - 1) * l.inner];
            at[p * l.inner] = i;
        }
        for (int64_t p = 0; p < n; p++) {
            if (is_real(x))
                f64_of(value)[to + p * l.inner] = f64_of(x)[from + at[p * l.inner] * l.inner];
            else
                i64_of(value)[to + p * l.inner] = i64_of(x)[from + at[p * l.inner] * l.inner];
        }
    }
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0) || !dout[0]) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_gather_grad, attr);
    attr_int(&op_gather_grad, attr, "axis", n->attr[AXIS].i);
    din[0] = b_call(b, &op_gather_grad, 3, (struct val *[]){n->in[0], n->out[1], dout[0]}, attr);
}

static double
flops(const struct call *c)
{
    return (double)type_numel(&c->in[0]);
}

const struct op op_topk = {
    .name = "topk",
    .doc = "the k greatest along axis, best first, and their positions",
    .in = {{"x"}},
    .nout = 2,
    .attr = {[K] = {"k", ATTR_INT, ATTR_REQUIRED, .doc = "how many"},
             [AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension to look along"},
             [LARGEST] = {"largest", ATTR_BOOL, .i = 1, .doc = "false: the least"},
             [SORTED] = {"sorted", ATTR_BOOL, .i = 1, .doc = "results are always sorted"}},
    .make_rule = rule,
    .infer = infer,
    .dtype = OUT_IN0,
    .grad = grad,
    .saves = "0b",
    .ref = ref,
    .flops = flops,
    .sample = {"f32{4,6} k=2", "f32{5,3} k=3 axis=0", "i64{7} k=7 largest=false", "f32{3} k=0"},
};
