/* arg.c - what argmax and argmin share: the position of the best value along a dimension, or among all elements. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/arg.h"

#include "kernels/cpu/reduce.h"
#include "kernels/cpu/simd.h"

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
            return call_fail(E_SHAPE, c, "dimension %d is empty: there is no position to give", d);
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
    return k->in[0].dtype == DT_F32 && k->out[0].dtype == DT_I64;
}

/* Is it among n values? Then a search will find it. */
VECTOR static bool
has(int64_t n, const float *x, float value)
{
    int32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= x[i] == value || (x[i] != x[i] && value != value);
    return found;
}

/* The best value first, in lanes; then where it stands: the block, and the place in the block. */
static int64_t
find_best(int64_t n, const float *x, enum reduce best)
{
    enum { BLOCK = 256 };
    float value = (float)reduce_fold_f32(n, x, best);
    int64_t i = 0;
    while (i + BLOCK < n && !has(BLOCK, x + i, value)) i += BLOCK;
    while (i < n - 1 && !(x[i] == value || (x[i] != x[i] && value != value))) i++;
    return i;
}

/* Of n lines side by side, what is at position s; the greatest of x or, turned round, of -x. */
VECTOR static void
look_at(int64_t n, const float *x, int64_t s, float sign, float *best, int64_t *first)
{
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * sign;
        bool better = v > best[i] || (v != v && best[i] == best[i]);
        best[i] = better ? v : best[i];
        first[i] = better ? s : first[i];
    }
}

static void
find_beside(const struct lines *l, const float *x, enum reduce best, int64_t *first)
{
    enum { BLOCK = 512 };
    float value[BLOCK], sign = best == RED_MAX ? 1 : -1;
    for (int64_t i = 0; i < l->inner; i += BLOCK) {
        int64_t n = MIN(l->inner - i, BLOCK);
        for (int64_t j = 0; j < n; j++) value[j] = x[i + j] * sign, first[i + j] = 0;
        for (int64_t s = 1; s < l->size; s++) look_at(n, x + s * l->inner + i, s, sign, value, first + i);
    }
}

int
arg_run(const struct kcall *k, enum reduce best)
{
    const struct view *x = &k->in[0];
    const struct attr *axis = &k->call->attr[AXIS];
    struct lines l = axis->set ? lines_of(x, (int)axis->i) : (struct lines){1, view_numel(x), 1};
    const float *from = x->data;
    int64_t *first = k->out[0].data;
    for (int64_t o = 0; o < l.outer; o++, from += l.size * l.inner, first += l.inner)
        if (l.inner == 1)
            *first = find_best(l.size, from, best);
        else
            find_beside(&l, from, best, first);
    return 0;
}

/* Is a dimension that is looked along cut? */
static bool
is_split(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[0] : NULL;
    if (!l) return false;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->place->axis[a] > 1 && looks_along(c, l->sbp[a].axis)) return true;
    return false;
}

/* best = max x; y = min(position where x == best or x is NaN, else beyond all) */
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
