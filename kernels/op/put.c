/* put.c - writes entries into x at positions along an axis; each row of dimension 0 has separate positions.
 * Example: in a cache of keys and values, the entries of the next token are written after those of the earlier
 * tokens.
 *
 *   y = x, but y[i, .., at[i, j], ..] = src[i, .., j, ..]; positions outside x are skipped
 *
 * If x is a variable to which y is assigned, x is updated in place, so a step writes as many bytes as src has, not
 * as x has. The axis is unsplit because positions count along the whole axis. */
#include "kernels/op/lib/lookup.h"

#include "kernels/cpu/base/copies.h"

#include <string.h>

enum { X, AT, SRC };

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, src = {0};
    char other = letter(c->in[X].ndim);
    for (int d = 0; d < c->in[X].ndim; d++) {
        bool axis = d == axis_of(c);
        str_addf(&x, axis ? "[%c]" : "%c", letter(d));
        str_addf(&src, axis ? "[%c]" : "%c", axis ? other : letter(d));
    }
    str_addf(rule, "%s,%c[%c],%s->%s", str_text(&x), letter(0), other, str_text(&src), str_text(&x));
    str_free(&x);
    str_free(&src);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    const struct type *x = &c->in[X], *at = &c->in[AT], *src = &c->in[SRC];
    int axis = axis_of(c);
    if (axis == 0) return call_fail(E_SHAPE, c, "axis must be at least 1, because dimension 0 is the rows, found 0");
    if (at->ndim != 2 || at->dim[0] != x->dim[0])
        return call_fail(E_SHAPE, c, "at must be {%lld, n}: positions for each row of x", (long long)x->dim[0]);
    if (src->ndim != x->ndim || src->dtype != x->dtype)
        return call_fail(E_SHAPE, c, "src must be %s of %d dimensions, like x, found %s of %d dimensions",
                         dtype_text((enum dtype)x->dtype), x->ndim, dtype_text((enum dtype)src->dtype), src->ndim);
    for (int d = 0; d < x->ndim; d++)
        if (src->dim[d] != (d == axis ? at->dim[1] : x->dim[d]))
            return call_fail(E_SHAPE, c, "dimension %d of src must be %lld, found %lld", d,
                             (long long)(d == axis ? at->dim[1] : x->dim[d]), (long long)src->dim[d]);
    return 0;
}

/* Computes y. Copies x to the result, unless the result is in the memory of x (update in place). Then overwrites the
 * entries at the positions `at` along the axis with the entries of src. bytes: size of an element. */
static void
put(const struct kcall *k, size_t bytes)
{
    const struct view *x = &k->in[X], *at = &k->in[AT], *src = &k->in[SRC];
    int axis = axis_of(k->call);
    int64_t outer = 1, inner = (int64_t)bytes, size = x->dim[axis], n = src->dim[axis];
    for (int d = 1; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->ndim; d++) inner *= x->dim[d];
    if (k->out[0].data != x->data) copies_run(&k->out[0], x, k->threads);
    for (int64_t i = 0, since = 0; i < x->dim[0]; i++)
        for (int64_t j = 0; j < n && !stop_after(&since, outer * inner); j++) {
            int64_t to = lookup_id(at, (const int64_t[]){i, j});
            if (to < 0 || to >= size) continue;
            for (int64_t o = i * outer; o < (i + 1) * outer; o++)
                memcpy((char *)k->out[0].data + (o * size + to) * inner, (const char *)src->data + (o * n + j) * inner,
                       (size_t)inner);
        }
}

static int
ref(const struct kcall *k)
{
    put(k, sizeof(int64_t));
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    put(k, dtype_bytes(k->out[0].dtype));
    return 0;
}

static double
flops(const struct call *c)
{
    return (double)type_numel(&c->in[SRC]);
}

static const struct kernel_variant variants[] = {{"rows", .dense_in = true, .run = run}, {NULL}};

static const char element[] = BODY({
    const int64_t axis = c->attr[AXIS].i;
    int64_t from[8];
    for (int d = 0; d < NDIM; d++) from[d] = at[d];
    for (int64_t j = dim1(1) - 1; j >= 0; j--) {
        const int64_t entry[] = {at[0], j};
        if (x1(entry) != at[axis]) continue;
        from[axis] = j;
        return x2(from);
    }
    return x0(at);
});

const struct op op_put = {
    .name = "put",
    .doc = "y = x, but y[i, .., at[i, j], ..] = src[i, .., j, ..] along axis",
    .in = {{"x"}, {"at", IN_INDEX}, {"src"}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that positions index, not the first"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "02",
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .ninplace = 1,
    .flags = OP_INPLACE | OP_HIDDEN | OP_APPENDS,
    .flops = flops,
    .sample = {"f32{2,3,5,2} i64{2,1}<5 f32{2,3,1,2} axis=2", "bf16{3,4} i64{3,2}<4 bf16{3,2} axis=1",
               "i64{2,5,3} i32{2,2}<5 i64{2,2,3} axis=1"},
};
