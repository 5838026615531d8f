/* linspace.c - evenly spaced numbers from a start to an end, both included. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/convert.h"

static int64_t
last_of(const struct view *y)
{
    return (y->ndim ? y->global[0] : 1) - 1;
}

static inline double
entry(double start, double stop, int64_t i, int64_t last)
{
    double t = last > 0 ? (double)i / (double)last : 0;
    return t < 0.5 ? start + t * (stop - start) : stop - (1 - t) * (stop - start);
}

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    double start = number_f(&k->in[0], 0), stop = number_f(&k->in[1], 0);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++)
        elem_set_f(y->dtype, y->data, i, entry(start, stop, w.global, last_of(y)));
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    const struct view *y = &k->out[0];
    double start = number_f(&k->in[0], 0), stop = number_f(&k->in[1], 0), block[STRETCH_MOST];
    int64_t last = last_of(y);
    struct stretch s;
    UNUSED(state);
    for (stretch_start(&s, y); s.n > 0; stretch_next(&s)) {
        for (int64_t i = 0; i < s.n; i++) block[i] = entry(start, stop, s.global + i, last);
        block_store(COMP_F64, y->dtype, block, s.n, (char *)y->data + s.at * (int64_t)dtype_bytes(y->dtype), 1);
    }
    return 0;
}

static const struct kernel_variant variants[] = {{"blocks", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({
    const double start = x0(), stop = x1(), last = (NDIM > 0 ? whole(0) : 1) - 1;
    const double t = last > 0 ? index() / last : 0;
    return t < 0.5 ? start + t * (stop - start) : stop - (1 - t) * (stop - start);
});

const struct op op_linspace = {
    .name = "linspace",
    .doc = "y[i] = a + i (b - a) / (n - 1)",
    .in = {{"start", IN_NUMBER}, {"stop", IN_NUMBER}},
    .shape.infer = source_f32,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flags = OP_SOURCE,
    .sample = {"#0 #1", "#-2 #3"},
};
