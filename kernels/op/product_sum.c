/* product_sum.c - sums of products over dimensions, in one pass: y = sum of a (x - c). Without c, c is 0. Without a,
 * the distances are squared: y = sum of (x - c)^2.
 *
 * mul and sum would write all products to memory, and read them again. The gradient of a factor that was broadcast is
 * such a sum, and so is the variance of a batch norm. Times on one core of a Xeon (Emerald Rapids), us:
 *
 *                                                  mul, then sum   product_sum
 *    f32{32,16,32,32} to size 16, with c and a               292           140
 *    f32{256,768} to size 768, with a                         71            35 */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/products.h"
#include "kernels/cpu/rows/reduce.h"

enum { X = PRODUCT_X, C = PRODUCT_C, A = PRODUCT_A };
enum { AXIS };

static int
rule(const struct call *c, struct str *rule)
{
    int n = c->in[X].ndim;
    bool gone[MAX_DIM];
    reduced_dims(c, gone);
    for (int k = 0; k <= c->nin; k++) {
        bool narrow = k == C || k == c->nin; /* operand c and the result have size 1 in the reduced dimensions */
        str_add(rule, k == 0 ? "" : k == c->nin ? "->" : ",");
        if (k < c->nin && absent(&c->in[k])) str_add(rule, "=");
        for (int d = 0; d < n && !(k < c->nin && absent(&c->in[k])); d++)
            str_addf(rule, "%c", narrow && gone[d] ? '1' : letter(d));
    }
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    for (int k = C; k < c->nin; k++)
        if (!absent(&c->in[k]) && c->in[k].ndim != c->in[X].ndim)
            return call_fail(E_SHAPE, c, "%s must have %d dimensions, as x, found %d", c->op->in[k].name, c->in[X].ndim,
                             c->in[k].ndim);
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X], *c = product_operand(k, C), *a = product_operand(k, A), *y = &k->out[0];
    for (int64_t i = 0; i < view_numel(y); i++) f64_of(y)[i] = 0;
    for (int64_t i = 0; i < view_numel(x); i++) {
        int64_t to = reduced_index(k, i);
        double distance = f64_of(x)[i] - (c ? f64_of(c)[to] : 0);
        f64_of(y)[to] += distance * (a ? f64_of(a)[i] : distance);
    }
    return 0;
}

static const char *
linear_of(const struct call *c)
{
    if (c->nin <= A || absent(&c->in[A])) return NULL;
    return absent(&c->in[C]) ? "0|2" : "2";
}

/* Without a, backward builds c - x. Forward often has x - c, and if backward built the same call, the step would
 * compute it once and keep all of it in memory. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *c = n->nin > C ? n->in[C] : NULL, *a = n->nin > A ? n->in[A] : NULL, *dy = dout[0];
    const struct attr *axis = &n->attr[AXIS];
    struct val *back = a ? a : c ? b_sub(b, c, x) : x, *scale = a ? dy : b_scale(b, dy, c ? -2 : 2);
    if (b_wants(n, X)) din[X] = b_mul(b, scale, back);
    if (c && b_wants(n, C)) din[C] = b_neg(b, b_mul(b, scale, b_sum(b, back, axis->list, axis->n, true)));
    if (a && b_wants(n, A)) din[A] = b_mul(b, dy, c ? b_sub(b, x, c) : x);
    for (int i = 0; i < n->nin; i++)
        if (din[i]) din[i] = b_cast(b, din[i], n->in[i]->type.dtype);
}

/* Texts of two GPU kernels: sums of parts of each line, and the sum of the parts. */
static const char parts[] = BODY({
    const bool centered = !absent(&c->in[1]), weighted = !absent(&c->in[2]);
    keep(0, fold<sums>(0.0, [&](element i) {
             const real distance = centered ? x0(from + i) - x1(from + i) : x0(from + i);
             return weighted ? x2(from + i) * distance : distance * distance;
         }));
});
static const char total[] = BODY({
    const double sum = fold_parts<sums>(0.0, [&](int64_t i) { return kept_part<double>(i, 0); });
    once([&] { y0(0, sum); });
});

static const struct line_pass passes[] = {
    {.body = parts, .dims = reduced_dims, .keeps = 1, .parted = true, .lanes = true},
    {.body = total, .dims = reduced_dims, .writes = 1},
    {NULL},
};

const struct op op_product_sum = {
    .name = "product_sum",
    .doc = "y = sum of a (x - c) over axis; without a: sum of (x - c)^2",
    .in = {[X] = {"x", IN_FLOAT}, [C] = {"c", IN_FLOAT | IN_OPTIONAL}, [A] = {"a", IN_FLOAT | IN_OPTIONAL}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to sum over, kept with size 1; default: all"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear_of = linear_of,
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "012",
    .host.ref = ref,
    .host.kernel = reduce_products,
    .gpu.pass = passes,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,1} f32{4,6} axis=1", "f32{2,3,5} f32{1,3,1} - axis=0,2",
               "f32{2,3,5} - f32{2,3,5} axis=1", "f32{7} f32{1}", "bf16{3,17} bf16{3,1} bf16{3,17} axis=1",
               "f64{90,3} f64{1,3} f64{90,3} axis=0", "f32{3,0} - f32{3,0} axis=1",
               "f32{3,4,40} f32{1,4,1} f32{3,4,40} axis=0,2"},
};
