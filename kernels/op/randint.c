/* randint.c - independent random integers, uniform in lo <= y < hi. */
#include "kernels/op/lib/lookup.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/math/random.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/rng.h"

enum { LO, HI };
enum { RUN };

/* The product of 64 random bits and the number of values; its upper half is the random integer. The probabilities
 * of values differ by at most one part in 2^64 / (hi - lo). */
__extension__ typedef unsigned __int128 product;
static int64_t
value_of(uint64_t bits, int64_t lo, int64_t hi)
{
    uint64_t count = (uint64_t)hi - (uint64_t)lo;
    return (int64_t)((uint64_t)lo + (uint64_t)((product)bits * count >> 64));
}

static void
allows(const struct kcall *k, struct allowed *a)
{
    UNUSED(k);
    *a = (struct allowed){.operand = HI, .after = 1 + LO};
}

static int
say(const struct kcall *k, const struct finding *f)
{
    UNUSED(k);
    return fail(E_VALUE, "randint: lo must be less than hi, found %lld and %lld",
                (long long)((uint64_t)f->value[1] - 1), (long long)f->value[0]);
}

static int
ref(const struct kcall *k)
{
    const struct view *y = &k->out[0];
    struct random_draw d = random_draw(k, random_key(k), &k->call->attr[RUN]);
    int64_t lo = number_i(&k->in[LO], 0), hi = number_i(&k->in[HI], 1), i = 0;
    lookup_find(k);
    struct walk w;
    for (walk_start(&w, y); w.left > 0; walk_next(&w, y), i++) {
        struct random_at at = random_at(&d, (uint64_t)w.global);
        elem_set_i(y->dtype, y->data, i, value_of(rng_bits(at.key, at.piece, at.position), lo, hi));
    }
    return 0;
}

/* ---- variant ---- */

struct work {
    const struct view *y;
    struct random_draw draw;
    int64_t lo, hi;
};

static void
range(void *arg, int64_t first, int64_t last)
{
    const struct work *w = arg;
    const struct view *y = w->y;
    union random_workspace workspace;
    int64_t run = global_run(y), value[RANDOM_BLOCK];
    for (int64_t i = first, m; i < last; i += m) {
        uint64_t position = global_position(y, i);
        m = random_length(&w->draw, position, MIN(MIN(run - i % run, RANDOM_BLOCK), last - i));
        struct random_at at = random_at(&w->draw, position);
        const uint64_t *bits = random_values(RANDOM_BITS, y->dtype, &at, m, &workspace);
        for (int64_t j = 0; j < m; j++) value[j] = value_of(bits[j], w->lo, w->hi);
        block_store(COMP_I64, y->dtype, value, m, (char *)y->data + i * (int64_t)dtype_bytes(y->dtype), 1);
    }
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct work w = {.y = &k->out[0], .draw = random_draw(k, random_key(k), &k->call->attr[RUN])};
    w.lo = number_i(&k->in[LO], 0);
    w.hi = number_i(&k->in[HI], 1);
    lookup_find(k);
    team_run(k->threads, view_numel(w.y), RANDOM_GRAIN, range, &w);
    return 0;
}

static const struct kernel_variant variants[] = {{"blocks", .accepts = dense_out, .run = run}, {NULL}};

static const char element[] = BODY({
    return (int64_t)((uint64_t)x0() + product_high(rng_bits(key(), piece(), draw()), (uint64_t)x1() - (uint64_t)x0()));
});

const struct op op_randint = {
    .name = "randint",
    .doc = "y ~ U{low, ..., high - 1}",
    .source = "Salmon et al. 2011 (Philox)",
    .in = {{"lo", IN_NUMBER}, {"hi", IN_NUMBER}, {"seed", IN_HIDDEN}, {"ordinal", IN_HIDDEN}},
    .attr = {RANDOM_ATTRS(RUN)},
    .shape.dtype = OUT_I64,
    .host.ref = ref,
    .gpu.element = element,
    .host.allows = allows,
    .host.kernel = variants,
    .host.say = say,
    .flags = OP_SOURCE | OP_RANDOM,
    .sample = {"#3 #6 #1 #0", "#-5 #100 #7 #3", "#-5 #100 #7 #3 run=2 micro_batches=3"},
};
