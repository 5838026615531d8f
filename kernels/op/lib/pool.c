/* pool.c - code shared by the pooling operators: sizes of windows, the reference's loops, variants for floats. */
#include "kernels/op/lib/pool.h"

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/arena.h"
#include "runtime/base/stop.h"

#include <stdlib.h>
#include <string.h>

struct window
pool_window(const struct attr *attr, int i)
{
    int64_t kernel = attr_pair(&attr[POOL_KERNEL], i, 1);
    return (struct window){kernel, attr_pair(&attr[POOL_STRIDE], i, kernel), attr_pair(&attr[POOL_PADDING], i, 0),
                           attr_pair(&attr[POOL_DILATION], i, 1)};
}

int64_t
pool_size(const struct attr *attr, int i, int64_t n)
{
    struct window w = pool_window(attr, i);
    int64_t extent = n + 2 * w.padding - (w.dilation * (w.kernel - 1) + 1) + (attr[POOL_CEIL].i ? w.stride - 1 : 0);
    if (extent < 0) return 0;
    int64_t size = extent / w.stride + 1;
    /* A window must start before the end of the image. */
    if (attr[POOL_CEIL].i && (size - 1) * w.stride >= n + w.padding) size--;
    return size;
}

static double
flops_of(const struct call *c, const struct type *windows)
{
    double entries = (double)pool_window(c->attr, 0).kernel * (double)pool_window(c->attr, 1).kernel;
    return entries * (double)type_numel(windows);
}

double
pool_flops(const struct call *c)
{
    return flops_of(c, &c->out[0]);
}

double
pool_back_flops(const struct call *c)
{
    return flops_of(c, &c->in[c->nin - 1]);
}

static int
pool_check(const struct call *c)
{
    if (c->in[0].ndim != 4) return call_fail(E_SHAPE, c, "x must have 4 dimensions, found %d", c->in[0].ndim);
    for (int a = POOL_KERNEL; a <= POOL_DILATION; a++) {
        const struct attr *attr = &c->attr[a];
        if (attr->n > 2)
            return call_fail(E_ATTR, c, "%s must be one or two numbers, found %d", c->op->attr[a].name, attr->n);
        for (int i = 0; i < attr->n; i++)
            if (attr->list[i] < (a == POOL_PADDING ? 0 : 1) || attr->list[i] > INT32_MAX)
                return call_fail(E_ATTR, c, "%s must be at least %d, found %lld", c->op->attr[a].name,
                                 a != POOL_PADDING, (long long)attr->list[i]);
    }
    for (int i = 0; i < 2; i++) {
        struct window w = pool_window(c->attr, i);
        if (w.padding > w.kernel / 2)
            return call_fail(E_ATTR, c, "padding must be at most half of kernel_size, %lld, found %lld",
                             (long long)w.kernel, (long long)w.padding);
    }
    return 0;
}

int
pool_infer(const struct call *c, int64_t *size)
{
    TRY(pool_check(c));
    for (int i = 0; i < 2; i++) {
        struct window w = pool_window(c->attr, i);
        size[i] = pool_size(c->attr, i, c->in[0].dim[2 + i]);
        if (size[i] < 1)
            return call_fail(E_SHAPE, c,
                             "in dimension %d, the window must not exceed the padded image, %lld, found %lld; add "
                             "padding or use a smaller window",
                             2 + i, (long long)(c->in[0].dim[2 + i] + 2 * w.padding),
                             (long long)((w.kernel - 1) * w.dilation + 1));
    }
    return 0;
}

static struct plane
plane_between(const struct attr *attr, const struct view *x, const struct view *y)
{
    struct plane p = {.count_padding = attr[POOL_COUNT_PAD].i, .lanes = 1};
    for (int i = 0; i < 2; i++) {
        p.window[i] = pool_window(attr, i);
        p.n[i] = x->dim[2 + i];
        p.m[i] = y->dim[2 + i];
    }
    return p;
}

struct plane
pool_plane(const struct kcall *k)
{
    return plane_between(k->call->attr, &k->in[0], &k->out[0]);
}

struct plane
pool_back_plane(const struct kcall *k)
{
    return plane_between(k->call->attr, &k->out[0], &k->in[k->call->nin - 1]);
}

/* ---- the reference ---- */

int
pool_ref(const struct kcall *k, const struct plane *p, void (*each)(const struct pane *w))
{
    struct pane w = {.step = {p->window[0].dilation, p->window[1].dilation}, .row = p->n[1]};
    int64_t nplane = k->in[0].dim[0] * k->in[0].dim[1];
    for (int i = 0; i < k->call->nin; i++) w.in[i] = f64_of(&k->in[i]);
    w.out = f64_of(&k->out[0]);
    memset(w.out, 0, (size_t)view_numel(&k->out[0]) * sizeof *w.out);
    for (int64_t r = 0; r < nplane * p->m[0] && !stop_now(); r++)
        for (int64_t j = 0; j < p->m[1]; j++) {
            struct span h = plane_span(p, 0, r % p->m[0]), v = plane_span(p, 1, j);
            w.plane = r / p->m[0] * p->n[0] * p->n[1];
            w.at = r * p->m[1] + j;
            w.h0 = h.lo, w.h1 = h.hi;
            w.w0 = v.lo, w.w1 = v.hi;
            w.count = h.count * v.count;
            each(&w);
        }
    return 0;
}

/* ---- variants for floats ----
 *
 * A plane is one channel of one image. Planes are computed in groups of PLANE_LANES. If rows are short, a whole
 * group is interleaved by a transpose, computed at once, and transposed back. One core of an EPYC (Zen 5), maximum
 * of 3x3 windows over f32, ms:
 *
 *                     32x1024x7x7   32x512x16x16, stride 2
 *     in groups               1.3                      2.0
 *     plane by plane          5.0                      3.0
 *
 * For planes of 20x20 and more, grouping is not faster. */

enum { SHORT_ROW = 16, LEAST_WORK = 16384 }; /* LEAST_WORK: minimum number of elements per thread */

struct state {
    struct plane plane, group;
    bool turn; /* true: whole groups of planes are transposed */
    void (*fn)(const struct plane *p, const void *const *in, void *out, void *workspace);
    bool doubles;
    int threads;
    size_t workspace; /* size of one thread's scratch, bytes */
};

static int64_t
plane_size(const struct view *v)
{
    return v->dim[2] * v->dim[3];
}

static int64_t
plane_count(const struct view *v)
{
    return v->dim[0] * v->dim[1];
}

/* Returns the bytes of scratch for planes that cannot be used in place: a transposed group, or a plane of 16-bit
 * floats. */
static size_t
group_bytes(const struct view *v, bool turn)
{
    size_t bytes = v->dtype == DT_F64 ? sizeof(double) : sizeof(float);
    bool half = dtype_is_half((enum dtype)v->dtype);
    return turn || half ? align_64((size_t)plane_size(v) * bytes * (turn ? PLANE_LANES : 1)) : 0;
}

static bool
accepts_plane(const struct kcall *k, struct plane p)
{
    enum dtype d = k->out[0].dtype;
    bool same = k->call->nin == 1 || k->in[1].dtype == d;
    return same && k->in[0].dtype == d && dtype_is_float(d) && plane_fits(&p);
}

bool
pool_accepts(const struct kcall *k)
{
    return accepts_plane(k, pool_plane(k));
}

bool
pool_back_accepts(const struct kcall *k)
{
    return accepts_plane(k, pool_back_plane(k));
}

int
pool_prepare(const struct kcall *k, const struct plane *p, const struct plane_fn *fn, void **state,
             size_t *scratch_bytes)
{
    struct state *s = must_alloc(sizeof *s);
    int64_t n = plane_count(&k->out[0]);
    *s = (struct state){.plane = *p, .group = *p, .doubles = k->out[0].dtype == DT_F64};
    size_t bytes = s->doubles ? sizeof(double) : sizeof(float);
    s->fn = s->doubles ? fn->f64 : fn->f32;
    s->group.lanes = PLANE_LANES;
    s->turn = !fn->alone && n >= PLANE_LANES && p->n[1] <= SHORT_ROW;
    s->threads = (int)MIN(k->threads, 1 + n * p->n[0] * p->n[1] / LEAST_WORK);
    s->workspace = align_64(MAX(plane_workspace(p, bytes), s->turn ? plane_workspace(&s->group, bytes) : 0));
    for (int i = 0; i < k->call->nin; i++) s->workspace += group_bytes(&k->in[i], s->turn);
    s->workspace += group_bytes(&k->out[0], s->turn);
    *scratch_bytes = s->workspace * (size_t)s->threads;
    *state = s;
    return 0;
}

static struct row
row_of_plane(const struct view *v, int64_t plane)
{
    int64_t n = plane_size(v);
    return (struct row){(char *)v->data + plane * n * (int64_t)dtype_bytes(v->dtype), v->dtype, 1, n};
}

/* Transposes a group of planes of doubles, which need no conversion. Element i of plane l is stored at i *
 * PLANE_LANES + l of `turned`. */
static void
turn_doubles(const struct view *v, int64_t first, double *turned, bool out)
{
    int64_t n = plane_size(v);
    for (int64_t lane = 0; lane < PLANE_LANES; lane++) {
        double *plane = (double *)v->data + (first + lane) * n, *beside = turned + lane;
        for (int64_t i = 0; i < n; i++)
            if (out)
                plane[i] = beside[i * PLANE_LANES];
            else
                beside[i * PLANE_LANES] = plane[i];
    }
}

static void
turn_in(const struct view *v, int64_t first, float *to)
{
    float workspace[ROW_BLOCK];
    for (int64_t lane = 0; lane < PLANE_LANES; lane++) {
        struct row r = row_of_plane(v, first + lane);
        for (int64_t from = 0; from < r.n; from += ROW_BLOCK) {
            int64_t n = MIN(r.n - from, ROW_BLOCK);
            const float *x = row_load(&r, from, n, workspace);
            for (int64_t i = 0; i < n; i++) to[(from + i) * PLANE_LANES + lane] = x[i];
        }
    }
}

static void
turn_out(const struct view *v, int64_t first, const float *x)
{
    float workspace[ROW_BLOCK];
    for (int64_t lane = 0; lane < PLANE_LANES; lane++) {
        struct row r = row_of_plane(v, first + lane);
        for (int64_t from = 0; from < r.n; from += ROW_BLOCK) {
            int64_t n = MIN(r.n - from, ROW_BLOCK);
            float *to = row_into(&r, from, workspace);
            for (int64_t i = 0; i < n; i++) to[i] = x[(from + i) * PLANE_LANES + lane];
            row_store(&r, from, n, to);
        }
    }
}

struct task {
    const struct kcall *k;
    const struct state *s;
};

static void
run_plane(const struct task *t, int64_t plane, char *workspace)
{
    const struct kcall *k = t->k;
    const void *in[POOL_IN];
    bool doubles = t->s->doubles;
    for (int i = 0; i < k->call->nin; workspace += group_bytes(&k->in[i++], false)) {
        struct row x = row_of_plane(&k->in[i], plane);
        in[i] = doubles ? x.data : (const void *)row_load(&x, 0, x.n, (float *)workspace);
    }
    struct row y = row_of_plane(&k->out[0], plane);
    if (doubles) {
        t->s->fn(&t->s->plane, in, y.data, workspace);
        return;
    }
    float *out = row_into(&y, 0, (float *)workspace);
    t->s->fn(&t->s->plane, in, out, workspace + group_bytes(&k->out[0], false));
    row_store(&y, 0, y.n, out);
}

static void
run_group(const struct task *t, int64_t first, char *workspace)
{
    const struct kcall *k = t->k;
    const void *in[POOL_IN];
    bool doubles = t->s->doubles;
    for (int i = 0; i < k->call->nin; workspace += group_bytes(&k->in[i++], true)) {
        in[i] = workspace;
        if (doubles)
            turn_doubles(&k->in[i], first, (double *)workspace, false);
        else
            turn_in(&k->in[i], first, (float *)workspace);
    }
    t->s->fn(&t->s->group, in, workspace, workspace + group_bytes(&k->out[0], true));
    if (doubles)
        turn_doubles(&k->out[0], first, (double *)workspace, true);
    else
        turn_out(&k->out[0], first, (float *)workspace);
}

/* Computes the planes of threads lo to hi - 1. Each thread has a workspace of its own. */
static void
run_share(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    int64_t nplane = plane_count(&t->k->out[0]), n = (nplane + PLANE_LANES - 1) / PLANE_LANES, threads = t->s->threads;
    for (int64_t i = lo; i < hi; i++) {
        char *workspace = (char *)t->k->scratch + (size_t)i * t->s->workspace;
        for (int64_t g = n * i / threads; g < n * (i + 1) / threads && !stop_now(); g++) {
            int64_t first = g * PLANE_LANES, last = MIN(first + PLANE_LANES, nplane);
            if (t->s->turn && last - first == PLANE_LANES)
                run_group(t, first, workspace);
            else
                for (int64_t plane = first; plane < last; plane++) run_plane(t, plane, workspace);
        }
    }
}

int
pool_run(const struct kcall *k, const void *state)
{
    const struct state *s = state;
    team_run(s->threads, s->threads, 1, run_share, &(struct task){k, s});
    return 0;
}

void
pool_drop(void *state)
{
    free(state);
}

/* ---- gradients ---- */

struct val *
b_pool(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    struct attr own[OP_ATTR];
    for (int i = 0; i < nin; i++)
        if (!in[i]) return NULL;
    op_attr_defaults(op, own);
    for (int i = POOL_KERNEL; i <= POOL_COUNT_PAD; i++) own[i] = attr[i];
    return b_call(b, op, nin, in, own);
}
