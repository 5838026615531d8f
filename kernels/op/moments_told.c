/* moments_told.c - encodes the mean and deviation of a shard of a row in 9 bytes, for sending (moments.h). The
 * result has a new last dimension for the bytes. */
#include "kernels/op/lib/moments.h"

enum { MEAN, VARIANCE };

static int
rule(const struct call *c, struct str *rule)
{
    for (int i = 0; i < 3; i++) {
        str_add(rule, i == 0 ? "" : i == 1 ? "," : "->");
        for (int d = 0; d < c->in[MEAN].ndim; d++) str_addf(rule, "%c", letter(d));
    }
    str_add(rule, "N");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    TRY(infer_one_more(c, size));
    size[0] = TOLD_BYTES;
    c->out[0].dtype = DT_U8;
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct view *mean = &k->in[MEAN], *variance = &k->in[VARIANCE];
    for (int64_t i = 0, since = 0; i < view_numel(mean) && !stop_after(&since, 64); i++)
        moments_put(&k->out[0], i, elem_get_f((enum dtype)mean->dtype, mean->data, i),
                    sqrt(elem_get_f((enum dtype)variance->dtype, variance->data, i)), TOLD_BYTES, TOLD_RANGE);
    return 0;
}

static const char element[] =
    MOMENTS_BODY({ return moments_byte(x0(at), sqrt((double)x1(at)), TOLD_BYTES, TOLD_RANGE, at[NDIM - 1]); });

const struct op op_moments_told = {
    .name = "moments_told",
    .doc = "code of the mean and the deviation of a shard of each row",
    .in = {[MEAN] = {"mean", IN_FLOAT}, [VARIANCE] = {"variance", IN_FLOAT}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = kernel_direct,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f64{4} f32{4}>0.01", "f64{3,5} f32{3,5}>0", "f64{2,3,1} f32{2,3,1}>0.5"},
};
