/* gather.c - elements of x along an axis; each element of the result has a separate position (torch.gather).
 *
 * A split of that axis leaves partial sums: a rank reads the elements that it holds and returns zeros for all
 * others. */
#include "kernels/op/gather.h"

#include "kernels/cpu/base/team.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

extern const struct op op_gather_grad;

void
gather_rule(const struct type *x, const struct type *ids, int axis, struct str *x_text, struct str *ids_text)
{
    for (int d = 0; d < x->ndim; d++) {
        bool same = d != axis && x->dim[d] == ids->dim[d];
        str_addf(ids_text, "%c", letter(d));
        str_addf(x_text, same ? "%c" : d == axis ? "%c" : "[%c]", same ? letter(d) : (char)('A' + d));
    }
}

int
gather_check(const struct call *c)
{
    const struct type *x = &c->in[0], *ids = &c->in[1];
    if (x->ndim == 0) return call_fail(E_SHAPE, c, "x must have at least 1 dimension");
    if (x->ndim != ids->ndim)
        return call_fail(E_SHAPE, c, "ids must have as many dimensions as x, %d, found %d", x->ndim, ids->ndim);
    for (int d = 0; d < x->ndim; d++)
        if (d != axis_of(c) && ids->dim[d] > x->dim[d])
            return call_fail(E_SHAPE, c, "dimension %d of ids has size %lld, which must not exceed that of x, %lld", d,
                             (long long)ids->dim[d], (long long)x->dim[d]);
    return 0;
}

int64_t
gather_index(const struct view *x, int axis, const struct view *ids, const int64_t *at)
{
    int64_t index = 0;
    for (int d = 0; d < x->ndim; d++) {
        int64_t i = lookup_here(d == axis ? lookup_id(ids, at) : ids->offset[d] + at[d], x->offset[d], x->dim[d]);
        if (i < 0) return -1;
        index = index * x->dim[d] + i;
    }
    return index;
}

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, ids = {0};
    gather_rule(&c->in[0], &c->in[1], axis_of(c), &x, &ids);
    str_addf(rule, "%s,%s->%s", str_text(&x), str_text(&ids), str_text(&ids));
    str_free(&x);
    str_free(&ids);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    return gather_check(c);
}

/* Copies element by element, for any dtype; this is also the reference. */
static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    const struct view *x = &k->in[0], *ids = &k->in[1], *y = &k->out[0];
    int axis = axis_of(k->call);
    lookup_find(k);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, ids); w.left > 0; walk_next(&w, ids), i++) {
        int64_t from = gather_index(x, axis, ids, w.at);
        if (dtype_is_float(y->dtype))
            elem_set_f(y->dtype, y->data, i, from < 0 ? 0 : elem_get_f(x->dtype, x->data, from));
        else
            elem_set_i(y->dtype, y->data, i, from < 0 ? 0 : elem_get_i(x->dtype, x->data, from));
    }
    return 0;
}

static int
ref(const struct kcall *k)
{
    return run(k, NULL);
}

static int
say(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"gather", "id", "in an axis of ", " elements"};
    return lookup_say(k, 1, k->in[0].global[axis_of(k->call)], &words, f);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0) && dout[0])
        din[0] = b_call(b, &op_gather_grad, 3, (struct val *[]){n->in[0], n->in[1], dout[0]}, n->attr);
}

/* ---- variant: the positions of one line read one line of x ----
 *
 * Elements of f32 in the cache, one core of an EPYC, us:
 *
 *     positions   x              by lines   element by element
 *     {256, 1}    {256, 50257}        0.8                  2.5
 *     {256, 64}   {256, 768}         14                   32 */

struct work {
    const struct view *x, *ids, *y;
    struct lines l; /* lines of x along the axis */
    int axis;
    int64_t nid; /* number of positions (ids) along the axis */
};

/* Copies the element that an id selects; writes 0 if another rank holds the element. */
INLINE void
take_one(char *to, const char *line, int64_t here, int64_t apart, int64_t width)
{
    if (here < 0)
        memset(to, 0, (size_t)width);
    else
        memcpy(to, line + here * apart, (size_t)width);
}

/* Copies elements lo .. hi - 1 if lines of x are contiguous. Reads the fields of w before the loop, so that they
 * stay in registers: the compiler must assume that a store to the result changes w. */
INLINE void
take_along(const struct work *w, int64_t lo, int64_t hi, bool wide, int64_t width)
{
    int64_t size = w->l.size, nid = w->nid, first = w->x->offset[w->axis];
    const int64_t *wide_id = w->ids->data;
    const int32_t *short_id = w->ids->data;
    const char *line = (const char *)w->x->data + lo / nid * size * width;
    char *to = w->y->data;
    for (int64_t at = lo, line_end = (lo / nid + 1) * nid, since = 0, end; at < hi;) {
        end = MIN(MIN(line_end, at + STOP_ELEMENTS), hi);
        if (stop_after(&since, (end - at) * width)) return;
        for (; at < end; at++)
            take_one(to + at * width, line, lookup_here(wide ? wide_id[at] : short_id[at], first, size), width, width);
        if (at == line_end) line += size * width, line_end += nid;
    }
}

/* Copies rows lo .. hi - 1 if lines of x are not contiguous. */
INLINE void
take(const struct work *w, int64_t lo, int64_t hi, bool wide, int64_t width)
{
    if (w->l.inner == 1) {
        take_along(w, lo, hi, wide, width);
        return;
    }
    int64_t inner = w->l.inner, size = w->l.size, nid = w->nid, first = w->x->offset[w->axis];
    const int64_t *wide_id = w->ids->data;
    const int32_t *short_id = w->ids->data;
    const char *from = (const char *)w->x->data + lo / nid * size * inner * width;
    char *to = w->y->data;
    for (int64_t row = lo, left = nid - lo % nid; row < hi; row++) {
        for (int64_t i = 0, at = row * inner; i < inner && stop_passes(i); i++, at++) {
            int64_t here = lookup_here(wide ? wide_id[at] : short_id[at], first, size);
            take_one(to + at * width, from + i * width, here, inner * width, width);
        }
        if (--left == 0) from += size * inner * width, left = nid;
    }
}

static void
take_rows(void *arg, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    bool wide = w->ids->dtype == DT_I64;
    switch (dtype_bytes((enum dtype)w->y->dtype)) {
    case 1: take(w, lo, hi, wide, 1); break;
    case 2: take(w, lo, hi, wide, 2); break;
    case 4: take(w, lo, hi, wide, 4); break;
    default: take(w, lo, hi, wide, 8);
    }
}

static bool
accepts_lines(const struct kcall *k)
{
    const struct view *x = &k->in[0], *ids = &k->in[1], *y = &k->out[0];
    bool same = x->dtype == y->dtype && view_is_dense(y) && (ids->dtype == DT_I64 || ids->dtype == DT_I32);
    for (int d = 0; d < x->ndim; d++)
        same &= d == axis_of(k->call) || (x->dim[d] == ids->dim[d] && x->offset[d] == ids->offset[d]);
    return same;
}

static int
run_lines(const struct kcall *k, const void *state)
{
    UNUSED(state);
    int axis = axis_of(k->call);
    struct work w = {&k->in[0], &k->in[1], &k->out[0], lines_of(&k->in[0], axis), axis, k->in[1].dim[axis]};
    lookup_find(k);
    team_run(k->threads, w.l.outer * w.nid, 1 + 8192 / MAX(w.l.inner, 1), take_rows, &w);
    return 0;
}

static const struct kernel_variant variants[] = {
    {"lines", .dense_in = true, .accepts = accepts_lines, .run = run_lines},
    {"simple", .dense_in = true, .run = run},
    {NULL},
};

static const char element[] = BODY({
    int64_t from[8];
    for (int d = 0; d < NDIM; d++) {
        from[d] = (d == c->attr[AXIS].i ? x1(at) : place1(d) + at[d]) - place0(d);
        if (from[d] < 0 || from[d] >= dim0(d)) return (decltype(x0(at)))0;
    }
    return x0(from);
});

const struct op op_gather = {
    .name = "gather",
    .doc = "y[i, j] = x[i, ids[i, j]], the position along axis",
    .result = "a tensor of ids' shape",
    .errors = "ids must have as many dimensions as x, at least 1; only along axis its size may exceed that of x\n"
              "an id must be from 0 to the size of x along axis - 1",
    .in = {{"x"}, {"ids", IN_INDEX}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that ids index"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.element = element,
    .host.allows = lookup_allows_axis,
    .host.say = say,
    .host.kernel = variants,
    .flops = flops_of_copy,
    .sample = {"f32{4,6} i64{4,3}<6 axis=1", "f32{5,4} i64{7,2}<5 axis=0", "i32{2,3,4} i32{1,5,4}<3 axis=1",
               "bf16{7} i64{3}<7 axis=0"},
};
