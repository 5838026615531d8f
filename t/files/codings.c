/* codings.c - tests the decoders of quantised blocks and of 8-bit numbers (runtime/tensor/coding.h). Digests of the
 * decoded values must equal those of the packages gguf and torch. Integers must be decoded exactly over their whole
 * range. */
#include "runtime/tensor/coding.h"
#include "runtime/tensor/half.h"
#include "t/lib/tap.h"

#include "t/golden/codings.h"

enum { BLOCKS = 64, MOST_BYTES = BLOCKS * 512, MOST_ELEMENTS = BLOCKS * 256 };

/* Fills bytes with splitmix64 from the seed 1. */
static void
random_bytes(uint8_t *out, size_t n)
{
    uint64_t state = 1;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t z = state += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        z ^= z >> 31;
        memcpy(out + i, &z, MIN(n - i, sizeof z));
    }
}

/* Returns the FNV-1a digest of values. All NaNs count as the same NaN. */
static uint64_t
digest(const float *value, int64_t n)
{
    uint64_t h = 0xCBF29CE484222325;
    for (int64_t i = 0; i < n; i++) h = (h ^ (isnan(value[i]) ? 0x7FC00000 : bits_of(value[i]))) * 0x100000001B3;
    return h;
}

/* Decodes 64 blocks of random bytes; for types of single numbers, decodes all values of a byte. Returns the digest
 * of the decoded values. */
static uint64_t
decoded_digest(const struct coding *c)
{
    static uint8_t bytes[MOST_BYTES];
    static float value[MOST_ELEMENTS];
    static uint16_t half[MOST_ELEMENTS];
    int64_t n = c->block ? BLOCKS : 256;
    random_bytes(bytes, sizeof bytes);
    for (int i = 0; !c->block && i < 256; i++) bytes[i] = (uint8_t)i;
    ok(coding_decode(c, bytes, n, c->block ? (void *)value : half), "%s is decoded", c->name);
    for (int64_t i = 0; !c->block && i < n; i++) value[i] = from_bf16(half[i]);
    return digest(value, n * c->elements);
}

static void
test_values(void)
{
    for (size_t i = 0; i < countof(golden); i++) {
        const struct coding *c = coding_find(golden[i].name);
        if (ok(c, "%s is known", golden[i].name))
            ok(decoded_digest(c) == golden[i].digest, "%s has the values of the package gguf or torch", c->name);
    }
}

static void
test_e2m1(void)
{
    static const float want[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    uint8_t bytes[8];
    uint16_t half[16];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(2 * i | (2 * i + 1) << 4);
    coding_decode(coding_find("F4"), bytes, 8, half);
    int wrong = 0;
    for (int i = 0; i < 16; i++) wrong += from_bf16(half[i]) != (i < 8 ? want[i] : -want[i - 8]);
    is_int(wrong, 0, "F4 has the 16 values of E2M1, the first in the low bits");
}

/* Checks that the smallest and the greatest integer of each type are decoded exactly. */
static void
test_integers(void)
{
    static const struct {
        const char *name;
        int64_t low, high;
    } are[] = {{"I8", INT8_MIN, INT8_MAX},
               {"I16", INT16_MIN, INT16_MAX},
               {"U16", 0, UINT16_MAX},
               {"U32", 0, UINT32_MAX},
               {"U64", 0, INT64_MAX}};
    for (size_t i = 0; i < countof(are); i++) {
        const struct coding *c = coding_find(are[i].name);
        uint8_t bytes[16];
        int64_t wide[2];
        int32_t narrow[2];
        memcpy(bytes, &are[i].low, 8);
        memcpy(bytes + c->bytes, &are[i].high, 8);
        bool wider = c->dtype == DT_I64, good = coding_decode(c, bytes, 2, wider ? (void *)wide : narrow);
        ok(good && (wider ? wide[0] : narrow[0]) == are[i].low && (wider ? wide[1] : narrow[1]) == are[i].high,
           "%s keeps its smallest and its greatest value", c->name);
    }
    ok(!coding_decode(coding_find("U64"), (const uint8_t[]){0, 0, 0, 0, 0, 0, 0, 128}, 1, &(int64_t){0}),
       "a U64 above 2^63 - 1 is refused");
}

/* Checks two facts on which readers of files rely: 8192 elements are a whole number of blocks, and a block has at
 * most 8 bytes per element. */
static void
test_sizes(void)
{
    const struct coding *const tables[] = {coding_numbers, coding_blocks, coding_grids};
    for (size_t i = 0; i < countof(tables); i++)
        for (const struct coding *c = tables[i]; c->name; c++)
            ok(8192 % c->elements == 0 && c->bytes <= 8 * c->elements, "%s has a valid size of blocks", c->name);
}

int
main(void)
{
    test_values();
    test_e2m1();
    test_integers();
    test_sizes();
    ok(!coding_find("Q1_0") && !coding_find(""), "an unknown name has no coding");
    return done();
}
