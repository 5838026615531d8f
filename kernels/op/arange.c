/* arange.c - numbers at equal distances. */
#include "kernels/op/op_impl.h"

static double
step_f(const struct kcall *k)
{
    return k->call->nin > 2 ? number_f(&k->in[2], 1) : 1;
}

static int64_t
step_i(const struct kcall *k)
{
    return k->call->nin > 2 ? number_i(&k->in[2], 1) : 1;
}

/* Every entry fits, though its distance from the first may not: the sum is that of 2^64. */
static int64_t
entry_i(const struct kcall *k, int64_t i)
{
    return (int64_t)((uint64_t)number_i(&k->in[0], 0) + (uint64_t)i * (uint64_t)step_i(k));
}

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    bool real = is_real(&k->in[0]) || (k->call->nin > 2 && is_real(&k->in[2]));
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++)
        if (real)
            elem_set_f(y->dtype, y->data, i, number_f(&k->in[0], 0) + (double)w.global * step_f(k));
        else
            elem_set_i(y->dtype, y->data, i, entry_i(k, w.global));
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return ref(k);
}

static const struct kernel_variant variants[] = {{"walk", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({ return x0() + index() * (absent(&c->in[2]) ? 1 : x2()); });

const struct op op_arange = {
    .name = "arange",
    .doc = "y[i] = start + i step",
    .in = {{"start", IN_NUMBER}, {"stop", IN_NUMBER | IN_OPTIONAL}, {"step", IN_NUMBER | IN_OPTIONAL}},
    .ref = ref,
    .element = element,
    .kernel = variants,
    .flags = OP_SOURCE,
    .sample = {"#0 #4", "#1 #7 #2", "#0.5 #2.5 #0.5"},
};
