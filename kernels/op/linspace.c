/* linspace.c - numbers at equal distances, both ends among them. */
#include "kernels/op/op_impl.h"

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    double start = number_f(&k->in[0], 0), stop = number_f(&k->in[1], 0);
    int64_t last = (y->ndim ? y->global[0] : 1) - 1;
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++) {
        double t = last > 0 ? (double)w.global / (double)last : 0;
        elem_set_f(y->dtype, y->data, i, t < 0.5 ? start + t * (stop - start) : stop - (1 - t) * (stop - start));
    }
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return ref(k);
}

static const struct kernel_variant variants[] = {{"walk", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({
    const double start = x0(), stop = x1(), last = (NDIM > 0 ? whole(0) : 1) - 1;
    const double t = last > 0 ? index() / last : 0;
    return t < 0.5 ? start + t * (stop - start) : stop - (1 - t) * (stop - start);
});

const struct op op_linspace = {
    .name = "linspace",
    .doc = "y[i] = start + i (stop - start) / (n - 1)",
    .in = {{"start", IN_NUMBER}, {"stop", IN_NUMBER}},
    .infer = source_f32,
    .ref = ref,
    .element = element,
    .kernel = variants,
    .flags = OP_SOURCE,
    .sample = {"#0 #1", "#-2 #3"},
};
