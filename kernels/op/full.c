/* full.c - a tensor filled with a number. */
#include "kernels/op/base/op_impl.h"

static int
ref(const struct kcall *k)
{
    const struct view *value = &k->in[0], *y = &k->out[0];
    if (is_real(value))
        fill_view(y, number_f(value, 0));
    else
        fill_view_int(y, number_i(value, 0));
    return 0;
}

static const char element[] = BODY({ return x0(); });

const struct op op_full = {
    .name = "full",
    .doc = "y = value",
    .in = {{"value", IN_NUMBER}},
    .shape.infer = source_f32,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = kernel_strided,
    .flags = OP_SOURCE | OP_UNPLACED,
    .sample = {"#2.5", "#3"},
};
