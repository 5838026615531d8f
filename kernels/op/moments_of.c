/* moments_of.c - the mean of a row and 1 / sqrt(variance + eps), for each shard of the row. Both numbers are computed
 * from two codes: the shard's own (told) and the answer to it (joined), see moments.h.
 *
 * The operator does not read the values of x, but x receives the gradient of its moments. In a row of n elements,
 * with sums over the shards:
 *
 *   dx = sum(dmean) / n - (x - mean) * rstd^3 * sum(drstd) / n
 *
 * So ranks exchange two numbers per row. */
#include "kernels/op/lib/moments.h"

enum { X, TOLD, BACK };
enum { MEAN, RSTD };
enum { DIMS, EPS };

/* Returns the number of dimensions before the dimension of shards. A negative result means that x has no dimension
 * of shards. */
static int
lead_of(const struct call *c)
{
    return c->in[X].ndim - 1 - (int)c->attr[DIMS].i;
}

static int
rule(const struct call *c, struct str *rule)
{
    int n = c->in[X].ndim, whole = lead_of(c) + 1;
    if (whole < 1) return call_fail(E_ATTR, c, "x must have a dimension of shards before the last %d", n - whole);
    for (int i = 0; i < 5; i++) {
        str_add(rule, i == 0 ? "" : i == 3 ? "->" : ",");
        for (int d = 0; d < whole; d++) str_addf(rule, "%c", letter(d));
        for (int d = whole; d < n && i == X; d++) str_addf(rule, "[%c]", letter(d));
        for (int d = whole; d < n && i > BACK; d++) str_add(rule, "1");
        if (i == TOLD || i == BACK) str_addf(rule, "[%c]", i == TOLD ? 'Y' : 'Z');
    }
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    const struct type *told = &c->in[TOLD], *joined = &c->in[BACK];
    if (told->dtype != DT_U8 || told->dim[told->ndim - 1] != TOLD_BYTES || joined->dtype != DT_U8 ||
        joined->dim[joined->ndim - 1] != JOINED_BYTES)
        return call_fail(E_DTYPE, c, "codes must be u8 {.., %d} and u8 {.., %d}", TOLD_BYTES, JOINED_BYTES);
    c->out[MEAN].dtype = DT_F64;
    c->out[RSTD].dtype = DT_F32;
    return 0;
}

static double
rstd_of(double deviation, double eps)
{
    return 1 / sqrt(deviation * deviation + eps);
}

static int
ref(const struct kcall *k)
{
    const struct view *mean = &k->out[MEAN], *rstd = &k->out[RSTD];
    uint8_t code[TOLD_BYTES];
    int range = moments_range(k->in[X].global[lead_of(k->call)]);
    for (int64_t i = 0, since = 0; i < view_numel(mean) && !stop_after(&since, 64); i++) {
        moments_get(&k->in[TOLD], i, TOLD_BYTES, code);
        double own = moments_number(code, TOLD_BYTES, TOLD_RANGE);
        moments_get(&k->in[BACK], i, JOINED_BYTES, code);
        elem_set_f((enum dtype)mean->dtype, mean->data, i, own + moments_number(code, JOINED_BYTES, range));
        elem_set_f((enum dtype)rstd->dtype, rstd->data, i, rstd_of(moments_scale(code), k->call->attr[EPS].f));
    }
    return 0;
}

/* Returns the sum of dout over the axis of shards, in f32; NULL if dout is NULL. */
static struct val *
of_parts(struct build *b, const struct node *n, struct val *dout)
{
    int64_t axis = n->in[X]->type.ndim - 1 - n->attr[DIMS].i;
    return dout ? b_line_sum(b, b_cast(b, dout, DT_F32), &axis, 1, DT_F32) : NULL;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *mean = n->out[MEAN], *r = n->out[RSTD], *by_mean = NULL, *by_rstd = NULL;
    double size = 1;
    if (!b_wants(n, X)) return;
    for (int d = x->type.ndim - 1 - (int)n->attr[DIMS].i; d < x->type.ndim; d++) size *= (double)x->type.dim[d];
    if (dout[MEAN]) by_mean = b_scale(b, of_parts(b, n, dout[MEAN]), 1 / size);
    if (dout[RSTD]) { /* multiplies by rstd three times, because rstd^3 may overflow or underflow f32 */
        struct val *xhat = b_mul(b, b_cast(b, b_sub(b, x, mean), DT_F32), r);
        by_rstd = b_mul(b, xhat, b_mul(b, r, b_mul(b, r, b_scale(b, of_parts(b, n, dout[RSTD]), -1 / size))));
    }
    din[X] = !by_mean ? by_rstd : by_rstd ? b_add(b, by_rstd, by_mean) : b_along(b, x, by_mean);
}

static void
line_dims(const struct call *c, bool *gone)
{
    for (int d = 0; d < c->in[X].ndim; d++) gone[d] = d > lead_of(c);
}

static const char line[] = MOMENTS_BODY({
    once([&] {
        const int whole = NDIM0 - (int)c->attr[DIMS].i;
        int64_t at[8];
        uint8_t told[TOLD_BYTES], joined[JOINED_BYTES];
        where(0, at);
        for (int k = 0; k < TOLD_BYTES; k++) {
            at[whole] = k;
            told[k] = (uint8_t)x1(at);
        }
        for (int k = 0; k < JOINED_BYTES; k++) {
            at[whole] = k;
            joined[k] = (uint8_t)x2(at);
        }
        const int range = moments_range(whole0(whole - 1));
        y0(0, moments_number(told, TOLD_BYTES, TOLD_RANGE) + moments_number(joined, JOINED_BYTES, range));
        const double deviation = moments_scale(joined);
        y1(0, 1 / sqrt(deviation * deviation + c->attr[EPS].f));
    });
});

/* Returns the number of operations: a code is decoded byte by byte. */
static double
flops(const struct call *c)
{
    return 2 * (double)(type_numel(&c->in[TOLD]) + type_numel(&c->in[BACK]));
}

const struct op op_moments_of = {
    .name = "moments_of",
    .doc = "mean and 1 / sqrt(variance + eps) of the rows of x, for each shard of a row, from the codes it sent and "
           "received",
    .in = {[X] = {"x", IN_FLOAT}, [TOLD] = {"told"}, [BACK] = {"joined"}},
    .nout = 2,
    .attr = {[DIMS] = {"dims", ATTR_INT, .i = 1, .doc = "number of last dimensions that form a shard of a row"},
             [EPS] = {"eps", ATTR_FLOAT, .f = 1e-5, .doc = "added to the variance"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .grad.build = grad,
    .grad.saves = "0ab",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = line_dims,
    .gpu.by_position = 1 << TOLD | 1 << BACK,
    .host.kernel = kernel_direct,
    .flops = flops,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,2,6} u8{4,2,9} u8{4,2,7}", "f32{3,5} u8{3,9} u8{3,7}", "f32{2,3,4,5} u8{2,3,9} u8{2,3,7} dims=2"},
};
