/* loaded_check.c - checks the record of a loaded operator on its samples.
 *
 * The definition of an operator is the record's function run(), in f64. Signatures: for every signature that the
 * record permits, the shards that 2 and 3 ranks compute must combine to the result of one rank. Gradient: each
 * gradient must equal the slope, a central difference of the definition. Kernels: the results of the record's
 * function fast() must agree with those of the definition. Test values are doubles, multiples of 1/4, so that short
 * sums are exact. */
#include "kernels/loaded/loaded_check.h"
#include "kernels/loaded/loaded_record.h"

#include "kernels/exec/exec.h"
#include "kernels/exec/sample.h"
#include "runtime/data/arena.h"
#include "runtime/base/device_kinds.h"
#include "runtime/base/error.h"
#include "runtime/data/rng.h"
#include "sbp/sig.h"
#include "sbp/infer.h"
#include "runtime/tensor/atlas.h"

#include <math.h>

enum { RANKS = 3, TENSORS = OP_OPERAND + OP_OUT, FILLS = 6, PROBES = 24 };
enum { MOST_ELEMENTS = 1 << 16 }; /* maximum number of elements of a tensor of a sample */
#define STEP 1e-5

struct trial {
    const struct loaded *l;
    const char *text; /* the sample */
    struct arena arena;
    struct atlas *atlas;
    struct sample sample;
    struct rule rule;
    uint64_t ndrawn;        /* number of random values drawn */
    double *value[TENSORS]; /* elements of operands, then of results, row-major */
};

static const struct type *
type_at(const struct call *c, int k)
{
    return k < c->nin ? &c->in[k] : &c->out[k - c->nin];
}

static bool
is_float_tensor(const struct type *t)
{
    return !t->weak && dtype_is_float((enum dtype)t->dtype);
}

static void
put_element(const struct view *v, int64_t i, double x)
{
    if (dtype_is_float((enum dtype)v->dtype))
        elem_set_f((enum dtype)v->dtype, v->data, i, x);
    else
        elem_set_i((enum dtype)v->dtype, v->data, i, (int64_t)x);
}

static double
element_at(const struct view *v, int64_t i)
{
    bool real = dtype_is_float((enum dtype)v->dtype);
    return real ? elem_get_f((enum dtype)v->dtype, v->data, i) : (double)elem_get_i((enum dtype)v->dtype, v->data, i);
}

/* ---- computing a call on doubles ---- */

/* Computes a call on views with data. */
typedef int compute_function(const struct kcall *k);

/* Computes the call with the fastest method, as a run does. */
static int
compute_by_exec(const struct kcall *k)
{
    struct exec *e;
    void *data[TENSORS];
    for (int i = 0; i < k->call->nin; i++) data[i] = k->in[i].data;
    for (int i = 0; i < k->call->nout; i++) data[k->call->nin + i] = k->out[i].data;
    TRY(exec_new(k, 0, &e));
    char *scratch = must_alloc(exec_scratch(e) + 64);
    int status = exec_run(e, data, data + k->call->nin, scratch + (64 - (uintptr_t)scratch % 64) % 64, 0);
    free(scratch);
    exec_free(&e);
    return status;
}

/* Makes a dense view in memory of the arena. box: the shard that the view holds; NULL: the whole tensor. */
static struct view
make_shard(struct arena *a, const struct type *t, const struct box *box)
{
    struct type local = *t;
    for (int d = 0; box && d < t->ndim; d++) local.dim[d] = box->hi[d] - box->lo[d];
    struct view v = view_dense(&local, NULL);
    for (int d = 0; d < t->ndim; d++) {
        v.offset[d] = box ? box->lo[d] : 0;
        v.global[d] = t->dim[d];
    }
    if (t->dtype != DT_NONE) v.data = arena_alloc(a, (size_t)view_bytes(&v) + 16);
    return v;
}

/* Computes the values of the results from those of the operands. box: the shard of each tensor; NULL: the whole
 * tensors. */
static int
compute_values(const struct call *c, const struct box *box, double *const *value, compute_function *function)
{
    struct arena a = {0};
    struct view v[TENSORS];
    for (int k = 0; k < c->nin + c->nout; k++) {
        v[k] = make_shard(&a, type_at(c, k), box ? &box[k] : NULL);
        for (int64_t i = 0; k < c->nin && v[k].data && i < view_numel(&v[k]); i++) put_element(&v[k], i, value[k][i]);
    }
    int status = function(&(struct kcall){.call = c, .in = v, .out = v + c->nin, .threads = 1});
    for (int k = c->nin; k < c->nin + c->nout && !status; k++)
        for (int64_t i = 0; i < view_numel(&v[k]); i++) value[k][i] = element_at(&v[k], i);
    arena_fini(&a);
    return status;
}

/* ---- reading a sample and drawing the values of its operands ---- */

static double
quarters(struct trial *t, unsigned most)
{
    return (double)(rng_word(1, 0, t->ndrawn++) % (2 * most + 1)) / 4 - (double)most / 4;
}

/* Draws the values of operand k. fill: number of the draw. An even draw has floats from -4 to 4, an odd draw from -1
 * to 7, unless the sample bounds them. */
static void
draw_operand(struct trial *t, int k, int fill)
{
    const struct sample *s = &t->sample;
    const struct type *type = &s->in[k];
    for (int64_t i = 0, n = type->dtype == DT_NONE ? 0 : type_numel(type); i < n; i++) {
        double x = quarters(t, 16) + (fill % 2 ? 3 : 0);
        if (s->above[k] != 0) x = s->above[k] + fabs(x) + 0.25;
        if (!dtype_is_float((enum dtype)type->dtype)) x = floor(x);
        if (s->below[k]) x = (double)(rng_word(2, 0, t->ndrawn++) % (uint64_t)s->below[k]);
        if (type->dtype == DT_BOOL || type->dtype == DT_U8) x = type->dtype == DT_BOOL ? x > 0 : fabs(x);
        t->value[k][i] = type->weak ? s->number[k] : x;
    }
}

static double
count_elements(const struct type *t)
{
    double n = 1;
    for (int d = 0; d < t->ndim; d++) n *= (double)t->dim[d];
    return n;
}

/* Reads the sample. wide: replaces each float dtype by f64 and each integer dtype by i64. */
static int
trial_open(struct trial *t, const struct loaded *l, const char *text, bool wide)
{
    *t = (struct trial){.l = l, .text = text, .atlas = atlas_new()};
    struct call *c = &t->sample.call;
    if (!sample_read(&l->op, text, &t->sample) || c->nin != op_noperand(&l->op))
        return fail(E_ARG,
                    "%s: the sample \"%s\" cannot be read; it must have %d operands, such as f32{4,6}, then "
                    "attributes, such as axis=1",
                    l->op.name, text, op_noperand(&l->op));
    for (int k = 0; k < c->nin && wide; k++) {
        struct type *type = &t->sample.in[k];
        if (dtype_is_float((enum dtype)type->dtype)) type->dtype = DT_F64;
        if (dtype_is_int((enum dtype)type->dtype)) type->dtype = DT_I64;
    }
    TRY(call_infer(&t->arena, c, &t->rule));
    for (int k = 0; k < c->nin + c->nout; k++) {
        double n = count_elements(type_at(c, k));
        if (n > MOST_ELEMENTS)
            return fail(E_ARG, "%s: %s %d of the sample \"%s\" must have at most %d elements, found %.0f", l->op.name,
                        k < c->nin ? "operand" : "result", k < c->nin ? k : k - c->nin, text, MOST_ELEMENTS, n);
        t->value[k] = ARENA_ARRAY(&t->arena, double, type_numel(type_at(c, k)) + 1);
    }
    return 0;
}

static void
trial_close(struct trial *t)
{
    arena_fini(&t->arena);
    atlas_free(&t->atlas);
}

/* ---- checking signatures ---- */

/* One signature on a mesh of one axis, and the shard of every tensor on every rank under this signature. */
struct split {
    const struct place *place;
    const struct layout *layout[TENSORS];
    struct box box[RANKS][TENSORS];
    double *shard[RANKS][TENSORS];
};

static int64_t
index_in_whole(const struct type *t, const struct box *b, int64_t e)
{
    int64_t index = 0, scale = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        int64_t n = b->hi[d] - b->lo[d];
        index += (b->lo[d] + e % n) * scale;
        e /= n;
        scale *= t->dim[d];
    }
    return index;
}

/* Returns the addend of x that one rank holds in a partial sum. The addends are random, and those of all ranks add
 * up to x. e: index of the element. */
static double
random_addend(double x, int rank, int nrank, int64_t e)
{
    double sum = 0;
    for (int r = 0; r + 1 < nrank; r++) {
        double part = (double)(rng_word((uint64_t)r, 0, (uint64_t)e) % 17) / 4 - 2;
        if (r == rank) return part;
        sum += part;
    }
    return x - sum;
}

static void
cut_operand(struct trial *t, struct split *s, int rank, int k)
{
    const struct type *type = type_at(&t->sample.call, k);
    const struct layout *l = s->layout[k];
    s->box[rank][k] = (struct box){0};
    for (int d = 0; d < type->ndim; d++) s->box[rank][k].hi[d] = type->dim[d];
    if (l) layout_box(l, type, rank, &s->box[rank][k]);
    int64_t n = box_numel(&s->box[rank][k], type->ndim);
    s->shard[rank][k] = ARENA_ARRAY(&t->arena, double, n + 1);
    for (int64_t e = 0; e < n && k < t->sample.call.nin && type->dtype != DT_NONE; e++) {
        double x = t->value[k][index_in_whole(type, &s->box[rank][k], e)];
        s->shard[rank][k][e] = l && layout_has_partial(l) ? random_addend(x, rank, s->place->nrank, e) : x;
    }
}

static double
combine(enum reduce r, double a, double b)
{
    return r == RED_SUM ? a + b : r == RED_MAX ? fmax(a, b) : fmin(a, b);
}

/* Combines the shards of result k according to its layout. Returns the largest error relative to the result of one
 * rank. */
static double
distance_of(const struct trial *t, const struct split *s, int k)
{
    const struct type *type = type_at(&t->sample.call, k);
    bool partial = layout_has_partial(s->layout[k]);
    double worst = 0;
    for (int rank = 0; rank < (partial ? 1 : s->place->nrank); rank++)
        for (int64_t e = 0; e < box_numel(&s->box[rank][k], type->ndim); e++) {
            double got = s->shard[rank][k][e], want = t->value[k][index_in_whole(type, &s->box[rank][k], e)];
            for (int r = 1; r < s->place->nrank && partial; r++)
                got = combine(layout_partial(s->layout[k]), got, s->shard[r][k][e]);
            bool same = got == want || (isnan(got) && isnan(want));
            if (!same) worst = fmax(worst, isfinite(got - want) ? fabs(got - want) / (1 + fabs(want)) : INFINITY);
        }
    return worst;
}

/* Fails with a message that shows the signature as text, like "S(0), B -> S(0)". */
static int
signature_is_wrong(const struct trial *t, const struct split *s, int result, double off)
{
    const struct call *c = &t->sample.call;
    struct str text = {0};
    for (int k = 0; k < c->nin + c->nout; k++) {
        str_add(&text, k == 0 ? "" : k == c->nin ? " -> " : ", ");
        if (s->layout[k])
            layout_print(s->layout[k], &text);
        else
            str_add(&text, "-");
    }
    int status = fail(E_SBP,
                      "%s %s: with the layouts %s on %d devices, result %d differs by %.3g from that of one device; "
                      "correct rule ([x]: a dimension that is not split), reduce or linear",
                      t->l->op.name, t->text, str_text(&text), s->place->nrank, result, off);
    str_free(&text);
    return status;
}

static int
check_signature(struct trial *t, struct split *s)
{
    const struct call *c = &t->sample.call;
    int n = c->nin + c->nout;
    for (int fill = 0; fill < FILLS; fill++) {
        for (int k = 0; k < c->nin; k++) draw_operand(t, k, fill);
        TRY(compute_values(c, NULL, t->value, ref_run));
        for (int rank = 0; rank < s->place->nrank; rank++) {
            for (int k = 0; k < n; k++) cut_operand(t, s, rank, k);
            TRY(compute_values(c, s->box[rank], s->shard[rank], ref_run));
        }
        for (int k = c->nin; k < n; k++) {
            double off = distance_of(t, s, k);
            if (off > 1e-9) return signature_is_wrong(t, s, k - c->nin, off);
        }
    }
    return 0;
}

static int
check_signatures(struct trial *t, int nrank)
{
    static const int32_t rank[RANKS] = {0, 1, 2};
    int32_t axis = nrank;
    struct sig_list list;
    struct split s;
    TRY(place_new(t->atlas, DEV_CPU, 1, &axis, rank, &s.place));
    int32_t unit[RULE_FACTOR];
    sig_units(&t->rule, s.place, NULL, 0, unit);
    TRY(sig_axis(&t->arena, &t->sample.call, &t->rule, unit, &list));
    for (int choice = 0; choice < list.nsig; choice++)
        if (sig_layouts(t->atlas, s.place, &t->sample.call, &t->rule, &list, &choice, NULL, s.layout))
            TRY(check_signature(t, &s));
    return 0;
}

/* ---- checking gradients ---- */

/* A call of the operator that computes a gradient, with the types and values of its operands and of its result. */
struct slope {
    struct call call;
    struct type in[RILLE_OPERATOR_OPERANDS], out[OP_OUT];
    struct attr attr[OP_ATTR];
    double *value[TENSORS];
};

/* Draws floats that are far from 0 and from each other, so that no difference step crosses a kink of the function. */
static void
draw_apart(struct trial *t)
{
    for (int k = 0, seen = 0; k < t->sample.call.nin; k++) {
        draw_operand(t, k, 0);
        const struct type *type = &t->sample.in[k];
        for (int64_t i = 0; is_float_tensor(type) && i < type_numel(type); i++, seen++)
            t->value[k][i] += 0.05 + 0.1 * fmod(seen * 0.6180339887, 1);
    }
}

/* Reverses a broadcast from type `to` to type `from`, as the gradient of an operand needs: adds each element of y to
 * the element of x that the broadcast copies there. Returns false if `to` does not broadcast to `from`. */
static bool
sum_back(const struct type *from, const double *y, const struct type *to, double *x)
{
    int more = from->ndim - to->ndim;
    for (int d = 0; d < to->ndim; d++)
        if (more < 0 || (to->dim[d] != 1 && to->dim[d] != from->dim[d + more])) return false;
    if (more < 0) return false;
    for (int64_t e = 0; e < type_numel(from); e++) {
        int64_t left = e, at = 0, scale = 1;
        for (int d = from->ndim - 1; d >= 0; left /= from->dim[d--]) {
            if (d < more) continue;
            if (to->dim[d - more] != 1) at += left % from->dim[d] * scale;
            scale *= to->dim[d - more];
        }
        x[at] += y[e];
    }
    return true;
}

/* Computes the gradient of operand k by the operator that the record names. weight: the gradients of the results. */
static int
gradient_of(struct trial *t, int k, double *const *weight, double *gradient)
{
    const struct call *c = &t->sample.call;
    const struct op *op = t->l->gradient[k];
    const char *reads = t->l->record.gradient[k].reads;
    struct slope *g = ARENA_NEW(&t->arena, struct slope);
    struct rule rule;
    g->call = (struct call){
        .op = op, .nin = (int)strlen(reads), .nout = MAX(1, op->nout), .in = g->in, .out = g->out, .attr = g->attr};
    loaded_pass_attributes(c->op, c->attr, op, g->attr);
    for (int i = 0; i < g->call.nin; i++) {
        int of = reads[i] >= 'a' ? c->nin + reads[i] - 'a' : reads[i] >= 'A' ? c->nin + reads[i] - 'A' : reads[i] - '0';
        g->in[i] = *type_at(c, of);
        g->value[i] = reads[i] >= 'A' && reads[i] < 'a' ? weight[of - c->nin] : t->value[of];
    }
    while (g->call.nin < op_noperand(op)) g->call.nin++; /* the remaining operands are absent */
    TRY(call_infer(&t->arena, &g->call, &rule));
    for (int i = 0; i < g->call.nout; i++)
        g->value[g->call.nin + i] = ARENA_ARRAY(&t->arena, double, type_numel(&g->out[i]) + 1);
    TRY(compute_values(&g->call, NULL, g->value, compute_by_exec));
    if (sum_back(&g->out[0], g->value[g->call.nin], &c->in[k], gradient)) return 0;
    struct str found = {0}, expected = {0};
    type_print(&g->out[0], &found);
    type_print(&c->in[k], &expected);
    int status = fail(E_SHAPE, "%s %s: the gradient of %s by '%s' must be %s, found %s", c->op->name, t->text,
                      c->op->in[k].name, op->name, str_text(&expected), str_text(&found));
    str_free(&found);
    str_free(&expected);
    return status;
}

/* Adds h to element i of operand k, computes the results, and sets *f to their sum weighted by `weight`. */
static int
weighted_sum(struct trial *t, int k, int64_t i, double h, double *const *weight, double *f)
{
    const struct call *c = &t->sample.call;
    double x = t->value[k][i];
    t->value[k][i] = x + h;
    int status = compute_values(c, NULL, t->value, ref_run);
    t->value[k][i] = x;
    *f = 0;
    for (int r = 0; r < c->nout; r++)
        for (int64_t e = 0; is_float_tensor(&c->out[r]) && e < type_numel(&c->out[r]); e++)
            *f += weight[r][e] * t->value[c->nin + r][e];
    return status;
}

static int
check_slope(struct trial *t, int k, double *const *weight)
{
    const struct type *type = &t->sample.in[k];
    double f1, f0, *gradient = ARENA_ARRAY(&t->arena, double, type_numel(type) + 1);
    if (t->l->gradient[k]) TRY(gradient_of(t, k, weight, gradient));
    for (int64_t i = 0, n = type_numel(type); i < n; i += 1 + n / PROBES) {
        TRY(weighted_sum(t, k, i, STEP, weight, &f1));
        TRY(weighted_sum(t, k, i, -STEP, weight, &f0));
        double slope = (f1 - f0) / (2 * STEP), off = fabs(gradient[i] - slope);
        if (off <= 2e-5 * (1 + fabs(slope))) continue;
        return fail(E_VALUE, "%s %s: the gradient of %s is %.6g at element %lld, but the difference quotient is %.6g",
                    t->l->op.name, t->text, t->l->op.in[k].name, gradient[i], (long long)i, slope);
    }
    return 0;
}

static int
check_slopes(struct trial *t)
{
    const struct call *c = &t->sample.call;
    double *weight[OP_OUT];
    if (!t->l->op.grad.build) return 0;
    draw_apart(t);
    for (int r = 0; r < c->nout; r++) {
        weight[r] = ARENA_ARRAY(&t->arena, double, type_numel(&c->out[r]) + 1);
        for (int64_t e = 0; is_float_tensor(&c->out[r]) && e < type_numel(&c->out[r]); e++)
            weight[r][e] = quarters(t, 8);
    }
    TRY(compute_values(c, NULL, t->value, ref_run));
    for (int k = 0; k < c->nin; k++)
        if (is_float_tensor(&c->in[k])) TRY(check_slope(t, k, weight));
    return 0;
}

/* ---- checking the fast kernel ---- */

/* Checks that the kernel that a run would use agrees with the definition, that is, the record's function run().
 * Computes in the sample's dtypes. */
static int
check_kernel(struct trial *t)
{
    static const double tolerance[NDTYPE] = {[DT_BF16] = 2e-2, [DT_F16] = 4e-3, [DT_F32] = 2e-5, [DT_F64] = 1e-11};
    const struct call *c = &t->sample.call;
    double *got[TENSORS];
    memcpy(got, t->value, sizeof got);
    for (int k = 0; k < c->nin; k++) draw_operand(t, k, 0);
    for (int k = c->nin; k < c->nin + c->nout; k++)
        got[k] = ARENA_ARRAY(&t->arena, double, type_numel(type_at(c, k)) + 1);
    TRY(compute_values(c, NULL, t->value, ref_run));
    TRY(compute_values(c, NULL, got, compute_by_exec));
    for (int k = c->nin; k < c->nin + c->nout; k++)
        for (int64_t e = 0; e < type_numel(type_at(c, k)); e++) {
            double want = t->value[k][e], off = fabs(got[k][e] - want);
            if (got[k][e] == want || off <= tolerance[type_at(c, k)->dtype] * (1 + fabs(want))) continue;
            if (isnan(got[k][e]) && isnan(want)) continue;
            return fail(E_KERNEL,
                        "%s %s: element %lld of result %d is %.6g by the fast function, but %.6g by its "
                        "definition",
                        c->op->name, t->text, (long long)e, k - c->nin, got[k][e], want);
        }
    return 0;
}

/* Checks that each operand has elements in at least one sample. If an operand has a gradient, a sample with floats
 * for that operand is required. */
static int
check_samples(const struct loaded *l)
{
    for (int k = 0; k < op_noperand(&l->op); k++) {
        bool seen = false;
        for (int i = 0; i < OP_SAMPLE && l->op.sample[i]; i++) {
            struct trial t;
            int status = trial_open(&t, l, l->op.sample[i], false);
            const struct type *type = &t.sample.in[k];
            bool given = !status && type->dtype != DT_NONE && type_numel(type) > 0;
            seen = seen || (given && (!l->gradient[k] || is_float_tensor(type)));
            trial_close(&t);
            TRY(status);
        }
        if (!seen)
            return fail(E_ARG, "%s: at least one sample must have %s as operand %s", l->op.name,
                        l->gradient[k] ? "a float tensor with elements" : "a tensor with elements", l->op.in[k].name);
    }
    return 0;
}

int
loaded_check(const struct loaded *l)
{
    TRY(check_samples(l));
    for (int i = 0; i < OP_SAMPLE && l->op.sample[i]; i++)
        for (int wide = 0; wide < 2; wide++) {
            struct trial t;
            int status = trial_open(&t, l, l->op.sample[i], wide);
            if (!status && !wide) status = check_kernel(&t);
            for (int nrank = 2; nrank <= RANKS && !status && wide; nrank++) status = check_signatures(&t, nrank);
            if (!status && wide) status = check_slopes(&t);
            trial_close(&t);
            TRY(status);
        }
    return 0;
}
