/* blocks.c - products of f32 rows with weights that stay in blocks of a quantised type.
 *
 * Few rows: each 32 elements of x are rounded to 31-bit integers with one scale. Each integer is split into a high and
 * a low 16-bit number, and both are multiplied by the integers of the weights' blocks (Q8_0, Q4_0, Q4_K, Q6_K). So
 * results are as exact as with decoded weights. With 8-bit numbers, as in llama.cpp, an element of x would change
 * by up to 2^-8 of the largest of the 32 elements, and greedy decoding would produce other texts. A vector has a lane
 * for each of 8 or 16 rows of weights: the rows of x share the unpacked blocks, and sums need no additions across
 * lanes. Weights of other types are decoded to f32 block by block, and so are all weights for rows with infinities or
 * NaN.
 *
 * More rows: panels of weights are decoded and multiplied by oneDNN. bench/results/2026-11/generate.md
 * compares speeds. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/layers/blocks.h"

#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <stdlib.h>

enum { X, W };
/* GROUP: number of elements of x with one scale. MOST: maximum number of elements per block, and of those that are
 * unpacked together. LANES: maximum number of rows of weights that are multiplied together. */
enum { PANEL = 64, GROUP = 32, MOST = 256, LANES = 16 };

const struct coding *
blocks_coding(const struct call *c)
{
    const char *word = c->op->attr[0].text;
    char name[16] = "";
    for (int64_t i = 0; i < c->attr[0].i; i++) word += strcspn(word, "|") + 1;
    memcpy(name, word, MIN(strcspn(word, "|"), sizeof name - 1));
    return coding_find(name);
}

/* ---- rounding the rows of x ---- */

struct rounded;
/* A product of rows of x with `lanes` rows of weights. multiply() sets out[i * lanes + lane] for n rows of x, at most
 * BLOCKS_FEW; the results have the same bits for every n. */
struct product {
    const char *name; /* type of the weights */
    int lanes;
    void (*multiply)(struct rounded *const *x, int64_t n, const uint8_t *const *w, float *out);
};

/* A row of x, and its rounded elements: element = scale * (2^15 high + low). */
struct rounded {
    const struct coding *coding;
    const struct product *product; /* multiplies the row by weights; NULL: weights are decoded */
    int64_t nblock;
    const float *x;
    int16_t *high, *low; /* each four elements are stored in the order 0, 2, 1, 3, in which weights are unpacked */
    float *scale, *sum;  /* of each GROUP elements */
};

/* Rounds GROUP elements to integers with absolute values of at most 32767 * 2^15. Returns the scale; -1: the elements
 * cannot be rounded. */
VECTOR static float
quantise_group(const float *x, int16_t *high, int16_t *low)
{
    const float range = 32767 * 32768.0f;
    int16_t part[2][GROUP];
    uint32_t most = 0;
    for (int i = 0; i < GROUP; i++) {
        uint32_t size = bits_of(x[i]) & 0x7fffffff;
        most = MAX(most, size);
    }
    float largest = float_of(most), by = largest > 0 ? range / largest : 0;
    if (most >= 0x7f800000 || (largest > 0 && largest < 1e-25f)) return -1;
    for (int i = 0; i < GROUP; i++) {
        int32_t number = (int32_t)(x[i] * by);
        part[0][i] = (int16_t)((number + 16384) >> 15);
        part[1][i] = (int16_t)(number - part[0][i] * 32768);
    }
    for (int i = 0; i < GROUP; i += 4)
        for (int k = 0; k < 4; k++) {
            int from = k == 1 || k == 2 ? 3 - k : k;
            high[i + k] = part[0][i + from];
            low[i + k] = part[1][i + from];
        }
    return largest / range;
}

/* Rounds the elements of r. Returns false if they cannot be rounded. */
static bool
round_row(struct rounded *r)
{
    int64_t n = r->coding->elements * r->nblock / GROUP;
    for (int64_t i = 0; i < n; i++) {
        r->scale[i] = quantise_group(r->x + GROUP * i, r->high + GROUP * i, r->low + GROUP * i);
        if (r->scale[i] < 0) return false;
        double sum = 0;
        for (int l = 0; l < GROUP; l++) sum += (double)r->x[GROUP * i + l];
        r->sum[i] = (float)sum;
    }
    return true;
}

/* ---- multiplying rows of x by rows of weights ---- */

static void
decode_row(const struct coding *c, int64_t nblock, const uint8_t *w, float *out)
{
    for (int64_t b = 0; b < nblock; b++) c->block(w + b * c->bytes, out + b * c->elements);
}

VECTOR static float
dot_of(int64_t n, const float *x, const float *w)
{
    float sum[16] = {0}, total = 0;
    for (int64_t l = 0; l < n; l += 16)
        for (int i = 0; i < 16; i++) sum[i] += x[l + i] * w[l + i];
    for (int i = 0; i < 16; i++) total += sum[i];
    return total;
}

/* Multiplies a row of x by a row of weights of any quantised type, after decoding the weights to f32. */
static float
multiply_decoded(const struct rounded *x, const uint8_t *w)
{
    const struct coding *c = x->coding;
    float block[MOST], sum = 0;
    for (int64_t b = 0; b < x->nblock; b++) {
        c->block(w + b * c->bytes, block);
        sum += dot_of(c->elements, x->x + b * c->elements, block);
    }
    return sum;
}

#ifdef X86_LEVELS
#include <immintrin.h>
#define X86_V4_VNNI __attribute__((target("arch=x86-64-v4,avx512vnni")))

#define LEVEL(name) name##_v4
#define AT_LEVEL    X86_V4_VNNI
#define WORDS       32
#include "kernels/cpu/layers/blocks_level.inc"
#undef LEVEL
#undef AT_LEVEL
#undef WORDS

#define LEVEL(name) name##_v3
#define AT_LEVEL    X86_V3
#define WORDS       16
#include "kernels/cpu/layers/blocks_level.inc"

static const struct product products[][2] = {
    {{"Q8_0", 16, rows_q8_0_v4}, {"Q8_0", 8, rows_q8_0_v3}},
    {{"Q4_0", 16, rows_q4_0_v4}, {"Q4_0", 8, rows_q4_0_v3}},
    {{"Q4_K", 16, rows_q4_k_v4}, {"Q4_K", 8, rows_q4_k_v3}},
    {{"Q6_K", 16, rows_q6_k_v4}, {"Q6_K", 8, rows_q6_k_v3}},
};

/* Returns the fastest product on this machine for weights of the type `name`; NULL: there is none. */
static const struct product *
find_product(const char *name)
{
    for (size_t i = 0; i < countof(products); i++) {
        if (strcmp(products[i]->name, name)) continue;
        if (machine_level() == LEVEL_V4 && __builtin_cpu_supports("avx512vnni")) return &products[i][0];
        if (machine_level() >= LEVEL_V3) return &products[i][1];
    }
    return NULL;
}
#else
static const struct product *
find_product(const char *name)
{
    UNUSED(name);
    return NULL;
}
#endif

/* ---- products with few rows ---- */

int
blocks_few(const struct coding *c)
{
    return find_product(c->name) ? BLOCKS_FEW : BLOCKS_FEW / 4;
}

size_t
blocks_rounded_bytes(int64_t k)
{
    size_t row = (size_t)k;
    return align_64(sizeof(struct rounded)) + 2 * align_64(2 * row) + 2 * align_64(row / 8 + 4);
}

struct rounded *
blocks_round(const struct coding *c, int64_t k, const float *x, void *scratch)
{
    struct rounded *r = scratch;
    char *at = (char *)scratch + align_64(sizeof *r);
    size_t row = (size_t)k;
    *r = (struct rounded){.coding = c, .nblock = k / c->elements, .x = x, .product = find_product(c->name)};
    r->high = (int16_t *)at;
    r->low = (int16_t *)(at += align_64(2 * row));
    r->scale = (float *)(at += align_64(2 * row));
    r->sum = (float *)(at + align_64(row / 8 + 4));
    if (r->product && !round_row(r)) r->product = NULL;
    return r;
}

/* Multiplies n rounded rows of x, at most BLOCKS_FEW, by rows lo to hi - 1 of the weights. */
static void
multiply_rounded(int64_t n, struct rounded *const *x, const uint8_t *w, int64_t lo, int64_t hi, float *const *y)
{
    float out[BLOCKS_FEW * LANES];
    const uint8_t *row[LANES];
    int lanes = n ? x[0]->product->lanes : 1;
    for (int64_t j = lo; j < hi && n; j += lanes) {
        for (int s = 0; s < lanes; s++) row[s] = w + MIN(j + s, hi - 1) * x[0]->nblock * x[0]->coding->bytes;
        x[0]->product->multiply(x, n, row, out);
        for (int64_t i = 0; i < n; i++) memcpy(y[i] + j, out + i * lanes, sizeof *out * (size_t)MIN(lanes, hi - j));
    }
}

void
blocks_multiply(int64_t n, struct rounded *const *x, const uint8_t *w, int64_t lo, int64_t hi, float *const *y)
{
    struct rounded *rounded[BLOCKS_FEW];
    float *to[BLOCKS_FEW];
    int64_t m = 0;
    assert(n <= BLOCKS_FEW);
    for (int64_t i = 0; i < n; i++) {
        if (x[i]->product) {
            rounded[m] = x[i];
            to[m++] = y[i];
            continue;
        }
        for (int64_t j = lo; j < hi; j++) y[i][j] = multiply_decoded(x[i], w + j * x[i]->nblock * x[i]->coding->bytes);
    }
    multiply_rounded(m, rounded, w, lo, hi, to);
}

/* ---- a call ---- */

struct blocks {
    const struct coding *coding;
    int64_t m, n, k, panel; /* panel: rows of weights that are decoded together; 0: x has few rows */
    int threads;
    /* each: scratch per thread, bytes. at: offset of the decoded panel in a thread's scratch, bytes. */
    size_t each, at;
    struct prim *prim[]; /* product of x and a panel, one per thread */
};

bool
blocks_accepts(const struct kcall *k)
{
    const struct view *x = &k->in[X];
    return x->dtype == DT_F32 && k->out[0].dtype == DT_F32 && view_numel(x) > 0 && view_numel(&k->in[W]) > 0;
}

static int
make_panels(struct blocks *s, size_t *bytes)
{
    struct gemm g = {.dtype = {DT_F32, DT_F32, DT_F32}};
    size_t scratch = 0;
    g.x[A] = (struct matrix){s->m, s->k, s->k, 1};
    g.x[B] = (struct matrix){s->k, s->panel, 1, s->k};
    g.x[C] = (struct matrix){s->m, s->panel, s->n, 1};
    gemm_settle(&g);
    for (int t = 0; t < s->threads; t++) {
        void *made;
        TRY(gemm_one(&g, false, &made, &scratch));
        s->prim[t] = made;
    }
    s->at = align_64(scratch);
    s->each = s->at + align_64(sizeof(float) * (size_t)(s->panel * s->k));
    *bytes = s->each * (size_t)s->threads;
    return 0;
}

int
blocks_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    int threads = MAX(k->threads, 1);
    struct blocks *s = must_alloc(sizeof *s + sizeof *s->prim * (size_t)threads);
    const struct view *x = &k->in[X];
    *s = (struct blocks){.coding = blocks_coding(k->call), .n = k->in[W].dim[0], .k = x->dim[x->ndim - 1]};
    s->threads = threads;
    s->m = view_numel(x) / s->k;
    *state = s;
    if (s->m <= blocks_few(s->coding)) {
        *scratch_bytes = (size_t)s->m * blocks_rounded_bytes(s->k);
        return 0;
    }
    s->panel = MIN(PANEL, s->n);
    int status = make_panels(s, scratch_bytes);
    if (status) blocks_drop(s);
    return status;
}

void
blocks_drop(void *state)
{
    struct blocks *s = state;
    for (int t = 0; s && s->panel && t < s->threads; t++) prim_drop(s->prim[t]);
    free(s);
}

struct blocks_run {
    const struct kcall *k;
    const struct blocks *s;
    /* rounded rows of x and rows of y, if x has few rows */
    struct rounded *row[BLOCKS_FEW];
    float *y[BLOCKS_FEW];
};

/* Returns the address of row j of the weights. */
static const uint8_t *
weights_of(const struct blocks_run *r, int64_t j)
{
    const struct coding *c = r->s->coding;
    return (const uint8_t *)r->k->in[W].data + j * (r->s->k / c->elements * c->bytes);
}

/* Multiplies all rows of x by rows lo to hi - 1 of the weights. */
static void
few_rows(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct blocks_run *r = arg;
    UNUSED(share);
    blocks_multiply(r->s->m, r->row, weights_of(r, 0), lo, hi, r->y);
}

/* Rounds the rows of x. */
static void
round_rows(struct blocks_run *r)
{
    const struct blocks *s = r->s;
    for (int64_t i = 0; i < s->m; i++) {
        void *scratch = (char *)r->k->scratch + (size_t)i * blocks_rounded_bytes(s->k);
        r->row[i] = blocks_round(s->coding, s->k, (const float *)r->k->in[X].data + i * s->k, scratch);
        r->y[i] = (float *)r->k->out[0].data + i * s->n;
    }
}

/* Multiplies x by panels lo to hi - 1 of the weights. */
static void
many_rows(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct blocks_run *r = arg;
    const struct blocks *s = r->s;
    char *scratch = (char *)r->k->scratch + (size_t)share * s->each;
    float *panel = (float *)(scratch + s->at);
    for (int64_t p = lo; p < hi && !stop_now(); p++) {
        void *at[] = {r->k->in[X].data, panel, (float *)r->k->out[0].data + p * s->panel};
        for (int64_t j = 0; j < s->panel; j++)
            decode_row(s->coding, s->k / s->coding->elements, weights_of(r, p * s->panel + j), panel + j * s->k);
        prim_at(s->prim[share], at, scratch, "linear_blocks");
    }
}

/* Multiplies x by the last rows of the weights, if they do not fill a panel. */
static void
last_rows(const struct blocks_run *r)
{
    const struct blocks *s = r->s;
    float *row = (float *)((char *)r->k->scratch + s->at);
    for (int64_t j = s->n - s->n % s->panel; j < s->n; j++) {
        decode_row(s->coding, s->k / s->coding->elements, weights_of(r, j), row);
        for (int64_t i = 0; i < s->m && !stop_now(); i++)
            ((float *)r->k->out[0].data)[i * s->n + j] = dot_of(s->k, (const float *)r->k->in[X].data + i * s->k, row);
    }
}

int
blocks_run(const struct kcall *k, const void *state)
{
    enum { WORTH = 1 << 16 }; /* minimum number of multiply-adds per thread */
    struct blocks_run r = {.k = k, .s = state};
    if (!r.s->panel) {
        round_rows(&r);
        team_shares(r.s->threads, r.s->n, MAX(LANES, WORTH / (r.s->k * r.s->m)), few_rows, &r);
        return 0;
    }
    team_shares(r.s->threads, r.s->n / r.s->panel, 1, many_rows, &r);
    last_rows(&r);
    return 0;
}
