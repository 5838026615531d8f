/* gemm_int.c - matrix products of integers, which wrap around.
 *
 * The loops are structured like those of gemm_f64.c: packed strips, and MR x NR sums in registers. The low bits of
 * a product depend only on the low bits of its factors. So sums need only the element's width (four bytes for
 * elements of one byte), and still equal the results of the reference, which adds in 64 bits. With few rows or
 * columns nothing is packed.
 *
 * Times on one Zen 4 (EPYC) core, ms:
 *
 *                                      this file   PyTorch   reference
 *    {256, 256} x {256, 256}, i64           0.75      0.95          22
 *    {256, 256} x {256, 256}, i32           0.39      0.80          22
 *    {1, 1000} x {1000, 1000}, i64          0.14
 *    {1000, 1000} x {1000}, i64             0.12 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm/gemm_int.h"

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/base/lanes.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"

#include <string.h>

enum { MR = 4, NR_LONG = 16, NR_WORD = 32, KC = 256, MC = 64, NC = 512, ROWS = 128, FEW = 4, FEW_COLS = 512 };

/* A matrix: element (i, j) is data[i * row + j * col]. */
struct lying {
    void *data;
    int64_t row, col;
};

/* A product c[m,n] = a[m,k] b[k,n]. If operands are packed, c.col must be 1 (contiguous rows). */
struct whole {
    int64_t m, n, k;
    struct lying a, b, c;
};

#define LANES_FILE "kernels/cpu/gemm/gemm_int_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

static int64_t
round_up_int(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#define OF(name) name##_i64
#define ELEMENT  uint64_t
#define SUM      uint64_t
#define NR       NR_LONG
#define STRIPS   OF_LEVEL(strips_long)
#include "kernels/cpu/gemm/gemm_int_loop.inc"

#define OF(name) name##_i32
#define ELEMENT  uint32_t
#define SUM      uint32_t
#define NR       NR_WORD
#define STRIPS   OF_LEVEL(strips_word)
#include "kernels/cpu/gemm/gemm_int_loop.inc"

#define OF(name) name##_u8
#define ELEMENT  uint8_t
#define SUM      uint32_t
#define NR       NR_WORD
#define STRIPS   OF_LEVEL(strips_word)
#include "kernels/cpu/gemm/gemm_int_loop.inc"

static const struct {
    void (*product)(const struct whole *w, void *scratch);
    void (*row)(const struct whole *w, int64_t i);
} loops[NDTYPE] = {
    [DT_I64] = {product_i64, row_i64}, [DT_I32] = {product_i32, row_i32}, [DT_U8] = {product_u8, row_u8}};

/* ---- calls ---- */

/* A batch of products. Threads divide the rows of c or, if c has few rows, its columns. */
struct ints {
    struct gemm g;
    char *data[NMATRIX], *scratch;
    bool few;
    int64_t per; /* number of pieces into which each product is divided */
};

/* Replaces g by its transpose and sets *swapped in two cases: the transposed c has few rows, or c has many rows
 * and is not row-major. Returns true if c then has few rows or is row-major. */
static bool
choose_swap(struct gemm *g, bool *swapped)
{
    const struct matrix *c = &g->x[C];
    *swapped = c->cols < FEW && c->cols < c->rows;
    if (c->rows >= FEW && !*swapped) *swapped = c->col != 1;
    if (*swapped) gemm_transpose(g);
    return c->rows < FEW || c->col == 1;
}

bool
gemm_int_accepts(const struct kcall *k)
{
    bool swapped;
    enum dtype d = k->out[0].dtype;
    struct gemm g;
    return gemm_fits(k) && loops[d].product && gemm_of(k, &g) && choose_swap(&g, &swapped);
}

static size_t
scratch_of(const struct gemm *g)
{
    const struct matrix *a = &g->x[A], *c = &g->x[C];
    int64_t lines = round_up_int(MIN(c->cols, NC), NR_WORD) + round_up_int(MIN(c->rows, MC), MR);
    return c->rows < FEW ? 0 : (size_t)round_up_int(lines * MIN(a->cols, KC) * (int64_t)sizeof(uint64_t), 64);
}

int
gemm_int_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    bool swapped;
    struct gemm g;
    UNUSED(state);
    gemm_of(k, &g);
    choose_swap(&g, &swapped);
    *scratch_bytes = scratch_of(&g) * (size_t)k->threads;
    return 0;
}

static void
pieces(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct ints *all = arg;
    const struct matrix *x = all->g.x;
    enum dtype d = all->g.dtype[C];
    int64_t bytes = (int64_t)dtype_bytes(d), skip[NMATRIX];
    for (int64_t u = lo; u < hi && !stop_now(); u++) {
        batch_skip(&all->g, u / all->per, skip);
        int64_t first = u % all->per * (all->few ? FEW_COLS : ROWS), row = all->few ? 0 : first, col = first - row;
        skip[A] += row * x[A].row;
        skip[B] += col * x[B].col;
        skip[C] += row * x[C].row + col * x[C].col;
        struct lying to[NMATRIX];
        for (int i = 0; i < NMATRIX; i++) to[i] = (struct lying){all->data[i] + skip[i] * bytes, x[i].row, x[i].col};
        struct whole w = {x[C].rows, x[C].cols, x[A].cols, to[A], to[B], to[C]};
        if (all->few)
            w.n = MIN(w.n - col, FEW_COLS);
        else
            w.m = MIN(w.m - row, ROWS);
        for (int64_t i = 0; all->few && i < w.m; i++) loops[d].row(&w, i);
        if (!all->few) loops[d].product(&w, all->scratch + (size_t)share * scratch_of(&all->g));
    }
}

int
gemm_int_run(const struct kcall *k, const void *state)
{
    enum { GRAIN = 1 << 16 }; /* minimum number of multiply-adds per thread */
    bool swapped;
    UNUSED(state);
    struct ints all = {.scratch = k->scratch};
    gemm_of(k, &all.g);
    choose_swap(&all.g, &swapped);
    const struct matrix *a = &all.g.x[A], *c = &all.g.x[C];
    all.data[A] = k->in[swapped].data;
    all.data[B] = k->in[!swapped].data;
    all.data[C] = k->out[0].data;
    all.few = c->rows < FEW;
    int64_t step = all.few ? FEW_COLS : ROWS, lines = all.few ? c->cols : c->rows;
    all.per = (lines + step - 1) / step;
    int64_t work = MIN(lines, step) * (all.few ? c->rows : c->cols) * a->cols;
    team_shares(k->threads, batch_count(&all.g) * all.per, 1 + GRAIN / MAX(work, 1), pieces, &all);
    return 0;
}
