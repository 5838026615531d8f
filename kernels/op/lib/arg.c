/* arg.c - code shared by argmax and argmin: finds the position of the best value along a dimension or among all
 * elements. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/arg.h"

#include "kernels/cpu/base/convert.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"

extern const struct op op_eq, op_logical_or, op_min, op_ne, op_position;

enum { AXIS, KEEPDIM };

static bool
looks_along(const struct call *c, int d)
{
    return !c->attr[AXIS].set || c->attr[AXIS].i == d;
}

int
arg_rule(const struct call *c, struct str *rule)
{
    int ndim = c->in[0].ndim;
    for (int d = 0; d < ndim; d++) str_addf(rule, looks_along(c, d) ? "[%c]" : "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < ndim; d++)
        if (!looks_along(c, d))
            str_addf(rule, "%c", letter(d));
        else if (c->attr[KEEPDIM].i)
            str_add(rule, "1");
    return 0;
}

int
arg_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    for (int d = 0; d < c->in[0].ndim; d++)
        if (looks_along(c, d) && c->in[0].dim[d] == 0)
            return call_fail(E_SHAPE, c, "dimension %d must not be empty, found 0 elements", d);
    return 0;
}

int
arg_ref(const struct kcall *k, bool (*better)(double x, double best))
{
    const struct view *x = &k->in[0];
    const struct attr *axis = &k->call->attr[AXIS];
    struct lines l = axis->set ? lines_of(x, (int)axis->i) : (struct lines){1, view_numel(x), 1};
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t first = 0;
            for (int64_t s = 1; s < l.size; s++) {
                double best = elem_get_f(x->dtype, x->data, (o * l.size + first) * l.inner + i);
                if (better(elem_get_f(x->dtype, x->data, (o * l.size + s) * l.inner + i), best)) first = s;
            }
            i64_of(&k->out[0])[o * l.inner + i] = first;
        }
    return 0;
}

bool
arg_accepts(const struct kcall *k)
{
    return k->out[0].dtype == DT_I64;
}

/* ---- variant: blocks of a compute type ---- */

enum { BLOCK = 512, SOME = 64 };

#define GREATER(v, best) ((v) > (best))
#define LESS(v, best)    ((v) < (best))
/* Order of floats: NaN is better than every number, and the first NaN is the best. */
#define REAL_GREATER(v, best) ((v) > (best) || ((v) != (v) && (best) == (best)))
#define REAL_LESS(v, best)    ((v) < (best) || ((v) != (v) && (best) == (best)))

/* Defines three functions. any_NAME returns true if one of n elements is better than `best`. scan_NAME continues
 * the search of one line with its n elements from position `from` on, and updates the best value and its
 * position. look_NAME continues the search of n adjacent lines with one element of each, at position s. */
#define SEARCH(name, type, better)                                                                                     \
    VECTOR static bool any_##name(int64_t n, const type *x, type best)                                                 \
    {                                                                                                                  \
        int32_t found = 0;                                                                                             \
        for (int64_t i = 0; i < n; i++) found |= better(x[i], best);                                                   \
        return found;                                                                                                  \
    }                                                                                                                  \
    static void scan_##name(int64_t n, const void *block, int64_t from, void *value, int64_t *first)                   \
    {                                                                                                                  \
        const type *x = block;                                                                                         \
        type *best = value;                                                                                            \
        if (from == 0) *best = x[0];                                                                                   \
        for (int64_t i = 0, m; i < n; i += m) {                                                                        \
            m = MIN(n - i, SOME);                                                                                      \
            if (!any_##name(m, x + i, *best)) continue;                                                                \
            for (int64_t j = i; j < i + m; j++)                                                                        \
                if (better(x[j], *best)) *best = x[j], *first = from + j;                                              \
        }                                                                                                              \
    }                                                                                                                  \
    VECTOR static void look_##name(int64_t n, const void *block, int64_t s, void *values, int64_t *first)              \
    {                                                                                                                  \
        const type *x = block;                                                                                         \
        type *best = values;                                                                                           \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            bool take = s == 0 || better(x[i], best[i]);                                                               \
            best[i] = take ? x[i] : best[i];                                                                           \
            first[i] = take ? s : first[i];                                                                            \
        }                                                                                                              \
    }
SEARCH(max_f32, float, REAL_GREATER)
SEARCH(min_f32, float, REAL_LESS)
SEARCH(max_f64, double, REAL_GREATER)
SEARCH(min_f64, double, REAL_LESS)
SEARCH(max_i64, int64_t, GREATER)
SEARCH(min_i64, int64_t, LESS)

struct search {
    void (*scan)(int64_t n, const void *x, int64_t from, void *value, int64_t *first);
    void (*look)(int64_t n, const void *x, int64_t s, void *values, int64_t *first);
};
static const struct search searches[NCOMPUTE][2] = {
    [COMP_F32] = {{scan_max_f32, look_max_f32}, {scan_min_f32, look_min_f32}},
    [COMP_F64] = {{scan_max_f64, look_max_f64}, {scan_min_f64, look_min_f64}},
    [COMP_I64] = {{scan_max_i64, look_max_i64}, {scan_min_i64, look_min_i64}},
};

struct work {
    const struct view *x;
    struct lines l;
    struct search f;
    int64_t *first;
    int64_t blocks; /* number of blocks of adjacent lines at each position of the outer dimensions */
};

/* Loads n elements, starting at element `at`, into a block of the compute type. */
static const void *
block_at(const struct view *x, int64_t at, int64_t n, void *workspace)
{
    enum compute type = compute_of((enum dtype)x->dtype);
    const char *from = (const char *)x->data + at * (int64_t)dtype_bytes((enum dtype)x->dtype);
    if ((enum dtype)x->dtype == compute_dtype(type)) return from;
    block_load(type, (enum dtype)x->dtype, from, 1, n, workspace);
    return workspace;
}

static void
find_along(void *arg, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    int64_t workspace[BLOCK], value;
    for (int64_t o = lo; o < hi; o++) {
        w->first[o] = 0;
        for (int64_t i = 0, since = 0; i < w->l.size && !stop_after(&since, BLOCK * 8); i += BLOCK) {
            int64_t n = MIN(w->l.size - i, BLOCK);
            w->f.scan(n, block_at(w->x, o * w->l.size + i, n, workspace), i, &value, &w->first[o]);
        }
    }
}

static void
find_beside(void *arg, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    int64_t workspace[BLOCK], value[BLOCK];
    for (int64_t b = lo; b < hi; b++) {
        int64_t o = b / w->blocks, from = b % w->blocks * BLOCK, n = MIN(w->l.inner - from, BLOCK);
        for (int64_t s = 0, since = 0; s < w->l.size && !stop_after(&since, n * 8); s++) {
            const void *x = block_at(w->x, (o * w->l.size + s) * w->l.inner + from, n, workspace);
            w->f.look(n, x, s, value, w->first + o * w->l.inner + from);
        }
    }
}

int
arg_run(const struct kcall *k, enum reduce best)
{
    const struct view *x = &k->in[0];
    const struct attr *axis = &k->call->attr[AXIS];
    struct lines l = axis->set ? lines_of(x, (int)axis->i) : (struct lines){1, view_numel(x), 1};
    struct work w = {.x = x, .l = l, .first = k->out[0].data, .blocks = (l.inner + BLOCK - 1) / BLOCK};
    w.f = searches[compute_of((enum dtype)x->dtype)][best == RED_MIN];
    if (l.inner == 1)
        team_run(k->threads, l.outer, 1 + 32768 / MAX(l.size, 1), find_along, &w);
    else
        team_run(k->threads, l.outer * w.blocks, 1 + 32768 / MAX(l.size * MIN(l.inner, BLOCK), 1), find_beside, &w);
    return 0;
}

/* Returns true if a reduced dimension is split. */
static bool
is_split(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[0] : NULL;
    if (!l) return false;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->place->axis[a] > 1 && looks_along(c, l->sbp[a].axis)) return true;
    return false;
}

/* Builds the composite for a split dimension: best = max x (min x for argmin); y = the least position where x ==
 * best or x is NaN. */
int
arg_build(struct build *b, const struct call *c, const struct op *best, struct val *x, struct val **out)
{
    if (!is_split(c)) return 0;
    const struct attr *axis = &c->attr[AXIS];
    int64_t axes[1] = {axis->i};
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_position, attr);
    if (axis->set) attr_int(&op_position, attr, "axis", axis->i);
    struct val *position = b_call(b, &op_position, 1, &x, attr);
    struct val *value = b_reduce(b, best, x, axes, axis->set, true);
    struct val *here = b_call2(b, &op_logical_or, b_call2(b, &op_eq, x, value), b_call2(b, &op_ne, x, x));
    struct val *found = b_where(b, here, position, b_integer(b, INT64_MAX));
    out[0] = b_reduce(b, &op_min, found, axes, axis->set, c->attr[KEEPDIM].i);
    return b->failed ? (int)err_last() : 0;
}
