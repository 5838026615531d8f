/* gemm_halves.c - computes products of 16-bit floats (halves) as products of f32, block by block.
 *
 * Each number is multiplied 256 times per conversion, so conversions cost a few per cent, and memory is read as
 * 16-bit floats. One Xeon core (Emerald Rapids, no AMX: 163 Gflop/s in f32, 87 in bf16), ms, by this file, by
 * oneDNN's bf16, and f32 by oneDNN: 256 x 3072 x 768 8.1, 14.5, 8.2; 256 x 768 x 3072 8.0, 14.5, 7.3; 3072 x 768 x
 * 256 8.7, 14.3, 8.2. Blocks with sides of 128 to 512 and parts of k of 256 to 1024 take as long or up to 15 %
 * longer. 768 columns make four blocks, for two or four threads, rather than three. */
#include "kernels/cpu/gemm/gemm_halves.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/arena.h"
#include "runtime/base/stop.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST, MORE, NPRODUCT }; /* products for the parts of k of a block: FIRST sets c, MORE adds to c */
struct halves {
    /* Rows and columns of a block; length of the first and of each further part of k; number of parts. */
    int64_t m, n, first, part, nparts;
    int64_t down, across; /* number of blocks down and across a product */
    /* Offsets of the blocks in a worker's scratch, behind the product's scratch; size of a worker's scratch; both in
     * bytes. */
    size_t at[NMATRIX], each;
    int threads;
    struct prim *product[]; /* NPRODUCT oneDNN products for each thread */
};

/* ---- supported products ---- */

/* Returns true if the product is large. Small products are faster if whole operands are converted to floats
 * (wide.h). */
static bool
is_large_product(const struct gemm *g)
{
    enum { LEAST = 1 << 18, FEW = 16 };
    return g->x[C].rows >= FEW && g->x[C].cols >= FEW && g->x[C].rows * g->x[C].cols * g->x[A].cols >= LEAST;
}

bool
gemm_halves_accepts(const struct kcall *k)
{
    enum dtype d = k->in[0].dtype;
    struct gemm g;
    return gemm_fits(k) && dtype_is_half(d) && !prim_multiplies(d) && gemm_of(k, &g) && gemm_settle(&g) &&
           is_large_product(&g);
}

/* ---- preparation ---- */

/* Returns the length of equal parts of n, at most `most`. If there are several parts, the length is a multiple of
 * 16. */
static int64_t
halves_part_of(int64_t size, int64_t most)
{
    enum { STEP = 16 };
    int64_t n = (size + most - 1) / most;
    return n == 1 ? size : ((size + n - 1) / n + STEP - 1) / STEP * STEP;
}

static bool
halves_by_rows(const struct matrix *x)
{
    return x->col == 1;
}

static int
halves_make_products(const struct gemm *g, struct halves *h, size_t *bytes)
{
    for (int i = 0; i < h->threads * NPRODUCT; i++) {
        bool more = i % NPRODUCT == MORE;
        size_t scratch;
        void *product;
        if (more && h->nparts == 1) continue;
        const struct dense_product p = {.dtype = DT_F32,
                                        .m = h->m,
                                        .n = h->n,
                                        .k = more ? h->part : h->first,
                                        .a_columns = !halves_by_rows(&g->x[A]),
                                        .b_columns = !halves_by_rows(&g->x[B]),
                                        .add = more};
        TRY(gemm_dense(&p, &product, &scratch));
        h->product[i] = product;
        *bytes = MAX(*bytes, scratch);
    }
    return 0;
}

int
gemm_halves_prepare(const struct kcall *call, void **state, size_t *scratch_bytes)
{
    enum { DOWN = 256, ACROSS = 192, DEPTH = 384 };
    struct gemm g;
    gemm_of(call, &g);
    gemm_settle(&g);
    int64_t rows = g.x[C].rows, cols = g.x[C].cols, k = g.x[A].cols, m = halves_part_of(rows, DOWN),
            n = halves_part_of(cols, ACROSS), part = halves_part_of(k, DEPTH);
    int64_t down = (rows + m - 1) / m, across = (cols + n - 1) / n, nparts = (k + part - 1) / part;
    int threads = (int)MIN(MAX(1, call->threads), batch_count(&g) * down * across);
    struct halves *h = must_alloc(sizeof *h + sizeof *h->product * NPRODUCT * (size_t)threads);
    *h = (struct halves){m, n, k - (nparts - 1) * part, part, nparts, down, across, .threads = threads};
    size_t bytes = 0;
    int status = halves_make_products(&g, h, &bytes);
    if (status) {
        gemm_halves_drop(h);
        return status;
    }
    h->at[A] = align_64(bytes);
    h->at[B] = h->at[A] + align_64(sizeof(float) * (size_t)(h->m * h->part));
    h->at[C] = h->at[B] + align_64(sizeof(float) * (size_t)(h->n * h->part));
    h->each = h->at[C] + align_64(sizeof(float) * (size_t)(h->m * h->n));
    *scratch_bytes = h->each * (size_t)threads;
    *state = h;
    return 0;
}

void
gemm_halves_drop(void *state)
{
    struct halves *h = state;
    for (int i = 0; h && i < h->threads * NPRODUCT; i++) prim_drop(h->product[i]);
    free(h);
}

/* ---- a run ---- */

struct halves_run {
    struct gemm g;
    const struct halves *h;
    char *data[NMATRIX], *scratch;
};

/* Contiguous rows or columns of a matrix. `length` elements of each are converted to floats, and a block is padded
 * with zeros. */
struct lines {
    int64_t n, length;
};

static void
widen_halves(enum dtype d, const char *from, int64_t apart, struct lines have, struct lines block, float *to)
{
    for (int64_t i = 0; i < block.n; i++, to += block.length) {
        int64_t n = i < have.n ? have.length : 0;
        if (n) block_load(COMP_F32, d, from + i * apart * (int64_t)dtype_bytes(d), 1, n, to);
        memset(to + n, 0, sizeof *to * (size_t)(block.length - n));
    }
}

/* Converts a block of nrow x ncol elements of x, from a given row and column on, to floats in a block of rows x
 * cols. */
static void
widen_block(const struct halves_run *r, int i, int64_t at, int64_t nrow, int64_t ncol, int64_t rows, int64_t cols,
            char *scratch)
{
    const struct matrix *x = &r->g.x[i];
    enum dtype d = r->g.dtype[i];
    bool rowwise = halves_by_rows(x);
    struct lines have = rowwise ? (struct lines){nrow, ncol} : (struct lines){ncol, nrow};
    struct lines block = rowwise ? (struct lines){rows, cols} : (struct lines){cols, rows};
    widen_halves(d, r->data[i] + at * (int64_t)dtype_bytes(d), rowwise ? x->row : x->col, have, block,
                 (float *)(void *)(scratch + r->h->at[i]));
}

static int
multiply_halves(const struct halves_run *r, int how, int64_t share, char *scratch)
{
    const struct halves *h = r->h;
    void *const at[NMATRIX] = {scratch + h->at[A], scratch + h->at[B], scratch + h->at[C]};
    return prim_at(h->product[share * NPRODUCT + how], at, scratch, "halves");
}

static void
store_block(const struct halves_run *r, int64_t at, int64_t nrow, int64_t ncol, const char *scratch)
{
    const struct matrix *x = &r->g.x[C];
    const float *c = (const float *)(const void *)(scratch + r->h->at[C]);
    enum dtype d = r->g.dtype[C];
    for (int64_t i = 0; i < nrow; i++)
        block_store(COMP_F32, d, c + i * r->h->n, ncol, r->data[C] + (at + i * x->row) * (int64_t)dtype_bytes(d),
                    x->col);
}

/* Computes a range of blocks of the products, in column-major order. */
static void
run_halves_blocks(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    struct halves_run *r = arg;
    const struct halves *h = r->h;
    const struct matrix *x = r->g.x;
    char *scratch = r->scratch + (size_t)share * h->each;
    for (int64_t u = lo; u < hi && !stop_now(); u++) {
        int64_t row = u % h->down * h->m, col = u / h->down % h->across * h->n, skip[NMATRIX];
        int64_t nrow = MIN(h->m, x[C].rows - row), ncol = MIN(h->n, x[C].cols - col);
        batch_skip(&r->g, u / h->down / h->across, skip);
        for (int64_t l = 0, n = h->first; l < x[A].cols && !stop_now(); l += n, n = h->part) {
            widen_block(r, A, skip[A] + row * x[A].row + l * x[A].col, nrow, n, h->m, n, scratch);
            widen_block(r, B, skip[B] + l * x[B].row + col * x[B].col, n, ncol, n, h->n, scratch);
            if (multiply_halves(r, l ? MORE : FIRST, share, scratch)) return;
        }
        store_block(r, skip[C] + row * x[C].row + col * x[C].col, nrow, ncol, scratch);
    }
}

int
gemm_halves_run(const struct kcall *k, const void *state)
{
    const struct halves *h = state;
    struct halves_run r = {.h = h, .data = {k->in[0].data, k->in[1].data, k->out[0].data}, .scratch = k->scratch};
    gemm_of(k, &r.g);
    gemm_settle(&r.g);
    team_shares(h->threads, batch_count(&r.g) * h->down * h->across, 1, run_halves_blocks, &r);
    return 0;
}
