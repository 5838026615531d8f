/* dropout.c - elements set to zero at random, the others scaled so that the mean stays.
 *
 * What is dropped is a function of seed, ordinal, piece and position, so the
 * gradient drops the same without a stored mask. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/op_impl.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/random.h"
#include "kernels/cpu/simd.h"
#include "runtime/rng.h"

#include <math.h>

enum { P, TRAINING };

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    double p = c->attr[P].f;
    return p >= 0 && p <= 1 ? 0 : call_fail(E_ATTR, c, "p must be from 0 to 1, found %g", p);
}

/* Nothing is dropped: the operand itself. */
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
    uint64_t key = random_key(k);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++) {
        bool keep = (double)rng_uniform(key, k->piece, (uint64_t)w.whole) >= p;
        elem_set_f(y->dtype, y->data, i, keep ? elem_get_f(x->dtype, x->data, i) * scale : 0);
    }
    return 0;
}

/* The least float that is not below p, so that floats compare with it as they do with p. */
static float
least_float(double p)
{
    float f = (float)p;
    return f < p ? nextafterf(f, INFINITY) : f;
}

/* y = x scaled where u >= p */
VECTOR static void
drop(int64_t n, const float *u, float p, float scale, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = u[i] >= p ? x[i] * scale : 0;
}

static int
run(const struct kcall *k, const void *state)
{
    enum { BLOCK = 1024 };
    float u[BLOCK], x[BLOCK];
    const struct view *from = &k->in[0], *to = &k->out[0];
    int64_t n = view_numel(to), length = whole_run(to), bytes = (int64_t)dtype_bytes(to->dtype);
    uint64_t key = random_key(k);
    double p = k->call->attr[P].f;
    UNUSED(state);
    for (int64_t i = 0, m; i < n; i += m) {
        m = MIN(length - i % length, BLOCK);
        random_uniform(key, k->piece, whole_position(to, i), m, u);
        block_load(COMP_F32, from->dtype, (const char *)from->data + i * bytes, 1, m, x);
        drop(m, u, least_float(p), (float)(1 / (1 - p)), x);
        block_store(COMP_F32, to->dtype, x, m, (char *)to->data + i * bytes, 1);
    }
    return 0;
}

static bool
accepts(const struct kcall *k)
{
    return k->out[0].dtype != DT_F64 && view_is_dense(&k->out[0]);
}

/* The same elements of dy are dropped, the others scaled. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_call(b, &op_dropout, 3, (struct val *[]){dout[0], n->in[1], n->in[2]}, n->attr);
}

static const struct kernel_row rows[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

const struct op op_dropout = {
    .name = "dropout",
    .doc = "y = 0 with probability p, else x / (1 - p)",
    .source = "Srivastava et al. 2014",
    .in = {{"x", IN_FLOAT}, {"seed", IN_HIDDEN}, {"ordinal", IN_HIDDEN}},
    .attr = {[P] = {"p", ATTR_FLOAT, .f = 0.5, .doc = "how likely an element is dropped"},
             [TRAINING] = {"training", ATTR_BOOL, .i = 1, .doc = "false: nothing is dropped"}},
    .make_rule = rule_same,
    .infer = infer,
    .linear = "0",
    .grad = grad,
    .build = build,
    .ref = ref,
    .kernel = rows,
    .flags = OP_RANDOM,
    .sample = {"f32{4,6} #1 #0", "f32{7} #7 #3 p=0.25", "f32{3} #1 #1 training=0"},
};
