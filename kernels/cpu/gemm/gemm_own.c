/* gemm_own.c - matrix products by our own loops, for products that oneDNN does not have or computes more slowly.
 * These are products of a few rows (gemm_few.h), of small matrices (gemm_small.h), and of doubles (gemm_f64.h). */
#include "kernels/cpu/gemm/gemm_own.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_f64.h"
#include "kernels/cpu/gemm/gemm_few.h"
#include "kernels/cpu/gemm/gemm_small.h"
#include "kernels/cpu/base/team.h"

#include "runtime/base/stop.h"

/* ---- multiplying a few rows of floats ---- */

/* Returns true if the loops of gemm_few.c can read b in place and are faster than oneDNN. b must be column-major,
 * or row-major with short rows, like the values of a head. Long sums of one row also use these loops, because
 * oneDNN adds their products to c one by one. Times on one core, us:
 *
 *                         these loops   oneDNN
 *    1 x 64 x 128                0.23     1.07
 *    12 of 1 x 128 x 64           2.3      3.2
 *    1 x 128 x 1024               6.2      3.3 */
static bool
few_goes_on(const struct gemm *g)
{
    /* SHORT: maximum number of elements in a row of b; MOST: maximum number in all of b */
    enum { SHORT = 128, MOST = 1 << 17 };
    const struct matrix *b = &g->x[B];
    if (b->row == 1) return g->x[A].col == 1;
    bool little = b->cols <= SHORT && b->rows * b->cols <= MOST;
    return b->col == 1 && g->x[C].col == 1 && (little || (g->x[C].rows == 1 && b->rows > GEMM_LONG));
}

/* Returns true for products of a few rows by a matrix that the loops can read in place. Tries the transposed
 * product, too; if only that qualifies, replaces g by it and sets *swapped. */
static bool
few_settle(struct gemm *g, bool *swapped)
{
    *swapped = false;
    if (!gemm_settle(g)) return false;
    for (int turn = 0; turn < 2; turn++, gemm_transpose(g), *swapped = true)
        if (g->x[C].rows <= GEMM_FEW && few_goes_on(g)) return true;
    return false;
}

/* Accepts f32. Accepts bf16 if b is column-major, as weights are. Accepts contract calls only in f32 and with long
 * sums. */
bool
gemm_few_accepts(const struct kcall *k)
{
    bool swapped, leading = k->call->op->host.sums_leading, real = k->in[0].dtype == DT_F32;
    struct gemm g;
    if (!gemm_fits(k) || (!real && (leading || k->in[0].dtype != DT_BF16)) || !gemm_of(k, &g)) return false;
    if ((leading && g.x[A].cols <= GEMM_LONG) || !few_settle(&g, &swapped)) return false;
    return real || (g.x[B].row == 1 && g.nbatch == 0 && g.x[A].cols >= GEMM_SHORT);
}

/* Reserves scratch if a and b are bf16: for the rows of a, converted to floats, and for the f32 columns of c
 * before they are rounded. */
int
gemm_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    bool swapped;
    struct gemm g;
    UNUSED(state);
    gemm_of(k, &g);
    few_settle(&g, &swapped);
    if (g.dtype[A] == DT_BF16) *scratch_bytes = sizeof(float) * (size_t)(g.x[C].rows * (g.x[A].cols + g.x[C].cols));
    return 0;
}

struct few_batch {
    struct gemm g;
    struct few first;
    /* If a and b are bf16: address of c, which receives finished columns in its own dtype. */
    char *halves;
    int64_t shares; /* number of shares into which few_level() divides the columns, one per thread */
};

/* Computes columns lo .. hi - 1 of a product. A long k is computed in parts. */
static void
few_columns(const struct few *p, int64_t lo, int64_t hi)
{
    int64_t size = p->k > GEMM_LONG ? GEMM_PART : p->k, bytes = p->halves ? sizeof(uint16_t) : sizeof(float);
    for (int64_t l = 0; l < p->k && !stop_now(); l += size) {
        struct few part = *p;
        part.k = MIN(size, p->k - l);
        part.a += l * p->a_col;
        part.b = (const char *)p->b + l * p->b_row * bytes;
        part.add = l > 0;
        gemm_few(&part, lo, hi);
    }
}

/* Stores the finished columns of a bf16 product in c, rounded to its dtype. */
static void
few_give(const struct few_batch *all, int64_t lo, int64_t hi)
{
    const struct matrix *c = &all->g.x[C];
    enum dtype d = all->g.dtype[C];
    for (int64_t i = 0; i < c->rows; i++)
        block_store(COMP_F32, d, all->first.c + i * c->cols + lo, hi - lo,
                    all->halves + (i * c->row + lo * c->col) * (int64_t)dtype_bytes(d), c->col);
}

static void
few_halves(void *arg, int64_t lo, int64_t hi)
{
    const struct few_batch *all = arg;
    few_columns(&all->first, lo, hi);
    few_give(all, lo, hi);
}

static void
few_of_halves(struct few_batch *all, float *scratch)
{
    const struct matrix *x = all->g.x;
    struct few *p = &all->first;
    for (int64_t i = 0; i < p->m; i++) {
        block_load(COMP_F32, DT_BF16, (const uint16_t *)(const void *)p->a + i * x[A].row, 1, p->k, scratch + i * p->k);
        gemm_few_pair(p->k, scratch + i * p->k);
    }
    all->halves = (char *)p->c;
    p->halves = true;
    p->a = scratch;
    p->a_row = p->k;
    p->c = scratch + p->m * p->k;
    p->c_row = x[C].cols;
    p->c_col = 1;
}

/* Computes columns lo .. hi - 1. Column numbers run through all products of the batch. */
static void
few_range(void *arg, int64_t lo, int64_t hi)
{
    const struct few_batch *all = arg;
    int64_t n = all->g.x[C].cols, skip[NMATRIX];
    for (int64_t end; lo < hi; lo = end) {
        int64_t product = lo / n;
        struct few p = all->first;
        end = MIN(hi, (product + 1) * n);
        batch_skip(&all->g, product, skip);
        p.a += skip[A];
        p.b = (const float *)p.b + skip[B];
        p.c += skip[C];
        few_columns(&p, lo - product * n, end - product * n);
    }
}

/* Returns the columns of a thread's share. Reading the weights takes nearly all of the time, so a thread on a
 * slower or shared core leaves some of its columns to other threads. On two cores this makes no difference. Time
 * of one GPT-2 token on two threads of one core, ms:
 *
 *           shares   fixed division
 *    f32      14.8             15.1
 *    bf16      7.8              8.2 */
static struct few_columns
few_share(const struct few_batch *all, int64_t share)
{
    int64_t n = all->g.x[C].cols;
    return (struct few_columns){n * share / all->shares, n * (share + 1) / all->shares};
}

static void
few_level(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct few_batch *all = arg;
    gemm_few_turns(&all->first, few_share(all, share), lo, hi);
}

/* Returns true if few_level() can divide the product among `threads` threads. */
static bool
few_is_level(const struct few_batch *all, int64_t threads)
{
    const struct few *p = &all->first;
    int64_t n = all->g.x[C].cols;
    return threads > 1 && threads <= LEVEL_MOST && all->g.nbatch == 0 && p->b_row == 1 && p->k >= GEMM_SHORT &&
           p->k <= GEMM_LONG && n >= threads * 4 * FEW_STREAMS && n < INT32_MAX;
}

int
gemm_few_run(const struct kcall *k, const void *state)
{
    /* GRAIN: minimum multiply-adds per thread; PIECE: bytes of b per piece; LANES: number of floats in a vector. */
    enum { GRAIN = 1 << 14, PIECE = 1 << 17, LANES = 16 };
    bool swapped;
    struct few_batch all = {0};
    UNUSED(state);
    gemm_of(k, &all.g);
    few_settle(&all.g, &swapped);
    const struct matrix *x = all.g.x;
    all.first = (struct few){.m = x[C].rows,
                             .k = x[A].cols,
                             .a = k->in[swapped].data,
                             .b = k->in[!swapped].data,
                             .c = k->out[0].data,
                             .a_row = x[A].row,
                             .a_col = x[A].col,
                             .b_row = x[B].row,
                             .b_col = x[B].col,
                             .c_row = x[C].row,
                             .c_col = x[C].col};
    int64_t n = x[C].cols * batch_count(&all.g);
    bool halves = all.g.dtype[A] == DT_BF16;
    if (halves) few_of_halves(&all, k->scratch);
    /* If k is long, each share has a multiple of LANES columns. */
    int64_t grain = x[A].cols > GEMM_LONG ? LANES : 1 + GRAIN / (x[C].rows * x[A].cols);
    all.shares = MIN(k->threads, n / grain);
    if (!few_is_level(&all, all.shares)) {
        team_run(k->threads, n, grain, halves ? few_halves : few_range, &all);
        return 0;
    }
    int64_t piece = PIECE / (FEW_STREAMS * x[A].cols * (halves ? 2 : 4));
    team_level((int)all.shares, few_turns(few_share(&all, all.shares - 1)), 1 + piece, few_level, &all);
    if (halves) few_give(&all, 0, n);
    return 0;
}

/* ---- small products ---- */

/* Returns true for products so small that these loops are at least as fast as oneDNN, whose call overhead alone is
 * 0.3 us. Times on one Zen 4 core, us:
 *
 *                                   these loops   oneDNN
 *    64 x 64 x 256                         18.6     18.8
 *    48 of 64 x 64 x 64                     222      223
 *    48 of 64 x 1024 x 64                 4,130    5,550
 *    48 of 64 x 64 x 1024                 4,070    4,140
 *    8 x 512 x 512                           36       58
 *    256 x 64 x 64, a transposed           18.5     20.0
 *    96 of 32 x 32 x 32                      63       60 */
static bool
small_goes_on(const struct gemm *g)
{
    /* MOST: maximum multiply-adds of a small product. OF_FEW_ROWS: maximum for a product with fewer than FEW rows.
     * This maximum is lower, because with few rows b may be too large for the caches, and these loops do not read b
     * in the order of memory. */
    enum { MOST = 1 << 22, OF_FEW_ROWS = 1 << 18, FEW = 8 };
    const struct matrix *a = &g->x[A], *b = &g->x[B], *c = &g->x[C];
    return a->cols <= GEMM_LONG && b->col == 1 && c->col == 1 && (a->row == 1 || a->col == 1) &&
           b->cols % SMALL_COLS == 0 && c->rows * c->cols * a->cols <= (c->rows < FEW ? OF_FEW_ROWS : MOST);
}

/* Returns true for small products. Tries the transposed product, too; if only that qualifies, replaces g by it and
 * sets *swapped. */
static bool
small_settle(struct gemm *g, bool *swapped)
{
    *swapped = false;
    if (!gemm_settle(g)) return false;
    for (int turn = 0; turn < 2; turn++, gemm_transpose(g), *swapped = true)
        if (small_goes_on(g)) return true;
    return false;
}

bool
gemm_small_accepts(const struct kcall *k)
{
    bool swapped;
    struct gemm g;
    return gemm_fits(k) && k->in[0].dtype == DT_F32 && gemm_of(k, &g) && small_settle(&g, &swapped);
}

/* A batch of products, divided into squares of c. Each share of the squares has enough work for a thread. Squares
 * are in column-major order, because all squares of a column use the same part of b. */
struct small_batch {
    struct gemm g;
    const float *a, *b;
    float *c;
    int64_t down, across; /* down: number of squares in a column of a product; across: number in a row */
};
enum { SIDE = 64 };

static void
small_squares(void *arg, int64_t lo, int64_t hi)
{
    const struct small_batch *all = arg;
    const struct matrix *x = all->g.x;
    int64_t each = all->down * all->across, skip[NMATRIX];
    for (int64_t end; lo < hi && !stop_now(); lo = end) {
        int64_t row = lo % all->down * SIDE, col = lo % each / all->down * SIDE;
        int64_t down = MIN(hi - lo, all->down - lo % all->down);
        end = lo + down;
        batch_skip(&all->g, lo / each, skip);
        struct small_operand a = {all->a + skip[A] + row * x[A].row, x[A].row, x[A].col};
        gemm_small(MIN(down * SIDE, x[C].rows - row), MIN(SIDE, x[C].cols - col), x[A].cols, a, all->b + skip[B] + col,
                   x[B].row, false, all->c + skip[C] + row * x[C].row + col, x[C].row);
    }
}

int
gemm_small_run(const struct kcall *k, const void *state)
{
    enum { GRAIN = 1 << 18 }; /* minimum number of multiply-adds per thread */
    bool swapped;
    struct gemm g;
    UNUSED(state);
    gemm_of(k, &g);
    small_settle(&g, &swapped);
    const struct matrix *c = &g.x[C];
    struct small_batch all = {.g = g, .a = k->in[swapped].data, .b = k->in[!swapped].data, .c = k->out[0].data};
    all.down = (c->rows + SIDE - 1) / SIDE;
    all.across = (c->cols + SIDE - 1) / SIDE;
    int64_t work = MIN(c->rows, SIDE) * MIN(c->cols, SIDE) * g.x[A].cols;
    team_run(k->threads, batch_count(&g) * all.down * all.across, 1 + GRAIN / MAX(work, 1), small_squares, &all);
    return 0;
}

/* ---- doubles ---- */

/* Makes c row-major: if c is column-major, replaces the product by its transpose and sets *swapped. Returns false
 * if c is neither. */
static bool
f64_settle(struct gemm *g, bool *swapped)
{
    *swapped = g->x[C].col != 1 && g->x[C].cols > 1;
    if (*swapped) gemm_transpose(g);
    return g->x[C].col == 1 || g->x[C].cols == 1;
}

bool
gemm_f64_accepts(const struct kcall *k)
{
    bool swapped;
    struct gemm g;
    return gemm_fits(k) && k->out[0].dtype == DT_F64 && gemm_of(k, &g) && f64_settle(&g, &swapped);
}

/* A batch of products, divided into pieces of ROWS rows of c. */
struct doubles {
    struct gemm g;
    double *data[NMATRIX];
    char *scratch;
    int64_t per; /* number of pieces per product */
};
enum { ROWS = 64 };

static size_t
f64_scratch(const struct gemm *g)
{
    return align_64(gemm_f64_scratch(ROWS, g->x[C].cols, g->x[A].cols));
}

static void
f64_rows(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct doubles *d = arg;
    const struct matrix *x = d->g.x;
    for (int64_t u = lo; u < hi && !stop_now(); u++) {
        struct matrix_f64 to[NMATRIX];
        int64_t row = u % d->per * ROWS, skip[NMATRIX];
        batch_skip(&d->g, u / d->per, skip);
        for (int i = 0; i < NMATRIX; i++) to[i] = (struct matrix_f64){d->data[i] + skip[i], x[i].row, x[i].col};
        to[A].data += row * x[A].row;
        to[C].data += row * x[C].row;
        gemm_f64(MIN(x[C].rows - row, ROWS), x[C].cols, x[A].cols, to[A], to[B], false, to[C],
                 d->scratch + (size_t)share * f64_scratch(&d->g));
    }
}

int
gemm_f64_run(const struct kcall *k, const void *state)
{
    enum { GRAIN = 1 << 15 }; /* minimum number of multiply-adds per thread */
    bool swapped;
    struct gemm g;
    UNUSED(state);
    gemm_of(k, &g);
    f64_settle(&g, &swapped);
    struct doubles d = {.g = g, .data = {k->in[swapped].data, k->in[!swapped].data, k->out[0].data}};
    d.scratch = k->scratch;
    d.per = (g.x[C].rows + ROWS - 1) / ROWS;
    int64_t units = d.per * batch_count(&g), work = MIN(g.x[C].rows, ROWS) * g.x[C].cols * g.x[A].cols;
    team_shares(k->threads, units, 1 + GRAIN / MAX(work, 1), f64_rows, &d);
    return 0;
}

int
gemm_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    bool swapped;
    struct gemm g;
    gemm_of(k, &g);
    f64_settle(&g, &swapped);
    *scratch_bytes = f64_scratch(&g) * (size_t)k->threads;
    return 0;
}
