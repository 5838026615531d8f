/* dropout.c - sets random elements to zero, and scales the others so that the expected value is unchanged.
 *
 * The dropped elements are a function of seed, ordinal (the number of the random call) and position in the batch,
 * so the gradient drops the same elements without a stored mask. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/math/random.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/rng.h"

#include <math.h>

extern const struct op op_dropout;

enum { P, TRAINING, RUN };
enum { DIGITS = 24 }; /* binary digits of the uniform random value that is compared with p, for all dtypes */

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    double p = c->attr[P].f;
    return p >= 0 && p <= 1 ? 0 : call_fail(E_ATTR, c, "p must be from 0 to 1, found %g", p);
}

/* If nothing is dropped, returns the operand and builds no call. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    UNUSED(b);
    if (!c->attr[TRAINING].i || c->attr[P].f == 0) out[0] = in[0];
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    double p = k->call->attr[P].f, scale = 1 / (1 - p);
    struct random_draw d = random_draw(k, random_key(k), &k->call->attr[RUN]);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++) {
        struct random_at at = random_at(&d, (uint64_t)w.global);
        bool keep = rng_uniform(at.key, at.piece, at.position, DIGITS) >= p;
        elem_set_f(y->dtype, y->data, i, keep ? elem_get_f(x->dtype, x->data, i) * scale : 0);
    }
    return 0;
}

/* Returns the least float that is >= p. Comparing a float with this value gives the same result as comparing it with
 * p. */
static float
least_float(double p)
{
    float f = (float)p;
    return f < p ? nextafterf(f, INFINITY) : f;
}

/* Sets y to x times the scale where the random value u >= p, elsewhere to 0. */
VECTOR static void
drop(int64_t n, const float *u, float p, float scale, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = u[i] >= p ? x[i] * scale : 0;
}

VECTOR static void
drop_f64(int64_t n, const float *u, float p, double scale, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = u[i] >= p ? x[i] * scale : 0;
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    union random_workspace workspace;
    double block[RANDOM_BLOCK], p = k->call->attr[P].f, scale = 1 / (1 - p);
    const struct view *from = &k->in[0], *to = &k->out[0];
    int64_t length = global_run(to), bytes = (int64_t)dtype_bytes(to->dtype);
    enum compute type = compute_of(to->dtype);
    struct random_draw d = random_draw(k, random_key(k), &k->call->attr[RUN]);
    for (int64_t i = lo, m; i < hi; i += m) {
        uint64_t position = global_position(to, i);
        m = random_length(&d, position, MIN(MIN(length - i % length, RANDOM_BLOCK), hi - i));
        struct random_at at = random_at(&d, position);
        const float *u = random_values(RANDOM_UNIFORM, DT_F32, &at, m, &workspace);
        block_load(type, from->dtype, (const char *)from->data + i * bytes, 1, m, block);
        if (type == COMP_F64)
            drop_f64(m, u, least_float(p), scale, block);
        else
            drop(m, u, least_float(p), (float)scale, (float *)block);
        block_store(type, to->dtype, block, m, (char *)to->data + i * bytes, 1);
    }
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    team_run(k->threads, view_numel(&k->out[0]), RANDOM_GRAIN, range, (void *)k);
    return 0;
}

/* Builds the gradient: drops the same elements of dy, and scales the others. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_call(b, &op_dropout, 3, (struct val *[]){dout[0], n->in[1], n->in[2]}, n->attr);
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({
    const double p = c->attr[P].f;
    return rng_uniform(key(), piece(), draw(), 24) >= p ? x0(at) * (real)(1 / (1 - p)) : 0;
});

const struct op op_dropout = {
    .name = "dropout",
    .doc = "y = 0 with probability p, else x / (1 - p)",
    .errors = "p must be from 0 to 1",
    .source = "Srivastava et al. 2014",
    .in = {{"x", IN_FLOAT}, {"seed", IN_HIDDEN}, {"ordinal", IN_HIDDEN}},
    .attr = {[P] = {"p", ATTR_FLOAT, .f = 0.5, .doc = "probability of dropping an element"},
             [TRAINING] = {"training", ATTR_BOOL, .i = 1, .doc = "false: the result is x"},
             RANDOM_ATTRS(RUN)},
    .shape.make_rule = rule_same,
    .shape.infer = infer,
    .partial.linear = "0",
    .grad.build = grad,
    .build = build,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flags = OP_RANDOM,
    .sample = {"f32{4,6} #1 #0", "f32{7} #7 #3 p=0.25", "f32{4,6} #1 #0 run=12 micro_batches=3",
               "f32{3} #1 #1 training=0"},
};
