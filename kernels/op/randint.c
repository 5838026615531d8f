/* randint.c - independent whole numbers, uniform in lo <= y < hi. */
#include "kernels/op/op_impl.h"

#include "runtime/rng.h"

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    uint64_t key = random_key(k);
    int64_t lo = number_i(&k->in[0], 0), hi = number_i(&k->in[1], 1);
    if (hi <= lo)
        return fail(E_VALUE, "randint: lo must be less than hi, found %lld and %lld", (long long)lo, (long long)hi);
    struct walk w;
    int64_t i = 0;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++) {
        uint64_t bits = rng_bits(key, k->piece, (uint64_t)w.whole);
        elem_set_i(y->dtype, y->data, i, (int64_t)((uint64_t)lo + bits % ((uint64_t)hi - (uint64_t)lo)));
    }
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return ref(k);
}

static const struct kernel_row rows[] = {{"walk", .accepts = dense_out, .run = run}, {NULL}};

const struct op op_randint = {
    .name = "randint",
    .doc = "y ~ U{lo, ..., hi - 1}",
    .source = "Salmon et al. 2011 (Philox)",
    .in = {{"lo", IN_NUMBER}, {"hi", IN_NUMBER}, {"seed", IN_HIDDEN}, {"ordinal", IN_HIDDEN}},
    .dtype = OUT_I64,
    .ref = ref,
    .kernel = rows,
    .flags = OP_SOURCE | OP_RANDOM,
    .sample = {"#3 #6 #1 #0", "#-5 #100 #7 #3"},
};
