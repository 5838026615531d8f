/* position.c - the global position of each element of a tensor, along one dimension or in row-major order. */
#include "kernels/op/base/op_impl.h"

enum { AXIS };

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    const struct attr *axis = &k->call->attr[AXIS];
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++)
        i64_of(y)[i] = axis->set ? y->offset[axis->i] + w.at[axis->i] : w.global;
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return ref(k);
}

static const struct kernel_variant variants[] = {{"walk", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({ return c->attr[AXIS].set ? place((int)c->attr[AXIS].i) : index(); });

const struct op op_position = {
    .name = "position",
    .doc = "y[.., i, ..] = i along axis",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS,
                       .doc = "dimension; default: all, in row-major order of the global tensor"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_I64,
    .grad.build = b_zero_grad,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} axis=1", "f32{2,3}"},
};
