/* randn.c - independent standard normal random values. Each value is a function of seed, ordinal, micro-batch and
 * position. */
#include "kernels/op/lib/op_impl.h"

#include "kernels/cpu/base/random.h"
#include "runtime/base/rng.h"

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    uint64_t key = random_key(k);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++)
        elem_set_f(y->dtype, y->data, i,
                   k->call->out[0].dtype == DT_F64 ? rng_normal_f64(key, k->piece, (uint64_t)w.global)
                                                   : (double)rng_normal(key, k->piece, (uint64_t)w.global));
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    random_fill(&k->out[0], random_key(k), k->piece, RANDOM_NORMAL, k->threads);
    return 0;
}

static const struct kernel_variant variants[] = {{"simd", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({ return rng_normal(key(), a.piece, index(), DIGITS > 24); });

const struct op op_randn = {
    .name = "randn",
    .doc = "y ~ N(0, 1)",
    .source = "Salmon et al. 2011 (Philox); Box & Muller 1958",
    .in = {{"seed", IN_HIDDEN}, {"ordinal", IN_HIDDEN}},
    .shape.infer = source_f32,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flags = OP_SOURCE | OP_RANDOM,
    .sample = {"#1 #0", "#7 #3"},
};
