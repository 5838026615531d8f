/* moments_joined.c - joins the mean and deviation of all shards of a row (moments.h). The operator computes an
 * answer for each shard, a code of 7 bytes: the distance from the shard's mean to the row's mean, and the row's
 * deviation.
 *
 *   mean = mean of the shards' means,   variance = mean of (deviation^2 + (the shard's mean - mean)^2)
 *
 * The formulas hold because all shards have the same size. The last two dimensions of the operand are the shards
 * and the bytes of a code; both are unsplit. */
#include "kernels/op/lib/moments.h"

static int
rule(const struct call *c, struct str *rule)
{
    int lead = c->in[0].ndim - 2;
    if (lead < 0) return call_fail(E_SHAPE, c, "codes must have at least 2 dimensions, found %d", c->in[0].ndim);
    for (int d = 0; d < lead; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "[Y][Z]->");
    for (int d = 0; d < lead; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "[Y]N");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct type *told = &c->in[0];
    if (told->dtype != DT_U8 || told->dim[told->ndim - 1] != TOLD_BYTES)
        return call_fail(E_DTYPE, c, "codes must be u8 {.., shards, %d}", TOLD_BYTES);
    size[0] = JOINED_BYTES;
    return 0;
}

/* Computes the codes that answer the shards of one row. The codes of these shards start at index `first`. */
static void
join(const struct kcall *k, int64_t first, int64_t parts)
{
    const struct view *told = &k->in[0];
    uint8_t code[TOLD_BYTES];
    double mean = 0, squares = 0;
    for (int64_t i = first; i < first + parts; i++) {
        moments_get(told, i, TOLD_BYTES, code);
        mean += moments_number(code, TOLD_BYTES, TOLD_RANGE);
    }
    mean /= (double)parts;
    for (int64_t i = first; i < first + parts; i++) {
        moments_get(told, i, TOLD_BYTES, code);
        double deviation = moments_scale(code), d = moments_number(code, TOLD_BYTES, TOLD_RANGE) - mean;
        squares += deviation * deviation + d * d;
    }
    double all = sqrt(squares / (double)parts);
    for (int64_t i = first; i < first + parts; i++) {
        moments_get(told, i, TOLD_BYTES, code);
        moments_put(&k->out[0], i, mean - moments_number(code, TOLD_BYTES, TOLD_RANGE), all, JOINED_BYTES,
                    moments_range(parts));
    }
}

static int
ref(const struct kcall *k)
{
    const struct view *told = &k->in[0];
    int64_t parts = told->dim[told->ndim - 2], codes = view_numel(told) / TOLD_BYTES;
    for (int64_t i = 0, since = 0; i < codes && !stop_after(&since, 64 * parts); i += parts) join(k, i, parts);
    return 0;
}

static const char element[] = MOMENTS_BODY({
    const int64_t parts = dim0(NDIM - 2);
    int64_t from[8];
    uint8_t code[TOLD_BYTES];
    for (int d = 0; d < NDIM; d++) from[d] = at[d];
    const auto told = [&](int64_t i) {
        from[NDIM - 2] = i;
        for (int k = 0; k < TOLD_BYTES; k++) {
            from[NDIM - 1] = k;
            code[k] = (uint8_t)x0(from);
        }
        return moments_number(code, TOLD_BYTES, TOLD_RANGE);
    };
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < parts; i++) mean += told(i);
    mean /= (double)parts;
    for (int64_t i = 0; i < parts; i++) {
        const double d = told(i) - mean, deviation = moments_scale(code);
        squares += deviation * deviation + d * d;
    }
    const double all = sqrt(squares / (double)parts);
    return moments_byte(mean - told(at[NDIM - 2]), all, JOINED_BYTES, moments_range(parts), at[NDIM - 1]);
});

const struct op op_moments_joined = {
    .name = "moments_joined",
    .doc = "code for each shard of a row: the distance from its mean to the row's mean, and the row's deviation",
    .in = {{"told"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = kernel_direct,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"u8{4,2,9}", "u8{3,9}", "u8{2,3,5,9}"},
};
