/* softmax.c - exponentials normalised to sum 1 along one axis.
 *
 * The axis stays whole on every rank, or the call is written in parts. Row maximum, exponentials and their sum,
 * then the division: three passes over a row that lies in the cache.
 * The maximum is subtracted first, so that nothing overflows. */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/rows.h"
#include "kernels/cpu/team.h"

#include <math.h>

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
        const double *x = f64_of(&k->in[0]) + at;
        double *y = f64_of(&k->out[0]) + at, max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < l.size; i++) max = fmax(max, x[i * l.inner]);
        for (int64_t i = 0; i < l.size; i++) sum += y[i * l.inner] = exp(x[i * l.inner] - max);
        for (int64_t i = 0; i < l.size; i++) y[i * l.inner] /= sum;
    }
    return 0;
}

/* ---- fast ---- */

static bool
accepts(const struct kcall *k)
{
    enum dtype d = k->in[0].dtype;
    return d == DT_F32 || d == DT_BF16 || d == DT_F16;
}

/* A row in one block: the exponentials stay there until they are divided. */
static void
short_row(const struct row *x, const struct row *y)
{
    float room[ROW_BLOCK], *to = row_into(y, 0, room);
    const float *from = row_load(x, 0, x->n, room);
    float sum = vec_exp_sum(x->n, from, vec_max(x->n, from), to);
    vec_affine(x->n, 1 / sum, to, 0, to);
    row_store(y, 0, x->n, to);
}

static void
long_row(const struct row *x, const struct row *y)
{
    float room[ROW_BLOCK], max = row_max(x), scale = (float)(1 / row_exp_sum(x, max));
    for (int64_t i = 0; i < x->n; i += ROW_BLOCK) {
        int64_t n = MIN(x->n - i, ROW_BLOCK);
        float *to = row_into(y, i, room);
        vec_exp_sum(n, row_load(x, i, n, room), max, to);
        vec_affine(n, scale, to, 0, to);
        row_store(y, i, n, to);
    }
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    int axis = (int)k->call->attr[AXIS].i;
    for (int64_t r = lo; r < hi; r++) {
        struct row x = row_of(&k->in[0], axis, r), y = row_of(&k->out[0], axis, r);
        if (x.n <= ROW_BLOCK)
            short_row(&x, &y);
        else
            long_row(&x, &y);
    }
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    int axis = (int)k->call->attr[AXIS].i;
    team_run(k->threads, row_count(&k->in[0], axis), 1 + 16384 / MAX(k->in[0].dim[axis], 1), range, (void *)k);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_softmax_grad(b, n->out[0], dout[0], (int)n->attr[AXIS].i);
}

/* The axis cut: e^(x - m) where x lies, and of each line the greatest and the sum. Halves are computed in f32. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    int64_t axis = c->attr[AXIS].i;
    if (!is_cut(c, 0, (int)axis) || type_numel(&c->in[0]) == 0) return 0;
    struct val *x = b_wide(b, in[0]);
    struct val *m = b_line_max(b, x, axis), *y = b_exp(b, b_sub(b, x, m));
    out[0] = b_narrow(b, b_div(b, y, b_line_exp_sum(b, x, m, axis)), &c->in[0]);
    return b->failed ? (int)err_last() : 0;
}

static const struct kernel_row rows[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

const struct op op_softmax = {
    .name = "softmax",
    .doc = "y[i] = exp x[i] / sum over i of exp x[i], along axis",
    .source = "Bridle 1990",
    .in = {{"x", IN_FLOAT}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension that sums to 1"}},
    .make_rule = rule,
    .dtype = OUT_IN0,
    .grad = grad,
    .split_form = split_form,
    .saves = "a",
    .ref = ref,
    .kernel = rows,
    .flags = OP_WIDE | OP_UNPLACED,
    .sample = {"f32{4,6}", "f32{2,3,5} axis=1", "f32{3,17}", "bf16{4,7} axis=0"},
};
