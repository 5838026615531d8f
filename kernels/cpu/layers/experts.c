/* experts.c - multiplies each row by the matrix (expert) that its id selects. Gathers the rows of each expert first. */
#include "kernels/cpu/layers/experts.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/layers/blocks.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_f64.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/arena.h"
#include "runtime/base/stop.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of rows for which oneDNN products are created. Each product uses the first entry whose `least` (f32,
 * bf16) does not exceed the remaining rows; missing rows are padded with zeros. With AVX-512, all sizes but the
 * last compute bitwise equal f32 rows; the last size is for calls with one entry.
 *
 * bf16 has smaller `least`, because each product repacks the matrix, so padding costs less than a second product.
 * Speed of one 512 x 2048 matrix on one Zen 4 core, Gflop/s:
 *
 *    rows    f32   bf16
 *      16    109    126
 *      64    109    190
 *     256    109    219
 *
 * Time of 512 rows, ms:
 *
 *                       2 of 8 matrices   1 matrix
 *    f32                           23.0       19.6
 *    bf16                          12.4       10.3
 *    gradient, f32                 20.7       20.2
 *    gradient, bf16                12.7       10.6 */
static const struct {
    int rows, least[2];
} sizes[] = {{256, {256, 240}}, {128, {128, 113}}, {64, {64, 49}}, {32, {32, 17}},
             {16, {9, 5}},      {4, {1, 3}},       {1, {1, 1}}};
enum { NSIZE = countof(sizes), PANEL = 512 };
enum { ALONE = 16 }; /* maximum number of rows that are computed one by one in a call with n = 1 */

/* The two products of a gradient, which is a sum over pieces of rows: FIRST sets the sum, MORE adds to it. */
enum { FIRST, MORE, NPRODUCT };
struct experts {
    enum dtype dtype; /* dtype of factors; sums use this dtype's compute type */
    /* panel: number of columns per panel. npanel: number of panels. The last panel may overlap the previous one. */
    int64_t panel, npanel;
    int64_t rows;                /* maximum number of rows in a product */
    const struct coding *coding; /* type of the matrices' blocks; NULL: the matrices are floats */
    /* maximum number of rows of an expert that blocks_multiply() computes; 0 for floats, and for blocks that are
     * multiplied untransposed */
    int64_t few;
    int threads;
    bool alone;    /* true: the call has one entry (n = 1) and is computed row by row */
    bool in_place; /* true: the gradient accumulates directly in the result */
    /* at: offset of each matrix in a worker's scratch, after the product's own scratch, bytes; at[A] is also that of
     * rounded rows. each: size of a worker's scratch, bytes. */
    size_t at[NMATRIX], each;
    struct prim *product[][NPRODUCT][NSIZE]; /* the oneDNN products, one set per thread */
};

static int
expert_part_size(const struct experts *e, int64_t left)
{
    int i = e->alone ? NSIZE - 1 : 0;
    while (sizes[i].least[e->dtype == DT_BF16] > left) i++;
    return i;
}

/* A piece: n consecutive rows of one expert, from row `first` on. One matrix product computes all of them. size:
 * index in `sizes` of the number of rows for which this product was created. */
struct piece {
    int64_t first, n;
    int size;
};

static struct piece
expert_piece(const struct experts *e, int64_t nrow, int64_t i)
{
    struct piece p = {.first = MIN(i, nrow / sizes[0].rows) * sizes[0].rows};
    for (int64_t before = p.first / sizes[0].rows; before < i; before++)
        p.first += sizes[expert_part_size(e, nrow - p.first)].rows;
    p.size = expert_part_size(e, nrow - p.first);
    p.n = MIN(sizes[p.size].rows, nrow - p.first);
    return p;
}

static int64_t
row_pieces(const struct experts *e, int64_t nrow)
{
    int64_t n = nrow / sizes[0].rows;
    if (nrow > 0 && nrow <= e->few) return 1;
    for (nrow %= sizes[0].rows; nrow > 0; nrow -= sizes[expert_part_size(e, nrow)].rows) n++;
    return n;
}

/* ---- supported views ---- */

static bool
experts_by_rows(const struct view *w)
{
    return w->dim[3] == 1 || w->stride[3] == 1;
}

/* Returns true if the gradient can read operand i in place: its rows must be contiguous. The ids may have any
 * strides. */
bool
experts_grad_takes(const struct kcall *k, int i)
{
    return i == IDS || (experts_by_rows(&k->in[i]) && k->in[i].dim[3] > 1);
}

/* Returns true if operand i can be read in place. Rows must be contiguous; the matrices of w must be row- or
 * column-major. The ids may have any strides. */
bool
experts_takes(const struct kcall *k, int i)
{
    const struct view *v = &k->in[i];
    if (i == W && v->stride[2] == 1 && v->stride[3] >= v->dim[2]) return true;
    return experts_grad_takes(k, i) && (i != W || v->stride[2] >= v->dim[3]);
}

bool
experts_blocks_accepts(const struct kcall *k)
{
    const struct view *out = &k->out[0], *w = &k->in[W];
    bool empty = view_numel(&k->in[X]) == 0 || view_numel(w) == 0 || view_numel(out) == 0;
    return !empty && k->in[X].dtype == DT_F32 && out->dtype == DT_F32 && experts_by_rows(out) && w->dim[2] > 1;
}

bool
experts_accepts(const struct kcall *k)
{
    const struct view *out = &k->out[0];
    enum dtype d = k->in[X].dtype;
    bool empty = view_numel(&k->in[X]) == 0 || view_numel(&k->in[W]) == 0 || view_numel(out) == 0;
    bool same = k->in[W].dtype == d && (out->dtype == d || (dtype_is_half(d) && out->dtype == DT_F32));
    return !empty && same && experts_by_rows(out);
}

/* Returns the matrices as numbers: (groups, experts, k, m). Blocks run along k, so their matrices are column-major;
 * `turned` blocks run along m. */
static struct view
numbers_of(const struct view *stored, const struct coding *c, bool turned)
{
    struct view w = *stored;
    if (!c) return w;
    int64_t lines = w.dim[2], length = w.dim[3] * c->elements;
    w.ndim = 4;
    w.dim[2] = turned ? lines : length, w.dim[3] = turned ? length : lines;
    w.stride[2] = turned ? length : 1, w.stride[3] = turned ? 1 : length;
    w.stride[1] = lines * length, w.stride[0] = w.dim[1] * w.stride[1];
    return w;
}

/* ---- preparation ---- */

static size_t
sum_bytes(const struct experts *e)
{
    return e->dtype == DT_F64 ? sizeof(double) : sizeof(float);
}

/* Returns the sizes and strides of a product. The factors are `rows` rows and a panel of w; the panel may be a
 * converted copy. For the gradient of w, the factors are the transposed rows of x and a panel of the result's
 * gradient. */
static struct gemm
product_of(const struct experts *e, const struct view *w, bool gradient, int64_t rows)
{
    bool copy = w->dtype != e->dtype;
    int64_t depth = w->dim[2], panel = e->panel;
    struct gemm g = {.dtype = {e->dtype, e->dtype, DT_F32}};
    g.x[A] = gradient ? (struct matrix){depth, rows, 1, depth} : (struct matrix){rows, depth, depth, 1};
    if (gradient)
        g.x[B] = (struct matrix){rows, panel, panel, 1};
    else if (experts_by_rows(w))
        g.x[B] = (struct matrix){depth, panel, copy ? panel : w->stride[2], 1};
    else
        g.x[B] = (struct matrix){depth, panel, 1, copy ? depth : w->stride[3]};
    g.x[C] = (struct matrix){gradient ? depth : rows, panel, e->in_place ? w->stride[2] : panel, 1};
    gemm_settle(&g);
    return g;
}

static int
experts_make_products(struct experts *e, const struct view *w, bool gradient, size_t *bytes)
{
    for (int i = 0; i < e->threads * (gradient ? NPRODUCT : MORE) * (int)NSIZE; i++) {
        int size = i % (int)NSIZE, how = i / (int)NSIZE % (gradient ? NPRODUCT : MORE);
        size_t scratch;
        void *product;
        if (sizes[size].rows > e->rows) continue;
        struct gemm g = product_of(e, w, gradient, sizes[size].rows);
        TRY(gemm_one(&g, how == MORE, &product, &scratch));
        e->product[i / (int)NSIZE / (gradient ? NPRODUCT : MORE)][how][size] = product;
        *bytes = MAX(*bytes, scratch);
    }
    return 0;
}

static int64_t
expert_words(const struct kcall *k, const struct view *w)
{
    return 2 * (w->dim[0] * w->dim[1] + 1) + w->dim[0] * view_numel(&k->in[IDS]);
}

/* Returns the common length of panels that divide n columns. If there are two or more panels, the length is a
 * multiple of `step`. */
static int64_t
expert_panel(int64_t width, int64_t step)
{
    int64_t n = (width + PANEL - 1) / PANEL;
    return n == 1 ? width : ((width + n - 1) / n + step - 1) / step * step;
}

/* Sets the offsets of matrices in a worker's scratch, after the `bytes` of the product. Returns the size of all
 * workers' scratch, bytes. */
static size_t
share_scratch(struct experts *e, const struct view *w, bool gradient, size_t bytes)
{
    size_t factor = dtype_bytes(e->dtype), rows = (size_t)e->rows, depth = (size_t)w->dim[2], panel = (size_t)e->panel;
    size_t b = gradient ? rows * panel : w->dtype != e->dtype ? depth * panel : 0;
    size_t c = e->in_place ? 0 : (gradient ? depth : rows) * panel;
    e->at[A] = align_64(bytes);
    e->at[B] = e->at[A] + align_64(factor * rows * depth);
    e->at[C] = e->at[B] + align_64(factor * b);
    e->each = e->at[C] + align_64(sum_bytes(e) * c);
    e->each = MAX(e->each, e->at[A] + (size_t)e->few * blocks_rounded_bytes(e->few ? w->dim[2] : 0));
    return e->each * (size_t)e->threads;
}

/* Makes the oneDNN products. stored: view of the matrices, or of their gradient. c: type of the matrices' blocks, which
 * are `turned`, or not; NULL: floats. */
static int
make_experts(const struct kcall *k, const struct view *stored, const struct coding *c, bool gradient, void **state,
             size_t *scratch_bytes)
{
    enum dtype d = k->in[X].dtype;
    bool turned = c && k->call->attr[1].i;
    const struct view *ids = &k->in[IDS], numbers = numbers_of(stored, c, turned), *w = &numbers;
    int64_t entries = view_numel(ids), panel = expert_panel(w->dim[3], turned ? MAX(c->elements, 16) : 16);
    int64_t npanel = (w->dim[3] + panel - 1) / panel;
    int threads = (int)MIN(MAX(1, k->threads), w->dim[0] * (gradient ? w->dim[1] : entries) * npanel);
    struct experts *e = must_alloc(sizeof *e + sizeof *e->product * (size_t)threads);
    *e = (struct experts){.dtype = d, .panel = panel, .npanel = npanel, .threads = threads, .coding = c};
    e->few = c && !turned ? blocks_few(c) : 0;
    if (d != DT_F64 && !prim_multiplies(d)) e->dtype = DT_F32;
    /* The choice depends on global sizes only, so that sharding does not change it. */
    e->alone = ids->global[0] == 1 && ids->global[1] <= ALONE;
    e->rows = sizes[expert_part_size(e, entries)].rows;
    e->in_place = gradient && panel * npanel == w->dim[3] && w->dtype == (d == DT_F64 ? DT_F64 : DT_F32);
    size_t bytes =
        d == DT_F64 ? gemm_f64_scratch(gradient ? w->dim[2] : e->rows, panel, gradient ? e->rows : w->dim[2]) : 0;
    bool needs = d != DT_F64 && entries > e->few; /* false: no call of oneDNN is needed */
    int status = needs ? experts_make_products(e, w, gradient, &bytes) : 0;
    if (status) {
        experts_drop(e);
        return status;
    }
    *scratch_bytes = align_64(sizeof(int64_t) * (size_t)expert_words(k, w)) + share_scratch(e, w, gradient, bytes);
    *state = e;
    return 0;
}

int
experts_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make_experts(k, &k->in[W], NULL, false, state, scratch_bytes);
}

int
experts_blocks_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make_experts(k, &k->in[W], blocks_coding(k->call), false, state, scratch_bytes);
}

int
experts_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make_experts(k, &k->out[0], NULL, true, state, scratch_bytes);
}

void
experts_drop(void *state)
{
    struct experts *e = state;
    for (int t = 0; e && t < e->threads; t++)
        for (int i = 0; i < NPRODUCT * (int)NSIZE; i++) prim_drop(e->product[t][i / (int)NSIZE][i % (int)NSIZE]);
    free(e);
}

/* ---- listing the rows of each expert ---- */

struct experts_run {
    const struct kcall *k;
    const struct experts *e;
    const struct view *w, *y; /* y: the result or its gradient; rows are counted over groups, then n, then t */
    /* The rows of expert i are row[first[i]], row[first[i] + 1], ...; the units of work of expert i are numbered
     * from unit[i] on. */
    int64_t nexpert, *first, *unit, *row;
    char *scratch; /* scratch of all workers */
};

static int64_t
named_by(const struct experts_run *r, int64_t row)
{
    const struct view *ids = &r->k->in[IDS];
    int64_t t = r->y->dim[2], n = r->y->dim[1], at = row / t % n * ids->stride[0] + row % t * ids->stride[1];
    return expert_of(r->w, elem_get_i(ids->dtype, ids->data, at), row / t / n);
}

/* Lists the rows of each expert, in their original order. */
static void
list_expert_rows(struct experts_run *r)
{
    int64_t nrow = r->y->dim[0] * r->y->dim[1] * r->y->dim[2], e;
    memset(r->first, 0, sizeof *r->first * (size_t)(r->nexpert + 1));
    for (int64_t i = 0; i < nrow; i++)
        if ((e = named_by(r, i)) >= 0) r->first[e + 1]++;
    for (e = 0; e < r->nexpert; e++) r->first[e + 1] += r->first[e];
    memcpy(r->unit, r->first, sizeof *r->unit * (size_t)r->nexpert);
    for (int64_t i = 0; i < nrow; i++)
        if ((e = named_by(r, i)) >= 0) r->row[r->unit[e]++] = i;
}

static struct experts_run
experts_run_of(const struct kcall *k, const struct experts *e, const struct view *w, const struct view *y)
{
    struct experts_run r = {.k = k, .e = e, .w = w, .y = y, .nexpert = w->dim[0] * w->dim[1], .first = k->scratch};
    r.unit = r.first + r.nexpert + 1;
    r.row = r.unit + r.nexpert + 1;
    r.scratch = (char *)k->scratch + align_64(sizeof(int64_t) * (size_t)expert_words(k, w));
    list_expert_rows(&r);
    return r;
}

/* ---- computing units of work: a panel of an expert's matrix for a piece of its rows ---- */

/* Returns the offset of matrix e in w, in elements. */
static int64_t
matrix_at(const struct view *w, int64_t e)
{
    return e / w->dim[1] * w->stride[0] + e % w->dim[1] * w->stride[1];
}

static int64_t
experts_row_at(const struct view *v, const struct view *y, int64_t row)
{
    int64_t s = row % y->dim[2], i = row / y->dim[2] % y->dim[1], group = row / y->dim[2] / y->dim[1];
    return (v->dim[0] == 1 ? 0 : group * v->stride[0]) + i * v->stride[1] + (v->dim[2] == 1 ? 0 : s * v->stride[2]);
}

static void
load_line(enum dtype to, const struct view *from, int64_t at, int64_t n, void *line)
{
    const char *data = (const char *)from->data + at * (int64_t)dtype_bytes(from->dtype);
    if (from->dtype == to)
        memcpy(line, data, (size_t)n * dtype_bytes(to));
    else
        block_load(COMP_F32, from->dtype, data, 1, n, line);
}

/* Gathers `width` elements, starting at column `col`, from each row of a piece. Adds rows of zeros, up to the
 * product's number of rows. */
static void
gather_rows(const struct experts_run *r, const struct view *v, int64_t m, const struct piece *p, int64_t col,
            int64_t width, char *to)
{
    size_t line = (size_t)width * dtype_bytes(r->e->dtype);
    const int64_t *row = r->row + r->first[m] + p->first;
    for (int64_t i = 0; i < p->n; i++, to += line)
        load_line(r->e->dtype, v, experts_row_at(v, r->y, row[i]) + col, width, to);
    memset(to, 0, (size_t)(sizes[p->size].rows - p->n) * line);
}

static void
experts_store(const struct experts_run *r, const void *line, int64_t n, const struct view *to, int64_t at)
{
    block_store(r->e->dtype == DT_F64 ? COMP_F64 : COMP_F32, to->dtype, line, n,
                (char *)to->data + at * (int64_t)dtype_bytes(to->dtype), 1);
}

/* Columns of a panel. from: first column; skip: number of leading columns that the previous panel has already
 * computed; n: number of other columns. */
struct columns {
    int64_t from, skip, n;
};

static struct columns
expert_columns(const struct experts_run *r, int64_t p)
{
    const struct experts *e = r->e;
    int64_t own = p * e->panel, from = MIN(own, r->w->dim[3] - e->panel);
    return (struct columns){from, own - from, e->panel - (own - from)};
}

/* Converts n elements of a matrix, from offset `at` on, to floats. */
static void
widen_line(const struct experts_run *r, int64_t at, int64_t n, float *line)
{
    const struct coding *c = r->e->coding;
    if (c)
        coding_decode(c, (const uint8_t *)r->w->data + at / c->elements * c->bytes, n / c->elements, line);
    else
        load_line(DT_F32, r->w, at, n, line);
}

/* Converts a panel of matrix m, which starts at column `from`, to floats. */
static void
widen_panel(const struct experts_run *r, int64_t m, int64_t from, float *to)
{
    const struct view *w = r->w;
    bool rows = experts_by_rows(w);
    int64_t n = rows ? w->dim[2] : r->e->panel, length = rows ? r->e->panel : w->dim[2];
    int64_t at = matrix_at(w, m) + from * w->stride[3], apart = w->stride[rows ? 2 : 3];
    for (int64_t i = 0; i < n; i++) widen_line(r, at + i * apart, length, to + i * length);
}

static void
product_f64(const struct experts_run *r, int64_t n, void *const *at, void *scratch)
{
    const struct view *w = r->w;
    int64_t depth = w->dim[2], panel = r->e->panel;
    gemm_f64(n, panel, depth, (struct matrix_f64){at[A], depth, 1},
             (struct matrix_f64){at[B], w->stride[2], w->stride[3]}, false, (struct matrix_f64){at[C], panel, 1},
             scratch);
}

/* Multiplies a piece of expert m's rows by columns c of the expert's matrix, and stores the result. at[B]: the
 * address of these columns. */
static int
multiply_piece(const struct experts_run *r, int64_t share, int64_t m, struct piece p, const struct columns *c,
               void *const *at, void *scratch)
{
    const struct experts *e = r->e;
    const int64_t *row = r->row + r->first[m] + p.first;
    gather_rows(r, &r->k->in[X], m, &p, 0, r->w->dim[2], at[A]);
    if (e->dtype == DT_F64)
        product_f64(r, p.n, at, scratch);
    else
        TRY(prim_at(e->product[share][FIRST][p.size], at, scratch, "experts"));
    for (int64_t i = 0; i < p.n; i++)
        experts_store(r, (char *)at[C] + (size_t)(i * e->panel + c->skip) * sum_bytes(e), c->n, r->y,
                      experts_row_at(r->y, r->y, row[i]) + c->from + c->skip);
    return 0;
}

/* Multiplies the few rows of expert m by columns c of the expert's matrix in blocks. rounds: rounds the rows first;
 * else scratch holds them from the previous call. */
static void
multiply_few(const struct experts_run *r, int64_t m, const struct columns *c, bool rounds, char *scratch)
{
    const struct coding *coding = r->e->coding;
    const struct view *x = &r->k->in[X];
    int64_t nrow = r->first[m + 1] - r->first[m], depth = r->w->dim[2];
    struct rounded *rounded[BLOCKS_FEW];
    float *y[BLOCKS_FEW];
    for (int64_t i = 0; i < nrow; i++) {
        int64_t row = r->row[r->first[m] + i];
        void *to = scratch + (size_t)i * blocks_rounded_bytes(depth);
        const float *from = (const float *)x->data + experts_row_at(x, r->y, row);
        rounded[i] = rounds ? blocks_round(coding, depth, from, to) : to;
        y[i] = (float *)r->y->data + experts_row_at(r->y, r->y, row);
    }
    const uint8_t *matrix = (const uint8_t *)r->w->data + matrix_at(r->w, m) / coding->elements * coding->bytes;
    blocks_multiply(nrow, rounded, matrix, c->from + c->skip, c->from + c->skip + c->n, y);
}

/* Computes a unit of work by a oneDNN product: piece i of expert m's rows times columns c of the expert's matrix.
 * widens: converts the columns to floats first; else scratch holds them from the previous call. */
static int
multiply_unit(const struct experts_run *r, int64_t share, int64_t m, int64_t i, const struct columns *c, bool widens,
              char *scratch)
{
    const struct experts *e = r->e;
    const struct view *w = r->w;
    bool copy = w->dtype != e->dtype;
    int64_t offset = (matrix_at(w, m) + c->from * w->stride[3]) * (int64_t)dtype_bytes(w->dtype);
    char *own = (char *)w->data + (copy ? 0 : offset);
    void *const at[] = {scratch + e->at[A], copy ? scratch + e->at[B] : own, scratch + e->at[C]};
    if (copy && widens) widen_panel(r, m, c->from, at[B]);
    return multiply_piece(r, share, m, expert_piece(e, r->first[m + 1] - r->first[m], i), c, at, scratch);
}

/* Computes a range of units of work, which are ordered by expert, panel, piece. */
static void
run_expert_share(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct experts_run *r = arg;
    const struct experts *e = r->e;
    char *scratch = r->scratch + (size_t)share * e->each;
    for (int64_t u = lo, m = 0; u < hi && !stop_now(); u++) {
        while (r->unit[m + 1] <= u) m++;
        int64_t nrow = r->first[m + 1] - r->first[m], pieces = row_pieces(e, nrow), i = (u - r->unit[m]) % pieces;
        struct columns c = expert_columns(r, (u - r->unit[m]) / pieces);
        if (nrow <= e->few)
            multiply_few(r, m, &c, u == lo || u == r->unit[m], scratch + e->at[A]);
        else if (multiply_unit(r, share, m, i, &c, u == lo || i == 0, scratch))
            return;
    }
}

/* Clears the rows of the result whose id selects no matrix of this shard. */
static void
clear_rows(void *arg, int64_t lo, int64_t hi)
{
    const struct experts_run *r = arg;
    size_t bytes = dtype_bytes(r->y->dtype);
    for (int64_t i = lo; i < hi; i++)
        if (named_by(r, i) < 0)
            memset((char *)r->y->data + experts_row_at(r->y, r->y, i) * (int64_t)bytes, 0,
                   (size_t)r->y->dim[3] * bytes);
}

int
experts_run(const struct kcall *k, const void *state)
{
    const struct experts *e = state;
    const struct view numbers = numbers_of(&k->in[W], e->coding, e->coding && k->call->attr[1].i);
    struct experts_run r = experts_run_of(k, e, &numbers, &k->out[0]);
    int64_t nrow = r.y->dim[0] * r.y->dim[1] * r.y->dim[2];
    for (int64_t i = r.unit[0] = 0; i < r.nexpert; i++)
        r.unit[i + 1] = r.unit[i] + row_pieces(e, r.first[i + 1] - r.first[i]) * e->npanel;
    if (r.first[r.nexpert] < nrow) team_run(k->threads, nrow, 1 + 65536 / r.y->dim[3], clear_rows, &r);
    team_shares(e->threads, r.unit[r.nexpert], 1, run_expert_share, &r);
    return 0;
}

/* ---- the gradient ---- */

static void
add_f64(const struct experts_run *r, int64_t n, bool more, void *const *at, void *scratch)
{
    int64_t depth = r->w->dim[2], panel = r->e->panel;
    gemm_f64(depth, panel, n, (struct matrix_f64){at[A], 1, depth}, (struct matrix_f64){at[B], panel, 1}, more,
             (struct matrix_f64){at[C], r->e->in_place ? r->w->stride[2] : panel, 1}, scratch);
}

static void
clear_panel(const struct experts_run *r, int64_t m, const struct columns *c)
{
    const struct view *w = r->w;
    size_t bytes = dtype_bytes(w->dtype);
    for (int64_t l = 0; l < w->dim[2]; l++)
        memset((char *)w->data + (size_t)(matrix_at(w, m) + l * w->stride[2] + c->from + c->skip) * bytes, 0,
               (size_t)c->n * bytes);
}

/* Computes a range of units of work of a gradient. A unit is a panel of one matrix's gradient, summed over all rows
 * of the expert. */
static void
run_panels(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct experts_run *r = arg;
    const struct experts *e = r->e;
    const struct view *w = r->w;
    int64_t depth = w->dim[2];
    char *scratch = r->scratch + (size_t)share * e->each;
    for (int64_t u = lo; u < hi && !stop_now(); u++) {
        int64_t m = u / e->npanel, nrow = r->first[m + 1] - r->first[m];
        struct columns c = expert_columns(r, u % e->npanel);
        char *own = (char *)w->data + (size_t)(matrix_at(w, m) + c.from) * dtype_bytes(w->dtype);
        void *const at[NMATRIX] = {scratch + e->at[A], scratch + e->at[B], e->in_place ? own : scratch + e->at[C]};
        if (nrow == 0) clear_panel(r, m, &c);
        for (int64_t i = 0, pieces = row_pieces(e, nrow); i < pieces && !stop_now(); i++) {
            struct piece p = expert_piece(e, nrow, i);
            gather_rows(r, &r->k->in[X], m, &p, 0, depth, at[A]);
            gather_rows(r, r->y, m, &p, c.from, e->panel, at[B]);
            if (e->dtype == DT_F64)
                add_f64(r, p.n, i > 0, at, scratch);
            else if (prim_at(e->product[share][i > 0 ? MORE : FIRST][p.size], at, scratch, "experts"))
                return;
        }
        for (int64_t l = 0; l < depth && nrow > 0 && !e->in_place; l++)
            experts_store(r, scratch + e->at[C] + (size_t)(l * e->panel + c.skip) * sum_bytes(e), c.n, w,
                          matrix_at(w, m) + l * w->stride[2] + c.from + c.skip);
    }
}

int
experts_grad_run(const struct kcall *k, const void *state)
{
    const struct experts *e = state;
    struct experts_run r = experts_run_of(k, e, &k->out[0], &k->in[W]);
    team_shares(e->threads, r.nexpert * e->npanel, 1, run_panels, &r);
    return 0;
}
