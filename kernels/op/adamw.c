/* adamw.c - one step of Adam with decoupled weight decay, in one pass over parameter p, moments m and v, and
 * gradient g.
 *
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p = p (1 - lr wd)
 *   p = p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps);
 *
 * t: step, from 1; b1, b2: betas; lr: learning rate; wd: weight decay. If scale is present, g is first multiplied by
 * scale. If weight decay is not decoupled (Adam), wd p is added to g instead. The order of operations is PyTorch's.
 * Computes in f64 if all tensors are f64, else in f32, whatever the dtypes in memory. Memory bandwidth limits the
 * speed: 85,002 values take 15 us on one core. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/update.h"

#include "kernels/cpu/base/convert.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"

#include <math.h>

enum { P, M, V, G, LR, STEP, SCALE };
enum { BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED };

static int
rule(const struct call *c, struct str *rule)
{
    struct str p = {0};
    for (int d = 0; d < c->in[P].ndim; d++) str_addf(&p, "%c", letter(d));
    const char *t = str_text(&p);
    str_addf(rule, "%s,%s,%s,%s,=,=%s->%s,%s,%s", t, t, t, t,
             c->nin <= SCALE         ? ""
             : absent(&c->in[SCALE]) ? ",="
                                     : ",",
             t, t, t);
    str_free(&p);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    for (int i = LR; i <= STEP; i++)
        if (!is_number(&c->in[i])) return call_fail(E_ARG, c, "%s must be a number", c->op->in[i].name);
    for (int i = P; i <= V; i++) c->out[i].dtype = c->in[i].dtype;
    return update_check_scale(c, SCALE);
}

/* Factors of the update that are the same for all elements of a call. */
struct factors {
    double b1, b2, decay, l2, rate, root, eps, scale;
};

static struct factors
factors_of(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    double lr = number_f(&k->in[LR], 0), t = number_f(&k->in[STEP], 1), wd = a[WEIGHT_DECAY].f;
    struct factors f = {.b1 = a[BETA1].f, .b2 = a[BETA2].f, .eps = a[EPS].f};
    f.decay = a[DECOUPLED].i ? 1 - lr * wd : 1;
    f.l2 = a[DECOUPLED].i ? 0 : wd;
    f.rate = lr / (1 - pow(f.b1, t));
    f.root = 1 / sqrt(1 - pow(f.b2, t));
    f.scale = k->call->nin > SCALE ? update_scale(&k->in[SCALE]) : 1;
    return f;
}

static int
ref(const struct kcall *k)
{
    struct factors f = factors_of(k);
    const double *p = f64_of(&k->in[P]), *m = f64_of(&k->in[M]), *v = f64_of(&k->in[V]), *grad = f64_of(&k->in[G]);
    int64_t n = view_numel(&k->in[P]);
    for (int64_t i = 0; i < n; i++) {
        double g = f.scale * grad[i] + f.l2 * p[i];
        double m1 = f.b1 * m[i] + (1 - f.b1) * g, v1 = f.b2 * v[i] + (1 - f.b2) * g * g;
        f64_of(&k->out[P])[i] = p[i] * f.decay - f.rate * m1 / (sqrt(v1) * f.root + f.eps);
        f64_of(&k->out[M])[i] = m1;
        f64_of(&k->out[V])[i] = v1;
    }
    return 0;
}

/* ---- variant ---- */

/* to[] may be the same memory as from[], because each element is read before it is written. */
#define UPDATE(name, type, fma, sqrt)                                                                                  \
    VECTOR static void name(int64_t n, const struct factors *f, const type *const *from, type *const *to)              \
    {                                                                                                                  \
        type b1 = (type)f->b1, c1 = (type)(1 - f->b1), b2 = (type)f->b2, c2 = (type)(1 - f->b2), eps = (type)f->eps;   \
        type decay = (type)f->decay, l2 = (type)f->l2, rate = (type)f->rate, root = (type)f->root;                     \
        type scale = (type)f->scale;                                                                                   \
        const type *p = from[P], *m = from[M], *v = from[V], *grad = from[G];                                          \
        type *p_to = to[P], *m_to = to[M], *v_to = to[V];                                                              \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type g = fma(l2, p[i], scale * grad[i]);                                                                   \
            type m1 = fma(b1, m[i], c1 * g), v1 = fma(b2, v[i], c2 * g * g);                                           \
            p_to[i] = fma(p[i], decay, -rate * m1 / fma(sqrt(v1), root, eps));                                         \
            m_to[i] = m1;                                                                                              \
            v_to[i] = v1;                                                                                              \
        }                                                                                                              \
    }

UPDATE(update, float, fmaf, sqrtf)
UPDATE(update_f64, double, fma, sqrt)

enum { BLOCK = 1024 };

struct pass {
    const struct kcall *k;
    struct factors f;
};

/* Updates f32 in place; other dtypes are converted block by block. */
static void
pass_range(void *arg, int64_t lo, int64_t hi)
{
    const struct pass *pass = arg;
    const struct kcall *k = pass->k;
    float workspace[4][BLOCK];
    for (int64_t i = lo; i < hi; i += BLOCK) {
        int64_t n = MIN(hi - i, BLOCK);
        const float *from[4];
        float *to[3];
        for (int s = P; s <= G; s++) {
            const struct view *v = &k->in[s];
            char *at = (char *)v->data + i * (int64_t)dtype_bytes(v->dtype);
            from[s] = v->dtype == DT_F32 ? (const float *)at : workspace[s];
            if (v->dtype != DT_F32) block_load(COMP_F32, v->dtype, at, 1, n, workspace[s]);
        }
        for (int s = P; s <= V; s++) to[s] = k->out[s].dtype == DT_F32 ? (float *)k->out[s].data + i : workspace[s];
        update(n, &pass->f, from, to);
        for (int s = P; s <= V; s++)
            if (to[s] == workspace[s])
                block_store(COMP_F32, k->out[s].dtype, to[s], n,
                            (char *)k->out[s].data + i * (int64_t)dtype_bytes(k->out[s].dtype), 1);
    }
}

static void
pass_range_f64(void *arg, int64_t lo, int64_t hi)
{
    const struct pass *pass = arg;
    const double *from[4];
    double *to[3];
    for (int s = P; s <= G; s++) from[s] = (const double *)pass->k->in[s].data + lo;
    for (int s = P; s <= V; s++) to[s] = (double *)pass->k->out[s].data + lo;
    update_f64(hi - lo, &pass->f, from, to);
}

static int
doubles(const struct kcall *k)
{
    int n = 0;
    for (int i = P; i <= G; i++) n += k->in[i].dtype == DT_F64;
    return n;
}

static bool
accepts(const struct kcall *k)
{
    return doubles(k) == 0 || doubles(k) == 4;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct pass pass = {k, factors_of(k)};
    team_run(k->threads, view_numel(&k->in[P]), 32768, doubles(k) ? pass_range_f64 : pass_range, &pass);
    return 0;
}

static int
absorb(struct val **in, int nin)
{
    return update_absorb(in, nin, G, SCALE);
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

static const char line[] = BODY({
    const double lr = x4(0), t = x5(0), wd = c->attr[WEIGHT_DECAY].f;
    const real b1 = c->attr[BETA1].f, c1 = 1 - c->attr[BETA1].f, b2 = c->attr[BETA2].f, c2 = 1 - c->attr[BETA2].f;
    const real eps = c->attr[EPS].f, decay = c->attr[DECOUPLED].i ? 1 - lr * wd : 1, l2 = c->attr[DECOUPLED].i ? 0 : wd;
    const real rate = lr / (1 - pow(c->attr[BETA1].f, t)), root = 1 / sqrt(1 - pow(c->attr[BETA2].f, t));
    const real scale = absent(&c->in[6]) ? 1 : x6(0);
    each([&](element i) {
        const real p = x0(i), g = fma(l2, p, scale * (real)x3(i));
        const real m = fma(b1, (real)x1(i), c1 * g), v = fma(b2, (real)x2(i), c2 * g * g);
        y0(i, fma(p, decay, -rate * m / fma(sqrt(v), root, eps)));
        y1(i, m);
        y2(i, v);
    });
});

const struct op op_adamw = {
    .name = "adamw",
    .doc = "m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2, p = p (1 - lr wd) - lr m' / (sqrt v' + eps)",
    .source = "Loshchilov & Hutter, ICLR 2019; Kingma & Ba, ICLR 2015",
    .in = {{"p", IN_FLOAT},
           {"m", IN_FLOAT},
           {"v", IN_FLOAT},
           {"g", IN_FLOAT},
           {"lr", IN_NUMBER},
           {"step", IN_NUMBER},
           {"scale", IN_FLOAT | IN_OPTIONAL}},
    .nout = 3,
    .attr = {[BETA1] = {"beta1", ATTR_FLOAT, .f = 0.9, .doc = "decay rate of m"},
             [BETA2] = {"beta2", ATTR_FLOAT, .f = 0.999, .doc = "decay rate of v"},
             [EPS] = {"eps", ATTR_FLOAT, .f = 1e-8, .doc = "added to the square root of v"},
             [WEIGHT_DECAY] = {"weight_decay", ATTR_FLOAT, .doc = "rate of decay of p towards 0"},
             [DECOUPLED] = {"decoupled", ATTR_BOOL, .i = 1, .doc = "apply decay to p (AdamW); false: to g (Adam)"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .rewrite.absorb = absorb,
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = no_dims,
    .host.kernel = variants,
    .ninplace = 3,
    .flags = OP_INPLACE | OP_UPDATE | OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,6} f32{4,6} f32{4,6} #0.01 #3", "f32{7} f32{7} f32{7} f32{7} #0.1 #1 weight_decay=0.1",
               "bf16{17} f32{17} f32{17} bf16{17} #0.1 #2 weight_decay=0.1 decoupled=0",
               "f32{5,3} f32{5,3} f32{5,3} f32{5,3} #0.1 #2 f32{}",
               "bf16{17} f32{17} f32{17} bf16{17} #0.1 #2 f32{} weight_decay=0.1"},
};
