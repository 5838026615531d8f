/* recurrent.c - recurrent layers in f32. Threads compute blocks of rows in parallel; a thread computes the steps
 * of a block one after the other.
 *
 * A step multiplies the block's hidden states by the weights (one oneDNN product), and then computes the cell row
 * by row. The division into blocks depends on the batch alone, so the bits do not depend on the number of threads.
 * A batch of at most ROWS rows has two blocks, for two threads, although a block of half as many rows takes a
 * twentieth more time per row. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/layers/recurrent.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/base/transpose16.h"
#include "kernels/cpu/math/vmath.h"
#include "runtime/base/error.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 32 };           /* maximum number of rows in a block */
enum { BLOCK, LAST, NBLOCK }; /* products: for full blocks, and for the last block, which may have fewer rows */

struct recurrent {
    struct recur r;
    int threads;
    int64_t nblock;
    int64_t step; /* floats between rows of the weights, as the products read them */
    /* bytes of scratch: of the weights' copy, of a product, of a thread */
    size_t weight_bytes, product_bytes, each;
    struct prim *product[][NBLOCK];
};

struct recur
recur_of(const struct kcall *k, const struct view *hs, const struct view *lengths)
{
    int64_t cell = k->call->attr[RECUR_CELL].i, hidden = hs->dim[2];
    return (struct recur){.cell = cell,
                          .batch = hs->dim[0],
                          .length = hs->dim[1],
                          .hidden = hidden,
                          .gates = cell_gates(cell) * hidden,
                          .saves = cell_saves(cell) * hidden,
                          .reverse = k->call->attr[RECUR_REVERSE].i,
                          .lengths = lengths->dtype == DT_NONE ? NULL : lengths};
}

bool
recur_is_whole(const struct recur *r, const struct view *x, const struct view *w, const struct view *saved)
{
    return x->dim[2] == r->gates && w->dim[0] == r->gates && w->dim[1] == r->hidden && saved->dim[2] == r->saves;
}

bool
recur_is_over(const struct recur *r, int64_t row, int64_t t)
{
    return r->lengths && t >= elem_get_i((enum dtype)r->lengths->dtype, r->lengths->data, row);
}

/* ---- preparation ---- */

bool
recurrent_accepts(const struct kcall *k)
{
    for (int i = 0; i < k->call->nin; i++) {
        bool index = k->call->op->in[i].flags & IN_INDEX;
        if (k->in[i].dtype != DT_NONE && !index && k->in[i].dtype != DT_F32) return false;
        if (k->in[i].dtype != DT_NONE && k->in[i].ndim == 2 && view_numel(&k->in[i]) == 0)
            return false; /* the weights are empty */
    }
    for (int i = 0; i < k->call->nout; i++)
        if (k->out[i].dtype != DT_F32 || !view_is_dense(&k->out[i])) return false;
    return view_numel(&k->out[0]) > 0;
}

static int64_t
block_rows(const struct recur *r)
{
    return r->batch > ROWS ? ROWS : MIN(r->batch, ROWS / 2);
}

/* Returns the size of a thread's blocks of states and gates, and of its row of zeros, bytes. */
static size_t
block_bytes(const struct recur *r)
{
    return align_64((size_t)r->hidden * sizeof(float)) + 2 * align_64(ROWS * (size_t)r->hidden * sizeof(float)) +
           align_64(ROWS * (size_t)r->gates * sizeof(float));
}

/* Returns the distance between rows of a matrix of weights with n columns, in floats. The cache can store few rows
 * that are a multiple of 2 KiB apart, so oneDNN copies such a matrix in each product, unless its rows are padded.
 * Product of a block of 16 rows and the weights, one Xeon core, ms:
 *
 *    weights         dense   padded
 *    256 x 1,024     0.076    0.049
 *    512 x 2,048     0.429    0.309
 *    2,048 x 512     0.483    0.363 */
static int64_t
weight_step(int64_t n)
{
    return n % 512 ? n : n + 16;
}

/* Makes the products. back true: a product multiplies gradients of gates by w and adds to its result. back false:
 * a product multiplies states by the transpose of w. */
static int
prepare_products(const struct kcall *k, struct recur r, bool back, void **state, size_t *scratch_bytes)
{
    int64_t nblock = (r.batch - 1) / block_rows(&r) + 1, last = r.batch - (nblock - 1) * block_rows(&r);
    int threads = (int)MIN(MAX(k->threads, 1), nblock);
    struct recurrent *e = calloc(1, sizeof *e + (size_t)threads * sizeof e->product[0]);
    if (!e) return fail(E_MEMORY, "%s: no memory", k->call->op->name);
    int64_t n = back ? r.hidden : r.gates, rows = back ? r.gates : r.hidden;
    *e = (struct recurrent){.r = r, .threads = threads, .nblock = nblock, .step = weight_step(n)};
    *state = e;
    e->weight_bytes = back && e->step == n ? 0 : align_64((size_t)(rows * e->step) * sizeof(float));
    for (int i = 0; i < threads * NBLOCK; i++) {
        struct dense_product p = {.dtype = DT_F32,
                                  .m = i % NBLOCK == LAST ? last : block_rows(&r),
                                  .n = n,
                                  .k = rows,
                                  .b_step = e->step,
                                  .add = back};
        size_t bytes = 0;
        void *product = NULL;
        if (nblock == 1 && i % NBLOCK == BLOCK) continue;
        TRY(gemm_dense(&p, &product, &bytes));
        e->product[i / NBLOCK][i % NBLOCK] = product;
        e->product_bytes = MAX(e->product_bytes, align_64(bytes));
    }
    e->each = e->product_bytes + block_bytes(&r);
    *scratch_bytes = e->weight_bytes + e->each * (size_t)threads;
    return 0;
}

int
recurrent_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return prepare_products(k, recur_of(k, &k->out[RECUR_HS], &k->in[RECUR_LENGTHS]), false, state, scratch_bytes);
}

int
recurrent_back_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return prepare_products(k, recur_of(k, &k->in[BACK_HS], &k->in[BACK_LENGTHS]), true, state, scratch_bytes);
}

void
recurrent_drop(void *state)
{
    struct recurrent *e = state;
    if (!e) return;
    for (int i = 0; i < e->threads * NBLOCK; i++)
        if (e->product[i / NBLOCK][i % NBLOCK]) prim_drop(e->product[i / NBLOCK][i % NBLOCK]);
    free(e);
}

/* ---- forward ---- */

/* The arguments of one run. w: the transposed weights (forward), or the weights (backward), with padded rows. */
struct recurrent_work {
    const struct kcall *k;
    const struct recurrent *e;
    struct recur r;
    const float *w;
    bool failed;
};

/* A thread's memory: blocks h and c of states, block a of gates, a row of zeros, and the product's scratch. */
struct recurrent_block {
    float *h, *c, *a, *zero;
    char *product;
};

static struct recurrent_block
block_of(const struct recurrent_work *w, int64_t share)
{
    char *own = (char *)w->k->scratch + w->e->weight_bytes + w->e->each * (size_t)share;
    size_t state = align_64(ROWS * (size_t)w->r.hidden * sizeof(float));
    char *h = own + w->e->product_bytes;
    float *zero = (float *)(h + 2 * state + align_64(ROWS * (size_t)w->r.gates * sizeof(float)));
    memset(zero, 0, (size_t)w->r.hidden * sizeof *zero);
    return (struct recurrent_block){(float *)h, (float *)(h + state), (float *)(h + 2 * state), zero, own};
}

static float *
state_row(const struct view *v, int64_t row, int64_t t)
{
    return (float *)v->data + (row * v->dim[1] + t) * v->dim[2];
}

/* Sets sum to a + x + bias, for n gates; bias NULL: none. */
VECTOR static void
gates_add(int64_t n, const float *a, const float *x, const float *bias, float *sum)
{
    for (int64_t i = 0; bias && i < n; i++) sum[i] = a[i] + x[i] + bias[i];
    for (int64_t i = 0; !bias && i < n; i++) sum[i] = a[i] + x[i];
}

/* Sets c to f c + i g, for n hidden units. a: the gates i, f, g, o. */
VECTOR static void
lstm_state(int64_t n, const float *a, float *c)
{
    for (int64_t i = 0; i < n; i++) c[i] = a[n + i] * c[i] + a[i] * a[2 * n + i];
}

VECTOR static void
vec_times(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] *= x[i];
}

static void
lstm_row(int64_t n, float *a, float *c, float *h)
{
    vec_sigmoid(2 * n, a, a);
    vec_tanh(n, a + 2 * n, a + 2 * n);
    vec_sigmoid(n, a + 3 * n, a + 3 * n);
    lstm_state(n, a, c);
    vec_tanh(n, c, h);
    vec_times(n, a + 3 * n, h);
}

/* Sets q = a_n + bias_n and n = x_n + r q, for n hidden units; the subscript n denotes the new gate. saved: r, z,
 * n, q. */
VECTOR static void
gru_candidate(int64_t n, const float *a, const float *x, const float *bias, float *saved)
{
    for (int64_t i = 0; i < n; i++) {
        float q = a[2 * n + i] + (bias ? bias[2 * n + i] : 0);
        saved[3 * n + i] = q;
        saved[2 * n + i] = x[2 * n + i] + saved[i] * q;
    }
}

VECTOR static void
gru_state(int64_t n, const float *saved, float *h)
{
    for (int64_t i = 0; i < n; i++) h[i] = saved[2 * n + i] + saved[n + i] * (h[i] - saved[2 * n + i]);
}

static void
gru_row(int64_t n, const float *x, const float *bias, const float *a, float *saved, float *h)
{
    gates_add(2 * n, a, x, bias, saved);
    vec_sigmoid(2 * n, saved, saved);
    gru_candidate(n, a, x, bias, saved);
    vec_tanh(n, saved + 2 * n, saved + 2 * n);
    gru_state(n, saved, h);
}

static void
plain_row(bool relu, int64_t n, const float *a, float *h)
{
    if (!relu) vec_tanh(n, a, h);
    for (int64_t i = 0; relu && i < n; i++) h[i] = a[i] > 0 || isnan(a[i]) ? a[i] : 0;
}

/* Computes the cell of one row at position t. a: the row's product of states and weights. h, c: the row's states,
 * which the new states replace. */
static void
forward_row(const struct recurrent_work *w, int64_t row, int64_t t, float *a, float *c, float *h)
{
    const struct kcall *k = w->k;
    const struct recur *r = &w->r;
    const float *x = state_row(&k->in[RECUR_X], row, t), *bias = k->in[RECUR_BIAS].data;
    float *saved = state_row(&k->out[RECUR_GATES], row, t);
    if (k->in[RECUR_BIAS].dtype == DT_NONE) bias = NULL;
    if (r->cell == CELL_GRU) {
        gru_row(r->hidden, x, bias, a, saved, h);
        return;
    }
    gates_add(r->gates, a, x, bias, r->cell == CELL_LSTM ? saved : a);
    if (r->cell == CELL_LSTM)
        lstm_row(r->hidden, saved, c, h);
    else
        plain_row(r->cell == CELL_RELU, r->hidden, a, h);
}

/* Stores the states of one row at position t. */
static void
store_states(const struct recurrent_work *w, int64_t row, int64_t t, const float *c, const float *h)
{
    size_t bytes = (size_t)w->r.hidden * sizeof *h;
    memcpy(state_row(&w->k->out[RECUR_HS], row, t), h, bytes);
    if (w->r.cell == CELL_LSTM) memcpy(state_row(&w->k->out[RECUR_CS], row, t), c, bytes);
}

static void
forward_step(const struct recurrent_work *w, const struct recurrent_block *b, int64_t first, int64_t n, int64_t t)
{
    const struct recur *r = &w->r;
    for (int64_t i = 0; i < n; i++) {
        float *c = b->c + i * r->hidden, *h = b->h + i * r->hidden;
        if (!recur_is_over(r, first + i, t))
            forward_row(w, first + i, t, b->a + i * r->gates, c, h);
        else if (r->saves)
            memset(state_row(&w->k->out[RECUR_GATES], first + i, t), 0, (size_t)r->saves * sizeof *h);
        store_states(w, first + i, t, c, h);
    }
}

static bool
block_product(struct recurrent_work *w, int64_t share, int64_t block, const float *a, float *c, void *scratch)
{
    const struct prim *p = w->e->product[share][block == w->e->nblock - 1 ? LAST : BLOCK];
    if (prim_at(p, (void *[]){(void *)a, (void *)w->w, c}, scratch, "recurrence")) w->failed = true;
    return !w->failed;
}

/* Copies the initial states of n rows, starting at row `first`, to `to`; zeros if `states` is absent. */
static void
first_states(const struct recur *r, const struct view *states, int64_t first, int64_t n, float *to)
{
    size_t bytes = (size_t)(n * r->hidden) * sizeof *to;
    if (states->dtype == DT_NONE)
        memset(to, 0, bytes);
    else
        memcpy(to, (const float *)states->data + first * r->hidden, bytes);
}

static void
forward_blocks(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    struct recurrent_work *w = arg;
    const struct recur *r = &w->r;
    struct recurrent_block b = block_of(w, share);
    for (int64_t block = lo; block < hi; block++) {
        int64_t first = block * block_rows(r), n = MIN(block_rows(r), r->batch - first);
        first_states(r, &w->k->in[RECUR_H0], first, n, b.h);
        if (r->cell == CELL_LSTM) first_states(r, &w->k->in[RECUR_C0], first, n, b.c);
        for (int64_t s = 0; s < r->length && !stop_now(); s++) {
            if (!block_product(w, share, block, b.h, b.a, b.product)) return;
            forward_step(w, &b, first, n, recur_at(r, s));
        }
    }
}

int
recurrent_run(const struct kcall *k, const void *state)
{
    const struct recurrent *e = state;
    struct recurrent_work w = {k, e, recur_of(k, &k->out[RECUR_HS], &k->in[RECUR_LENGTHS]), k->scratch, false};
    const struct view *weight = &k->in[RECUR_W];
    transpose16_matrix(weight->dim[0], weight->dim[1], weight->data, weight->dim[1], k->scratch, e->step, e->threads);
    team_shares(e->threads, e->nblock, 1, forward_blocks, &w);
    return w.failed ? E_KERNEL : 0;
}

/* ---- backward ---- */

/* Arguments of the backward step of one batch row at one time step.
 * dh, dc: in: gradients of h and c after the step; out: gradients of h and c before the step, except the share
 * through the recurrent weights, which a later matrix product adds.
 * da: gradients of the pre-activations (results of the forward product). dx: gradients of x. */
struct back_row {
    int64_t n;
    const float *saved, *h, *h_before, *c, *c_before;
    float *dx, *da, *dh, *dc;
};

VECTOR static void
lstm_back(const struct back_row *b, const float *tanh_c)
{
    int64_t n = b->n;
    const float *in = b->saved, *forget = in + n, *g = in + 2 * n, *o = in + 3 * n;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float dc = b->dc[i] + b->dh[i] * o[i] * (1 - tanh_c[i] * tanh_c[i]);
        b->dx[i] = dc * g[i] * in[i] * (1 - in[i]);
        b->dx[n + i] = dc * b->c_before[i] * forget[i] * (1 - forget[i]);
        b->dx[2 * n + i] = dc * in[i] * (1 - g[i] * g[i]);
        b->dx[3 * n + i] = b->dh[i] * tanh_c[i] * o[i] * (1 - o[i]);
        b->dc[i] = dc * forget[i];
        b->dh[i] = 0;
    }
}

VECTOR static void
gru_back(const struct back_row *b)
{
    int64_t n = b->n;
    const float *r = b->saved, *z = r + n, *m = r + 2 * n, *q = r + 3 * n;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float dm = b->dh[i] * (1 - z[i]) * (1 - m[i] * m[i]);
        b->da[i] = b->dx[i] = dm * q[i] * r[i] * (1 - r[i]);
        b->da[n + i] = b->dx[n + i] = b->dh[i] * (b->h_before[i] - m[i]) * z[i] * (1 - z[i]);
        b->dx[2 * n + i] = dm;
        b->da[2 * n + i] = dm * r[i];
        b->dh[i] *= z[i];
    }
}

static void
plain_back(const struct back_row *b, bool relu)
{
    for (int64_t i = 0; i < b->n; i++) {
        b->dx[i] = b->dh[i] * (relu ? (float)(b->h[i] > 0) : 1 - b->h[i] * b->h[i]);
        b->dh[i] = 0;
    }
}

/* Returns the state of a row before its s-th step. first: the initial states of all rows; if absent, the initial
 * state is `zero`. */
static const float *
state_before(const struct recur *r, const struct view *states, const struct view *first, int64_t row, int64_t s,
             const float *zero)
{
    if (s > 0) return state_row(states, row, recur_at(r, s - 1));
    if (first->dtype == DT_NONE) return zero;
    return (const float *)first->data + row * r->hidden;
}

static void
add_step_row(const struct view *v, int64_t row, int64_t t, int64_t n, float *sum)
{
    if (v->dtype == DT_NONE) return;
    const float *x = state_row(v, row, t);
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

/* Computes the gradients of step s of row `row`, which is row i of its block. If the row ended before this step,
 * the gradients of its states do not change. */
static void
back_row(const struct recurrent_work *w, const struct recurrent_block *block, int64_t row, int64_t i, int64_t s)
{
    const struct kcall *k = w->k;
    const struct recur *r = &w->r;
    int64_t t = recur_at(r, s), n = r->hidden;
    float *da = block->a + i * r->gates, *dx = state_row(&k->out[BACK_DX], row, t);
    struct back_row b = {.n = n, .dx = dx, .da = da, .dh = block->h + i * n, .dc = block->c + i * n};
    b.saved = state_row(&k->in[BACK_GATES], row, t);
    b.h = state_row(&k->in[BACK_HS], row, t);
    b.h_before = state_before(r, &k->in[BACK_HS], &k->in[BACK_H0], row, s, block->zero);
    add_step_row(&k->in[BACK_DHS], row, t, n, b.dh);
    if (r->cell == CELL_LSTM) add_step_row(&k->in[BACK_DCS], row, t, n, b.dc);
    if (recur_is_over(r, row, t)) {
        memset(dx, 0, (size_t)r->gates * sizeof *dx);
        memset(da, 0, (size_t)r->gates * sizeof *da);
    } else if (r->cell == CELL_LSTM) {
        b.c_before = state_before(r, &k->in[BACK_CS], &k->in[BACK_C0], row, s, block->zero);
        vec_tanh(n, state_row(&k->in[BACK_CS], row, t), da); /* da is temporary storage here; it is set below */
        lstm_back(&b, da);
    } else if (r->cell == CELL_GRU) {
        gru_back(&b);
    } else {
        plain_back(&b, r->cell == CELL_RELU);
    }
    memcpy(state_row(&k->out[BACK_BEFORE], row, t), b.h_before, (size_t)n * sizeof *da);
    if (r->cell == CELL_GRU)
        memcpy(state_row(&k->out[BACK_LAST], row, t), da, (size_t)r->gates * sizeof *da);
    else
        memcpy(da, dx, (size_t)r->gates * sizeof *da);
}

static void
back_blocks(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    struct recurrent_work *w = arg;
    const struct recur *r = &w->r;
    struct recurrent_block b = block_of(w, share);
    for (int64_t block = lo; block < hi; block++) {
        int64_t first = block * block_rows(r), n = MIN(block_rows(r), r->batch - first);
        size_t bytes = (size_t)(n * r->hidden) * sizeof *b.h;
        memset(b.h, 0, bytes);
        memset(b.c, 0, bytes);
        for (int64_t s = r->length - 1; s >= 0 && !stop_now(); s--) {
            for (int64_t i = 0; i < n; i++) back_row(w, &b, first + i, i, s);
            if (!block_product(w, share, block, b.a, b.h, b.product)) return;
        }
        memcpy((float *)w->k->out[BACK_DH0].data + first * r->hidden, b.h, bytes);
        if (r->cell == CELL_LSTM) memcpy((float *)w->k->out[BACK_LAST].data + first * r->hidden, b.c, bytes);
    }
}

int
recurrent_back_run(const struct kcall *k, const void *state)
{
    const struct recurrent *e = state;
    struct recur r = recur_of(k, &k->in[BACK_HS], &k->in[BACK_LENGTHS]);
    struct recurrent_work w = {k, e, r, k->in[BACK_W].data, false};
    if (e->weight_bytes) {
        for (int64_t g = 0; g < r.gates; g++)
            memcpy((float *)k->scratch + g * e->step, w.w + g * r.hidden, (size_t)r.hidden * sizeof *w.w);
        w.w = k->scratch;
    }
    team_shares(e->threads, e->nblock, 1, back_blocks, &w);
    return w.failed ? E_KERNEL : 0;
}
