/* randn.c - independent standard normal random values. Each value is a function of seed, ordinal and position
 * in the batch. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/math/random.h"
#include "runtime/data/rng.h"

enum { RUN };

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    struct random_draw d = random_draw(k, random_key(k), &k->call->attr[RUN]);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++) {
        struct random_at at = random_at(&d, (uint64_t)w.global);
        elem_set_f(y->dtype, y->data, i,
                   k->call->out[0].dtype == DT_F64 ? rng_normal_f64(at.key, at.piece, at.position)
                                                   : (double)rng_normal(at.key, at.piece, at.position));
    }
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct random_draw d = random_draw(k, random_key(k), &k->call->attr[RUN]);
    random_fill(&k->out[0], &d, RANDOM_NORMAL, k->threads);
    return 0;
}

static const struct kernel_variant variants[] = {{"simd", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({ return rng_normal(key(), piece(), draw(), DIGITS > 24); });

const struct op op_randn = {
    .name = "randn",
    .doc = "y ~ N(0, 1)",
    .source = "Salmon et al. 2011 (Philox); Box & Muller 1958",
    .in = {{"seed", IN_HIDDEN}, {"ordinal", IN_HIDDEN}},
    .attr = {RANDOM_ATTRS(RUN)},
    .shape.infer = source_f32,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = variants,
    .flags = OP_SOURCE | OP_RANDOM,
    .sample = {"#1 #0", "#7 #3", "#7 #3 run=2 micro_batches=3"},
};
