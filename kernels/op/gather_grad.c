/* gather_grad.c - adds the elements of src at their positions in a tensor of zeros: the gradient of gather, and a
 * step of scatter_add. Operand `like` only determines the type of the result. Split positions leave partial sums. */
#include "kernels/op/gather.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"

#include <string.h>

extern const struct op op_gather;

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, ids = {0};
    gather_rule(&c->in[0], &c->in[1], axis_of(c), &x, &ids);
    str_addf(rule, "%s,%s,%s->%s", str_text(&x), str_text(&ids), str_text(&ids), str_text(&x));
    str_free(&x);
    str_free(&ids);
    return 0;
}

/* Reports invalid positions under the name scatter_add, the operator that users call. */
static int
say(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"scatter_add", "id", "in an axis of ", " elements"};
    return lookup_say(k, 1, k->out[0].global[axis_of(k->call)], &words, f);
}

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0], *ids = &k->in[1], *src = &k->in[2];
    int axis = axis_of(k->call);
    lookup_find(k);
    view_clear(y);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, ids); w.left > 0; walk_next(&w, ids), i++) {
        int64_t to = gather_index(y, axis, ids, w.at);
        if (to < 0) continue;
        if (is_real(y))
            f64_of(y)[to] += f64_of(src)[i];
        else
            /* Sums of integers wrap around. */
            i64_of(y)[to] = (int64_t)((uint64_t)i64_of(y)[to] + (uint64_t)i64_of(src)[i]);
    }
    return 0;
}

/* ---- variant: all sums in scratch memory; sums of floats are f64, and rounded once at the end ---- */

static bool
accepts(const struct kcall *k)
{
    return k->out[0].dtype != DT_BOOL && k->in[2].dtype == k->out[0].dtype;
}

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = (size_t)view_numel(&k->out[0]) * sizeof(double);
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    enum { BLOCK = 1024 };
    const struct view *y = &k->out[0], *ids = &k->in[1], *src = &k->in[2];
    enum compute sums = dtype_is_float(y->dtype) ? COMP_F64 : COMP_I64;
    int64_t block[BLOCK], *whole = k->scratch, n = view_numel(y), i = 0, bytes = (int64_t)dtype_bytes(src->dtype);
    double *real = k->scratch;
    struct view all = *y;
    int axis = axis_of(k->call);
    UNUSED(state);
    lookup_find(k);
    all.dtype = (uint8_t)compute_dtype(sums);
    all.data = k->scratch;
    view_clear(&all);
    struct walk w;
    for (walk_start(&w, ids); w.left > 0; walk_next(&w, ids), i++) {
        int64_t in = i % BLOCK, to = gather_index(y, axis, ids, w.at);
        if (in == 0) block_load(sums, src->dtype, (const char *)src->data + i * bytes, 1, MIN(w.left, BLOCK), block);
        if (to < 0) continue;
        if (sums == COMP_F64)
            real[to] += ((const double *)block)[in];
        else
            whole[to] = (int64_t)((uint64_t)whole[to] + (uint64_t)block[in]);
    }
    for (int64_t from = 0; from < n && stop_passes(from); from += STOP_ELEMENTS)
        block_store(sums, y->dtype, real + from, MIN(n - from, STOP_ELEMENTS),
                    (char *)y->data + from * (int64_t)dtype_bytes(y->dtype), 1);
    return 0;
}

/* ---- variant: the positions of one line add to one line of the result ----
 *
 * The scratch memory holds the sums of one line, and is cleared again after each line. Only the elements that
 * received a sum are rounded, stored and cleared. f32{256, 100} to {256, 5000} on one core of an EPYC: 116 us; with
 * the sums of all lines in scratch memory, 416 us. */

union sum {
    double f;
    int64_t i;
};
struct work {
    const struct kcall *k;
    struct lines l; /* lines of the result along the axis */
    int64_t nid;    /* number of positions (ids) along the axis */
    enum compute type;
    size_t scratch_bytes; /* size of one thread's scratch, bytes */
};

static size_t
sums_bytes(const struct lines *l)
{
    return align_64((size_t)(l->size * l->inner) * sizeof(double));
}

/* Adds value to the sum of element `to` of a line, and stores the new sum. */
static inline void
add_at(const struct work *w, char *line, union sum *sums, int64_t to, union sum value)
{
    enum dtype d = (enum dtype)w->k->out[0].dtype;
    union sum *s = &sums[to];
    if (w->type == COMP_I64)
        elem_set_i(d, line, to, s->i = (int64_t)((uint64_t)s->i + (uint64_t)value.i));
    else if (d == DT_F32)
        ((float *)line)[to] = (float)(s->f += value.f);
    else
        elem_set_f(d, line, to, s->f += value.f);
}

/* Adds n entries of one line, starting at entry `at`, to the sums. clear: sets the sums of these entries to zero
 * instead. */
static void
add_some(const struct work *w, char *line, union sum *sums, int64_t at, int64_t n, bool clear)
{
    const struct view *y = &w->k->out[0], *ids = &w->k->in[1], *src = &w->k->in[2];
    int64_t id[STRETCH_MOST], inner = w->l.inner, first = y->offset[axis_of(w->k->call)];
    union sum value[STRETCH_MOST];
    block_load(COMP_I64, ids->dtype, (const char *)ids->data + at * (int64_t)dtype_bytes(ids->dtype), 1, n, id);
    if (!clear)
        block_load(w->type, src->dtype, (const char *)src->data + at * (int64_t)dtype_bytes(src->dtype), 1, n, value);
    for (int64_t i = 0; i < n; i++) {
        int64_t here = lookup_here(id[i], first, w->l.size), to = inner == 1 ? here : here * inner + (at + i) % inner;
        if (here < 0) continue;
        if (clear)
            sums[to].i = 0;
        else
            add_at(w, line, sums, to, value[i]);
    }
}

static void
add_lines(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    union sum *sums = (void *)((char *)w->k->scratch + (size_t)share * w->scratch_bytes);
    int64_t bytes = w->l.size * w->l.inner * (int64_t)dtype_bytes(w->k->out[0].dtype), n = w->nid * w->l.inner,
            since = 0;
    memset(sums, 0, w->scratch_bytes);
    for (int64_t o = lo; o < hi; o++) {
        char *line = (char *)w->k->out[0].data + o * bytes;
        memset(line, 0, (size_t)bytes);
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < n; i += STRETCH_MOST) {
                if (stop_after(&since, STRETCH_MOST * 8 + bytes)) return;
                add_some(w, line, sums, o * n + i, MIN(n - i, STRETCH_MOST), pass == 1);
            }
    }
}

static bool
accepts_lines(const struct kcall *k)
{
    const struct view *ids = &k->in[1], *y = &k->out[0];
    bool same = accepts(k) && view_is_dense(y);
    for (int d = 0; d < y->ndim; d++)
        same &= d == axis_of(k->call) || (y->dim[d] == ids->dim[d] && y->offset[d] == ids->offset[d]);
    return same;
}

static int
prepare_lines(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct lines l = lines_of(&k->out[0], axis_of(k->call));
    UNUSED(state);
    *scratch_bytes = sums_bytes(&l) * (size_t)k->threads;
    return 0;
}

static int
run_lines(const struct kcall *k, const void *state)
{
    enum { GRAIN = 1 << 15 }; /* minimum number of elements per thread */
    int axis = axis_of(k->call);
    struct work w = {.k = k, .l = lines_of(&k->out[0], axis), .nid = k->in[1].dim[axis]};
    w.type = dtype_is_float(k->out[0].dtype) ? COMP_F64 : COMP_I64;
    w.scratch_bytes = sums_bytes(&w.l);
    UNUSED(state);
    lookup_find(k);
    team_shares(k->threads, w.l.outer, 1 + GRAIN / MAX(w.l.size * w.l.inner, 1), add_lines, &w);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 2) && dout[0]) din[2] = b_call(b, &op_gather, 2, (struct val *[]){dout[0], n->in[1]}, n->attr);
}

static const struct kernel_variant variants[] = {
    {"lines", .dense_in = true, .accepts = accepts_lines, .prepare = prepare_lines, .run = run_lines},
    {"simple", .dense_in = true, .accepts = accepts, .prepare = prepare, .run = run},
    {NULL}};

/* GPU kernel for one element of the result: searches all positions of the element's line. */
static const char element[] = BODY({
    const int64_t axis = c->attr[AXIS].i;
    int64_t from[8];
    decltype(sums::join(x2(at), x2(at))) sum = 0;
    for (int d = 0; d < NDIM; d++) {
        from[d] = place(d) - place1(d);
        if (d != axis && (from[d] < 0 || from[d] >= dim1(d))) return sum;
    }
    for (from[axis] = 0; from[axis] < dim1(axis); from[axis]++)
        if (x1(from) == place(axis)) sum = sums::join(sum, x2(from));
    return sum;
});

const struct op op_gather_grad = {
    .name = "gather_grad",
    .doc = "y[i, v] = sum of src[i, j] over all j with ids[i, j] = v, along axis; of like's shape",
    .in = {{"like"}, {"ids", IN_INDEX}, {"src"}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that ids index"}},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "2",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "1",
    .host.ref = ref,
    .gpu.element = element,
    .host.allows = lookup_allows,
    .host.kernel = variants,
    .host.say = say,
    .flags = OP_HIDDEN,
    .flops = lookup_flops,
    .sample = {"f32{4,6} i64{4,3}<6 f32{4,3} axis=1", "f32{5,4} i64{7,2}<5 f32{7,2} axis=0",
               "i64{2,3,4} i32{1,5,4}<3 i64{1,5,4} axis=1"},
};
