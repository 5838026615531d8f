/* gather_grad.c - elements of src added up at their positions: the gradient of gather, and half of scatter_add. Operand
 * like is only looked at; split positions leave partial sums. */
#include "kernels/op/gather.h"

#include "kernels/cpu/convert.h"

#include <string.h>

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

/* The names of scatter_add: it is what users call. */
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
            i64_of(y)[to] = (int64_t)((uint64_t)i64_of(y)[to] + (uint64_t)i64_of(src)[i]); /* wraps, as integers do */
    }
    return 0;
}

/* ---- fast: sums in scratch, reals in f64, and rounded once ---- */

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

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 2) && dout[0]) din[2] = b_call(b, &op_gather, 2, (struct val *[]){dout[0], n->in[1]}, n->attr);
}

static double
flops(const struct call *c)
{
    return (double)type_numel(&c->in[2]);
}

static const struct kernel_variant variants[] = {
    {"simple", .dense_in = true, .accepts = accepts, .prepare = prepare, .run = run}, {NULL}};

/* Each element looks at all positions of its line. */
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

static void
allows(const struct kcall *k, struct allowed *a)
{
    *a = (struct allowed){.operand = 1, .count = (uint64_t)k->out[0].global[axis_of(k->call)]};
}

const struct op op_gather_grad = {
    .name = "gather_grad",
    .doc = "y[i, v] = sum of src[i, j] over all j with ids[i, j] = v, along axis; of like's shape",
    .in = {{"like"}, {"ids", IN_INDEX}, {"src"}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension in which ids count"}},
    .make_rule = rule,
    .dtype = OUT_IN0,
    .linear = "2",
    .reduce = RED_SUM,
    .grad = grad,
    .saves = "1",
    .ref = ref,
    .element = element,
    .allows = allows,
    .kernel = variants,
    .say = say,
    .flags = OP_HIDDEN,
    .flops = flops,
    .sample = {"f32{4,6} i64{4,3}<6 f32{4,3} axis=1", "f32{5,4} i64{7,2}<5 f32{7,2} axis=0",
               "i64{2,3,4} i32{1,5,4}<3 i64{1,5,4} axis=1"},
};
