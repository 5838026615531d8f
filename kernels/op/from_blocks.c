/* from_blocks.c - dequantises the blocks of a quantised type to f32: w (..., blocks, bytes of a block) -> (...,
 * k). */
#include "kernels/cpu/base/team.h"
#include "kernels/op/lib/blocks.h"

enum { KIND };

static int
rule(const struct call *c, struct str *rule)
{
    int batch = c->in[0].ndim - 2;
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "Z[B]->");
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "(Z[K])");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct type *w = &c->in[0];
    const struct coding *k = blocks_coding(c);
    if (w->ndim < 2 || w->dtype != DT_U8)
        return call_fail(E_DTYPE, c, "w must be u8 with at least 2 dimensions, found %s with %d", dtype_text(w->dtype),
                         w->ndim);
    if (w->dim[w->ndim - 1] != k->bytes)
        return call_fail(E_SHAPE, c, "a block of %s must have %d bytes, found %lld", k->name, k->bytes,
                         (long long)w->dim[w->ndim - 1]);
    size[0] = k->elements;
    c->out[0].dtype = DT_F32;
    return 0;
}

static int
ref(const struct kcall *k)
{
    const struct coding *c = blocks_coding(k->call);
    double *y = f64_of(&k->out[0]);
    for (int64_t b = 0; b < view_numel(&k->in[0]) / c->bytes; b++) {
        float value[256];
        ref_block(c, &k->in[0], b, value);
        for (int i = 0; i < c->elements; i++) y[b * c->elements + i] = (double)value[i];
    }
    return 0;
}

/* ---- variant: f32 ---- */

static void
decode_range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    const struct coding *c = blocks_coding(k->call);
    coding_decode(c, (const uint8_t *)k->in[0].data + lo * c->bytes, hi - lo,
                  (float *)k->out[0].data + lo * c->elements);
}

static int
run(const struct kcall *k, const void *state)
{
    enum { WORTH = 64 }; /* minimum number of blocks per thread */
    UNUSED(state);
    team_run(k->threads, view_numel(&k->in[0]) / blocks_coding(k->call)->bytes, WORTH, decode_range,
             (void *)(uintptr_t)k);
    return 0;
}

static const struct kernel_variant variants[] = {
    {"blocks", .dense_in = true, .accepts = dense_out, .run = run},
    {NULL},
};

const struct op op_from_blocks = {
    .name = "from_blocks",
    .doc = "y[..., k] = values of the blocks w[..., b], in f32; w: u8, the blocks of a quantised type",
    .result = "a tensor (..., k) of dtype f32; k: blocks times a block's elements",
    .errors = "w must be (..., blocks, bytes of a block) of dtype u8",
    .source = "GGUF",
    .in = {{"w", IN_INDEX}},
    .attr = {[KIND] = BLOCK_KIND_ATTR},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .host.ref = ref,
    .host.kernel = variants,
    .flags = OP_UNPLACED,
    .sample = {"u8{3,2,34}<60", "u8{2,144}<60 kind=Q4_K", "u8{2,2,2,18}<60 kind=Q4_0"},
};
