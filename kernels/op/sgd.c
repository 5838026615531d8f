/* sgd.c - one step of gradient descent, with momentum as Sutskever et al. 2013 (PyTorch's form):
 *
 *   g = g + wd p;  m = momentum m + g;  p = p - lr (nesterov: g + momentum m, else m; without m: g)
 *
 * m starts as zeros, so that the first step is g. Without m, result 1 is empty. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/op_impl.h"

#include "runtime/simd.h"
#include "kernels/cpu/team.h"

enum { P, M, G, LR };
enum { MOMENTUM, WEIGHT_DECAY, NESTEROV };

static int
rule(const struct call *c, struct str *rule)
{
    struct str p = {0};
    for (int d = 0; d < c->in[P].ndim; d++) str_addf(&p, "%c", letter(d));
    const char *t = str_text(&p);
    bool none = absent(&c->in[M]);
    str_addf(rule, "%s,%s,%s,=->%s,%s", t, none ? "=" : t, t, t, none ? "[Z]" : t);
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
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    double lr = number_f(&k->in[LR], 0), mu = a[MOMENTUM].f;
    bool none = k->in[M].dtype == DT_NONE;
    int64_t n = view_numel(&k->in[P]);
    for (int64_t i = 0; i < n; i++) {
        double p = f64_of(&k->in[P])[i], g = f64_of(&k->in[G])[i] + a[WEIGHT_DECAY].f * p;
        double m = none ? g : mu * f64_of(&k->in[M])[i] + g;
        if (!none) f64_of(&k->out[1])[i] = m;
        f64_of(&k->out[0])[i] = p - lr * (a[NESTEROV].i ? g + mu * m : m);
    }
    return 0;
}

/* ---- fast: all f32 ---- */

static bool
accepts(const struct kcall *k)
{
    bool momentum = k->in[M].dtype == DT_F32 || k->in[M].dtype == DT_NONE;
    return k->in[P].dtype == DT_F32 && k->in[G].dtype == DT_F32 && momentum;
}

struct factors {
    float lr, momentum, decay;
    bool nesterov;
};

VECTOR static void
step_plain(int64_t n, struct factors f, const float *p, const float *g, float *to)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) to[i] = p[i] - f.lr * (g[i] + f.decay * p[i]);
}

VECTOR static void
step_momentum(int64_t n, struct factors f, const float *p, const float *m, const float *g, float *to, float *m_to)
{
    float now = f.nesterov ? 1 : 0, later = f.nesterov ? f.momentum : 1;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float gradient = g[i] + f.decay * p[i], sum = f.momentum * m[i] + gradient;
        to[i] = p[i] - f.lr * (now * gradient + later * sum);
        m_to[i] = sum;
    }
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    const struct attr *a = k->call->attr;
    struct factors f = {(float)number_f(&k->in[LR], 0), (float)a[MOMENTUM].f, (float)a[WEIGHT_DECAY].f, a[NESTEROV].i};
    const float *p = (const float *)k->in[P].data + lo, *g = (const float *)k->in[G].data + lo;
    float *to = (float *)k->out[0].data + lo;
    if (k->in[M].dtype == DT_NONE)
        step_plain(hi - lo, f, p, g, to);
    else
        step_momentum(hi - lo, f, p, (const float *)k->in[M].data + lo, g, to, (float *)k->out[1].data + lo);
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    team_run(k->threads, view_numel(&k->in[P]), 32768, range, (void *)k);
    return 0;
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

const struct op op_sgd = {
    .name = "sgd",
    .doc = "m = momentum m + g + wd p, p = p - lr m",
    .source = "Sutskever et al., ICML 2013",
    .in = {{"p", IN_FLOAT}, {"m", IN_FLOAT | IN_OPTIONAL}, {"g", IN_FLOAT}, {"lr", IN_NUMBER}},
    .nout = 2,
    .attr = {[MOMENTUM] = {"momentum", ATTR_FLOAT, .doc = "how much of m stays"},
             [WEIGHT_DECAY] = {"weight_decay", ATTR_FLOAT, .doc = "times p, added to g"},
             [NESTEROV] = {"nesterov", ATTR_BOOL, .doc = "look one step ahead"}},
    .make_rule = rule,
    .infer = infer,
    .ref = ref,
    .kernel = variants,
    .ninplace = 2,
    .flags = OP_INPLACE | OP_UPDATE | OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,6} f32{4,6} #0.1 momentum=0.9", "f32{7} - f32{7} #0.1 weight_decay=0.5",
               "f32{5} f32{5} f32{5} #0.1 momentum=0.5 nesterov=1 weight_decay=0.1",
               "bf16{3} f32{3} bf16{3} #0.1 momentum=0.9"},
};
