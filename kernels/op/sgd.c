/* sgd.c - one step of gradient descent for parameter p and gradient g, with momentum in PyTorch's form (Sutskever
 * et al. 2013):
 *
 *   g = g + wd p;  m = momentum m + g;  p = p - lr (nesterov: g + momentum m, else m; without m: g)
 *
 * lr: learning rate; wd: weight decay; m: moment. m is zero at first, so the first m is g. Without momentum,
 * result 1 is empty. If scale is present, g is first multiplied by scale. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/update.h"

#include "kernels/cpu/base/convert.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"

enum { P, M, G, LR, SCALE };
enum { MOMENTUM, WEIGHT_DECAY, NESTEROV };

static int
rule(const struct call *c, struct str *rule)
{
    struct str p = {0};
    for (int d = 0; d < c->in[P].ndim; d++) str_addf(&p, "%c", letter(d));
    const char *t = str_text(&p);
    bool none = absent(&c->in[M]);
    const char *scale = c->nin <= SCALE ? "" : absent(&c->in[SCALE]) ? ",=" : ",";
    str_addf(rule, "%s,%s,%s,=%s->%s,%s", t, none ? "=" : t, t, scale, t, none ? "[Z]" : t);
    str_free(&p);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    bool none = absent(&c->in[M]);
    if (!is_number(&c->in[LR])) return call_fail(E_ARG, c, "lr must be a number");
    if (none && c->attr[MOMENTUM].f != 0) return call_fail(E_ATTR, c, "momentum needs a buffer m");
    if (none) size[0] = 0;
    c->out[0].dtype = c->in[P].dtype;
    c->out[1].dtype = none ? c->in[P].dtype : c->in[M].dtype;
    return update_check_scale(c, SCALE);
}

static double
scale_of(const struct kcall *k)
{
    return k->call->nin > SCALE ? update_scale(&k->in[SCALE]) : 1;
}

static int
ref(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    double lr = number_f(&k->in[LR], 0), mu = a[MOMENTUM].f, scale = scale_of(k);
    bool none = k->in[M].dtype == DT_NONE;
    int64_t n = view_numel(&k->in[P]);
    for (int64_t i = 0; i < n; i++) {
        double p = f64_of(&k->in[P])[i], g = scale * f64_of(&k->in[G])[i] + a[WEIGHT_DECAY].f * p;
        double m = none ? g : mu * f64_of(&k->in[M])[i] + g;
        if (!none) f64_of(&k->out[1])[i] = m;
        f64_of(&k->out[0])[i] = p - lr * (a[NESTEROV].i ? g + mu * m : m);
    }
    return 0;
}

/* ---- variant: f32 in place, 16-bit floats through blocks of f32; or all f64 ---- */

struct factors {
    double lr, momentum, decay, scale;
    bool nesterov;
};

/* Without momentum, `m` is NULL. to[] may be the same memory as from[]. */
#define STEP(name, type)                                                                                               \
    VECTOR static void name(int64_t n, const struct factors *f, const type *p, const type *m, const type *g, type *to, \
                            type *m_to)                                                                                \
    {                                                                                                                  \
        type lr = (type)f->lr, momentum = (type)f->momentum, decay = (type)f->decay, scale = (type)f->scale;           \
        bool ahead = f->nesterov;                                                                                      \
        if (!m) {                                                                                                      \
            INDEPENDENT                                                                                                \
            for (int64_t i = 0; i < n; i++) to[i] = p[i] - lr * (scale * g[i] + decay * p[i]);                         \
            return;                                                                                                    \
        }                                                                                                              \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type gradient = scale * g[i] + decay * p[i], sum = momentum * m[i] + gradient;                             \
            to[i] = p[i] - lr * (ahead ? gradient + momentum * sum : sum);                                             \
            m_to[i] = sum;                                                                                             \
        }                                                                                                              \
    }

STEP(step_f32, float)
STEP(step_f64, double)

static bool
accepts(const struct kcall *k)
{
    int n = 0, f64 = 0;
    for (int i = P; i <= G; i++) {
        n += k->in[i].dtype != DT_NONE;
        f64 += k->in[i].dtype == DT_F64;
    }
    return f64 == 0 || f64 == n;
}

static struct factors
factors_of(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    return (struct factors){number_f(&k->in[LR], 0), a[MOMENTUM].f, a[WEIGHT_DECAY].f, scale_of(k), a[NESTEROV].i};
}

static char *
at(const struct view *v, int64_t i)
{
    return v->dtype == DT_NONE ? NULL : (char *)v->data + i * (int64_t)dtype_bytes(v->dtype);
}

enum { BLOCK = 1024 };

/* Returns n elements as f32: a pointer to f32 elements in place, or elements converted into a block. */
static const float *
load(const struct view *v, int64_t i, int64_t n, float *block)
{
    if (v->dtype == DT_F32 || v->dtype == DT_NONE) return (const float *)at(v, i);
    block_load(COMP_F32, v->dtype, at(v, i), 1, n, block);
    return block;
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    const struct view *p = &k->in[P], *m = &k->in[M], *to = &k->out[0], *m_to = &k->out[1];
    struct factors f = factors_of(k);
    float block[3][BLOCK];
    for (int64_t i = lo; i < hi; i += BLOCK) {
        int64_t n = MIN(hi - i, BLOCK);
        float *out = to->dtype == DT_F32 ? (float *)at(to, i) : block[P];
        float *m_out = m_to->dtype == DT_F32 && m->dtype != DT_NONE ? (float *)at(m_to, i) : block[M];
        step_f32(n, &f, load(p, i, n, block[P]), load(m, i, n, block[M]), load(&k->in[G], i, n, block[G]), out, m_out);
        if (out == block[P]) block_store(COMP_F32, to->dtype, out, n, at(to, i), 1);
        if (m_out == block[M] && m->dtype != DT_NONE) block_store(COMP_F32, m_to->dtype, m_out, n, at(m_to, i), 1);
    }
}

static void
range_f64(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    struct factors f = factors_of(k);
    double *m_to = k->in[M].dtype == DT_NONE ? NULL : (double *)at(&k->out[1], lo);
    step_f64(hi - lo, &f, (const double *)at(&k->in[P], lo), (const double *)at(&k->in[M], lo),
             (const double *)at(&k->in[G], lo), (double *)at(&k->out[0], lo), m_to);
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    void (*part)(void *arg, int64_t lo, int64_t hi) = k->in[P].dtype == DT_F64 ? range_f64 : range;
    team_run(k->threads, view_numel(&k->in[P]), 32768, part, (void *)k);
    return 0;
}

static int
absorb(struct val **in, int nin)
{
    return update_absorb(in, nin, G, SCALE);
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

static const char line[] = BODY({
    const real lr = x3(0), momentum = c->attr[MOMENTUM].f, decay = c->attr[WEIGHT_DECAY].f;
    const real scale = absent(&c->in[4]) ? 1 : x4(0);
    const bool none = absent(&c->in[1]), ahead = c->attr[NESTEROV].i;
    each([&](element i) {
        const real p = x0(i), g = scale * (real)x2(i) + decay * p;
        const real m = none ? g : momentum * (real)x1(i) + g;
        y0(i, p - lr * (ahead ? g + momentum * m : m));
        y1(i, m);
    });
});

const struct op op_sgd = {
    .name = "sgd",
    .doc = "m = momentum m + g + wd p, p = p - lr m",
    .source = "Sutskever et al., ICML 2013",
    .in = {{"p", IN_FLOAT},
           {"m", IN_FLOAT | IN_OPTIONAL},
           {"g", IN_FLOAT},
           {"lr", IN_NUMBER},
           {"scale", IN_FLOAT | IN_OPTIONAL}},
    .nout = 2,
    .attr = {[MOMENTUM] = {"momentum", ATTR_FLOAT, .doc = "decay rate of m"},
             [WEIGHT_DECAY] = {"weight_decay", ATTR_FLOAT, .doc = "factor of p that is added to g"},
             [NESTEROV] = {"nesterov", ATTR_BOOL, .doc = "Nesterov momentum"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .rewrite.absorb = absorb,
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = no_dims,
    .host.kernel = variants,
    .ninplace = 2,
    .flags = OP_INPLACE | OP_UPDATE | OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,6} f32{4,6} #0.1 momentum=0.9", "f32{7} - f32{7} #0.1 weight_decay=0.5",
               "f32{5} f32{5} f32{5} #0.1 momentum=0.5 nesterov=1 weight_decay=0.1",
               "bf16{3} f32{3} bf16{3} #0.1 momentum=0.9", "f32{4,6} f32{4,6} f32{4,6} #0.1 f32{} momentum=0.9",
               "f32{7} - f32{7} #0.1 f32{}"},
};
