/* softmax_grad.c - the gradient of softmax: dx = y (dy - sum of y dy), along one axis. */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/team.h"

enum { AXIS };

static int
rule(const struct call *c, struct str *rule)
{
    return rule_keep(c, (int)c->attr[AXIS].i, rule);
}

static int
ref(const struct kcall *k)
{
    struct lines l = lines_of(&k->in[0], (int)k->call->attr[AXIS].i);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t at = r / l.inner * l.size * l.inner + r % l.inner;
        const double *y = f64_of(&k->in[0]) + at, *dy = f64_of(&k->in[1]) + at;
        double sum = 0;
        for (int64_t i = 0; i < l.size; i++) sum += y[i * l.inner] * dy[i * l.inner];
        for (int64_t i = 0; i < l.size; i++)
            f64_of(&k->out[0])[at + i * l.inner] = y[i * l.inner] * (dy[i * l.inner] - sum);
    }
    return 0;
}

/* ---- fast ---- */

static bool
accepts(const struct kcall *k)
{
    enum dtype d = k->out[0].dtype;
    return (d == DT_F32 || d == DT_BF16 || d == DT_F16) && k->in[0].dtype == d && k->in[1].dtype == d;
}

VECTOR static void
combine(int64_t n, const float *y, const float *dy, float sum, float *dx)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}

static void
one_row(const struct row *y, const struct row *dy, const struct row *dx)
{
    float room[2][ROW_BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < y->n; i += ROW_BLOCK) {
        int64_t n = MIN(y->n - i, ROW_BLOCK);
        sum += vec_dot(n, row_load(y, i, n, room[0]), row_load(dy, i, n, room[1]));
    }
    for (int64_t i = 0; i < y->n; i += ROW_BLOCK) {
        int64_t n = MIN(y->n - i, ROW_BLOCK);
        float *to = row_into(dx, i, room[0]);
        combine(n, row_load(y, i, n, room[0]), row_load(dy, i, n, room[1]), (float)sum, to);
        row_store(dx, i, n, to);
    }
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    int axis = (int)k->call->attr[AXIS].i;
    for (int64_t r = lo; r < hi; r++) {
        struct row y = row_of(&k->in[0], axis, r), dy = row_of(&k->in[1], axis, r), dx = row_of(&k->out[0], axis, r);
        one_row(&y, &dy, &dx);
    }
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    int axis = (int)k->call->attr[AXIS].i;
    team_run(k->threads, row_count(&k->in[0], axis), 1 + 32768 / MAX(k->in[0].dim[axis], 1), range, (void *)k);
    return 0;
}

/* With h the gradient of dx: that of dy is y (h - sum of h y), that of y is h (dy - sum of y dy) - dy sum of h y. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *y = n->in[0], *dy = n->in[1], *h = dout[0];
    int64_t axis = n->attr[AXIS].i;
    if (b_wants(n, 1)) din[1] = b_softmax_grad(b, y, h, (int)axis);
    if (!b_wants(n, 0)) return;
    struct val *inner = b_sum(b, b_mul(b, y, dy), &axis, 1, true), *outer = b_sum(b, b_mul(b, h, y), &axis, 1, true);
    din[0] = b_sub(b, b_mul(b, h, b_sub(b, dy, inner)), b_mul(b, dy, outer));
}

static const struct kernel_row rows[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

const struct op op_softmax_grad = {
    .name = "softmax_grad",
    .doc = "dx = y (dy - sum over axis of y dy)",
    .in = {{"y", IN_FLOAT}, {"dy", IN_FLOAT}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension that sums to 1"}},
    .make_rule = rule,
    .linear = "1",
    .grad = grad,
    .saves = "01",
    .ref = ref,
    .kernel = rows,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,6}", "f32{2,3,5} f32{2,3,5} axis=1", "bf16{2,17} bf16{2,17}"},
};
