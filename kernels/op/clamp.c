/* clamp.c - values held between a least and a greatest one. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/op_impl.h"

#include "kernels/cpu/simd.h"

static double
real(const struct call *c, const double *x)
{
    double y = x[0];
    if (!absent(&c->in[1]) && y < x[1]) y = x[1];
    if (!absent(&c->in[2]) && y > x[2]) y = x[2];
    return y;
}

static int64_t
whole(const struct call *c, const int64_t *x)
{
    int64_t y = x[0];
    if (!absent(&c->in[1]) && y < x[1]) y = x[1];
    if (!absent(&c->in[2]) && y > x[2]) y = x[2];
    return y;
}

VECTOR static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[0], *least = x[1], *most = x[2];
    if (least && most)
        for (int64_t i = 0; i < n; i++) {
            float v = u[i] < least[i] ? least[i] : u[i];
            y[i] = v > most[i] ? most[i] : v;
        }
    else if (least)
        for (int64_t i = 0; i < n; i++) y[i] = u[i] < least[i] ? least[i] : u[i];
    else if (most)
        for (int64_t i = 0; i < n; i++) y[i] = u[i] > most[i] ? most[i] : u[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = u[i];
}

/* g where the bound is the result, else 0. */
static struct val *
where_bound(struct build *b, const struct op *beyond, const struct node *n, int bound, struct val *g)
{
    struct val *out = b_call2(b, beyond, n->in[0], n->in[bound]);
    return b_sum_to(b, b_where(b, out, g, b_number(b, 0)), &n->in[bound]->type);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *dx = dout[0], *none = b_number(b, 0), *least = n->nin > 1 ? n->in[1] : NULL;
    struct val *most = n->nin > 2 ? n->in[2] : NULL;
    if (least) dx = b_where(b, b_call2(b, &op_lt, n->in[0], least), none, dx);
    if (most) dx = b_where(b, b_call2(b, &op_gt, n->in[0], most), none, dx);
    if (b_wants(n, 0)) din[0] = b_sum_to(b, dx, &n->in[0]->type);
    if (b_wants(n, 1)) din[1] = where_bound(b, &op_lt, n, 1, dout[0]);
    if (b_wants(n, 2)) din[2] = where_bound(b, &op_gt, n, 2, dout[0]);
}

const struct op op_clamp = {
    .name = "clamp",
    .doc = "y = min(max(x, least), most)",
    .in = {{"x"}, {"min", IN_NUMBER | IN_OPTIONAL}, {"max", IN_NUMBER | IN_OPTIONAL}},
    .make_rule = rule_broadcast,
    .increasing = "0",
    .grad = grad,
    .saves = "012",
    .eltwise = {.f = real, .i = whole, .block_f32 = block},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} #-0.5 #0.5", "f32{7} - #0.25", "f32{4,6} #0 -", "i64{5}<9 #2 #6", "f32{4,6} f32{6} -",
               "f32{6} - f32{4,6}"},
};
