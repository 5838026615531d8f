/* grad.c - compares the gradient and the second gradient of every operator with central differences of the
 * reference.
 *
 * For a sample with operands x: f(x) = sum of the results, each times a random weight; g(x) = sum of f's gradients,
 * each times a random weight. The tape's gradients of f and g must equal the numerical slopes. */
#include "t/lib/kernel/eager.h"

enum { PROBES = 24, READ = sizeof((struct eager *)0)->read };
#define STEP      1e-5
#define TOLERANCE 2e-5

struct trial {
    const struct op *op;
    struct sample sample;
    uint64_t seed;
    void *value[SAMPLE_IN]; /* operand values at which slopes are computed, as doubles or int64s */
};

static double
uniform(uint64_t *random) /* Returns a random number in [-1, 1). */
{
    return (double)(next_random(random) >> 11) * 0x1p-52 - 1;
}

/* Returns true if v differs by at least 4 * STEP from all values chosen so far: those of operands 0 to k - 1, and
 * values 0 to i - 1 of operand k. */
static bool
is_apart(const struct trial *t, int k, int64_t i, double v)
{
    for (int o = 0; o <= k; o++) {
        const struct type *type = &t->sample.in[o];
        int64_t n = o < k ? type_numel(type) : i;
        for (int64_t j = 0; j < n && dtype_is_float((enum dtype)type->dtype) && !type->weak; j++)
            if (fabs(((const double *)t->value[o])[j] - v) < 4 * STEP) return false;
    }
    return true;
}

/* Chooses values away from zero and from each other, so that a difference step never crosses a kink of the function. */
static void
choose_values(struct trial *t)
{
    uint64_t random = t->seed;
    for (int k = 0; k < t->sample.call.nin; k++) {
        const struct type *type = &t->sample.in[k];
        int64_t n = type_numel(type), below = t->sample.below[k];
        double above = t->sample.above[k];
        t->value[k] = must_alloc((size_t)n * sizeof(double) + 1);
        for (int64_t i = 0; i < n; i++) {
            double u, v;
            do {
                u = uniform(&random), v = above != 0 ? above + fabs(u) : u * 2;
                if (fabs(v) < 0.05) v += 0.1;
            } while (!is_apart(t, k, i, v));
            int64_t whole = (int64_t)above + (int64_t)(next_random(&random) % (uint64_t)(below ? below : 5));
            if (type->weak) v = t->sample.number[k], whole = (int64_t)v;
            if (dtype_is_float((enum dtype)type->dtype))
                ((double *)t->value[k])[i] = v;
            else
                ((int64_t *)t->value[k])[i] = type->dtype == DT_BOOL ? whole % 2 : whole;
        }
    }
}

/* Returns the sum of v[i] with random weights per element. Weights depend only on the seed. */
static struct val *
weighted_sum(struct eager *e, int n, struct val *const *v, uint64_t seed, struct val **weight)
{
    struct val *sum = NULL, *res[OP_OUT];
    struct attr attr[OP_ATTR];
    for (int i = 0; i < n; i++) {
        weight[i] = NULL;
        if (!v[i] || !dtype_is_float((enum dtype)v[i]->type.dtype)) continue;
        weight[i] = eager_new(e, &v[i]->type);
        for (int64_t j = 0; j < type_numel(&v[i]->type); j++) eager_f(weight[i])[j] = uniform(&seed);
        struct val *part = eager_add(&e->build, op_find("mul"), 2, (struct val *[]){v[i], weight[i]}, NULL, res);
        op_attr_defaults(op_find("sum"), attr);
        part = eager_add(&e->build, op_find("sum"), 1, &part, attr, res);
        sum = sum ? eager_add(&e->build, op_find("add"), 2, (struct val *[]){sum, part}, NULL, res) : part;
    }
    return sum;
}

/* Returns the constant 1 in the type of `sum`. */
static struct val *
unit(struct eager *e, const struct val *sum)
{
    struct val *one = eager_new(e, &sum->type);
    *eager_f(one) = 1;
    return one;
}

/* values and gradients of the functions f and g (see the top of this file) at the trial's operand values */
struct gradients {
    bool depends, again; /* depends: f depends on an operand; again: the gradient of f depends on an operand */
    double f, g;
    struct val *df[SAMPLE_IN], *dg[SAMPLE_IN];
    struct val *x[SAMPLE_IN];
};

/* Returns true for recurrence and recurrence_grad. f leaves out their last result: only recurrence_grad reads the
 * last result of recurrence, and recurrence_grad has no derivative. */
static bool
is_recurrence(const struct op *op)
{
    return !strncmp(op->name, "recurrence", 10);
}

static int
differentiate(struct eager *e, const struct trial *t, struct gradients *s)
{
    int nin = t->sample.call.nin, nout = t->sample.call.nout - is_recurrence(t->op);
    struct val *y[OP_OUT], *weight[SAMPLE_IN], *moving[SAMPLE_IN], *gradient[SAMPLE_IN];
    int nmoving = 0;
    memset(s, 0, sizeof *s);
    for (int k = 0; k < nin; k++) {
        const struct type *type = &t->sample.in[k];
        if (type->dtype == DT_NONE) continue;
        s->x[k] = eager_new(e, type);
        s->x[k]->is_number = type->weak;
        memcpy(eager_value(s->x[k])->data, t->value[k], (size_t)type_numel(type) * sizeof(double));
        s->x[k]->needs_grad = !type->weak && dtype_is_float((enum dtype)type->dtype);
        if (s->x[k]->needs_grad) moving[nmoving++] = s->x[k];
    }
    eager_add(&e->build, t->op, nin, s->x, t->sample.attr, y);
    struct val *f = weighted_sum(e, e->build.failed ? 0 : nout, y, t->seed + 1, weight);
    if (e->build.failed) return err_last();
    if (!f || !f->needs_grad) return 0;
    s->depends = true;
    s->f = *eager_f(f);
    eager_grad(e, 1, &f, (struct val *[]){unit(e, f)}, nmoving, moving, gradient);
    for (int k = 0, i = 0; k < nin; k++)
        if (s->x[k] && s->x[k]->needs_grad) s->df[k] = gradient[i++];
    if (is_recurrence(t->op)) return 0;
    struct val *g = weighted_sum(e, e->build.failed ? 0 : nmoving, gradient, t->seed + 2, weight);
    if (e->build.failed) return err_last();
    if (!g || !g->needs_grad) return 0;
    s->again = true;
    s->g = *eager_f(g);
    eager_grad(e, 1, &g, (struct val *[]){unit(e, g)}, nmoving, moving, gradient);
    for (int k = 0, i = 0; k < nin; k++)
        if (s->x[k] && s->x[k]->needs_grad) s->dg[k] = gradient[i++];
    return e->build.failed ? (int)err_last() : 0;
}

/* Computes f and g after h is added to element i of operand k. */
static void
move(struct trial *t, int k, int64_t i, double h, double *f, double *g)
{
    struct eager *e = eager_open();
    struct gradients s;
    ((double *)t->value[k])[i] += h;
    differentiate(e, t, &s);
    ((double *)t->value[k])[i] -= h;
    *f = s.f;
    *g = s.g;
    eager_close(&e);
}

static double
error_of(double got, double want)
{
    return fabs(got - want) / (1 + fabs(want));
}

/* Compares gradients with numerical slopes: sets *worst_f to the largest difference for f, and *worst_g to that for
 * g. Probes at most PROBES elements per operand. */
static void
compare(struct trial *t, const struct gradients *s, double *worst_f, double *worst_g)
{
    *worst_f = *worst_g = 0;
    for (int k = 0; k < t->sample.call.nin; k++) {
        if (!s->x[k] || !s->x[k]->needs_grad) continue;
        int64_t n = type_numel(&t->sample.in[k]);
        for (int64_t i = 0; i < n; i += 1 + n / PROBES) {
            double f1, f0, g1, g0;
            move(t, k, i, STEP, &f1, &g1);
            move(t, k, i, -STEP, &f0, &g0);
            if (!strcmp(t->op->name, "stop_gradient")) f1 = f0; /* stop_gradient has gradient 0 on purpose */
            double df = s->df[k] ? eager_f(s->df[k])[i] : 0, dg = s->dg[k] ? eager_f(s->dg[k])[i] : 0;
            *worst_f = fmax(*worst_f, error_of(df, (f1 - f0) / (2 * STEP)));
            *worst_g = fmax(*worst_g, error_of(dg, (g1 - g0) / (2 * STEP)));
        }
    }
}

/* Returns true if slopes can check the operator's gradient. False for moments_of: its gradient is with respect to
 * the data from which the codes were computed, and samples contain only codes. (t/rows/shift.lua tests it in
 * layer_norm over a split axis.) */
static bool
is_slope(const struct op *op)
{
    return strcmp(op->name, "moments_of");
}

/* Returns true if a group of operands (in the format of .linear) contains operand k; '*' contains all. */
static bool
is_in_group(const char *group, int k)
{
    size_t n = strcspn(group, "|");
    return memchr(group, "0123456789ab"[k], n) || *group == '*';
}

/* Checks a call that is linear in a group of operands. The gradients with respect to these operands must not
 * depend on the values of the group, so they must have the same bits if all these values are NaN. */
static void
try_linear(struct trial *t, const struct gradients *s, const char *text, const char *group)
{
    void *value[SAMPLE_IN];
    memcpy(value, t->value, sizeof value);
    struct eager *e = eager_open();
    struct gradients nan;
    for (int k = 0; k < t->sample.call.nin; k++) {
        if (!s->x[k] || !s->x[k]->needs_grad || !is_in_group(group, k)) continue;
        t->value[k] = must_alloc((size_t)type_numel(&t->sample.in[k]) * sizeof(double) + 1);
        for (int64_t i = 0; i < type_numel(&t->sample.in[k]); i++) ((double *)t->value[k])[i] = NAN;
    }
    int status = differentiate(e, t, &nan);
    for (int k = 0; k < t->sample.call.nin; k++) {
        if (t->value[k] == value[k]) continue;
        free(t->value[k]);
        bool same = !status && !nan.df[k] == !s->df[k];
        if (same && s->df[k])
            same = !memcmp(eager_f(nan.df[k]), eager_f(s->df[k]), (size_t)type_numel(&s->df[k]->type) * sizeof(double));
        ok(same, "%s %s: the gradient of operand %d, a linear operand, does not depend on its value", t->op->name, text,
           k);
    }
    memcpy(t->value, value, sizeof value);
    eager_close(&e);
}

/* Checks the gradients of a sample. read: the operands and results that gradients have read in all samples so far,
 * in the format of .saves. */
static void
try_sample(const struct op *op, const char *text, uint64_t seed, char *read)
{
    struct trial t = {.op = op, .seed = seed};
    if (!ok(sample_read(op, text, &t.sample), "%s: sample \"%s\" can be read", op->name, text)) return;
    choose_values(&t);
    struct eager *e = eager_open();
    struct gradients s;
    e->watched = op;
    memcpy(e->read, read, READ);
    if (!ok(!differentiate(e, &t, &s), "%s %s runs forward and backward", op->name, text)) {
        diag("%s", err_text());
    } else if (s.depends) {
        double worst_f = 0, worst_g = 0;
        if (is_slope(op)) compare(&t, &s, &worst_f, &worst_g);
        if (is_slope(op) && !ok(worst_f < TOLERANCE, "%s %s: the gradient is the slope", op->name, text))
            diag("off by %g", worst_f);
        if (!ok(!e->unsaved[0], "%s %s: gradients read only saved operands and results", op->name, text))
            diag("%s", e->unsaved);
        if (is_slope(op) && s.again && !ok(worst_g < TOLERANCE, "%s %s: so is the gradient's", op->name, text))
            diag("off by %g", worst_g);
        for (const char *group = op->partial.linear; group && *group;
             group += strcspn(group, "|"), group += *group == '|')
            try_linear(&t, &s, text, group);
    }
    memcpy(read, e->read, READ);
    eager_close(&e);
    for (int k = 0; k < t.sample.call.nin; k++) free(t.value[k]);
}

/* Returns true for public operators with real operands. */
static bool
needs_gradient(const struct op *op)
{
    bool real = false;
    for (int k = 0; k < op_noperand(op); k++) real |= !(op->in[k].flags & (IN_INDEX | IN_HIDDEN));
    return real && !(op->flags & (OP_SOURCE | OP_UPDATE | OP_HIDDEN));
}

int
main(int argc, char **argv)
{
    uint64_t seed = seed_of(1);
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        /* skips operators with a body, whose gradient the session makes (t/step/scan.lua) */
        if (op->attr[0].kind == ATTR_BODY) continue;
        if (argc > 1 && strcmp(argv[1], op->name)) continue;
        if (needs_gradient(op))
            ok(op->grad.build || op->build, "%s has a gradient or is made of operators that have gradients", op->name);
        if (op->flags & OP_SOURCE || (!op->grad.build && !op->build)) continue;
        if (!strcmp(op->name, "recurrence_grad")) continue;
        char read[READ] = "";
        for (int k = 0; k < OP_SAMPLE && op->sample[k]; k++)
            try_sample(op, op->sample[k], seed + (uint64_t)(100 * i + k), read);
        const char *saves = op->grad.saves ? op->grad.saves : "";
        if (!ok(strlen(saves) == strspn(saves, read), "%s saves only what its gradient reads", op->name))
            diag("it saves \"%s\" and reads \"%s\"", saves, read);
    }
    return done();
}
