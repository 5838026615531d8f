/* gemm.c - matrix products on oneDNN's matmul.
 *
 * A call becomes a struct gemm: sizes m, n, k, two strides per matrix, and the remaining batch. Transposed
 * operands and rows of wider tensors are expressed by strides, never copied. A batch whose products share b is
 * merged into the rows of a. oneDNN iterates over the remaining batch. If only oneDNN's plain loop supports the
 * strides, a primitive for a single product is executed repeatedly. A long product is computed in panels of the
 * result.
 *
 * Speed on one core (AVX-512, peak 280 Gflop/s), Gflop/s (bench/gemm.c):
 *
 *    256x768x768, f32                          255
 *    256x768x768, bf16                         500
 *    64x256x256                                245
 *    48 heads of 64x64x64 out of rows of 768   230 */

#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_transposed.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <stdlib.h>

/* ---- converting a call to a struct gemm: sizes and strides ---- */

static int64_t
gemm_size(const struct view *v, int d)
{
    return d < 0 ? 1 : v->dim[d];
}

static int64_t
gemm_stride(const struct view *v, int d)
{
    return d < 0 || v->dim[d] == 1 ? 0 : v->stride[d];
}

/* Returns the matrix over dimensions d (rows) and e (columns) of v. d or e -1: v has no such dimension, and the
 * matrix has a single row or column. */
static struct matrix
gemm_matrix_of(const struct view *v, int d, int e)
{
    return (struct matrix){gemm_size(v, d), gemm_size(v, e), gemm_stride(v, d), gemm_stride(v, e)};
}

/* Adds a dimension to the batch. If this and the previous batch dimension are contiguous in all three matrices,
 * merges both into one. */
static void
batch_add(struct gemm *g, int64_t size, int64_t a, int64_t b, int64_t c)
{
    if (size == 1) return;
    struct batch *last = &g->batch[g->nbatch - 1];
    if (g->nbatch && last->step[A] == size * a && last->step[B] == size * b && last->step[C] == size * c)
        *last = (struct batch){last->size * size, {a, b, c}};
    else
        g->batch[g->nbatch++] = (struct batch){size, {a, b, c}};
}

static bool
rows_go_on(const struct matrix *x, int64_t step)
{
    return x->rows == 1 || step == x->rows * x->row;
}

/* Merges the innermost batch dimension into the rows of a and c if b is broadcast along it, and a and c are
 * contiguous over it. */
static void
batch_to_rows(struct gemm *g)
{
    if (g->nbatch == 0) return;
    const struct batch *last = &g->batch[g->nbatch - 1];
    if (last->step[B] || !rows_go_on(&g->x[A], last->step[A]) || !rows_go_on(&g->x[C], last->step[C])) return;
    for (int i = A; i <= C; i += C - A) {
        struct matrix *x = &g->x[i];
        if (x->rows == 1) x->row = last->step[i];
        x->rows *= last->size;
    }
    g->nbatch--;
}

static struct gemm
gemm_of_matmul(const struct kcall *k)
{
    const struct view *a = &k->in[0], *b = &k->in[1], *c = &k->out[0];
    bool row = a->ndim == 1, col = b->ndim == 1; /* a vector operand: a is one row, b one column */
    int na = row ? 0 : a->ndim - 2, nb = col ? 0 : b->ndim - 2, nbatch = MAX(na, nb), n = nbatch + !row;
    struct gemm g = {.dtype = {a->dtype, b->dtype, c->dtype}};
    g.x[A] = gemm_matrix_of(a, row ? -1 : na, a->ndim - 1);
    g.x[B] = gemm_matrix_of(b, nb, col ? -1 : nb + 1);
    g.x[C] = gemm_matrix_of(c, row ? -1 : nbatch, col ? -1 : n);
    for (int d = 0; d < nbatch; d++)
        batch_add(&g, c->dim[d], gemm_stride(a, d - (nbatch - na)), gemm_stride(b, d - (nbatch - nb)),
                  gemm_stride(c, d));
    batch_to_rows(&g);
    return g;
}

static bool
gemm_of_contract(const struct kcall *k, struct gemm *g)
{
    const struct view *a = &k->in[0], *b = &k->in[1];
    assert(a->ndim > 0);
    int last = a->ndim - 1;
    struct gemm lead = {0};
    for (int d = 0; d < last; d++) batch_add(&lead, a->dim[d], gemm_stride(a, d), gemm_stride(b, d), 0);
    if (lead.nbatch > 1) return false;
    struct batch sum = lead.nbatch ? lead.batch[0] : (struct batch){.size = 1};
    *g = (struct gemm){.dtype = {a->dtype, b->dtype, k->out[0].dtype}};
    g->x[A] = (struct matrix){a->dim[last], sum.size, gemm_stride(a, last), sum.step[A]};
    g->x[B] = (struct matrix){sum.size, b->dim[last], sum.step[B], gemm_stride(b, last)};
    g->x[C] = gemm_matrix_of(&k->out[0], 0, 1);
    return true;
}

bool
gemm_of(const struct kcall *k, struct gemm *g)
{
    if (k->call->op->host.sums_leading) return gemm_of_contract(k, g);
    *g = gemm_of_matmul(k);
    return true;
}

void
batch_skip(const struct gemm *g, int64_t r, int64_t *skip)
{
    for (int i = 0; i < NMATRIX; i++) skip[i] = 0;
    for (int d = g->nbatch - 1; d >= 0; r /= g->batch[d].size, d--)
        for (int i = 0; i < NMATRIX; i++) skip[i] += r % g->batch[d].size * g->batch[d].step[i];
}

int64_t
batch_count(const struct gemm *g)
{
    int64_t n = 1;
    for (int d = 0; d < g->nbatch; d++) n *= g->batch[d].size;
    return n;
}

/* ---- supported products ---- */

/* Sets the stride of a dimension of size 1, which no access uses, as a dense matrix would have it. Returns true if
 * the matrix is row- or column-major and its rows do not overlap. */
static bool
matrix_settle(struct matrix *x)
{
    if (x->rows == 1 && x->cols == 1)
        x->row = x->col = 1;
    else if (x->rows == 1)
        x->row = x->col == 1 ? x->cols : 1;
    else if (x->cols == 1)
        x->col = x->row == 1 ? x->rows : 1;
    return (x->col == 1 && x->row >= x->cols) || (x->row == 1 && x->col >= x->rows);
}

static struct matrix
transposed(struct matrix x)
{
    return (struct matrix){x.cols, x.rows, x.col, x.row};
}

void
gemm_transpose(struct gemm *g)
{
    struct matrix a = g->x[A];
    g->x[A] = transposed(g->x[B]);
    g->x[B] = transposed(a);
    g->x[C] = transposed(g->x[C]);
    for (int i = 0; i < g->nbatch; i++) {
        int64_t step = g->batch[i].step[A];
        g->batch[i].step[A] = g->batch[i].step[B];
        g->batch[i].step[B] = step;
    }
}

bool
gemm_settle(struct gemm *g)
{
    for (int i = 0; i < NMATRIX; i++)
        if (!matrix_settle(&g->x[i])) return false;
    return true;
}

bool
gemm_fits(const struct kcall *k)
{
    bool empty = view_numel(&k->in[0]) == 0 || view_numel(&k->in[1]) == 0;
    enum dtype d = k->in[0].dtype, to = k->out[0].dtype;
    return !empty && k->in[1].dtype == d && (to == d || (dtype_is_half(d) && to == DT_F32));
}

/* Returns true for products of 16-bit floats with an f32 result, one row or column, and a long k. gemm_few.c
 * computes these products. oneDNN would divide k among its threads, and add the products to c one by one. */
static bool
is_long_of_one(const struct gemm *g)
{
    return g->x[A].cols > GEMM_LONG && MIN(g->x[C].rows, g->x[C].cols) == 1 && g->dtype[A] != g->dtype[C];
}

bool
gemm_accepts(const struct kcall *k)
{
    struct gemm g;
    return gemm_fits(k) && prim_multiplies(k->in[0].dtype) && gemm_of(k, &g) && gemm_settle(&g) && !is_long_of_one(&g);
}

/* Returns true if oneDNN supports the strides of operand i. In a matmul call these are the strides of its last two
 * dimensions. In a contract call, all its dimensions except the last must merge into one. If false (for example,
 * for a broadcast number), the operand is copied to dense form before the call. */
bool
gemm_takes(const struct kcall *k, int i)
{
    struct view twice[] = {k->in[i], k->in[i]};
    /* a contract call: operand i is checked without the other operand's strides */
    bool alone = k->call->op->host.sums_leading;
    struct gemm g;
    return gemm_of(&(struct kcall){.call = k->call, .in = alone ? twice : k->in, .out = k->out}, &g) &&
           matrix_settle(&g.x[i]);
}

/* ---- the primitive ---- */

static void
describe_matrix(const struct gemm *g, int i, int nbatch, struct prim_layout *out)
{
    const struct matrix *x = &g->x[i];
    *out = (struct prim_layout){.dtype = prim_dtype(g->dtype[i]), .ndim = nbatch + 2};
    int64_t *size = out->size, *stride = out->stride;
    int64_t dense = x->rows * x->cols; /* stride of a broadcast dimension, where any stride is right */
    for (int d = 0; d < nbatch; d++) {
        int64_t step = g->batch[d].step[i];
        size[d] = step ? g->batch[d].size : 1;
        stride[d] = step ? step : dense;
    }
    size[nbatch] = x->rows, size[nbatch + 1] = x->cols;
    stride[nbatch] = x->row, stride[nbatch + 1] = x->col;
}

/* Chooses between two implementations in oneDNN: its first choice, small-block kernels, and its second, the older
 * gemm, which packs b. Packing is faster if the small blocks would read or write a large b or c with a stride, and
 * for a single row. Time of the first and second choice, one Zen 5 core, us:
 *
 *   f32   m 256, n 768, k 50304, b in rows   119,500   79,200      bf16  the same      49,300   43,800
 *         m 256, n 768, k 3072                 5,470    4,850            m 1, k 3072      113       44
 *         m 768, n 3072, k 256                 5,470    4,630            others       equal or slower
 *         m 256, n 768, k 768                  1,143    1,161
 *         m 1, n 768, k 3072, b by columns       232       96
 *
 * Speed of the first and second choice, two Xeon cores (Sapphire Rapids), Gflop/s:
 *
 *         m 1024, n 768, k 768                   317      339
 *         m 256, n 768, k 768                    320      340
 *         m 3072, n 768, k 256, a transposed     301      329 */
static const char *
gemm_prefers(const struct gemm *g)
{
    int64_t m = g->x[C].rows, n = g->x[C].cols, k = g->x[A].cols;
    bool real = g->dtype[A] == DT_F32, rows = g->x[B].col == 1;
    bool large = real ? n * k >= 500 * 1000 || m * n >= 2000 * 1000 : k >= 16384;
    bool copies_pay = m == 1 || (rows ? large : real && m <= 4);
    return copies_pay ? "gemm" : NULL;
}

/* Makes the oneDNN description of the whole batch; if nbatch is 0, of one product. */
static int
gemm_describe(const struct gemm *g, int nbatch, int threads, bool add, struct prim_arg *arg, dnnl_primitive_desc_t *pd)
{
    for (int i = 0; i < NMATRIX; i++) describe_matrix(g, i, nbatch, &arg[i].layout);
    const struct prim_op op = {.kind = PRIM_MATMUL,
                               .src = arg[A].layout,
                               .weights = arg[B].layout,
                               .dst = arg[C].layout,
                               .add = add,
                               .prefer = nbatch ? NULL : gemm_prefers(g)};
    return prim_describe(&op, NULL, threads, pd);
}

struct gemm_panel gemm_panel = {7e9, 1024, 16};

/* Divides `size` into equal parts of at least about `side` entries. Returns the length of a part, rounded up to
 * gemm_panel.step. */
static int64_t
gemm_part_of(int64_t size, int64_t side)
{
    int64_t n = MAX(1, size / side), part = (size + n - 1) / n, step = gemm_panel.step;
    return MIN(size, (part + step - 1) / step * step);
}

/* Returns the flops of a product, for estimates of its time. Fewer than FEW rows or columns count as FEW, because
 * reading memory then takes longer than arithmetic. */
static double
product_flops(int64_t m, int64_t n, int64_t k)
{
    enum { FEW = 16 };
    return 2 * (double)MAX(m, FEW) * (double)MAX(n, FEW) * (double)k;
}

/* Returns true if c can accumulate the parts of a long k. A 16-bit c cannot, because each part would be rounded. */
static bool
adds_up(const struct gemm *g)
{
    return g->dtype[C] == DT_F32;
}

/* Returns the number of flops between two checks for a stop. All threads together take about thirty milliseconds
 * for them. */
static double
flops_at_once(const struct gemm *g, int threads)
{
    return gemm_panel.flops * threads * (adds_up(g) ? 1 : 2);
}

/* A panel: the part of a long product that is computed between two checks for a stop (runtime/base/stop.h). A
 * panel has a square of c and a part of k. The square is so large that reading a and b again costs little. For
 * 16-bit floats k is not split, and the squares are smaller.
 *
 * Each part of k reads and writes c, so the number of parts is rounded to the nearest integer, not up. Measured
 * (bench/stop.c):
 *
 *                                                        time between checks   total
 *    12288 x 12288 x 12288, 1 core, sides of 1024                     0.13 s   15.5 s
 *    the same, k in parts                                             0.04 s   15.0 s
 *    logits of GPT-2, 256 x 768 x 50,257, 2 Zen 4 cores, k undivided            96 ms
 *    the same, k in two parts                                                  106 ms
 *    a weight's gradient, bf16, 50,257 x 256 x 768, nine panels                 58 ms
 *    the same, one panel                                                        78 ms
 *
 * Sides of 640 instead of 1024 cost 5 % more. */
struct panel {
    int64_t m, n, k;
};

/* Returns the length of the equal parts into which a long k (gemm.h) is divided, rounded up to a multiple of
 * oneDNN's step. */
static int64_t
part_of_long(int64_t k)
{
    enum { STEP = 64 };
    int64_t parts = (k + GEMM_PART - 1) / GEMM_PART;
    return ((k + parts - 1) / parts + STEP - 1) / STEP * STEP;
}

static struct panel
gemm_panel_of(const struct gemm *g, int threads)
{
    struct panel p = {g->x[C].rows, g->x[C].cols, g->x[A].cols};
    double flops = flops_at_once(g, threads), side = (double)gemm_panel.side / (adds_up(g) ? 1 : 4);
    bool is_long = adds_up(g) && p.k > GEMM_LONG, at_once = product_flops(p.m, p.n, p.k) <= flops;
    if (is_long) p.k = part_of_long(p.k);
    if (at_once) return p;
    double area = MIN(MAX(flops / 2 / (double)g->x[A].cols, side * side), 1e18);
    p.m = gemm_part_of(p.m, (int64_t)ceil(sqrt(area)));
    p.n = gemm_part_of(p.n, (int64_t)ceil(area / (double)p.m));
    int64_t parts = MAX(1, llround(product_flops(p.m, p.n, p.k) / flops));
    if (adds_up(g) && !is_long) p.k = (p.k + parts - 1) / parts;
    return p;
}

/* Divides the outermost batch dimension into equal parts that are computed between two checks for a stop. Returns
 * the number of entries of a part. */
static int64_t
batch_at_once(const struct gemm *g, int threads)
{
    double each = product_flops(g->x[C].rows, g->x[C].cols, g->x[A].cols);
    for (int d = 1; d < g->nbatch; d++) each *= (double)g->batch[d].size;
    int64_t size = g->batch[0].size,
            parts = (int64_t)MIN(ceil(each * (double)size / flops_at_once(g, threads)), (double)size);
    return parts < 2 ? size : (size + parts - 1) / parts;
}

/* Returns the number of panels of length `panel` that cover `size`. */
static int64_t
panels(int64_t size, int64_t panel)
{
    return (size + panel - 1) / panel;
}

/* Returns, for each panel and argument, the offset in bytes from the first panel's data. The last panels end at
 * the matrix's end, so they overlap the previous panels. */
static int64_t *
panel_skips(const struct gemm *g, const struct panel *panel, const int64_t *product, int64_t n)
{
    const struct matrix *c = &g->x[C];
    int64_t across = panels(c->cols, panel->n), each = panels(c->rows, panel->m) * across;
    int64_t *skip = must_alloc((size_t)(n * each * NMATRIX) * sizeof *skip);
    for (int64_t r = 0; r < n * each; r++) {
        int64_t row = MIN(r % each / across * panel->m, c->rows - panel->m);
        int64_t col = MIN(r % across * panel->n, c->cols - panel->n);
        const int64_t first[NMATRIX] = {row * g->x[A].row, col * g->x[B].col, row * c->row + col * c->col};
        for (int i = 0; i < NMATRIX; i++)
            skip[r * NMATRIX + i] = product[r / each * NMATRIX + i] + first[i] * (int64_t)dtype_bytes(g->dtype[i]);
    }
    return skip;
}

/* Returns, for each product of the batch and each argument, the offset in bytes from the first product's data. */
static int64_t *
batch_skips(const struct gemm *g, int64_t n)
{
    int64_t *skip = must_alloc((size_t)(n * NMATRIX) * sizeof *skip);
    for (int64_t r = 0; r < n; r++) {
        batch_skip(g, r, skip + r * NMATRIX);
        for (int i = 0; i < NMATRIX; i++) skip[r * NMATRIX + i] *= (int64_t)dtype_bytes(g->dtype[i]);
    }
    return skip;
}

/* Returns, for each part of a batch and each argument, the offset in bytes from the first part's data. The last
 * part ends at the batch's end. */
static int64_t *
part_skips(const struct gemm *g, int64_t at_once, int64_t n)
{
    const struct batch *b = &g->batch[0];
    int64_t *skip = must_alloc((size_t)(n * NMATRIX) * sizeof *skip);
    for (int64_t r = 0; r < n; r++)
        for (int i = 0; i < NMATRIX; i++)
            skip[r * NMATRIX + i] =
                MIN(r * at_once, b->size - at_once) * b->step[i] * (int64_t)dtype_bytes(g->dtype[i]);
    return skip;
}

/* Returns false if a batch dimension is broadcast in both operands, because oneDNN does not support this. */
static bool
batch_goes_on(const struct gemm *g)
{
    for (int d = 0; d < g->nbatch; d++)
        if (!g->batch[d].step[A] && !g->batch[d].step[B]) return false;
    return true;
}

/* Makes each call execute the primitive several times. One execution computes: nbatch 0: one panel of a product;
 * nbatch g->nbatch: at_once entries of the batch's outermost dimension; otherwise: all entries of the batch's innermost
 * dimension. */
static void
gemm_repeat(const struct gemm *g, int nbatch, int64_t at_once, const struct panel *part, struct prim *prim)
{
    struct gemm outer = *g;
    if (nbatch && nbatch == g->nbatch) {
        int64_t parts = panels(g->batch[0].size, at_once);
        if (parts > 1) prim_repeat(prim, parts, part_skips(g, at_once, parts), NMATRIX);
        return;
    }
    outer.nbatch -= nbatch;
    int64_t each = nbatch ? 1 : panels(g->x[C].rows, part->m) * panels(g->x[C].cols, part->n);
    int64_t n = batch_count(&outer);
    if (n * each == 1) return;
    int64_t *skip = batch_skips(&outer, n);
    prim_repeat(prim, n * each, each > 1 ? panel_skips(g, part, skip, n) : skip, NMATRIX);
    if (each > 1) free(skip);
}

/* Adds a primitive for the rest of a long k. The caller's primitive multiplies the first panel of k. The added
 * primitive multiplies the n other panels, of `part` values of k each, and adds the products to the result. */
static int
gemm_add(const struct gemm *g, const struct gemm *panel, int64_t part, int threads, struct prim_arg *arg,
         struct prim *prim, size_t *scratch_bytes)
{
    struct gemm rest = *panel;
    int64_t first = panel->x[A].cols, n = (g->x[A].cols - first) / part;
    if (n == 0) return 0;
    const int64_t step[NMATRIX] = {g->x[A].col * (int64_t)dtype_bytes(g->dtype[A]),
                                   g->x[B].row * (int64_t)dtype_bytes(g->dtype[B])};
    size_t scratch;
    void *more;
    dnnl_primitive_desc_t pd;
    rest.x[A].cols = rest.x[B].rows = part;
    TRY(gemm_describe(&rest, 0, threads, true, arg, &pd));
    TRY(prim_new(pd, NMATRIX, arg, threads, &more, &scratch));
    *scratch_bytes = MAX(*scratch_bytes, scratch);
    prim_add(prim, more, n, NMATRIX, (int64_t[]){first * step[A], first * step[B], 0},
             (int64_t[]){part * step[A], part * step[B], 0});
    return 0;
}

/* Describes an execution that computes n dimensions of the batch: all, n = g->nbatch, or only the innermost, n = 1.
 * Returns false if oneDNN refuses this batch, or computes this batch only by slow reference code. */
static bool
describe_batch(const struct gemm *g, int n, int threads, struct prim_arg *arg, dnnl_primitive_desc_t *pd)
{
    struct gemm inner = *g;
    if (n < g->nbatch) inner.batch[0] = g->batch[g->nbatch - 1];
    inner.nbatch = n;
    if (n < g->nbatch && batch_at_once(&inner, threads) < inner.batch[0].size) return false;
    if (gemm_describe(&inner, n, threads, false, arg, pd)) {
        err_clear();
        return false;
    }
    if (!prim_is_plain(*pd)) return true;
    dnnl_primitive_desc_destroy(*pd);
    return false;
}

/* Describes one execution. Tries *nbatch dimensions of the batch, then the innermost dimension, then a single product,
 * and selects the first that oneDNN computes well. Sets *nbatch to the number of dimensions selected; 0: a product. */
static int
describe_most(const struct gemm *g, int *nbatch, int threads, struct prim_arg *arg, dnnl_primitive_desc_t *pd)
{
    for (; *nbatch; *nbatch = *nbatch > 1)
        if (describe_batch(g, *nbatch, threads, arg, pd)) return 0;
    return gemm_describe(g, 0, threads, false, arg, pd);
}

/* Makes the primitive of a product. If c is column-major, the primitive computes the transposed product. */
static int
gemm_make(struct gemm *g, int threads, void **state, size_t *scratch_bytes)
{
    bool swapped = gemm_settle(g) && g->x[C].col != 1;
    if (swapped) gemm_transpose(g);
    struct prim_arg arg[NMATRIX] = {{.arg = DNNL_ARG_SRC, .from = swapped ? 1 : 0},
                                    {.arg = DNNL_ARG_WEIGHTS, .from = swapped ? 0 : 1},
                                    {.arg = DNNL_ARG_DST, .from = PRIM_OUT}};
    dnnl_primitive_desc_t pd;
    struct panel part = gemm_panel_of(g, threads);
    bool whole = part.m == g->x[C].rows && part.n == g->x[C].cols && part.k == g->x[A].cols;
    int nbatch = whole && batch_goes_on(g) ? g->nbatch : 0;
    int64_t at_once = nbatch ? batch_at_once(g, threads) : 0;
    struct gemm panel = *g;
    panel.x[A].rows = panel.x[C].rows = part.m;
    panel.x[B].cols = panel.x[C].cols = part.n;
    panel.x[A].cols = panel.x[B].rows = g->x[A].cols - (g->x[A].cols - 1) / part.k * part.k;
    if (nbatch) panel.batch[0].size = at_once;
    TRY(describe_most(&panel, &nbatch, threads, arg, &pd));
    TRY(prim_new(pd, NMATRIX, arg, threads, state, scratch_bytes));
    gemm_repeat(g, nbatch, at_once, &part, *state);
    int status = gemm_add(g, &panel, part.k, threads, arg, *state, scratch_bytes);
    if (status) prim_drop(*state);
    return status;
}

int
gemm_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct gemm g;
    bool ok = gemm_of(k, &g);
    assert(ok);
    return gemm_make(&g, k->threads, state, scratch_bytes);
}

/* ---- multiplying few rows by a column-major matrix, as the product of the transposes (gemm_transposed.h) ---- */

static bool
turned_of(const struct kcall *k, struct gemm_transposed_sizes *t)
{
    struct gemm g;
    if (!gemm_fits(k) || !gemm_of(k, &g) || !gemm_settle(&g)) return false;
    if (g.dtype[A] != DT_F32 || g.nbatch || g.x[B].row != 1 || g.x[C].col != 1) return false;
    const struct matrix *a = &g.x[A], *c = &g.x[C];
    *t = (struct gemm_transposed_sizes){c->rows, c->cols, a->cols, a->row, a->col, g.x[B].col, c->row};
    return t->k <= GEMM_LONG && product_flops(t->m, t->n, t->k) <= flops_at_once(&g, k->threads);
}

bool
gemm_transposed_accepts(const struct kcall *k)
{
    struct gemm_transposed_sizes t;
    return turned_of(k, &t) && gemm_transposed_pays(&t);
}

int
gemm_transposed_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct gemm_transposed_sizes t;
    turned_of(k, &t);
    return gemm_transposed_make(&t, k->threads, state, scratch_bytes);
}

int
gemm_one(const struct gemm *g, bool add, void **product, size_t *scratch_bytes)
{
    struct prim_arg arg[NMATRIX] = {{.arg = DNNL_ARG_SRC}, {.arg = DNNL_ARG_WEIGHTS}, {.arg = DNNL_ARG_DST}};
    dnnl_primitive_desc_t pd;
    TRY(gemm_describe(g, 0, 1, add, arg, &pd));
    return prim_new(pd, NMATRIX, arg, 1, product, scratch_bytes);
}

int
gemm_dense(const struct dense_product *p, void **product, size_t *scratch_bytes)
{
    dnnl_data_type_t dtype = prim_dtype(p->dtype);
    struct prim_op op = {.kind = PRIM_MATMUL,
                         .src = {dtype, 2, {p->m, p->k}, .tag = p->a_columns ? dnnl_ba : dnnl_ab},
                         .weights = {dtype, 2, {p->k, p->n}, .tag = p->b_columns ? dnnl_ba : dnnl_ab},
                         .dst = {dnnl_f32, 2, {p->m, p->n}, .tag = dnnl_ab},
                         .add = p->add};
    if (p->b_step) op.weights = (struct prim_layout){dtype, 2, {p->k, p->n}, .stride = {p->b_step, 1}};
    const struct prim_arg arg[NMATRIX] = {{.arg = DNNL_ARG_SRC, .layout = op.src},
                                          {.arg = DNNL_ARG_WEIGHTS, .layout = op.weights},
                                          {.arg = DNNL_ARG_DST, .layout = op.dst}};
    dnnl_primitive_desc_t pd;
    TRY(prim_describe(&op, NULL, 1, &pd));
    return prim_new(pd, NMATRIX, arg, 1, product, scratch_bytes);
}
